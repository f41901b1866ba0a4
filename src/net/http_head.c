/* The head of an HTTP answer: which headers Leat reads and what it makes of them. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/parse.h"
#include "net/http.h"

/* Digits only, so that a sign or a space cannot slip through. Moves *p after them. */
static bool digits(const char **p, const char *end, uint64_t *out)
{
    uint64_t v = 0;
    const char *q = *p;
    if (q == end || *q < '0' || *q > '9')
        return false;
    for (; q < end && *q >= '0' && *q <= '9'; q++) {
        if (v > (UINT64_MAX - 9) / 10)
            return false;
        v = v * 10 + (uint64_t)(*q - '0');
    }
    *p = q;
    *out = v;
    return true;
}

static bool literal(const char **p, const char *end, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(end - *p) < n || strncasecmp(*p, text, n) != 0)
        return false;
    *p += n;
    return true;
}

/* "bytes 0-99/200", "bytes 0-99/" followed by "*", and for 416 "bytes " + "*" + "/200". */
static bool read_range(const char *p, const char *end, struct leat_http_head *out)
{
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t total = UINT64_MAX;
    bool nothing = false;
    if (!literal(&p, end, "bytes "))
        return false;
    if (literal(&p, end, "*"))
        nothing = true;
    else if (!digits(&p, end, &first) || !literal(&p, end, "-") || !digits(&p, end, &last))
        return false;
    if (!literal(&p, end, "/") || (!literal(&p, end, "*") && !digits(&p, end, &total)) || p != end)
        return false;
    if (!nothing && (last < first || last >= total || last == UINT64_MAX))
        return false;
    out->range_total = total;
    out->range_first = first;
    out->range_last = last;
    out->has_range = !nothing;
    return true;
}

static void parse_content_range(struct leat_http_head *head, const char *p, const char *end)
{
    bool first_one = !head->ranged;
    bool had_range = head->has_range;
    uint64_t was[] = {head->range_first, head->range_last, head->range_total};
    head->ranged = true;
    bool good = read_range(p, end, head);
    uint64_t is[] = {head->range_first, head->range_last, head->range_total};
    if (good && (first_one || (had_range == head->has_range && memcmp(was, is, sizeof was) == 0)))
        return;
    head->has_range = false; /* of two that differ neither is to be believed */
    head->range_first = head->range_last = head->range_total = 0;
}

static void copy_text(char *out, size_t size, const char *p, const char *end)
{
    size_t n = (size_t)(end - p);
    if (n >= size || memchr(p, '\0', n))
        n = 0;
    memcpy(out, p, n);
    out[n] = '\0';
}

static void parse_length(struct leat_http_head *head, const char *p, const char *end)
{
    bool first_one = !head->sized;
    bool had = head->has_length;
    uint64_t was = head->content_length;
    head->sized = true;
    head->has_length = digits(&p, end, &head->content_length) && p == end;
    if (!first_one && (had != head->has_length || was != head->content_length))
        head->differing = "Content-Length";
}

/* What tells one version of an object from another. */
static void copy_version(struct leat_http_head *head, const char *name, char *out, size_t size, const char *p,
                         const char *end)
{
    char was[LEAT_HTTP_ETAG_MAX];
    snprintf(was, sizeof was, "%s", out);
    copy_text(out, size, p, end);
    if (was[0] && strcmp(was, out) != 0)
        head->differing = name;
}

int64_t leat_http_parse_date(const char *text)
{
    time_t t = *text ? curl_getdate(text, NULL) : -1;
    return t > 0 ? (int64_t)t : 0;
}

static int64_t parse_date(const char *p, const char *end)
{
    char text[64];
    copy_text(text, sizeof text, p, end);
    return leat_http_parse_date(text);
}

/* "aws-chunked" is how a body was sent, which some servers repeat as if it were still so. Anything too long to be kept
 * is an encoding all the same. */
static void parse_encoding(struct leat_http_head *head, const char *p, const char *end)
{
    size_t n = (size_t)(end - p);
    if ((n == 8 && strncasecmp(p, "identity", n) == 0) || (n == 11 && strncasecmp(p, "aws-chunked", n) == 0))
        return;
    copy_text(head->encoding, sizeof head->encoding, p, end);
    if (n && !head->encoding[0])
        memcpy(head->encoding, "unknown", sizeof "unknown");
}

static void parse_modified(struct leat_http_head *head, const char *p, const char *end)
{
    int64_t was_s = head->modified_s;
    head->modified_s = parse_date(p, end);
    if (was_s && was_s != head->modified_s)
        head->differing = "Last-Modified";
}

static void parse_retry_after(struct leat_http_head *head, const char *p, const char *end)
{
    head->retry_after_s = 0;
    head->retry_at_s = 0;
    if (!digits(&p, end, &head->retry_after_s))
        head->retry_at_s = parse_date(p, end);
}

/* "x-amz-checksum-crc32c: BASE64". */
static void parse_checksum(struct leat_http_head *head, const char *kind, size_t kind_n, const char *p, const char *end)
{
    if (head->checksum[0])
        return;
    copy_text(head->checksum_kind, sizeof head->checksum_kind, kind, kind + kind_n);
    copy_text(head->checksum, sizeof head->checksum, p, end);
    for (char *c = head->checksum_kind; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    if (!head->checksum_kind[0])
        head->checksum[0] = '\0';
}

/* "crc32c=BASE64,md5=BASE64", or a line for each: the CRC is there for every object. */
static void parse_google_hash(struct leat_http_head *head, const char *p, const char *end)
{
    static const char kind[] = "crc32c";
    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma ? comma : end;
        const char *value = p;
        if (literal(&value, stop, kind) && literal(&value, stop, "="))
            parse_checksum(head, kind, sizeof kind - 1, value, stop);
        p = comma ? comma + 1 : end;
        while (p < end && *p == ' ')
            p++;
    }
}

uint64_t leat_http_retry_after(const struct leat_http_head *head)
{
    int64_t from_s = head->date_s ? head->date_s : leat_wall_s();
    uint64_t s = head->retry_after_s;
    if (head->retry_at_s > from_s)
        s = (uint64_t)(head->retry_at_s - from_s);
    return s > 3600 ? 3600 * LEAT_S : s * LEAT_S; /* nobody waits that long; it must only not overflow */
}

void leat_http_parse_header(struct leat_http_head *head, const char *line, size_t n)
{
    const char *end = line + n;
    const char *colon = memchr(line, ':', n);
    if (!colon)
        return;
    const char *p = colon + 1;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r' || end[-1] == '\n'))
        end--;
    const char *name = line;
    size_t name_n = (size_t)(colon - line);
#define IS(text) (name_n == sizeof(text) - 1 && strncasecmp(name, text, name_n) == 0)
    if (IS("content-length"))
        parse_length(head, p, end);
    else if (IS("content-range"))
        parse_content_range(head, p, end);
    else if (IS("etag"))
        copy_version(head, "ETag", head->etag, sizeof head->etag, p, end);
    else if (IS("last-modified"))
        parse_modified(head, p, end);
    else if (IS("date"))
        head->date_s = parse_date(p, end);
    else if (IS("retry-after"))
        parse_retry_after(head, p, end);
    else if (IS("content-encoding"))
        parse_encoding(head, p, end);
    else if (IS("x-amz-checksum-type"))
        head->checksum_whole = end - p == 11 && strncasecmp(p, "FULL_OBJECT", 11) == 0;
    else if (IS("x-amz-checksum-algorithm"))
        return; /* its name only */
    else if (name_n > 15 && strncasecmp(name, "x-amz-checksum-", 15) == 0)
        parse_checksum(head, name + 15, name_n - 15, p, end);
    else if (IS("x-goog-hash"))
        parse_google_hash(head, p, end);
    else if (IS("x-goog-generation"))
        copy_version(head, "x-goog-generation", head->generation, sizeof head->generation, p, end);
    else if (IS("x-amz-version-id"))
        copy_version(head, "x-amz-version-id", head->version, sizeof head->version, p, end);
    else if (IS("x-amz-storage-class"))
        copy_text(head->storage_class, sizeof head->storage_class, p, end);
    else if (IS("x-amz-delete-marker"))
        head->deleted = end - p == 4 && strncasecmp(p, "true", 4) == 0;
    else if (IS("x-ms-copy-status"))
        copy_text(head->copy_status, sizeof head->copy_status, p, end);
    else if (IS("x-ms-copy-id"))
        copy_text(head->copy_id, sizeof head->copy_id, p, end);
    else if (IS("x-ms-blob-content-md5"))
        parse_checksum(head, "md5", 3, p, end);
    else if (IS("content-md5") &&
             (head->code == 200 || head->code == 201)) /* of a range's answer it would be that of the range */
        parse_checksum(head, "md5", 3, p, end);
    else if (IS("x-amz-server-side-encryption"))
        head->etag_opaque |= (size_t)(end - p) >= 7 && strncasecmp(p, "aws:kms", 7) == 0;
    else if (IS("x-amz-server-side-encryption-customer-algorithm"))
        head->etag_opaque = true;
    else if (IS("x-amz-bucket-region"))
        copy_text(head->region, sizeof head->region, p, end);
    else if (IS("location"))
        copy_text(head->location, sizeof head->location, p, end);
    else if (IS("content-type"))
        copy_text(head->content_type, sizeof head->content_type, p, end);
#undef IS
}
