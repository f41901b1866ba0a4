/* One S3 request: what it asks, where, and its signature. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "store/s3_impl.h"

#define LIST_TEXT_MAX (16u << 20) /* 1000 keys of 1024 bytes, percent-encoded, is a quarter of it */
#define URL_MAX       (16u << 10)

void leat_s3_request_free(struct s3_request *r)
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

struct s3_request *leat_s3_request_new(void)
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
        else if (op->after)
            add_query(r, "start-after", op->after);
        call->text_max = LIST_TEXT_MAX;
        break;
    }
    leat_exchange_begin(op, r->range);
    if (op->verify && !op->offset && (op->length || op->verb == LEAT_STORE_STAT))
        add_header(r, "x-amz-checksum-mode", "ENABLED");
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
    size_t offsets[LEAT_S3_HEADERS_MAX + 6];
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

leat_status leat_s3_request_make(const struct s3 *s3, struct leat_store_op *op, struct s3_request *r,
                                 struct leat_error *err)
{
    op->own.bucket = true;
    op->own.odd_etags = s3->odd_etags;
    op->own.keys = s3->keys_number;
    describe(op, r);
    address(s3, op, r);
    leat_status rc = sign(s3, op, r, err);
    if (rc == LEAT_OK) {
        op->own.call.method = r->method;
        op->own.call.url = r->url.data;
    }
    return rc;
}
