#include <string.h>
#include <strings.h>

#include "serve/ops.h"
#include "serve/target.h"
#include "serve/xml.h"

/* "/bucket/key", encoded, with or without the slash; a version is none of ours. */
struct source {
    struct leat_buf text;
    const char *bucket;
    struct leat_serve_key key;
};

static bool parse_source(const char *header, struct source *out)
{
    size_t n = strcspn(header, "?");
    const char *p = header + (*header == '/');
    leat_buf_init(&out->text, 4096);
    if (!leat_serve_decode(&out->text, p, n - (size_t)(p - header), false))
        return false;
    char *slash = memchr(out->text.data, '/', out->text.len);
    if (!slash)
        return false;
    *slash = '\0';
    out->bucket = out->text.data;
    out->key = (struct leat_serve_key){slash + 1, out->text.len - (size_t)(slash + 1 - out->text.data)};
    return strlen(out->bucket) == (size_t)(slash - out->text.data) && out->key.n > 0;
}

static bool source_allowed(const struct leat_serve_call *c, const struct leat_serve_object *o)
{
    const char *match = leat_request_header(c->x, "x-amz-copy-source-if-match");
    const char *none = leat_request_header(c->x, "x-amz-copy-source-if-none-match");
    return (!match || leat_serve_etag_listed(match, o->etag)) && (!none || !leat_serve_etag_listed(none, o->etag));
}

static leat_status copy(struct leat_serve_call *c, const struct source *from, char etag[LEAT_SERVE_ETAG],
                        int64_t *modified_ns, struct leat_error *err)
{
    struct leat_serve_bucket *b;
    struct leat_serve_object o = {.fd = -1};
    struct leat_buf headers;
    const char *directive = leat_request_header(c->x, "x-amz-metadata-directive");
    leat_status rc = leat_serve_bucket_get(c->serve->folder, from->bucket, &b, err);
    if (rc != LEAT_OK)
        return rc;
    leat_buf_init(&headers, LEAT_SERVE_HEADERS_MAX);
    rc = leat_serve_object_open(b, from->key, &o, err);
    if (rc == LEAT_OK && !source_allowed(c, &o))
        rc = leat_fail(err, LEAT_CHANGED, "the source is another object");
    if (rc == LEAT_OK) {
        if (directive && strcasecmp(directive, "REPLACE") == 0)
            leat_serve_kept_headers(c, &headers);
        else
            leat_buf_str(&headers, o.headers.data);
        rc = leat_buf_check(&headers, "what is kept of the headers", err);
    }
    if (rc == LEAT_OK)
        rc = leat_serve_writer_copy(&c->writer, o.fd, o.size, err);
    if (rc == LEAT_OK) {
        memcpy(etag, o.etag, sizeof o.etag);
        rc = leat_serve_writer_commit(&c->writer, c->key, NULL, headers.data, etag, err);
        *modified_ns = o.modified_ns;
    }
    leat_buf_free(&headers);
    leat_serve_object_close(&o);
    leat_serve_bucket_release(b);
    return rc;
}

/* S3 tells it from PutObject by a header; it is counted under its own name. */
static const struct leat_serve_op copy_op = {"CopyObject",         "PUT", LEAT_SERVE_OBJECT,     NULL,
                                             LEAT_SERVE_BODY_FILE, true,  leat_serve_copy_object};

void leat_serve_copy_object(struct leat_serve_call *c)
{
    c->op = &copy_op;
    struct source from = {0};
    char etag[LEAT_SERVE_ETAG];
    int64_t modified_ns;
    struct leat_error err;
    struct leat_buf xml;
    if (!parse_source(leat_request_header(c->x, "x-amz-copy-source"), &from)) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_ARGUMENT, "x-amz-copy-source is not /BUCKET/KEY.");
    } else if (copy(c, &from, etag, &modified_ns, &err) != LEAT_OK) {
        leat_serve_fail_status(c, &err);
    } else {
        leat_buf_init(&xml, 4096);
        leat_buf_str(&xml, LEAT_SERVE_XML_HEAD "<CopyObjectResult" LEAT_SERVE_XML_NS ">");
        leat_serve_xml_time(&xml, "LastModified", modified_ns);
        leat_buf_printf(&xml, "<ETag>&quot;%s&quot;</ETag></CopyObjectResult>\n", etag);
        leat_serve_reply_xml(c, 200, &xml);
    }
    leat_buf_free(&from.text);
}
