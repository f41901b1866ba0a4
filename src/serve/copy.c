#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/url.h"
#include "serve/ops.h"
#include "serve/range.h"
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
    if (!leat_url_decode(&out->text, p, n - (size_t)(p - header), false))
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
    return !match || leat_serve_etag_listed(match, o->etag);
}

/* The object that x-amz-copy-source names, open. LEAT_CHANGED when it is not the one meant. */
static leat_status open_source(struct leat_serve_call *c, struct leat_serve_object *out, struct leat_error *err)
{
    struct source from = {0};
    struct leat_serve_bucket *b = NULL;
    leat_status rc;
    if (!parse_source(leat_request_header(c->x, "x-amz-copy-source"), &from))
        rc = leat_fail(err, LEAT_INVALID, "x-amz-copy-source is not /BUCKET/KEY");
    else
        rc = leat_serve_bucket_get(c->serve->folder, from.bucket, &b, err);
    if (rc == LEAT_OK)
        rc = leat_serve_object_open(b, from.key, out, err);
    if (rc == LEAT_OK && !source_allowed(c, out)) {
        leat_serve_object_close(out);
        rc = leat_fail(err, LEAT_CHANGED, "the source is another object");
    }
    leat_serve_bucket_release(b);
    leat_buf_free(&from.text);
    return rc;
}

static leat_status copy_object(struct leat_serve_call *c, const struct leat_serve_object *o, char etag[LEAT_SERVE_ETAG],
                               struct leat_error *err)
{
    struct leat_buf headers;
    const char *directive = leat_request_header(c->x, "x-amz-metadata-directive");
    leat_buf_init(&headers, LEAT_SERVE_HEADERS_MAX);
    if (directive && strcasecmp(directive, "REPLACE") == 0)
        leat_serve_kept_headers(c, &headers);
    else
        leat_buf_str(&headers, o->headers.data);
    leat_status rc = headers.failed ? leat_fail(err, LEAT_INVALID, "the headers to keep are too large") : LEAT_OK;
    if (rc == LEAT_OK)
        rc = leat_serve_writer_copy(&c->writer, o->fd, o->size, err);
    if (rc == LEAT_OK) {
        memcpy(etag, o->etag, sizeof o->etag);
        rc = leat_serve_writer_commit(&c->writer, c->key, NULL, headers.data, etag, err);
    }
    leat_buf_free(&headers);
    return rc;
}

static void reply_copied(struct leat_serve_call *c, const char *root, int64_t modified_ns, const char *etag)
{
    struct leat_buf xml;
    leat_buf_init(&xml, 4096);
    leat_buf_printf(&xml, LEAT_SERVE_XML_HEAD "<%s" LEAT_SERVE_XML_NS ">", root);
    leat_serve_xml_time(&xml, "LastModified", modified_ns);
    leat_buf_printf(&xml, "<ETag>&quot;%s&quot;</ETag>", etag);
    leat_serve_xml_close(&xml, root);
    leat_serve_reply_xml(c, 200, &xml);
}

/* S3 tells them from PutObject and UploadPart by a header; they are counted under their own names. */
static const struct leat_serve_op copy_op = {"CopyObject",         "PUT", LEAT_SERVE_OBJECT,     NULL, NULL,
                                             LEAT_SERVE_BODY_FILE, true,  leat_serve_copy_object};
static const struct leat_serve_op copy_part_op = {"UploadPartCopy",     "PUT", LEAT_SERVE_OBJECT,     "uploadId", NULL,
                                                  LEAT_SERVE_BODY_FILE, true,  leat_serve_upload_part};

void leat_serve_copy_object(struct leat_serve_call *c)
{
    struct leat_serve_object o = {.fd = -1};
    char etag[LEAT_SERVE_ETAG];
    struct leat_error err;
    c->op = &copy_op;
    leat_status rc = open_source(c, &o, &err);
    if (rc == LEAT_OK) {
        rc = copy_object(c, &o, etag, &err);
        leat_serve_object_close(&o);
    }
    if (rc == LEAT_OK)
        reply_copied(c, "CopyObjectResult", o.modified_ns, etag);
    else
        leat_serve_fail_status(c, &err);
}

/* The bytes of the source that become a part, through the writer and the digest. */
static leat_status copy_range(struct leat_serve_call *c, const struct leat_serve_object *o, struct leat_error *err)
{
    static const size_t block = (size_t)1 << 20;
    uint64_t offset;
    uint64_t n;
    enum leat_serve_code why;
    const char *header = leat_request_header(c->x, "x-amz-copy-source-range");
    enum leat_serve_range_kind kind = leat_serve_range(header, o->size, &offset, &n);
    if (kind == LEAT_SERVE_RANGE_OUTSIDE || (header && kind == LEAT_SERVE_RANGE_ALL))
        return leat_fail(err, LEAT_INVALID, "x-amz-copy-source-range is not a range of the source");
    struct leat_serve_digest *digest = leat_serve_digest_open();
    char *data = malloc(block);
    leat_status rc = digest && data ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory to copy");
    while (rc == LEAT_OK && n) {
        ssize_t got = pread(o->fd, data, n < block ? (size_t)n : block, (off_t)offset);
        if (got <= 0) {
            rc = leat_fail(err, LEAT_IO, "cannot read the source");
            break;
        }
        leat_serve_digest_add(digest, data, (size_t)got);
        rc = leat_serve_writer_add(&c->writer, data, (size_t)got, err);
        offset += (uint64_t)got;
        n -= (uint64_t)got;
    }
    if (rc == LEAT_OK)
        leat_serve_digest_finish(digest, c->md5, &why);
    leat_serve_digest_close(digest);
    free(data);
    return rc;
}

bool leat_serve_copy_part(struct leat_serve_call *c)
{
    struct leat_serve_object o = {.fd = -1};
    struct leat_error err;
    c->op = &copy_part_op;
    leat_status rc = open_source(c, &o, &err);
    if (rc == LEAT_OK) {
        rc = copy_range(c, &o, &err);
        leat_serve_object_close(&o);
    }
    if (rc != LEAT_OK)
        leat_serve_fail_status(c, &err);
    return rc == LEAT_OK;
}

void leat_serve_reply_part_copied(struct leat_serve_call *c, const char *md5)
{
    reply_copied(c, "CopyPartResult", leat_wall_s() * (int64_t)LEAT_S, md5);
}
