#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "serve/dialect.h"
#include "serve/ops.h"

struct keep {
    const struct leat_serve_dialect *dialect;
    struct leat_buf *out;
};

/* Azure's names for what is kept with a blob, as opposed to what the request's own headers say. */
#define OF_BLOB "x-ms-blob-"

static const char *kept_as(const struct leat_serve_dialect *d, const char *name)
{
    static const char *const names[] = {"Content-Type",     "Cache-Control",    "Content-Disposition",
                                        "Content-Language", "Content-Encoding", "Expires"};
    if (strncasecmp(name, d->meta, strlen(d->meta)) == 0)
        return name;
    if (d->has_account) {
        if (strncasecmp(name, OF_BLOB, strlen(OF_BLOB)) != 0)
            return NULL;
        name += strlen(OF_BLOB);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(names[i], name) == 0)
            return name;
    }
    return NULL;
}

static void keep_header(const char *name, const char *value, void *user)
{
    const struct keep *k = user;
    const char *as = kept_as(k->dialect, name);
    if (as && *value)
        leat_buf_printf(k->out, "%s: %s\n", as, value);
}

void leat_serve_kept_headers(struct leat_serve_call *c, struct leat_buf *out)
{
    struct keep keep = {c->serve->dialect, out};
    leat_request_headers(c->x, keep_header, &keep);
}

void leat_serve_fail_headers(struct leat_serve_call *c)
{
    leat_serve_failf(c, LEAT_SERVE_INVALID_REQUEST, "The headers to keep with the object are larger than %d bytes.",
                     LEAT_SERVE_HEADERS_MAX);
}

void leat_serve_tag(const struct leat_serve_call *c, const char *etag, int64_t modified_ns, char out[LEAT_SERVE_TAG])
{
    if (c->serve->dialect->has_account)
        snprintf(out, LEAT_SERVE_TAG, "\"0x%llX\"", (unsigned long long)modified_ns);
    else
        snprintf(out, LEAT_SERVE_TAG, "\"%s\"", etag);
}

void leat_serve_reply_written(struct leat_serve_call *c, const struct leat_serve_writer *w, const char *etag,
                              const unsigned char *md5)
{
    char tag[LEAT_SERVE_TAG];
    char date[40];
    leat_serve_tag(c, etag, w->modified_ns, tag);
    leat_request_add_header(c->x, "ETag", tag);
    if (w->modified_ns) {
        leat_serve_http_date(w->modified_ns, date);
        leat_request_add_header(c->x, "Last-Modified", date);
    }
    c->serve->dialect->confirm(c, w, md5);
    leat_serve_reply(c, c->serve->dialect->created, "", "", 0);
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
    if (!c->serve->dialect->condition(c, &condition))
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
        leat_serve_reply_written(c, &c->writer, etag, c->md5);
    leat_buf_free(&headers);
}
