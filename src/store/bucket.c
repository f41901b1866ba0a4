/* Buckets: one request per attempt, and what comes of it. What is asked and how it is signed is the dialect's. */
#include "store/bucket.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "store/kind.h"
#include "store/s3_site.h"
#include "store/s3_sums.h"

#define SKEW_MAX_S 300 /* S3 itself allows 15 minutes */

static void on_done(struct leat_http_call *call);

static void on_sent(struct leat_http_call *call, size_t n)
{
    struct leat_store_op *op = call->user;
    if (op->moved)
        op->moved(op, n);
}

static void on_header(struct leat_http_call *call, const char *line, size_t n)
{
    const struct leat_store_op *op = call->user;
    if (n)
        leat_attributes_take(op->found, line, n);
    else
        leat_buf_clear(op->found);
}

static void fail_later(struct leat_task *task)
{
    leat_store_attempted(leat_store_op_of(task));
}

static void start(struct leat_backend *backend, struct leat_store_op *op)
{
    struct bucket *b = (struct bucket *)backend;
    struct leat_http_call *call = &op->own->call;
    struct bucket_request *r = leat_bucket_request_new();
    leat_bucket_renew_early(b);
    memset(call, 0, sizeof *call);
    op->own->request = r;
    if (!r) {
        op->status = leat_fail(&op->own->err, LEAT_NO_MEMORY, "no memory for a request");
    } else {
        op->status = b->dialect->make(b, op, r, &op->own->err);
    }
    if (op->status != LEAT_OK || !call->method) { /* refused, or over without asking */
        leat_bucket_request_free(r);
        op->own->request = NULL;
        op->own->task.run = fail_later;
        leat_loop_post(leat_store_loop(b->store), &op->own->task);
        return;
    }
    call->deadline_ns = op->own->deadline_ns;
    call->encoding = b->unpacks ? "gzip" : NULL;
    /* Putting parts together, or copying, may take the server minutes, in which it has nothing to say. */
    if (op->verb != LEAT_STORE_UPLOAD_FINISH && op->verb != LEAT_STORE_COPY && op->verb != LEAT_STORE_UPLOAD_COPY)
        call->inactivity_ns = leat_store_settings(b->store)->inactivity_ns;
    call->fresh = op->own->fresh;
    call->sent = on_sent;
    if ((op->verb == LEAT_STORE_STAT || op->verb == LEAT_STORE_GET) && op->found && !op->own->sizing) {
        leat_buf_clear(op->found);
        if (!call->header) /* the dialect's own */
            call->header = on_header;
    }
    call->done = on_done;
    call->user = op;
    leat_http_start(b->http, call);
}

static void cancel(struct leat_backend *backend, struct leat_store_op *op)
{
    struct bucket *b = (struct bucket *)backend;
    if (op->own->request) /* else fail_later() is on its way */
        leat_http_cancel(b->http, &op->own->call);
}

/* The answer says that the bucket is in another region: go on there. Credentials go to no host that an answer names:
 * only the region is taken from it. */
static bool follow_region(struct bucket *b, struct leat_store_op *op, const struct leat_s3_answer *answer)
{
    const struct leat_http_head *head = &op->own->call.head;
    const char *region = head->region[0] ? head->region : answer->region;
    bool moved = head->code == 301 || head->code == 307 || head->code == 308 ||
                 strcmp(answer->code, "AuthorizationHeaderMalformed") == 0 || (head->code == 400 && head->region[0]);
    if (!b->dialect->regions || !moved || op->own->moved || b->fixed || !leat_s3_can_be_region(region))
        return false;
    op->own->moved = true;
    if (strcmp(region, b->region) == 0)
        return true; /* another request has put it right already */
    if (b->region_known)
        leat_log(LEAT_LOG_WARN,
                 "bucket '%s' is in region %s, not %s: reading across regions is slower and AWS charges about $0.02 "
                 "per GB for it; set AWS_REGION=%s if this is intended",
                 b->bucket, region, b->region, region);
    return leat_s3_settle(b, region, NULL) == LEAT_OK;
}

/* The answer says that our clock is wrong: go by the server's. The answer to a HEAD has no body to say so; there a
 * refusal together with a clock that far off is taken for it. */
static bool follow_clock(struct bucket *b, struct leat_store_op *op, const struct leat_s3_answer *answer)
{
    const struct leat_http_head *head = &op->own->call.head;
    if (op->own->reclocked || !head->date_s || !b->aws.access_key)
        return false;
    int64_t offset_s = head->date_s - leat_wall_s();
    bool far = llabs((long long)(offset_s - b->clock_offset_s)) > SKEW_MAX_S;
    bool said = strcmp(answer->code, "RequestTimeTooSkewed") == 0 ||
                (far && strcmp(answer->code, "AuthenticationFailed") == 0); /* as Azure calls it */
    if (!said && !(head->code == 403 && !answer->code[0] && far))
        return false;
    op->own->reclocked = true;
    if (far)
        leat_log(LEAT_LOG_WARN, "this machine's clock is %lld s %s the server's; signing by the server's",
                 llabs((long long)offset_s), offset_s > 0 ? "behind" : "ahead of");
    b->clock_offset_s = offset_s;
    return true;
}

/* What is wrong with a page of a list that is not one: an error document in its place, or a piece missing. */
static void check_page(const struct bucket *b, struct leat_store_op *op)
{
    const char *root = op->versions ? "ListVersionsResult" : b->dialect->page_root;
    size_t root_n = strlen(root);
    const struct leat_buf *text = &op->own->call.text;
    size_t head_n = text->len < 1024 ? text->len : 1024;
    size_t tail_n = text->len < 64 ? text->len : 64;
    struct leat_s3_answer answer;
    if (memmem(text->data, head_n, root, root_n) && memmem(text->data + text->len - tail_n, tail_n, root, root_n))
        return;
    if (leat_s3_parse_answer(text->data, text->len, &answer) && answer.code[0])
        b->dialect->explain(b, op, &answer);
    else
        op->status = leat_fail(&op->own->err, LEAT_SERVER, "the answer is not a list");
}

void leat_bucket_take_page(const struct bucket *b, struct leat_store_op *op)
{
    struct leat_http_call *call = &op->own->call;
    check_page(b, op);
    if (op->status != LEAT_OK)
        return;
    *op->text = call->text;
    leat_buf_init(&call->text, 0);
}

/* Putting the parts together may have worked although its answer was lost; the one that tries again (libcurl does so by
 * itself on a connection it had kept) then finds no upload. */
static bool look_for_object(struct leat_store_op *op, const struct leat_s3_answer *answer)
{
    if (op->verb != LEAT_STORE_UPLOAD_FINISH || op->own->looking || strcmp(answer->code, "NoSuchUpload") != 0)
        return false;
    op->own->looking = true;
    return true;
}

/* Where ETags are no MD5s: an object of this size that came to be since the first attempt, by the server's clock. */
static bool made_just_now(const struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own->call.head;
    int64_t since_s = (int64_t)((leat_now_ns() - op->own->first_ns) / LEAT_S) + 2; /* clocks count whole seconds */
    uint64_t size = 0;
    for (uint32_t i = 0; i < op->parts_n; i++)
        size += op->parts[i].size;
    return size && head->has_length && head->content_length == size && head->date_s && head->modified_s &&
           head->modified_s >= head->date_s - since_s;
}

/* What the server says of the object that it made of parts, against what these make. Each of them was compared when it
 * was sent: this is about putting them together. */
static void check_made(struct leat_store_op *op, const char *crc32c)
{
    struct leat_checksum stated;
    struct leat_http_head head = op->own->call.head; /* where Google states it, and what is looked at afterwards */
    uint64_t crc;
    if (*crc32c) {
        snprintf(head.checksum_kind, sizeof head.checksum_kind, "crc32c");
        snprintf(head.checksum, sizeof head.checksum, "%s", crc32c);
    }
    if (!leat_checksum_of(&head, false, &stated) || stated.kind != LEAT_CHECKSUM_CRC32C ||
        !leat_s3_sums_whole(op, &crc) || leat_checksum_fits_piece(&stated, crc))
        return;
    op->status =
        leat_fail(&op->own->err, LEAT_CORRUPT, "the server made something else of the parts that were sent (crc32c)");
}

static void take_look(struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own->call.head;
    char expected[LEAT_ETAG_MAX];
    bool known = !op->own->generations && leat_s3_parts_etag(op->parts, op->parts_n, expected);
    bool ours = known ? strcmp(expected, head->etag) == 0 : made_just_now(op);
    if (ours && op->own->generations)
        leat_exchange_generation_tag(head->generation, op->own->object.etag);
    else if (ours)
        memcpy(op->own->object.etag, head->etag, sizeof op->own->object.etag);
    else
        op->status = leat_fail(&op->own->err, LEAT_NOT_FOUND, "the upload is no longer known to the server");
    if (ours)
        check_made(op, "");
}

/* What the server says of its copy, against what it said of the source. */
static void check_copied(struct leat_store_op *op)
{
    const struct leat_checksum *stated = &op->source->object->checksum;
    uint8_t md5[LEAT_CHECKSUM_BYTES];
    if (op->verb != LEAT_STORE_COPY || stated->kind != LEAT_CHECKSUM_MD5 || op->own->odd_etags ||
        op->own->call.head.etag_opaque || !leat_checksum_etag_md5(op->own->object.etag, md5))
        return;
    if (memcmp(md5, stated->value, LEAT_MD5_SIZE) != 0)
        op->status = leat_fail(&op->own->err, LEAT_CORRUPT, "the server's copy is not of the same bytes (ETag %s)",
                               op->own->object.etag);
}

/* 2xx that carries XML, which may still be an error: CompleteMultipartUpload says 200 before it has begun. */
static void take_answer(const struct bucket *b, struct leat_store_op *op)
{
    struct leat_http_call *call = &op->own->call;
    struct leat_s3_answer answer;
    if (op->verb == LEAT_STORE_LIST) {
        leat_bucket_take_page(b, op);
        return;
    }
    bool parsed = leat_s3_parse_answer(call->text.data, call->text.len, &answer);
    bool open = op->verb == LEAT_STORE_UPLOAD_OPEN;
    if (parsed && answer.code[0]) {
        b->dialect->explain(b, op, &answer);
        return;
    }
    /* Servers differ in what they call the root; what counts is what is in it. */
    if (!parsed ||
        (!open && !answer.etag[0] &&
         (op->verb != LEAT_STORE_UPLOAD_FINISH || strcmp(answer.root, "CompleteMultipartUploadResult") != 0))) {
        /* A server that does not know the header has stored nothing, under a good code. */
        bool copies = op->verb == LEAT_STORE_COPY || op->verb == LEAT_STORE_UPLOAD_COPY;
        op->status =
            leat_fail(&op->own->err, copies ? LEAT_UNSUPPORTED : LEAT_SERVER, "%s",
                      copies ? "the server cannot copy by itself" : "the answer is not one that S3 gives here");
        return;
    }
    if (!open) {
        if (op->own->generations)
            leat_exchange_generation_tag(call->head.generation, op->own->object.etag);
        else
            memcpy(op->own->object.etag, answer.etag, sizeof op->own->object.etag);
        if (op->verb == LEAT_STORE_COPY || op->verb == LEAT_STORE_UPLOAD_COPY)
            check_copied(op);
        else
            check_made(op, answer.crc32c);
        return;
    }
    if (!answer.upload_id[0])
        op->status = leat_fail(&op->own->err, LEAT_SERVER, "the server gave no upload id");
    else
        op->status = leat_s3_sums_mark(op, answer.upload_id, &op->own->err);
}

/* The checksum of what was sent, and the server's ETag where it is an MD5: the first is what went with it, the second
 * what was known before. */
void leat_bucket_check_stored(struct leat_store_op *op)
{
    struct leat_checksum sum;
    struct leat_http_head head = op->own->call.head;
    bool fits = true;
    for (int round = 0; fits && round < 2; round++, head.checksum[0] = '\0') {
        if (!leat_checksum_of(&head, !op->own->odd_etags, &sum))
            continue;
        fits = sum.kind == LEAT_CHECKSUM_MD5 && op->data_md5 ? memcmp(sum.value, op->data_md5, LEAT_MD5_SIZE) == 0
                                                             : leat_checksum_fits(&sum, op->data, op->data_n);
    }
    if (!fits)
        op->status = leat_fail(&op->own->err, LEAT_CORRUPT, "the server did not store the bytes that were sent (%s)",
                               sum.kind == LEAT_CHECKSUM_MD5 ? op->own->call.head.etag : leat_checksum_name(sum.kind));
}

static void take_success(const struct bucket *b, struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own->call.head;
    if (b->dialect->take && op->verb != LEAT_STORE_STAT && op->verb != LEAT_STORE_GET) {
        b->dialect->take(b, op);
        return;
    }
    switch (op->verb) {
    case LEAT_STORE_STAT:
    case LEAT_STORE_GET:
        leat_exchange_finish(op);
        return;
    case LEAT_STORE_PUT:
    case LEAT_STORE_UPLOAD_PART:
        leat_store_sent(op, op->data_n);
        op->own->object.size = op->data_n;
        if (op->own->generations && op->verb == LEAT_STORE_PUT)
            leat_exchange_generation_tag(head->generation, op->own->object.etag);
        else
            memcpy(op->own->object.etag, head->etag, sizeof op->own->object.etag);
        if (!op->own->object.etag[0])
            op->status = leat_fail(&op->own->err, LEAT_SERVER, "the server did not confirm what it stored");
        else
            leat_bucket_check_stored(op);
        return;
    case LEAT_STORE_UPLOAD_OPEN:
    case LEAT_STORE_UPLOAD_FINISH:
    case LEAT_STORE_LIST:
    case LEAT_STORE_COPY:
    case LEAT_STORE_UPLOAD_COPY:
        if (op->own->looking)
            take_look(op);
        else
            take_answer(b, op);
        return;
    case LEAT_STORE_DELETE:
    case LEAT_STORE_UPLOAD_STAT:
    case LEAT_STORE_UPLOAD_ABORT:
        return;
    }
}

/* Answers that say nothing of what was asked for: who asked, or how often, is their matter. */
static bool must_ask_again(unsigned code)
{
    return code >= 500 || code == 401 || code == 403 || code == 408 || code == 429;
}

static void on_done(struct leat_http_call *call)
{
    struct leat_store_op *op = call->user;
    struct bucket *b = (struct bucket *)leat_store_backend(op->own->store);
    unsigned code = call->head.code;
    bool good = code >= 200 && code < 300;
    bool again = false;
    enum bucket_step step = BUCKET_STEP_NONE;
    b->answered |= code != 0;
    if (call->status == LEAT_OK && b->dialect->step)
        step = b->dialect->step(b, op);
    if (step == BUCKET_STEP_AGAIN) {
        again = true;
    } else if (step == BUCKET_STEP_OVER) {
        /* judged already */
    } else if (call->status != LEAT_OK && !(good && call->accepted && op->verb == LEAT_STORE_GET)) {
        op->status = call->status;
        op->own->err = call->err;
        if (!b->answered)
            leat_bucket_explain_endpoint(&b->aws, op);
    } else if (op->own->sizing && !must_ask_again(code)) { /* a server that cannot say it is asked in vain */
        again = leat_s3_sums_sizes(op);
    } else if (good || (code == 416 && op->verb == LEAT_STORE_GET)) {
        take_success(b, op);
        if (op->status == LEAT_OK)
            leat_s3_sums_settled(b, op);
        again = op->status == LEAT_OK && op->verb == LEAT_STORE_STAT && leat_s3_sums_sizes(op);
    } else if (code == 404 && (op->verb == LEAT_STORE_DELETE || op->verb == LEAT_STORE_UPLOAD_ABORT)) {
        op->status = LEAT_OK;
    } else {
        struct leat_s3_answer answer;
        leat_s3_parse_answer(call->text.data, call->text.len, &answer);
        again = follow_region(b, op, &answer) || follow_clock(b, op, &answer) || look_for_object(op, &answer) ||
                leat_s3_sums_refused(op, &answer);
        if (!again)
            b->dialect->explain(b, op, &answer);
    }
    leat_buf_free(&call->text);
    leat_bucket_request_free(op->own->request);
    op->own->request = NULL;
    if (again)
        start(&b->backend, op);
    else
        leat_store_attempted(op);
}

static void close_bucket(struct leat_backend *backend)
{
    struct bucket *b = (struct bucket *)backend;
    if (!b)
        return;
    leat_bucket_renew_stop(b);
    leat_http_close(b->http);
    leat_aws_free(&b->aws);
    if (b->dialect->close)
        b->dialect->close(b);
    free(b->bucket);
    free(b);
}

static void place(const struct leat_backend *backend, struct leat_store_place *out)
{
    const struct bucket *b = (const struct bucket *)backend;
    const struct leat_aws *aws = &b->aws;
    snprintf(out->address, sizeof out->address, "%s://%s%s%s%s", b->scheme, b->virtual_host ? b->label : "",
             b->virtual_host ? "." : "", b->endpoint, b->base);
    if (!b->global) /* which can be copied to, but not from */
        snprintf(out->server, sizeof out->server, "%s://%s%s", b->scheme, b->aws_own ? "aws" : b->endpoint,
                 b->aws_own ? "" : b->base);
    snprintf(out->address_from, sizeof out->address_from, "%s", aws->endpoint_from);
    out->redirects = b->aws_own;
    out->copies_whole = b->dialect->copies_whole ? b->dialect->copies_whole(b) : LEAT_S3_COPIES_WHOLE;
    out->copies_parts = !b->dialect->copies_whole;
    snprintf(out->region, sizeof out->region, "%s", b->region);
    snprintf(out->region_said, sizeof out->region_said, "%s", b->region_known ? aws->region : "");
    if (!aws->access_key)
        return;
    snprintf(out->key_id, sizeof out->key_id, "%s", aws->access_key);
    snprintf(out->keys_from, sizeof out->keys_from, "%s", aws->keys_from);
    if (b->aws_own)
        leat_aws_account(aws->access_key, out->account);
    out->keys_expire_s = aws->expires_s;
}

static const struct leat_backend_ops ops = {.start = start,
                                            .cancel = cancel,
                                            .renew = leat_bucket_renew,
                                            .close = close_bucket,
                                            .place = place,
                                            .list_open = leat_bucket_list_open,
                                            .list_versions = leat_bucket_list_versions,
                                            .list_after = leat_bucket_list_after};

/* Splits "https://host:port/base". */
leat_status leat_bucket_set_endpoint(struct bucket *b, const char *text, struct leat_error *err)
{
    struct leat_url url = {0};
    leat_status rc = leat_url_parse(text, &url, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "the endpoint");
    size_t n = strlen(url.path);
    while (n && url.path[n - 1] == '/')
        n--;
    if ((url.scheme != LEAT_SCHEME_HTTP && url.scheme != LEAT_SCHEME_HTTPS) || *url.query ||
        strlen(url.host) >= sizeof b->endpoint - 256 || n >= sizeof b->base)
        rc = leat_fail(err, LEAT_INVALID, "the endpoint '%s' is not http://HOST[:PORT] or https://HOST[:PORT]", text);
    if (rc == LEAT_OK) {
        b->scheme = url.scheme == LEAT_SCHEME_HTTP ? "http" : "https";
        /* The Host header leaves out a port that is the scheme's own, and the signature must agree with it. */
        size_t host_n = strlen(url.host);
        const char *usual = url.scheme == LEAT_SCHEME_HTTP ? ":80" : ":443";
        size_t usual_n = strlen(usual);
        if (host_n > usual_n && strcmp(url.host + host_n - usual_n, usual) == 0)
            host_n -= usual_n;
        snprintf(b->endpoint, sizeof b->endpoint, "%.*s", (int)host_n, url.host);
        snprintf(b->base, sizeof b->base, "%.*s", (int)n, url.path);
    }
    leat_url_free(&url);
    return rc;
}

/* Whether requests to this host are paid for one by one, as far as is known. */
static bool is_priced(const char *endpoint)
{
    static const char *const clouds[] = {".amazonaws.com", ".amazonaws.com.cn", ".googleapis.com",
                                         ".windows.net",   ".aliyuncs.com",     ".backblazeb2.com",
                                         ".myqcloud.com",  ".oraclecloud.com",  ".cloudflarestorage.com"};
    size_t n = strcspn(endpoint, ":");
    for (size_t i = 0; i < sizeof clouds / sizeof *clouds; i++) {
        size_t tail = strlen(clouds[i]);
        if (n > tail && strncasecmp(endpoint + n - tail, clouds[i], tail) == 0)
            return true;
    }
    return false;
}

leat_status leat_bucket_open(struct leat_store *store, const struct leat_url *url, const struct bucket_dialect *dialect,
                             struct leat_backend **out, struct leat_error *err)
{
    const struct leat_store_opts *opts = leat_store_settings(store);
    struct bucket *b = calloc(1, sizeof *b);
    if (!b)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
    b->backend.ops = &ops;
    b->dialect = dialect;
    b->store = store;
    b->bucket = strdup(url->host);
    leat_status rc = b->bucket ? leat_kind_keys(url, opts, false, &b->aws, err)
                               : leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
    if (rc != LEAT_OK)
        goto fail;
    b->scheme = "https";
    rc = dialect->place(b, err);
    if (rc != LEAT_OK)
        goto fail;
    b->backend.priced = b->aws_own || is_priced(b->endpoint);
    struct leat_http_opts http = {.loop = leat_store_loop(store), .ca_bundle = opts->ca_bundle};
    rc = leat_http_open(&http, &b->http, err);
    if (rc != LEAT_OK)
        goto fail;
    *out = &b->backend;
    return LEAT_OK;
fail:
    close_bucket(&b->backend);
    return rc;
}
