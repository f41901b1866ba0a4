#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "serve/ops.h"
#include "serve/range.h"

static const struct {
    const char *argument; /* of the query */
    const char *header;
} overrides[] = {
    {"response-content-type", "Content-Type"},
    {"response-content-language", "Content-Language"},
    {"response-expires", "Expires"},
    {"response-cache-control", "Cache-Control"},
    {"response-content-disposition", "Content-Disposition"},
    {"response-content-encoding", "Content-Encoding"},
};

static void format_http_date(int64_t time_ns, char out[40])
{
    struct tm tm;
    time_t s = (time_t)(time_ns / (int64_t)LEAT_S);
    gmtime_r(&s, &tm);
    strftime(out, 40, "%a, %d %b %Y %H:%M:%S GMT", &tm);
}

/* False for a date that cannot be read: HTTP says to ignore the condition then. */
static bool parse_http_date(const char *text, int64_t *out_s)
{
    struct tm tm;
    memset(&tm, 0, sizeof tm);
    const char *end = text ? strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm) : NULL;
    if (!end || *end)
        return false;
    *out_s = (int64_t)timegm(&tm);
    return true;
}

/* 0: go on; else 304 or 412. The order is HTTP's. */
static unsigned check_conditions(const struct leat_serve_call *c, const struct leat_serve_object *o)
{
    const char *match = leat_request_header(c->x, "If-Match");
    const char *none = leat_request_header(c->x, "If-None-Match");
    int64_t modified_s = o->modified_ns / (int64_t)LEAT_S;
    int64_t since;
    if (match) {
        if (!leat_serve_etag_listed(match, o->etag))
            return 412;
    } else if (parse_http_date(leat_request_header(c->x, "If-Unmodified-Since"), &since) && modified_s > since) {
        return 412;
    }
    if (none) {
        if (leat_serve_etag_listed(none, o->etag))
            return 304;
    } else if (parse_http_date(leat_request_header(c->x, "If-Modified-Since"), &since) && modified_s <= since) {
        return 304;
    }
    return 0;
}

/* If-Range: the range counts only for that very object. */
static const char *range_header(const struct leat_serve_call *c, const struct leat_serve_object *o)
{
    const char *range = leat_request_header(c->x, "Range");
    const char *only = leat_request_header(c->x, "If-Range");
    int64_t since;
    if (!only || !range)
        return range;
    bool same = parse_http_date(only, &since) ? o->modified_ns / (int64_t)LEAT_S == since
                                              : leat_serve_etag_listed(only, o->etag);
    return same ? range : NULL;
}

static const char *overridden(const struct leat_serve_call *c, const char *header)
{
    for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++) {
        if (strcasecmp(overrides[i].header, header) == 0)
            return leat_serve_arg(c, overrides[i].argument);
    }
    return NULL;
}

/* Headers kept with the object, except those that the query overrides. Checksums are of the whole object. */
static void add_kept_headers(struct leat_serve_call *c, struct leat_serve_object *o, bool whole)
{
    bool typed = false;
    const char *mode = leat_request_header(c->x, "x-amz-checksum-mode");
    bool checksums = whole && mode && strcasecmp(mode, "ENABLED") == 0;
    for (char *line = o->headers.data; *line;) {
        char *end = strchr(line, '\n');
        char *colon = end ? memchr(line, ':', (size_t)(end - line)) : NULL;
        if (!colon)
            break;
        *colon = *end = '\0';
        bool checksum = strncasecmp(line, "x-amz-checksum-", 15) == 0;
        typed = typed || strcasecmp(line, "Content-Type") == 0;
        if (!overridden(c, line) && (!checksum || checksums))
            leat_request_add_header(c->x, line, colon + 2);
        line = end + 1;
    }
    if (!typed && !overridden(c, "Content-Type"))
        leat_request_add_header(c->x, "Content-Type", "binary/octet-stream");
    for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++) {
        if (leat_serve_arg(c, overrides[i].argument))
            leat_request_add_header(c->x, overrides[i].header, leat_serve_arg(c, overrides[i].argument));
    }
}

static void add_headers(struct leat_serve_call *c, struct leat_serve_object *o, bool whole)
{
    char text[LEAT_SERVE_ETAG + 2];
    char date[40];
    format_http_date(o->modified_ns, date);
    snprintf(text, sizeof text, "\"%s\"", o->etag);
    leat_request_add_header(c->x, "ETag", text);
    leat_request_add_header(c->x, "Last-Modified", date);
    leat_request_add_header(c->x, "Accept-Ranges", "bytes");
    add_kept_headers(c, o, whole);
}

static void reply_part(struct leat_serve_call *c, struct leat_serve_object *o, uint64_t offset, uint64_t n)
{
    char text[100];
    if (leat_serve_suffers(c, LEAT_SERVE_FAULT_IGNORE_RANGE)) {
        add_headers(c, o, true);
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
    add_headers(c, o, false);
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

void leat_serve_get_object(struct leat_serve_call *c)
{
    struct leat_serve_object o = {.fd = -1};
    struct leat_error err;
    uint64_t offset;
    uint64_t n;
    bool get = strcmp(c->op->method, "GET") == 0;
    if (leat_serve_object_open(c->bucket, c->key, &o, &err) != LEAT_OK) {
        leat_serve_fail_status(c, &err);
        return;
    }
    unsigned refused = check_conditions(c, &o);
    enum leat_serve_range_kind kind = leat_serve_range(range_header(c, &o), o.size, &offset, &n);
    if (refused == 412) {
        leat_serve_fail(c, LEAT_SERVE_PRECONDITION_FAILED);
    } else if (refused == 304) {
        add_headers(c, &o, false);
        leat_serve_reply(c, 304, "", "", 0);
    } else if (get && leat_serve_suffers(c, LEAT_SERVE_FAULT_ERROR200)) {
        static const char text[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InternalError</Code>"
                                   "<Message>We encountered an internal error. Please try again.</Message></Error>\n";
        leat_serve_reply(c, 200, "application/xml", text, strlen(text));
    } else if (kind == LEAT_SERVE_RANGE_OUTSIDE) {
        reply_outside(c, &o);
    } else if (kind == LEAT_SERVE_RANGE_PART) {
        reply_part(c, &o, offset, n);
    } else {
        add_headers(c, &o, true);
        leat_serve_reply_object(c, 200, &o, 0, o.size);
    }
    leat_serve_object_close(&o);
}
