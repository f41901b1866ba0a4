/* Buckets: one S3 request per attempt, signed, and what comes of it. */
#include "store/s3.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "store/exchange.h"
#include "store/sign.h"

#define HEADERS_MAX   8
#define QUERY_MAX     6
#define LIST_TEXT_MAX (16u << 20) /* 1000 keys of 1024 bytes, percent-encoded, is a quarter of it */
#define URL_MAX       (16u << 10)
#define SKEW_MAX_S    300 /* S3 itself allows 15 minutes */

struct s3 {
    struct leat_backend backend; /* first member */
    struct leat_store *store;
    struct leat_http *http;
    struct leat_aws aws;
    const char *scheme; /* "http" or "https" */
    char endpoint[300]; /* host with its port */
    char base[200];     /* path before the bucket, "" or "/s3" */
    bool aws_own;       /* AWS's endpoint, which changes with the region */
    bool virtual_host;  /* bucket in the host's name rather than in the path */
    bool answered;      /* by whatever is at the endpoint */
    char *bucket;
    char region[32];
    bool region_known;
    int64_t clock_offset_s; /* the server's clock less ours */
};

/* The strings of one request. */
struct s3_request {
    const char *method;
    struct leat_sign_pair query[QUERY_MAX];
    size_t query_n;
    struct leat_sign_pair headers[HEADERS_MAX]; /* signed ones */
    size_t headers_n;
    char range[LEAT_RANGE_MAX];
    char part[16];
    char hash[65];
    struct leat_buf body; /* of calls that send XML */
    struct leat_buf host;
    struct leat_buf path;
    struct leat_buf url;
    struct leat_buf lines; /* header lines, each with its NUL */
    const char *line[HEADERS_MAX + 6];
};

static void request_free(struct s3_request *r)
{
    if (!r)
        return;
    leat_buf_free(&r->body);
    leat_buf_free(&r->host);
    leat_buf_free(&r->path);
    leat_buf_free(&r->url);
    leat_buf_free(&r->lines);
    free(r);
}

static struct s3_request *request_new(void)
{
    struct s3_request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    leat_buf_init(&r->body, 4u << 20);
    leat_buf_init(&r->host, 1024);
    leat_buf_init(&r->path, URL_MAX);
    leat_buf_init(&r->url, URL_MAX);
    leat_buf_init(&r->lines, URL_MAX);
    return r;
}

static void add_query(struct s3_request *r, const char *name, const char *value)
{
    r->query[r->query_n++] = (struct leat_sign_pair){name, value};
}

static void add_header(struct s3_request *r, const char *name, const char *value)
{
    r->headers[r->headers_n++] = (struct leat_sign_pair){name, value};
}

/* It becomes part of a host's name and of what is signed. */
static bool can_be_region(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    return n && !text[n];
}

/* Where AWS keeps a region's buckets. */
static void set_aws_endpoint(struct s3 *s3)
{
    const char *suffix = strncmp(s3->region, "cn-", 3) == 0 ? ".cn" : "";
    snprintf(s3->endpoint, sizeof s3->endpoint, "s3.%s.amazonaws.com%s", s3->region, suffix);
}

static void complete_body(struct s3_request *r, const struct leat_store_op *op)
{
    leat_buf_str(&r->body, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (uint32_t i = 0; i < op->parts_n; i++) {
        leat_buf_printf(&r->body, "<Part><PartNumber>%u</PartNumber><ETag>", i + 1);
        for (const char *p = op->parts[i].etag; *p; p++) {
            if (*p == '"')
                leat_buf_str(&r->body, "&quot;");
            else if (*p == '&')
                leat_buf_str(&r->body, "&amp;");
            else if (*p == '<')
                leat_buf_str(&r->body, "&lt;");
            else
                leat_buf_char(&r->body, *p);
        }
        leat_buf_str(&r->body, "</ETag></Part>");
    }
    leat_buf_str(&r->body, "</CompleteMultipartUpload>");
}

/* Method, query, headers and body by verb. */
static void describe(struct leat_store_op *op, struct s3_request *r)
{
    struct leat_http_call *call = &op->own.call;
    switch (op->verb) {
    case LEAT_STORE_STAT:
        r->method = "HEAD";
        break;
    case LEAT_STORE_GET:
        r->method = op->length ? "GET" : "HEAD";
        break;
    case LEAT_STORE_PUT:
    case LEAT_STORE_UPLOAD_PART:
        r->method = "PUT";
        call->body = op->data_n ? op->data : "";
        call->body_n = op->data_n;
        if (op->verb == LEAT_STORE_UPLOAD_PART) {
            snprintf(r->part, sizeof r->part, "%u", op->part);
            add_query(r, "partNumber", r->part);
            add_query(r, "uploadId", op->upload);
        }
        break;
    case LEAT_STORE_DELETE:
        r->method = "DELETE";
        break;
    case LEAT_STORE_UPLOAD_OPEN:
        r->method = "POST";
        add_query(r, "uploads", "");
        call->body = "";
        break;
    case LEAT_STORE_UPLOAD_STAT:
        r->method = "GET";
        add_query(r, "uploadId", op->upload);
        add_query(r, "max-parts", "1");
        break;
    case LEAT_STORE_UPLOAD_FINISH:
        if (op->own.looking) {
            r->method = "HEAD";
            break;
        }
        r->method = "POST";
        add_query(r, "uploadId", op->upload);
        complete_body(r, op);
        add_header(r, "content-type", "application/xml");
        call->body = r->body.data;
        call->body_n = r->body.len;
        break;
    case LEAT_STORE_UPLOAD_ABORT:
        r->method = "DELETE";
        add_query(r, "uploadId", op->upload);
        break;
    case LEAT_STORE_LIST:
        r->method = "GET";
        add_query(r, "list-type", "2");
        add_query(r, "encoding-type", "url");
        if (*op->key)
            add_query(r, "prefix", op->key);
        if (op->delimiter)
            add_query(r, "delimiter", op->delimiter);
        if (op->token)
            add_query(r, "continuation-token", op->token);
        call->text_max = LIST_TEXT_MAX;
        break;
    }
    leat_exchange_begin(op, r->range);
    leat_exchange_require_etag(op);
    if (r->range[0])
        add_header(r, "range", r->range);
    if (leat_exchange_pin(op) && !op->own.looking)
        add_header(r, "if-match", leat_exchange_pin(op));
    if (op->create_only && !op->own.looking)
        add_header(r, "if-none-match", "*");
}

/* Host, path and URL. The path is signed raw and sent through the same encoder. */
static void address(const struct s3 *s3, const struct leat_store_op *op, struct s3_request *r)
{
    const char *key = op->verb == LEAT_STORE_LIST ? "" : op->key;
    if (s3->virtual_host)
        leat_buf_printf(&r->host, "%s.%s", s3->bucket, s3->endpoint);
    else
        leat_buf_str(&r->host, s3->endpoint);
    leat_buf_str(&r->path, s3->base);
    if (!s3->virtual_host)
        leat_buf_printf(&r->path, "/%s", s3->bucket);
    if (*key || s3->virtual_host)
        leat_buf_printf(&r->path, "/%s", key);
    leat_buf_printf(&r->url, "%s://%s", s3->scheme, r->host.data);
    leat_sign_encode(&r->url, r->path.data, r->path.len, true);
    if (r->query_n) {
        leat_buf_char(&r->url, '?');
        leat_sign_query(&r->url, r->query, r->query_n);
    }
}

/* One header line; its text is found again by offset once the buffer stops growing. */
static void add_line(struct s3_request *r, size_t offsets[], size_t *n, const char *name, const char *value)
{
    offsets[(*n)++] = r->lines.len;
    leat_buf_printf(&r->lines, "%s: %s", name, value);
    leat_buf_add(&r->lines, "", 1);
}

static leat_status sign(const struct s3 *s3, struct leat_store_op *op, struct s3_request *r, struct leat_error *err)
{
    struct leat_http_call *call = &op->own.call;
    size_t offsets[HEADERS_MAX + 6];
    size_t n = 0;
    for (size_t i = 0; i < r->headers_n; i++)
        add_line(r, offsets, &n, r->headers[i].name, r->headers[i].value);
    if (call->body && strcmp(r->method, "PUT") == 0)
        add_line(r, offsets, &n, "content-type", "application/octet-stream");
    if (s3->aws.access_key) {
        struct leat_sign_keys keys = {s3->aws.access_key, s3->aws.secret_key, s3->aws.session_token};
        struct leat_buf authorization;
        char date[LEAT_SIGN_DATE];
        const char *hash = LEAT_SIGN_UNSIGNED;
        if (call->body) { /* the server checks what arrives against it: corruption on the way is noticed */
            uint8_t digest[LEAT_SHA256_SIZE];
            leat_sha256(call->body, call->body_n, digest);
            leat_hex(digest, sizeof digest, r->hash);
            hash = r->hash;
        }
        struct leat_sign_request request = {
            .method = r->method,
            .host = r->host.data,
            .path = r->path.data,
            .query = r->query,
            .query_n = r->query_n,
            .headers = r->headers,
            .headers_n = r->headers_n,
            .payload_hash = hash,
            .region = s3->region,
            .service = "s3",
            .time_s = leat_wall_s() + s3->clock_offset_s,
        };
        leat_buf_init(&authorization, 4096);
        leat_status rc = leat_sign(&keys, &request, date, &authorization, err);
        if (rc == LEAT_OK) {
            add_line(r, offsets, &n, "x-amz-date", date);
            add_line(r, offsets, &n, "x-amz-content-sha256", hash);
            if (keys.session_token && *keys.session_token)
                add_line(r, offsets, &n, "x-amz-security-token", keys.session_token);
            add_line(r, offsets, &n, "Authorization", authorization.data);
        }
        leat_buf_free(&authorization);
        if (rc != LEAT_OK)
            return rc;
    }
    for (size_t i = 0; i < n; i++)
        r->line[i] = r->lines.data + offsets[i];
    call->headers = r->line;
    call->headers_n = n;
    struct leat_buf *all[] = {&r->body, &r->host, &r->path, &r->url, &r->lines};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        leat_status rc = leat_buf_check(all[i], "a request", err);
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

static void on_done(struct leat_http_call *call);

static void on_sent(struct leat_http_call *call, size_t n)
{
    struct leat_store_op *op = call->user;
    if (op->moved)
        op->moved(op, n);
}

static void fail_later(struct leat_task *task)
{
    leat_store_attempted((struct leat_store_op *)((char *)task - offsetof(struct leat_store_op, own.task)));
}

static void start(struct leat_backend *backend, struct leat_store_op *op)
{
    struct s3 *s3 = (struct s3 *)backend;
    struct leat_http_call *call = &op->own.call;
    struct s3_request *r = request_new();
    memset(call, 0, sizeof *call);
    op->own.request = r;
    if (!r) {
        op->status = leat_fail(&op->err, LEAT_NO_MEMORY, "no memory for a request");
    } else {
        describe(op, r);
        address(s3, op, r);
        op->status = sign(s3, op, r, &op->err);
    }
    if (op->status != LEAT_OK) {
        request_free(r);
        op->own.request = NULL;
        op->own.task.run = fail_later;
        leat_loop_post(leat_store_loop(s3->store), &op->own.task);
        return;
    }
    call->method = r->method;
    call->url = r->url.data;
    call->deadline_ns = op->own.deadline_ns;
    /* Putting parts together may take the server minutes, in which it has nothing to say. */
    if (op->verb != LEAT_STORE_UPLOAD_FINISH)
        call->inactivity_ns = leat_store_settings(s3->store)->inactivity_ns;
    call->fresh = op->own.fresh;
    call->sent = on_sent;
    call->done = on_done;
    call->user = op;
    leat_http_start(s3->http, call);
}

static bool differs(const char *a, const char *b)
{
    return !a != !b || (a && strcmp(a, b) != 0);
}

/* Requests that are under way were signed with the keys of their time. */
static bool renew(struct leat_backend *backend, const struct leat_backend_keys *keys)
{
    struct s3 *s3 = (struct s3 *)backend;
    struct leat_store_opts opts = *leat_store_settings(s3->store);
    struct leat_aws aws = {0};
    if (keys) {
        opts.keys_given = true;
        opts.access_key = keys->access_key;
        opts.secret_key = keys->secret_key;
        opts.session_token = keys->session_token;
    } else if (opts.keys_given) {
        return false;
    }
    if (leat_aws_load(&opts, &aws, NULL) != LEAT_OK)
        return false;
    bool others = differs(aws.access_key, s3->aws.access_key) || differs(aws.secret_key, s3->aws.secret_key) ||
                  differs(aws.session_token, s3->aws.session_token);
    /* Only the keys: where the bucket is was settled when the store was opened. */
    char *const old[] = {s3->aws.access_key, s3->aws.secret_key, s3->aws.session_token};
    s3->aws.access_key = aws.access_key;
    s3->aws.secret_key = aws.secret_key;
    s3->aws.session_token = aws.session_token;
    memcpy(s3->aws.keys_from, aws.keys_from, sizeof s3->aws.keys_from);
    aws.access_key = old[0];
    aws.secret_key = old[1];
    aws.session_token = old[2];
    leat_aws_free(&aws);
    return others;
}

static void cancel(struct leat_backend *backend, struct leat_store_op *op)
{
    struct s3 *s3 = (struct s3 *)backend;
    if (op->own.request) /* else fail_later() is on its way */
        leat_http_cancel(s3->http, &op->own.call);
}

/* The answer says that the bucket is in another region: go on there. Credentials go to no host that an answer names:
 * only the region is taken from it. */
static bool follow_region(struct s3 *s3, struct leat_store_op *op, const struct leat_s3_answer *answer)
{
    const struct leat_http_head *head = &op->own.call.head;
    const char *region = head->region[0] ? head->region : answer->region;
    bool moved = head->code == 301 || head->code == 307 || head->code == 308 ||
                 strcmp(answer->code, "AuthorizationHeaderMalformed") == 0 || (head->code == 400 && head->region[0]);
    if (!moved || op->own.moved || !can_be_region(region))
        return false;
    op->own.moved = true;
    if (strcmp(region, s3->region) == 0)
        return true; /* another request has put it right already */
    if (s3->region_known)
        leat_log(LEAT_LOG_WARN,
                 "bucket '%s' is in region %s, not %s: reading across regions is slower and AWS charges about "
                 "$0.02 a GB for it; set AWS_REGION=%s if that is meant",
                 s3->bucket, region, s3->region, region);
    snprintf(s3->region, sizeof s3->region, "%s", region);
    if (s3->aws_own)
        set_aws_endpoint(s3);
    return true;
}

/* The answer says that our clock is wrong: go by the server's. The answer to a HEAD has no body to say so; there a
 * refusal together with a clock that far off is taken for it. */
static bool follow_clock(struct s3 *s3, struct leat_store_op *op, const struct leat_s3_answer *answer)
{
    const struct leat_http_head *head = &op->own.call.head;
    if (op->own.reclocked || !head->date_s || !s3->aws.access_key)
        return false;
    int64_t offset_s = head->date_s - leat_wall_s();
    bool far = llabs((long long)(offset_s - s3->clock_offset_s)) > SKEW_MAX_S;
    bool said = strcmp(answer->code, "RequestTimeTooSkewed") == 0;
    if (!said && !(head->code == 403 && !answer->code[0] && far))
        return false;
    op->own.reclocked = true;
    if (far)
        leat_log(LEAT_LOG_WARN, "this machine's clock is %lld s %s the server's; signing by the server's",
                 llabs((long long)offset_s), offset_s > 0 ? "behind" : "ahead of");
    s3->clock_offset_s = offset_s;
    return true;
}

/* What is wrong with a page of a list that is not one: an error document in its place, or a piece missing. */
static void check_page(const struct s3 *s3, struct leat_store_op *op)
{
    static const char root[] = "ListBucketResult";
    const struct leat_buf *text = &op->own.call.text;
    size_t head_n = text->len < 1024 ? text->len : 1024;
    size_t tail_n = text->len < 64 ? text->len : 64;
    struct leat_s3_answer answer;
    if (memmem(text->data, head_n, root, sizeof root - 1) &&
        memmem(text->data + text->len - tail_n, tail_n, root, sizeof root - 1))
        return;
    if (leat_s3_parse_answer(text->data, text->len, &answer) && answer.code[0])
        leat_s3_explain(&s3->aws, op, &answer);
    else
        op->status = leat_fail(&op->err, LEAT_SERVER, "the answer is not a list");
}

/* Putting the parts together may have worked although its answer was lost; whoever tries again (libcurl does so by
 * itself on a connection it had kept) then finds no upload. */
static bool look_for_object(struct leat_store_op *op, const struct leat_s3_answer *answer)
{
    if (op->verb != LEAT_STORE_UPLOAD_FINISH || op->own.looking || strcmp(answer->code, "NoSuchUpload") != 0)
        return false;
    op->own.looking = true;
    return true;
}

static void take_look(struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own.call.head;
    char expected[LEAT_ETAG_MAX];
    if (leat_s3_parts_etag(op->parts, op->parts_n, expected) && strcmp(expected, head->etag) == 0)
        memcpy(op->object.etag, head->etag, sizeof op->object.etag);
    else
        op->status = leat_fail(&op->err, LEAT_NOT_FOUND, "the upload is no longer known to the server");
}

/* 2xx that carries XML, which may still be an error: CompleteMultipartUpload says 200 before it has begun. */
static void take_answer(const struct s3 *s3, struct leat_store_op *op)
{
    struct leat_http_call *call = &op->own.call;
    struct leat_s3_answer answer;
    if (op->verb == LEAT_STORE_LIST) {
        check_page(s3, op);
        if (op->status != LEAT_OK)
            return;
        leat_buf_free(&op->text);
        op->text = call->text;
        leat_buf_init(&call->text, 0);
        return;
    }
    bool parsed = leat_s3_parse_answer(call->text.data, call->text.len, &answer);
    const char *wanted =
        op->verb == LEAT_STORE_UPLOAD_OPEN ? "InitiateMultipartUploadResult" : "CompleteMultipartUploadResult";
    if (parsed && answer.code[0]) {
        leat_s3_explain(&s3->aws, op, &answer);
        return;
    }
    if (!parsed || strcmp(answer.root, wanted) != 0) {
        op->status = leat_fail(&op->err, LEAT_SERVER, "the answer is not what S3 says here");
        return;
    }
    if (op->verb == LEAT_STORE_UPLOAD_OPEN) {
        if (!answer.upload_id[0])
            op->status = leat_fail(&op->err, LEAT_SERVER, "the server gave no upload id");
        memcpy(op->upload_id, answer.upload_id, sizeof op->upload_id);
    } else {
        memcpy(op->object.etag, answer.etag, sizeof op->object.etag);
    }
}

static void take_success(const struct s3 *s3, struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own.call.head;
    switch (op->verb) {
    case LEAT_STORE_STAT:
    case LEAT_STORE_GET:
        leat_exchange_finish(op);
        return;
    case LEAT_STORE_PUT:
    case LEAT_STORE_UPLOAD_PART:
        leat_store_sent(op, op->data_n);
        op->object.size = op->data_n;
        memcpy(op->object.etag, head->etag, sizeof op->object.etag);
        if (!head->etag[0])
            op->status = leat_fail(&op->err, LEAT_SERVER, "the server did not confirm what it stored");
        return;
    case LEAT_STORE_UPLOAD_OPEN:
    case LEAT_STORE_UPLOAD_FINISH:
    case LEAT_STORE_LIST:
        if (op->own.looking)
            take_look(op);
        else
            take_answer(s3, op);
        return;
    case LEAT_STORE_DELETE:
    case LEAT_STORE_UPLOAD_STAT:
    case LEAT_STORE_UPLOAD_ABORT:
        return;
    }
}

static void on_done(struct leat_http_call *call)
{
    struct leat_store_op *op = call->user;
    struct s3 *s3 = (struct s3 *)leat_store_backend(op->own.store);
    unsigned code = call->head.code;
    bool good = code >= 200 && code < 300;
    bool again = false;
    s3->answered |= code != 0;
    if (call->status != LEAT_OK && !(good && call->accepted && op->verb == LEAT_STORE_GET)) {
        op->status = call->status;
        op->err = call->err;
        if (!s3->answered)
            leat_s3_explain_endpoint(&s3->aws, op);
    } else if (good || (code == 416 && op->verb == LEAT_STORE_GET)) {
        take_success(s3, op);
    } else if (code == 404 && (op->verb == LEAT_STORE_DELETE || op->verb == LEAT_STORE_UPLOAD_ABORT)) {
        op->status = LEAT_OK;
    } else {
        struct leat_s3_answer answer;
        leat_s3_parse_answer(call->text.data, call->text.len, &answer);
        again = follow_region(s3, op, &answer) || follow_clock(s3, op, &answer) || look_for_object(op, &answer);
        if (!again)
            leat_s3_explain(&s3->aws, op, &answer);
    }
    leat_buf_free(&call->text);
    request_free(op->own.request);
    op->own.request = NULL;
    if (again)
        start(&s3->backend, op);
    else
        leat_store_attempted(op);
}

static void close_s3(struct leat_backend *backend)
{
    struct s3 *s3 = (struct s3 *)backend;
    if (!s3)
        return;
    leat_http_close(s3->http);
    leat_aws_free(&s3->aws);
    free(s3->bucket);
    free(s3);
}

static const struct leat_backend_ops ops = {
    .start = start, .cancel = cancel, .renew = renew, .close = close_s3, .list_open = leat_s3_list_open};

/* Splits "https://host:port/base". */
static leat_status set_endpoint(struct s3 *s3, const char *text, struct leat_error *err)
{
    struct leat_url url = {0};
    leat_status rc = leat_url_parse(text, &url, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "the endpoint");
    size_t n = strlen(url.path);
    while (n && url.path[n - 1] == '/')
        n--;
    if ((url.scheme != LEAT_SCHEME_HTTP && url.scheme != LEAT_SCHEME_HTTPS) || *url.query ||
        strlen(url.host) >= sizeof s3->endpoint - 256 || n >= sizeof s3->base)
        rc = leat_fail(err, LEAT_INVALID, "the endpoint '%s' is not http://HOST[:PORT] or https://HOST[:PORT]", text);
    if (rc == LEAT_OK) {
        s3->scheme = url.scheme == LEAT_SCHEME_HTTP ? "http" : "https";
        /* The Host header leaves out a port that is the scheme's own, and the signature must agree with it. */
        size_t host_n = strlen(url.host);
        const char *usual = url.scheme == LEAT_SCHEME_HTTP ? ":80" : ":443";
        size_t usual_n = strlen(usual);
        if (host_n > usual_n && strcmp(url.host + host_n - usual_n, usual) == 0)
            host_n -= usual_n;
        snprintf(s3->endpoint, sizeof s3->endpoint, "%.*s", (int)host_n, url.host);
        snprintf(s3->base, sizeof s3->base, "%.*s", (int)n, url.path);
    }
    leat_url_free(&url);
    return rc;
}

/* Names that can be the first label of a host with a certificate for one label. */
static bool bucket_fits_host(const char *bucket)
{
    size_t n = strlen(bucket);
    if (n < 3 || n > 63)
        return false;
    for (const char *p = bucket; *p; p++) {
        if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-'))
            return false;
    }
    return true;
}

leat_status leat_s3_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                         struct leat_error *err)
{
    const struct leat_store_opts *opts = leat_store_settings(store);
    struct s3 *s3 = calloc(1, sizeof *s3);
    if (!s3)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
    s3->backend.ops = &ops;
    s3->store = store;
    s3->bucket = strdup(url->host);
    leat_status rc =
        s3->bucket ? leat_aws_load(opts, &s3->aws, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
    if (rc != LEAT_OK)
        goto fail;
    s3->region_known = s3->aws.region != NULL;
    if (s3->region_known && (!can_be_region(s3->aws.region) || strlen(s3->aws.region) >= sizeof s3->region)) {
        rc = leat_fail(err, LEAT_INVALID, "'%.60s' is not the name of a region", s3->aws.region);
        goto fail;
    }
    snprintf(s3->region, sizeof s3->region, "%s", s3->aws.region ? s3->aws.region : "us-east-1");
    s3->aws_own = s3->aws.endpoint_url == NULL;
    s3->scheme = "https";
    if (s3->aws_own)
        set_aws_endpoint(s3);
    else
        rc = set_endpoint(s3, s3->aws.endpoint_url, err);
    if (rc != LEAT_OK)
        goto fail;
    s3->virtual_host = s3->aws.addressing == LEAT_ADDRESSING_AUTO ? s3->aws_own && bucket_fits_host(s3->bucket)
                                                                  : s3->aws.addressing == LEAT_ADDRESSING_VIRTUAL;
    struct leat_http_opts http = {.loop = leat_store_loop(store), .ca_bundle = opts->ca_bundle};
    rc = leat_http_open(&http, &s3->http, err);
    if (rc != LEAT_OK)
        goto fail;
    *out = &s3->backend;
    return LEAT_OK;
fail:
    close_s3(&s3->backend);
    return rc;
}
