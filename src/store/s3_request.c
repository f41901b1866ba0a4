/* One S3 request: what it asks, where, and its signature. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "store/bucket.h"
#include "store/gs.h"
#include "store/s3_session.h"
#include "store/s3_sums.h"

#define LIST_TEXT_MAX (16u << 20) /* 1000 keys of 1024 bytes, percent-encoded, is a quarter of it */
#define URL_MAX       (16u << 10)

void leat_bucket_request_free(struct bucket_request *r)
{
    if (!r)
        return;
    leat_buf_free(&r->body);
    leat_buf_free(&r->host);
    leat_buf_free(&r->path);
    leat_buf_free(&r->url);
    leat_buf_free(&r->lines);
    free(r->attributes);
    if (r->extras)
        explicit_bzero(r->extras, r->extras_n);
    free(r->extras);
    free(r->own);
    free(r);
}

struct bucket_request *leat_bucket_request_new(void)
{
    struct bucket_request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    leat_buf_init(&r->body, 4u << 20);
    leat_buf_init(&r->host, 1024);
    leat_buf_init(&r->path, URL_MAX);
    leat_buf_init(&r->url, URL_MAX);
    leat_buf_init(&r->lines, URL_MAX);
    return r;
}

void leat_bucket_add_query(struct bucket_request *r, const char *name, const char *value)
{
    r->query[r->query_n++] = (struct leat_sign_pair){name, value};
}

void leat_bucket_add_header(struct bucket_request *r, const char *name, const char *value)
{
    r->headers[r->headers_n++] = (struct leat_sign_pair){name, value};
}

static void complete_body(struct bucket_request *r, const struct leat_store_op *op)
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
        leat_buf_str(&r->body, "</ETag>");
        leat_s3_sums_add_part(op, i, &r->body);
        leat_buf_str(&r->body, "</Part>");
    }
    leat_buf_str(&r->body, "</CompleteMultipartUpload>");
}

/* Headers for what an object has besides its bytes; of a copy they stand instead of the source's, unless it is only
 * where it is to be kept. False: no memory. */
static bool add_attributes(const struct bucket *b, const struct leat_store_op *op, struct bucket_request *r)
{
    const char *text = op->attributes;
    const char *name;
    const char *value;
    size_t name_n;
    size_t value_n;
    bool replaces = false;
    if (!text || !*text)
        return true;
    size_t room = strlen(text) + 16 * (LEAT_ATTRIBUTES_LINES + 1);
    char *at = r->attributes = malloc(room);
    if (!at)
        return false;
    for (size_t i = 0; i < LEAT_ATTRIBUTES_LINES && leat_attributes_next(&text, &name, &name_n, &value, &value_n);
         i++) {
        bool own = strncmp(name, "meta-", 5) == 0 || strncmp(name, "storage-", 8) == 0;
        char *line = at;
        replaces |= strncmp(name, "storage-", 8) != 0;
        at += snprintf(at, 64 + name_n, "%s%.*s",
                       !own                 ? ""
                       : b->dialect->google ? "x-goog-"
                                            : "x-amz-",
                       (int)name_n, name) +
              1;
        leat_bucket_add_header(r, line, at);
        memcpy(at, value, value_n);
        at[value_n] = '\0';
        at += value_n + 1;
    }
    if (replaces && op->verb == LEAT_STORE_COPY)
        leat_bucket_add_header(r, b->dialect->google ? "x-goog-metadata-directive" : "x-amz-metadata-directive",
                               "REPLACE");
    return true;
}

static bool extra_fits(char scope, const struct leat_store_op *op)
{
    bool copies = op->verb == LEAT_STORE_COPY || op->verb == LEAT_STORE_UPLOAD_COPY;
    bool makes = op->verb == LEAT_STORE_PUT || op->verb == LEAT_STORE_UPLOAD_OPEN || op->verb == LEAT_STORE_COPY;
    bool touches = makes || copies || op->verb == LEAT_STORE_STAT || op->verb == LEAT_STORE_GET ||
                   op->verb == LEAT_STORE_UPLOAD_PART || op->own->looking;
    return scope == LEAT_EXTRA_ALWAYS || (scope == LEAT_EXTRA_WRITE && makes) || (scope == LEAT_EXTRA_KEY && touches) ||
           (scope == LEAT_EXTRA_SOURCE && copies);
}

/* What was asked for by hand. False: no memory. */
static bool add_extras(const struct bucket *b, const struct leat_store_op *op, struct bucket_request *r)
{
    const char *text = leat_store_headers(b->store);
    if (!text || !*text)
        return true;
    char *at = r->extras = strdup(text);
    if (!at)
        return false;
    r->extras_n = strlen(text);
    for (size_t i = 0; i < LEAT_EXTRAS_LINES && *at; i++) {
        char *end = strchr(at, '\n');
        char *colon = strstr(at, ": ");
        if (!end || !colon || colon > end || at[1] != ' ')
            break;
        *end = *colon = '\0';
        if (extra_fits(*at, op))
            leat_bucket_add_header(r, at + 2, colon + 2);
        at = end + 1;
    }
    return true;
}

static void ask_copy(const struct leat_store_op *op, struct bucket_request *r)
{
    const struct leat_store_source *s = op->source;
    bool point = strncmp(s->bucket, "arn:", 4) == 0;
    leat_buf_printf(&r->body, "%s%s%s/", point ? "" : "/", s->bucket, point ? "/object" : "");
    leat_sign_encode(&r->body, s->key, strlen(s->key), true);
    if (s->object->version[0])
        leat_buf_printf(&r->body, "?versionId=%s", s->object->version);
    leat_bucket_add_header(r, "x-amz-copy-source", r->body.data ? r->body.data : "");
    if (leat_exchange_tells(s->object->etag))
        leat_bucket_add_header(r, "x-amz-copy-source-if-match", s->object->etag);
    if (op->verb == LEAT_STORE_COPY)
        return;
    snprintf(r->part, sizeof r->part, "%u", op->part);
    leat_bucket_add_query(r, "partNumber", r->part);
    leat_bucket_add_query(r, "uploadId", leat_s3_upload(op->upload));
    snprintf(r->range, sizeof r->range, "bytes=%" PRIu64 "-%" PRIu64, op->offset, op->offset + op->length - 1);
    leat_bucket_add_header(r, "x-amz-copy-source-range", r->range);
}

/* The token is where to go on: a key, a line break, a version. */
static void ask_versions(const struct leat_store_op *op, struct bucket_request *r)
{
    const char *line = op->token ? strrchr(op->token, '\n') : NULL;
    leat_bucket_add_query(r, "versions", "");
    if (!line)
        return;
    leat_buf_add(&r->body, op->token, (size_t)(line - op->token));
    leat_bucket_add_query(r, "key-marker", r->body.data ? r->body.data : "");
    if (line[1])
        leat_bucket_add_query(r, "version-id-marker", line + 1);
}

static void ask_list(const struct leat_store_op *op, struct bucket_request *r)
{
    if (op->versions)
        ask_versions(op, r);
    else
        leat_bucket_add_query(r, "list-type", "2");
    leat_bucket_add_query(r, "encoding-type", "url");
    if (*op->key)
        leat_bucket_add_query(r, "prefix", op->key);
    if (op->delimiter)
        leat_bucket_add_query(r, "delimiter", op->delimiter);
    if (op->token && !op->versions)
        leat_bucket_add_query(r, "continuation-token", op->token);
    else if (op->after && !op->versions)
        leat_bucket_add_query(r, "start-after", op->after);
}

/* Method, query, headers and body by verb. */
static void describe(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r)
{
    struct leat_http_call *call = &op->own->call;
    if (!b->dialect->google)
        leat_s3_sums_add(b, op, r);
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
            leat_bucket_add_query(r, "partNumber", r->part);
            leat_bucket_add_query(r, "uploadId", leat_s3_upload(op->upload));
        }
        break;
    case LEAT_STORE_COPY:
    case LEAT_STORE_UPLOAD_COPY:
        r->method = "PUT";
        call->body = "";
        if (b->dialect->google)
            leat_gs_ask_copy(op, r);
        else
            ask_copy(op, r);
        break;
    case LEAT_STORE_DELETE:
        r->method = "DELETE";
        break;
    case LEAT_STORE_UPLOAD_OPEN:
        r->method = "POST";
        leat_bucket_add_query(r, "uploads", "");
        call->body = "";
        break;
    case LEAT_STORE_UPLOAD_STAT:
        r->method = "GET";
        leat_bucket_add_query(r, "uploadId", leat_s3_upload(op->upload));
        leat_bucket_add_query(r, "max-parts", "1");
        break;
    case LEAT_STORE_UPLOAD_FINISH:
        if (op->own->looking) {
            r->method = "HEAD";
            break;
        }
        r->method = "POST";
        leat_bucket_add_query(r, "uploadId", leat_s3_upload(op->upload));
        complete_body(r, op);
        leat_bucket_add_header(r, "content-type", "application/xml");
        call->body = r->body.data;
        call->body_n = r->body.len;
        break;
    case LEAT_STORE_UPLOAD_ABORT:
        r->method = "DELETE";
        leat_bucket_add_query(r, "uploadId", leat_s3_upload(op->upload));
        break;
    case LEAT_STORE_LIST:
        r->method = "GET";
        ask_list(op, r);
        call->text_max = LIST_TEXT_MAX;
        break;
    }
    if ((op->verb == LEAT_STORE_STAT || op->verb == LEAT_STORE_GET || op->verb == LEAT_STORE_DELETE) && op->known &&
        op->known->version[0])
        leat_bucket_add_query(r, "versionId", op->known->version);
    if (op->verb != LEAT_STORE_UPLOAD_COPY)
        leat_exchange_begin(op, r->range);
    if (b->dialect->google) {
        leat_gs_describe(op, r);
        return;
    }
    if (op->own->sizing) {
        leat_s3_sums_ask_size(op, r);
        return;
    }
    if ((op->verify && !op->offset && (op->length || op->verb == LEAT_STORE_STAT)) || op->own->looking)
        leat_bucket_add_header(r, "x-amz-checksum-mode", "ENABLED");
    if (r->range[0] && op->verb != LEAT_STORE_UPLOAD_COPY)
        leat_bucket_add_header(r, "range", r->range);
    if (leat_exchange_pin(op) && !op->own->looking)
        leat_bucket_add_header(r, "if-match", leat_exchange_pin(op));
    if (op->create_only && !op->own->looking)
        leat_bucket_add_header(r, "if-none-match", "*");
}

/* Host, path and URL. The path is signed raw and sent through the same encoder. */
static void address(const struct bucket *b, const struct leat_store_op *op, struct bucket_request *r)
{
    const char *key = op->verb == LEAT_STORE_LIST ? "" : op->key;
    if (b->virtual_host)
        leat_buf_printf(&r->host, "%s.%s", b->label, b->endpoint);
    else
        leat_buf_str(&r->host, b->endpoint);
    leat_buf_str(&r->path, b->base);
    if (!b->virtual_host)
        leat_buf_printf(&r->path, "/%s", b->label);
    if (*key || b->virtual_host)
        leat_buf_printf(&r->path, "/%s", key);
    leat_buf_printf(&r->url, "%s://%s", b->scheme, r->host.data);
    leat_sign_encode(&r->url, r->path.data, r->path.len, true);
    if (r->query_n) {
        leat_buf_char(&r->url, '?');
        leat_sign_query(&r->url, r->query, r->query_n);
    }
}

void leat_bucket_add_line(struct bucket_request *r, const char *name, const char *value)
{
    r->offsets[r->lines_n++] = r->lines.len;
    leat_buf_printf(&r->lines, *value ? "%s: %s" : "%s;", name, value); /* libcurl's way to send an empty one */
    leat_buf_add(&r->lines, "", 1);
}

void leat_bucket_add_bearer(struct bucket_request *r, const char *token)
{
    r->offsets[r->lines_n++] = r->lines.len;
    leat_buf_printf(&r->lines, "Authorization: Bearer %s", token);
    leat_buf_add(&r->lines, "", 1);
}

leat_status leat_bucket_request_end(struct leat_store_op *op, struct bucket_request *r, struct leat_error *err)
{
    struct leat_http_call *call = &op->own->call;
    struct leat_buf *all[] = {&r->body, &r->host, &r->path, &r->url, &r->lines};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        leat_status rc = leat_buf_check(all[i], "a request", err);
        if (rc != LEAT_OK)
            return rc;
    }
    for (size_t i = 0; i < r->lines_n; i++)
        r->line[i] = r->lines.data + r->offsets[i];
    call->headers = r->line;
    call->headers_n = r->lines_n;
    call->method = r->method;
    call->url = r->url.data;
    return LEAT_OK;
}

/* Whether bytes are sent whose type nobody has said. A copy has the type of its source: AWS would not look at another,
 * "rclone serve s3" takes it. */
static bool lacks_type(const struct leat_store_op *op, const struct bucket_request *r)
{
    bool put = op->own->call.body && strcmp(r->method, "PUT") == 0;
    if (!put || op->verb == LEAT_STORE_COPY || op->verb == LEAT_STORE_UPLOAD_COPY)
        return false;
    return op->verb != LEAT_STORE_PUT || !op->attributes || !leat_attributes_has(op->attributes, "content-type");
}

static leat_status sign(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r,
                        struct leat_error *err)
{
    struct leat_http_call *call = &op->own->call;
    for (size_t i = 0; i < r->headers_n; i++)
        leat_bucket_add_line(r, r->headers[i].name, r->headers[i].value);
    if (lacks_type(op, r))
        leat_bucket_add_line(r, "content-type", "application/octet-stream");
    if (b->dialect->google && leat_gs_bearer(&b->aws)) {
        leat_bucket_add_bearer(r, b->aws.session_token);
    } else if (b->aws.access_key) {
        const char *id = b->dialect->google ? leat_gs_key_id(&b->aws) : leat_s3_key_id(&b->aws);
        struct leat_sign_keys keys = {id, b->aws.secret_key, b->aws.session_token};
        const char *token_name = leat_s3_is_session(&b->aws) ? "x-amz-s3session-token" : "x-amz-security-token";
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
            .region = b->region,
            .service = b->service,
            .google = b->dialect->google,
            .asymmetric = b->global,
            .token_name = token_name,
            .time_s = leat_wall_s() + b->clock_offset_s,
        };
        leat_buf_init(&authorization, 4096);
        leat_status rc = leat_sign(&keys, &request, date, &authorization, err);
        if (rc == LEAT_OK) {
            leat_bucket_add_line(r, b->dialect->google ? "x-goog-date" : "x-amz-date", date);
            leat_bucket_add_line(r, b->dialect->google ? "x-goog-content-sha256" : "x-amz-content-sha256", hash);
            if (b->global)
                leat_bucket_add_line(r, "x-amz-region-set", b->region);
            if (keys.session_token && *keys.session_token)
                leat_bucket_add_line(r, token_name, keys.session_token);
            leat_bucket_add_line(r, "Authorization", authorization.data);
        }
        leat_buf_free(&authorization);
        if (rc != LEAT_OK)
            return rc;
    }
    return leat_bucket_request_end(op, r, err);
}

leat_status leat_s3_request_make(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r,
                                 struct leat_error *err)
{
    op->own->bucket = true;
    op->own->odd_etags = b->odd_etags;
    op->own->generations = b->dialect->google;
    if (b->dialect->google && op->verb == LEAT_STORE_UPLOAD_FINISH && (op->if_match || op->create_only))
        return leat_fail(err, LEAT_UNSUPPORTED, "Google takes no condition at the end of an upload in parts");
    op->own->keys = b->keys_number;
    bool says = op->verb == LEAT_STORE_PUT || op->verb == LEAT_STORE_UPLOAD_OPEN || op->verb == LEAT_STORE_COPY;
    if ((says && !add_attributes(b, op, r)) || (!b->dialect->google && !add_extras(b, op, r)))
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a request");
    describe(b, op, r);
    address(b, op, r);
    return sign(b, op, r, err);
}
