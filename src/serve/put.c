#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "serve/ops.h"

/* What S3 keeps with an object and sends with it again. */
static bool is_kept(const char *name)
{
    static const char *const names[] = {"Content-Type", "Cache-Control", "Content-Disposition", "Content-Language",
                                        "Expires"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(names[i], name) == 0)
            return true;
    }
    return strncasecmp(name, "x-amz-meta-", 11) == 0;
}

static void keep_header(const char *name, const char *value, void *user)
{
    struct leat_buf *out = user;
    if (is_kept(name) && *value)
        leat_buf_printf(out, "%s: %s\n", name, value);
    /* aws-chunked is how the body was sent; what is before it is how the object is encoded. */
    if (strcasecmp(name, "Content-Encoding") == 0) {
        size_t n = strcspn(value, ",");
        if (n && strncasecmp(value, "aws-chunked", 11) != 0)
            leat_buf_printf(out, "%s: %.*s\n", name, (int)n, value);
    }
}

void leat_serve_kept_headers(struct leat_serve_call *c, struct leat_buf *out)
{
    leat_request_headers(c->x, keep_header, out);
}

void leat_serve_fail_headers(struct leat_serve_call *c)
{
    leat_serve_failf(c, LEAT_SERVE_INVALID_REQUEST, "The headers to keep with the object are larger than %d bytes.",
                     LEAT_SERVE_HEADERS_MAX);
}

static void reply_etag(struct leat_serve_call *c, const char *etag)
{
    char text[LEAT_SERVE_ETAG + 2];
    snprintf(text, sizeof text, "\"%s\"", etag);
    leat_request_add_header(c->x, "ETag", text);
    leat_serve_reply(c, 200, "", "", 0);
}

bool leat_serve_read_condition(struct leat_serve_call *c, struct leat_serve_condition *out)
{
    const char *none = leat_request_header(c->x, "If-None-Match");
    *out = (struct leat_serve_condition){.absent = none != NULL, .match = leat_request_header(c->x, "If-Match")};
    if (!none || strcmp(none, "*") == 0)
        return true;
    leat_serve_failf(c, LEAT_SERVE_NOT_IMPLEMENTED, "If-None-Match of a write can only be *.");
    return false;
}

void leat_serve_put_object(struct leat_serve_call *c)
{
    char etag[LEAT_SERVE_ETAG];
    struct leat_buf headers;
    struct leat_error err;
    struct leat_serve_condition condition;
    const char *checksum;
    if (leat_request_header(c->x, "x-amz-copy-source")) {
        leat_serve_copy_object(c);
        return;
    }
    if (!leat_serve_read_condition(c, &condition))
        return;
    leat_buf_init(&headers, LEAT_SERVE_HEADERS_MAX);
    leat_serve_kept_headers(c, &headers);
    const char *header = leat_serve_digest_header(c->digest, &checksum);
    if (header)
        leat_buf_printf(&headers, "%s: %s\n", header, checksum);
    leat_hex(c->md5, sizeof c->md5, etag);
    if (headers.failed)
        leat_serve_fail_headers(c);
    else if (leat_serve_writer_commit(&c->writer, c->key, &condition, headers.data, etag, &err) != LEAT_OK)
        leat_serve_fail_status(c, &err);
    else
        reply_etag(c, etag);
    leat_buf_free(&headers);
}
