#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "serve/dialect.h"
#include "serve/ops.h"
#include "serve/range.h"

void leat_serve_http_date(int64_t time_ns, char out[40])
{
    struct tm tm;
    time_t s = (time_t)(time_ns / (int64_t)LEAT_S);
    gmtime_r(&s, &tm);
    strftime(out, 40, "%a, %d %b %Y %H:%M:%S GMT", &tm);
}

/* Headers kept with the object. S3's checksums are of the whole of it and have to be asked for. */
static void add_kept_headers(struct leat_serve_call *c, struct leat_serve_object *o, bool range)
{
    bool typed = false;
    const char *mode = leat_request_header(c->x, "x-amz-checksum-mode");
    bool checksums = !range && mode && strcasecmp(mode, "ENABLED") == 0;
    for (char *line = o->headers.data; *line;) {
        char *end = strchr(line, '\n');
        char *colon = end ? memchr(line, ':', (size_t)(end - line)) : NULL;
        if (!colon)
            break;
        *colon = *end = '\0';
        bool hidden = (strncasecmp(line, "x-amz-checksum-", 15) == 0 && !checksums) ||
                      strncasecmp(line, LEAT_SERVE_HIDDEN, strlen(LEAT_SERVE_HIDDEN)) == 0;
        typed = typed || strcasecmp(line, "Content-Type") == 0;
        if (!hidden)
            leat_request_add_header(c->x, line, colon + 2);
        line = end + 1;
    }
    if (!typed)
        leat_request_add_header(c->x, "Content-Type", c->serve->dialect->type);
}

/* n: the bytes that are asked for; range: as a range. */
static void add_headers(struct leat_serve_call *c, struct leat_serve_object *o, uint64_t n, bool range)
{
    char tag[LEAT_SERVE_TAG];
    char date[40];
    leat_serve_http_date(o->modified_ns, date);
    leat_serve_tag(c, o->etag, o->modified_ns, tag);
    leat_request_add_header(c->x, "ETag", tag);
    leat_request_add_header(c->x, "Last-Modified", date);
    leat_request_add_header(c->x, "Accept-Ranges", "bytes");
    add_kept_headers(c, o, range);
    c->serve->dialect->describe(c, o, n == o->size, range);
}

static void reply_part(struct leat_serve_call *c, struct leat_serve_object *o, uint64_t offset, uint64_t n)
{
    char text[100];
    if (leat_serve_suffers(c, LEAT_SERVE_FAULT_IGNORE_RANGE)) {
        add_headers(c, o, o->size, false);
        leat_serve_reply_object(c, 200, o, 0, o->size);
        return;
    }
    /* One byte further on, or one byte back where the object ends; shorter where it is all there is. */
    if (leat_serve_suffers(c, LEAT_SERVE_FAULT_WRONG_RANGE)) {
        if (offset + n < o->size)
            offset++;
        else if (offset > 0)
            offset--;
        else if (n > 1)
            n--;
    }
    add_headers(c, o, n, true);
    snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)offset,
             (unsigned long long)(offset + n - 1), (unsigned long long)o->size);
    if (!leat_serve_suffers(c, LEAT_SERVE_FAULT_LOST_RANGE))
        leat_request_add_header(c->x, "Content-Range", text);
    leat_serve_reply_object(c, 206, o, offset, n);
}

static void reply_outside(struct leat_serve_call *c, const struct leat_serve_object *o)
{
    char text[60];
    snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)o->size);
    leat_request_add_header(c->x, "Content-Range", text);
    leat_serve_fail(c, LEAT_SERVE_INVALID_RANGE);
}

static void reply_error200(struct leat_serve_call *c)
{
    static const char text[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InternalError</Code>"
                               "<Message>We encountered an internal error. Please try again.</Message></Error>\n";
    leat_serve_reply(c, 200, "application/xml", text, strlen(text));
}

void leat_serve_get_object(struct leat_serve_call *c)
{
    struct leat_serve_object o = {.fd = -1};
    struct leat_serve_condition condition;
    struct leat_error err;
    uint64_t offset;
    uint64_t n;
    bool get = strcmp(c->op->method, "GET") == 0;
    const char *range = leat_request_header(c->x, "Range");
    if (c->serve->dialect->has_account && leat_request_header(c->x, "x-ms-range"))
        range = leat_request_header(c->x, "x-ms-range");
    if (!c->serve->dialect->condition(c, &condition))
        return;
    leat_status rc = leat_serve_object_open(c->bucket, c->key, &o, &err);
    if (rc == LEAT_OK && !leat_serve_condition_holds(&condition, &o))
        rc = leat_fail(&err, LEAT_CHANGED, "the object is another one");
    enum leat_serve_range_kind kind =
        rc == LEAT_OK ? leat_serve_range(range, o.size, &offset, &n) : LEAT_SERVE_RANGE_ALL;
    if (rc != LEAT_OK) {
        leat_serve_fail_status(c, &err);
    } else if (get && leat_serve_suffers(c, LEAT_SERVE_FAULT_ERROR200)) {
        reply_error200(c);
    } else if (kind == LEAT_SERVE_RANGE_OUTSIDE) {
        reply_outside(c, &o);
    } else if (kind == LEAT_SERVE_RANGE_PART) {
        reply_part(c, &o, offset, n);
    } else {
        add_headers(c, &o, o.size, false);
        leat_serve_reply_object(c, 200, &o, 0, o.size);
    }
    leat_serve_object_close(&o);
}
