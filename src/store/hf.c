#include "store/hf.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parse.h"
#include "store/bucket.h"
#include "store/hide.h"
#include "store/keys.h"
#include "store/kind.h"

#define ENDPOINT     "https://huggingface.co"
#define COMMIT       40 /* digits */
#define LOCATION_MAX 8000
#define QUERY_MAX    4096
#define LINKS        4096 /* addresses that are remembered */
#define HOPS_MAX     5u
#define TEXT_MAX     (64u << 20)

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"

/* What a request is for. */
enum step {
    REVISION, /* which commit the revision is */
    RESOLVE,  /* the Hub's own address of a file */
    LINKED,   /* where that led to */
    TREE,
};

/* Where the Hub has sent us for a file. It is signed for some time; who finds it expired forgets it. */
struct link {
    char *key;
    char *url;
    bool own;      /* the Hub's own host: the token may go there */
    unsigned hops; /* addresses before this one */
    bool sized;    /* size is known */
    uint64_t size;
    char etag[LEAT_ETAG_MAX]; /* of the file, whatever the other host calls it; "": the Hub did not say */
};

struct hf {
    struct leat_backend_ops ops;
    void (*bucket_place)(const struct leat_backend *backend, struct leat_store_place *out);
    char *type; /* "datasets" */
    char *repo; /* "owner/name" */
    char *revision;
    char commit[COMMIT + 1];   /* "": not known yet */
    struct link *links[LINKS]; /* by the key's hash; a later one takes an earlier one's place */
};

/* What an answer's head said that only the Hub says; struct bucket_request's own. */
struct answer {
    enum step step;
    bool own;      /* asked of the Hub's own host */
    unsigned hops; /* before this request */
    bool (*accept)(struct leat_http_call *call);
    bool sized; /* of the file: this answer's, or the link's that was followed */
    uint64_t size;
    char etag[LEAT_ETAG_MAX];
    char code[40];
    char message[200];
    char location[LOCATION_MAX];
    bool bad_next;
    char next[QUERY_MAX];
};

static struct hf *hf_of(const struct bucket *b)
{
    return b->own;
}

static struct answer *answer_of(struct leat_store_op *op)
{
    return ((struct bucket_request *)op->own->request)->own;
}

static void free_link(struct link *link)
{
    if (!link)
        return;
    free(link->key);
    free(link->url);
    free(link);
}

static struct link **place_of(struct hf *hf, const char *key)
{
    return &hf->links[leat_xxh3(key, strlen(key)) % LINKS];
}

static const struct link *find_link(struct hf *hf, const char *key)
{
    const struct link *link = *place_of(hf, key);
    return link && strcmp(link->key, key) == 0 ? link : NULL;
}

/* "name: value" → value, its length in *n; NULL: another header. */
static const char *value_of(const char *line, size_t *n, const char *name)
{
    size_t name_n = strlen(name);
    if (*n <= name_n || line[name_n] != ':' || strncasecmp(line, name, name_n) != 0)
        return NULL;
    const char *value = line + name_n + 1;
    size_t left = *n - name_n - 1;
    while (left && (*value == ' ' || *value == '\t')) {
        value++;
        left--;
    }
    *n = left;
    return value;
}

/* Copies what fits whole; else "". */
static void copy(char *out, size_t size, const char *value, size_t n)
{
    snprintf(out, size, "%.*s", n < size ? (int)n : 0, value);
}

static void on_header(struct leat_http_call *call, const char *line, size_t n)
{
    struct answer *a = answer_of(call->user);
    const char *value;
    size_t left = n;
    if (!n) { /* what the link said of the file stays */
        a->code[0] = a->message[0] = a->location[0] = a->next[0] = '\0';
        a->bad_next = false;
    } else if ((value = value_of(line, &left, "x-linked-etag"))) {
        copy(a->etag, sizeof a->etag, value, left);
    } else if ((value = value_of(line, &left, "x-linked-size"))) {
        char text[24];
        copy(text, sizeof text, value, left);
        a->sized = leat_parse_u64(text, "size", &a->size, NULL) == LEAT_OK;
    } else if ((value = value_of(line, &left, "x-error-code"))) {
        copy(a->code, sizeof a->code, value, left);
    } else if ((value = value_of(line, &left, "x-error-message"))) {
        snprintf(a->message, sizeof a->message, "%.*s", (int)(left < 199 ? left : 199), value);
    } else if ((value = value_of(line, &left, "location"))) {
        copy(a->location, sizeof a->location, value, left);
    } else if ((value = value_of(line, &left, "link")) && a->step == TREE) {
        a->bad_next = !leat_hf_parse_link(value, left, a->next, sizeof a->next);
    }
}

/* Quotes around it, as everywhere else; a weak one is the Hub's way to say that the body may be packed. */
static void clean_etag(char etag[LEAT_ETAG_MAX])
{
    char bare[LEAT_ETAG_MAX];
    const char *from = strncmp(etag, "W/", 2) == 0 ? etag + 2 : etag;
    size_t n = strlen(from);
    bool quoted = n > 1 && from[0] == '"' && from[n - 1] == '"';
    if (!n)
        return;
    snprintf(bare, sizeof bare, "%.*s", (int)(quoted ? n - 2 : n), from + quoted);
    snprintf(etag, LEAT_ETAG_MAX, "\"%.*s\"", LEAT_ETAG_MAX - 3, bare);
}

/* The file's own name in place of the other host's, and the checksum that it is: the SHA-256 of what is kept elsewhere,
 * git's name of what is kept in the repository. */
static void put_identity(struct leat_http_head *head, const struct answer *a)
{
    uint8_t digest[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    if (a->etag[0])
        memcpy(head->etag, a->etag, sizeof head->etag);
    clean_etag(head->etag);
    size_t n = strlen(head->etag);
    head->checksum[0] = '\0';
    if (n != 2 * LEAT_SHA256_SIZE + 2 && n != COMMIT + 2)
        return;
    snprintf(hex, sizeof hex, "%.*s", (int)n - 2, head->etag + 1);
    if (!leat_unhex(hex, digest, (n - 2) / 2))
        return;
    snprintf(head->checksum_kind, sizeof head->checksum_kind, "%s", n == COMMIT + 2 ? "git" : "sha256");
    EVP_EncodeBlock((unsigned char *)head->checksum, digest, (int)(n - 2) / 2);
}

static bool accept_file(struct leat_http_call *call)
{
    const struct answer *a = answer_of(call->user);
    const struct leat_http_head *head = &call->head;
    uint64_t total = leat_exchange_total(head);
    put_identity(&call->head, a);
    if (a->sized && total != UINT64_MAX && total != a->size) {
        leat_fail(&call->err, LEAT_SERVER, "the Hub says that it has %" PRIu64 " bytes, and what came is of %" PRIu64,
                  a->size, total);
        return false;
    }
    return a->accept(call);
}

/* "/datasets/owner/name"; models are at the root. */
static void add_page(const struct hf *hf, struct leat_buf *url)
{
    if (strcmp(hf->type, "models") != 0)
        leat_buf_printf(url, "/%s", hf->type);
    leat_buf_printf(url, "/%s", hf->repo);
}

static void add_tree(const struct hf *hf, const struct leat_store_op *op, struct leat_buf *url)
{
    const char *slash = strrchr(op->key, '/');
    leat_buf_printf(url, "/api/%s/%s/tree/%s", hf->type, hf->repo, hf->commit);
    if (slash && slash > op->key) {
        leat_buf_char(url, '/');
        leat_sign_encode(url, op->key, (size_t)(slash - op->key), true);
    }
    if (op->token)
        leat_buf_printf(url, "?%s", op->token);
    else
        leat_buf_printf(url, "?recursive=%s&expand=false", op->delimiter ? "false" : "true");
}

static void add_address(const struct bucket *b, const struct leat_store_op *op, struct answer *a, struct leat_buf *url)
{
    struct hf *hf = hf_of(b);
    const struct link *link = op->verb == LEAT_STORE_LIST ? NULL : find_link(hf, op->key);
    a->own = true;
    if (!hf->commit[0])
        a->step = REVISION;
    else if (op->verb == LEAT_STORE_LIST)
        a->step = TREE;
    else
        a->step = link ? LINKED : RESOLVE;
    if (a->step == LINKED) {
        a->own = link->own;
        a->hops = link->hops;
        a->sized = link->sized;
        a->size = link->size;
        memcpy(a->etag, link->etag, sizeof a->etag);
        leat_buf_str(url, link->url);
        return;
    }
    leat_buf_printf(url, "%s://%s%s", b->scheme, b->endpoint, b->base);
    if (a->step == REVISION) {
        leat_buf_printf(url, "/api/%s/%s/revision/", hf->type, hf->repo);
        leat_sign_encode(url, hf->revision, strlen(hf->revision), false);
        leat_buf_str(url, "?expand=sha");
    } else if (a->step == TREE) {
        add_tree(hf, op, url);
    } else {
        add_page(hf, url);
        leat_buf_printf(url, "/resolve/%s/", hf->commit);
        leat_sign_encode(url, op->key, strlen(op->key), true);
    }
}

static leat_status make(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r,
                        struct leat_error *err)
{
    struct leat_http_call *call = &op->own->call;
    struct answer *a = calloc(1, sizeof *a);
    if (!a)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a request");
    r->own = a;
    op->own->bucket = true;
    op->own->odd_etags = true;
    op->own->keys = b->keys_number;
    add_address(b, op, a, &r->url);
    bool file = a->step == RESOLVE || a->step == LINKED;
    bool look = op->verb == LEAT_STORE_STAT || op->length == 0;
    r->method = file && look ? "HEAD" : "GET";
    if (file) { /* no If-Match: another host has another ETag, and the commit cannot change */
        leat_exchange_begin(op, r->range);
        a->accept = call->accept;
        call->accept = a->accept ? accept_file : NULL;
    } else {
        call->text_max = TEXT_MAX;
    }
    if (r->range[0])
        leat_bucket_add_line(r, "Range", r->range);
    if (a->own && b->aws.access_key)
        leat_bucket_add_bearer(r, b->aws.session_token);
    call->header = on_header;
    return leat_bucket_request_end(op, r, err);
}

static const char *noun(const struct hf *hf)
{
    return strcmp(hf->type, "datasets") == 0 ? "dataset" : strcmp(hf->type, "models") == 0 ? "model" : "space";
}

/* Whose token, in words that end a sentence. */
static void describe_token(const struct bucket *b, char *out, size_t n)
{
    if (b->aws.access_key)
        snprintf(out, n, "; the token is from %s", b->aws.keys_from);
    else
        snprintf(out, n, "; no token was sent (HF_TOKEN or 'hf auth login' give one)");
}

static void explain(const struct bucket *b, struct leat_store_op *op, const struct leat_s3_answer *unused)
{
    const struct hf *hf = hf_of(b);
    struct answer *a = answer_of(op);
    const struct leat_http_head *head = &op->own->call.head;
    char token[200];
    leat_status status = leat_exchange_code_status(head->code);
    (void)unused;
    describe_token(b, token, sizeof token);
    op->own->retry_after_ns = leat_http_retry_after(head);
    bool invalid = head->code == 401 && strncmp(a->message, "Invalid credentials", 19) == 0;
    op->own->expired = a->own && head->code == 401 && b->aws.access_key;
    if (!a->own) {
        op->status =
            leat_fail(&op->own->err, status, "the host that the Hub sends us to for it answers %u", head->code);
    } else if (strcmp(a->code, "GatedRepo") == 0) {
        op->status = leat_fail(&op->own->err, LEAT_DENIED,
                               "the %s '%s' is gated: its terms have to be accepted on its page, by the account whose "
                               "token is used%s (GatedRepo, %u)",
                               noun(hf), hf->repo, token, head->code);
    } else if (invalid) {
        op->status = leat_fail(&op->own->err, LEAT_DENIED, "the Hub does not take the token%s (%u)", token, head->code);
    } else if (strcmp(a->code, "RepoNotFound") == 0 || (head->code == 401 && !a->code[0])) {
        op->status =
            leat_fail(&op->own->err, head->code == 404 ? LEAT_NOT_FOUND : LEAT_DENIED,
                      "there is no %s '%s', or it is private or gated%s (%u)", noun(hf), hf->repo, token, head->code);
    } else if (strcmp(a->code, "RevisionNotFound") == 0) {
        op->status = leat_fail(&op->own->err, LEAT_NOT_FOUND, "the %s '%s' has no revision '%s'", noun(hf), hf->repo,
                               hf->revision);
    } else if (strcmp(a->code, "EntryNotFound") == 0 || (head->code == 404 && a->step != REVISION)) {
        op->status = leat_fail(&op->own->err, LEAT_NOT_FOUND,
                               "there is no such file at revision '%.160s' of the %s (commit %.10s)", hf->revision,
                               noun(hf), hf->commit);
    } else {
        leat_hide_secrets(a->message, &b->aws, NULL);
        op->status = leat_fail(&op->own->err, status, "the Hub answers %u%s%s%s%s", head->code,
                               a->message[0] ? ": " : "", a->message, status == LEAT_DENIED ? token : "", a->code);
    }
}

static enum bucket_step fail(struct leat_store_op *op, leat_status status, const char *why)
{
    op->status = leat_fail(&op->own->err, status, "%s", why);
    return BUCKET_STEP_OVER;
}

/* The answer to REVISION. The first one counts: a branch that moves meanwhile concerns the next store. */
static enum bucket_step take_commit(struct hf *hf, struct leat_store_op *op)
{
    const struct leat_buf *text = &op->own->call.text;
    json_t *json = NULL;
    uint8_t bytes[COMMIT / 2];
    leat_status rc = leat_json_read(text->data ? text->data : "", text->len, 0, &json, NULL);
    const char *sha = json_string_value(json_object_get(json, "sha"));
    bool good = sha && strlen(sha) == COMMIT && leat_unhex(sha, bytes, sizeof bytes);
    if (good && !hf->commit[0])
        memcpy(hf->commit, sha, COMMIT + 1);
    json_decref(json);
    if (good)
        return BUCKET_STEP_AGAIN;
    return rc == LEAT_NO_MEMORY ? fail(op, rc, "no memory for a revision")
                                : fail(op, LEAT_SERVER, "the Hub's answer does not name a commit");
}

/* A repository that has another name now: "/api/datasets/owner/name/…", also after a host, which does not count. */
static enum bucket_step take_name(struct hf *hf, struct leat_store_op *op, const struct answer *a)
{
    char lead[32];
    snprintf(lead, sizeof lead, "/api/%s/", hf->type);
    const char *name = strstr(a->location, lead);
    name = name ? name + strlen(lead) : "";
    size_t owner = strspn(name, NAME_CHARACTERS);
    size_t n = name[owner] == '/' ? owner + 1 + strspn(name + owner + 1, NAME_CHARACTERS) : 0;
    if (op->own->moved || n <= owner + 1 || name[n] != '/')
        return fail(op, LEAT_INVALID, "the Hub redirects to an address that is not followed");
    op->own->moved = true;
    if (strlen(hf->repo) == n && strncmp(hf->repo, name, n) == 0)
        return BUCKET_STEP_AGAIN; /* another request has put it right already */
    char *repo = leat_bytes_text(name, n);
    if (!repo)
        return fail(op, LEAT_NO_MEMORY, "no memory for a name");
    leat_log(LEAT_LOG_WARN, "the %s '%s' is called '%s' now", noun(hf), hf->repo, repo);
    free(hf->repo);
    hf->repo = repo;
    return BUCKET_STEP_AGAIN;
}

/* Where a Location leads. False: it cannot be followed. */
static bool resolve_location(const struct bucket *b, const char *location, struct leat_buf *out, bool *own)
{
    char base[400];
    size_t n = (size_t)snprintf(base, sizeof base, "%s://%s", b->scheme, b->endpoint);
    if (location[0] == '/' && location[1] != '/') {
        leat_buf_printf(out, "%s%s", base, location);
        *own = true;
        return !out->failed;
    }
    bool tls = strncasecmp(location, "https://", 8) == 0;
    bool plain = strncasecmp(location, "http://", 7) == 0 && strcmp(b->scheme, "http") == 0;
    const char *host = location + (tls ? 8 : 7);
    if ((!tls && !plain) || memchr(host, '@', strcspn(host, "/?#")))
        return false;
    *own = strncasecmp(location, base, n) == 0 && strchr("/?", location[n]);
    leat_buf_str(out, location);
    return !out->failed;
}

/* Remembers where a file is. False: no memory. */
static bool keep_link(struct hf *hf, const char *key, const struct answer *a, char *url, bool own)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link || !(link->key = strdup(key))) {
        free(link);
        free(url);
        return false;
    }
    link->url = url;
    link->own = own;
    link->hops = a->hops + 1;
    link->sized = a->sized;
    link->size = a->size;
    memcpy(link->etag, a->etag, sizeof link->etag);
    struct link **place = place_of(hf, key);
    free_link(*place);
    *place = link;
    return true;
}

static enum bucket_step follow(struct bucket *b, struct leat_store_op *op, struct answer *a)
{
    struct leat_http_head *head = &op->own->call.head;
    bool own = false;
    struct leat_buf buf;
    leat_buf_init(&buf, LOCATION_MAX + 512);
    bool good = a->location[0] && resolve_location(b, a->location, &buf, &own);
    char *url = leat_buf_take(&buf);
    leat_buf_free(&buf);
    if (!good || a->hops >= HOPS_MAX) {
        free(url);
        return fail(op, LEAT_INVALID,
                    good ? "the Hub's redirects do not end" : "the Hub redirects to an address that is not followed");
    }
    if (!own && !a->etag[0] && a->own)
        memcpy(a->etag, head->etag, sizeof a->etag);
    if (!url || !keep_link(hf_of(b), op->key, a, url, own))
        return fail(op, LEAT_NO_MEMORY, "no memory for an address");
    bool look = op->verb == LEAT_STORE_STAT || op->length == 0;
    if (!look || own || !a->sized || !a->etag[0])
        return BUCKET_STEP_AGAIN;
    head->code = 200; /* this says all there is to know */
    head->has_length = true;
    head->content_length = a->size;
    head->encoding[0] = '\0';
    put_identity(head, a);
    leat_exchange_finish(op);
    return BUCKET_STEP_OVER;
}

/* An address that was signed for some time is refused once that is over: the Hub gives another, once per operation. */
static bool renew_link(struct bucket *b, struct leat_store_op *op, const struct bucket_request *r)
{
    struct link **place = place_of(hf_of(b), op->key);
    if (op->own->moved)
        return false;
    op->own->moved = true;
    if (*place && strcmp((*place)->url, r->url.data) == 0) { /* else another request has been there */
        free_link(*place);
        *place = NULL;
    }
    return true;
}

static enum bucket_step step(struct bucket *b, struct leat_store_op *op)
{
    const struct bucket_request *r = op->own->request;
    struct answer *a = r->own;
    unsigned code = op->own->call.head.code;
    bool refused = code == 400 || code == 401 || code == 403 || code == 404 || code == 410;
    if (code == 200 && a->step == REVISION)
        return take_commit(hf_of(b), op);
    if (code >= 300 && code < 400) {
        if (a->step == RESOLVE || a->step == LINKED)
            return follow(b, op, a);
        return take_name(hf_of(b), op, a);
    }
    if (a->step == LINKED && refused && renew_link(b, op, r))
        return BUCKET_STEP_AGAIN;
    if (a->step == TREE && code == 404 && strcmp(a->code, "EntryNotFound") == 0) { /* no such folder: nothing in it */
        leat_buf_init(op->text, 8);
        leat_buf_str(op->text, "\n[]");
        op->status = leat_buf_check(op->text, "a list", &op->own->err);
        return BUCKET_STEP_OVER;
    }
    if (code == 200 && op->own->call.method[0] == 'H')
        put_identity(&op->own->call.head, a);
    return BUCKET_STEP_NONE;
}

/* 2xx to TREE. */
static void take(const struct bucket *b, struct leat_store_op *op)
{
    const struct answer *a = answer_of(op);
    const struct leat_buf *text = &op->own->call.text;
    (void)b;
    if (a->bad_next) {
        fail(op, LEAT_SERVER, "the Hub's list goes on at an address that is not understood");
        return;
    }
    leat_buf_init(op->text, TEXT_MAX + QUERY_MAX);
    leat_buf_printf(op->text, "%s\n", a->next);
    leat_buf_add(op->text, text->data ? text->data : "", text->len);
    op->status = leat_buf_check(op->text, "a list", &op->own->err);
}

static void close_hf(struct bucket *b)
{
    struct hf *hf = hf_of(b);
    if (!hf)
        return;
    for (size_t i = 0; i < LINKS; i++)
        free_link(hf->links[i]);
    free(hf->type);
    free(hf->repo);
    free(hf->revision);
    free(hf);
}

static void say_place(const struct leat_backend *backend, struct leat_store_place *out)
{
    const struct hf *hf = hf_of((const struct bucket *)backend);
    hf->bucket_place(backend, out);
    memcpy(out->commit, hf->commit, sizeof hf->commit);
}

/* "datasets/owner/name@revision" */
static leat_status split(struct hf *hf, const char *host, struct leat_error *err)
{
    struct leat_buf revision;
    const char *slash = strchr(host, '/');
    size_t n = strcspn(host, "@");
    const char *said = host[n] ? host + n + 1 : "main";
    uint8_t bytes[COMMIT / 2];
    leat_buf_init(&revision, 1024);
    if (!leat_url_decode(&revision, said, strlen(said), false) && !revision.failed) {
        leat_buf_free(&revision);
        return leat_fail(err, LEAT_INVALID, "the revision '%.160s' is not percent-encoded as it should be", said);
    }
    hf->type = leat_bytes_text(host, (size_t)(slash - host));
    hf->repo = leat_bytes_text(slash + 1, n - (size_t)(slash + 1 - host));
    hf->revision = leat_buf_take(&revision);
    leat_buf_free(&revision);
    if (!hf->type || !hf->repo || !hf->revision)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
    if (strlen(hf->revision) == COMMIT && leat_unhex(hf->revision, bytes, sizeof bytes))
        memcpy(hf->commit, hf->revision, COMMIT + 1);
    return LEAT_OK;
}

static leat_status place(struct bucket *b, struct leat_error *err)
{
    struct hf *hf = calloc(1, sizeof *hf);
    b->own = hf;
    leat_status rc = hf ? split(hf, b->bucket, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
    if (rc == LEAT_OK)
        rc = leat_bucket_set_endpoint(b, b->aws.endpoint_url ? b->aws.endpoint_url : ENDPOINT, err);
    if (rc == LEAT_OK && b->aws.access_key)
        rc = leat_keys_may_go(b->scheme, b->endpoint, err);
    return rc;
}

static const struct bucket_dialect dialect = {
    .vendor = "the Hub",
    .place = place,
    .make = make,
    .explain = explain,
    .step = step,
    .take = take,
    .close = close_hf,
};

leat_status leat_hf_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                         struct leat_error *err)
{
    leat_status rc = leat_bucket_open(store, url, &dialect, out, err);
    if (rc != LEAT_OK)
        return rc;
    struct hf *hf = hf_of((struct bucket *)*out);
    hf->ops = *(*out)->ops;
    hf->bucket_place = hf->ops.place;
    hf->ops.place = say_place;
    hf->ops.list_open = leat_hf_list_open;
    hf->ops.list_after = NULL;
    (*out)->ops = &hf->ops;
    return LEAT_OK;
}
