#include "serve/auth.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "serve/dialect.h"
#include "serve/target.h"
#include "store/sign.h"

#define HEADERS_MAX    256
#define SKEW_MAX_S     900
#define LONGEST_SCOPED 128 /* of a part of the credential */

/* The same signature under two names. */
struct brand {
    const char *algorithm;
    const char *last; /* of the credential */
    const char *service;
    const char *date; /* headers */
    const char *hash;
};

static const struct brand aws = {"AWS4-HMAC-SHA256", "/aws4_request", "s3", "x-amz-date", "x-amz-content-sha256"};
static const struct brand google = {"GOOG4-HMAC-SHA256", "/goog4_request", "storage", "x-goog-date",
                                    "x-goog-content-sha256"};

/* What the client says of its signature. */
struct claim {
    const struct brand *brand;
    char access_key[LONGEST_SCOPED];
    char day[LONGEST_SCOPED];
    char region[LONGEST_SCOPED];
    char service[LONGEST_SCOPED];
    char signed_headers[4096];
    char signature[LEAT_SIGN_SIGNATURE];
    char date[LEAT_SIGN_DATE];
    const char *payload_hash;
};

struct headers {
    struct leat_sign_pair pair[HEADERS_MAX];
    size_t n;
    bool full;
};

static void collect(const char *name, const char *value, void *user)
{
    struct headers *h = user;
    if (h->n == HEADERS_MAX)
        h->full = true;
    else
        h->pair[h->n++] = (struct leat_sign_pair){name, value};
}

/* "AKID/20130524/us-east-1/s3/aws4_request"; an access key may have slashes in it. */
static bool parse_credential(const char *text, size_t n, struct claim *out)
{
    char *parts[] = {out->service, out->region, out->day, out->access_key};
    size_t tail = strlen(out->brand->last);
    if (n < tail || memcmp(text + n - tail, out->brand->last, tail) != 0)
        return false;
    n -= tail;
    for (size_t i = 0; i < 4; i++) {
        size_t start = n;
        while (start > 0 && (i == 3 || text[start - 1] != '/'))
            start--;
        size_t len = n - start;
        if (len == 0 || len >= LONGEST_SCOPED || (i < 3 && start == 0))
            return false;
        memcpy(parts[i], text + start, len);
        parts[i][len] = '\0';
        n = start ? start - 1 : 0;
    }
    return strlen(out->day) == 8;
}

static bool copy_text(const char *text, size_t n, char *out, size_t out_size)
{
    if (n == 0 || n >= out_size)
        return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

/* "AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…" */
static bool parse_header(const char *header, struct claim *out)
{
    unsigned seen = 0;
    size_t algorithm = strlen(out->brand->algorithm);
    if (strncmp(header, out->brand->algorithm, algorithm) != 0 || header[algorithm] != ' ')
        return false;
    for (const char *p = header + algorithm; *p;) {
        p += strspn(p, " ,");
        size_t n = strcspn(p, ",");
        const char *equals = memchr(p, '=', n);
        if (!equals)
            return false;
        size_t name_n = (size_t)(equals - p);
        const char *value = equals + 1;
        size_t value_n = n - name_n - 1;
        while (value_n && value[value_n - 1] == ' ')
            value_n--;
        bool ok = false;
        unsigned bit = 0;
        if (name_n == 10 && memcmp(p, "Credential", 10) == 0) {
            ok = parse_credential(value, value_n, out);
            bit = 1;
        } else if (name_n == 13 && memcmp(p, "SignedHeaders", 13) == 0) {
            ok = copy_text(value, value_n, out->signed_headers, sizeof out->signed_headers);
            bit = 2;
        } else if (name_n == 9 && memcmp(p, "Signature", 9) == 0) {
            ok = value_n == LEAT_SIGN_SIGNATURE - 1 && copy_text(value, value_n, out->signature, sizeof out->signature);
            bit = 4;
        }
        if (!ok || (seen & bit))
            return false;
        seen |= bit;
        p += n;
    }
    return seen == 7;
}

static bool parse_time(const char *date, int64_t *out_s)
{
    struct tm tm;
    memset(&tm, 0, sizeof tm);
    if (strlen(date) != LEAT_SIGN_DATE - 1)
        return false;
    const char *end = strptime(date, "%Y%m%dT%H%M%SZ", &tm);
    if (!end || *end)
        return false;
    *out_s = (int64_t)timegm(&tm);
    return true;
}

/* From x-amz-date, or from Date as RFC 1123 writes it. */
static bool set_date(const struct leat_serve_call *c, struct claim *out)
{
    const char *date = leat_request_header(c->x, out->brand->date);
    if (date)
        return copy_text(date, strlen(date), out->date, sizeof out->date);
    struct tm tm;
    memset(&tm, 0, sizeof tm);
    date = leat_request_header(c->x, "Date");
    const char *end = date ? strptime(date, "%a, %d %b %Y %H:%M:%S GMT", &tm) : NULL;
    return end && !*end && strftime(out->date, sizeof out->date, "%Y%m%dT%H%M%SZ", &tm) == LEAT_SIGN_DATE - 1;
}

static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ";");
        if (len == n && strncasecmp(p, name, n) == 0)
            return true;
        p += len;
        p += *p == ';';
    }
    return false;
}

/* The values of the signed headers, in the order of the list. Names get a place in `names`. */
static bool pick_headers(const struct headers *all, const char *list, struct headers *out, char *names)
{
    out->n = 0;
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ";");
        memcpy(names, p, n);
        names[n] = '\0';
        bool found = false;
        for (size_t i = 0; i < all->n; i++) {
            if (strcasecmp(all->pair[i].name, names) == 0) {
                collect(names, all->pair[i].value, out);
                found = true;
            }
        }
        if (!found)
            collect(names, "", out);
        names += n + 1;
        p += n;
        p += *p == ';';
    }
    return !out->full;
}

static bool sign_received(struct leat_serve_call *c, const struct claim *claim, const struct headers *picked,
                          char out[LEAT_SIGN_SIGNATURE])
{
    struct leat_sign_received r = {
        .method = leat_request_method(c->x),
        .path = leat_serve_target_path(leat_request_path(c->x)),
        .query = leat_request_query(c->x),
        .headers = picked->pair,
        .headers_n = picked->n,
        .signed_headers = claim->signed_headers,
        .payload_hash = claim->payload_hash,
    };
    return leat_sign_received(&r, claim->brand == &google, c->serve->options.secret_key, claim->date, claim->region,
                              claim->brand->service, out, NULL) == LEAT_OK;
}

/* Everything about the signature itself. */
static bool check_signature(struct leat_serve_call *c, const struct claim *claim)
{
    const char *prefix = c->serve->dialect->prefix;
    char signature[LEAT_SIGN_SIGNATURE];
    struct headers *all = calloc(2, sizeof *all);
    char *names = malloc(sizeof claim->signed_headers + 2);
    bool ok = false;
    if (!all || !names) {
        leat_serve_fail(c, LEAT_SERVE_INTERNAL_ERROR);
        goto done;
    }
    leat_request_headers(c->x, collect, &all[0]);
    for (size_t i = 0; i < all[0].n; i++) {
        if (strncasecmp(all[0].pair[i].name, prefix, strlen(prefix)) == 0 &&
            !is_listed(claim->signed_headers, all[0].pair[i].name)) {
            leat_serve_failf(c, LEAT_SERVE_ACCESS_DENIED, "The header %s is not signed.", all[0].pair[i].name);
            goto done;
        }
    }
    if (!is_listed(claim->signed_headers, "host")) {
        leat_serve_failf(c, LEAT_SERVE_ACCESS_DENIED, "The header host is not signed.");
        goto done;
    }
    if (!pick_headers(&all[0], claim->signed_headers, &all[1], names) || all[0].full ||
        !sign_received(c, claim, &all[1], signature) ||
        CRYPTO_memcmp(signature, claim->signature, sizeof signature) != 0) {
        leat_serve_fail(c, LEAT_SERVE_SIGNATURE_DOES_NOT_MATCH);
        goto done;
    }
    ok = true;
done:
    free(all);
    free(names);
    return ok;
}

static bool check_time(struct leat_serve_call *c, const struct claim *claim)
{
    int64_t now = leat_wall_s() + c->serve->options.clock_skew_s;
    int64_t then;
    if (!parse_time(claim->date, &then) || strncmp(claim->date, claim->day, 8) != 0) {
        leat_serve_failf(c, LEAT_SERVE_AUTHORIZATION_HEADER_MALFORMED,
                         "The date is not one, or not that of the credential.");
        return false;
    }
    if (then >= now - SKEW_MAX_S && then <= now + SKEW_MAX_S)
        return true;
    leat_serve_fail_skewed(c, claim->date, now);
    return false;
}

static bool check_region(struct leat_serve_call *c, const struct claim *claim)
{
    const char *region = c->serve->options.region;
    if (!region || strcmp(claim->region, region) == 0)
        return true;
    leat_request_add_header(c->x, "x-amz-bucket-region", region);
    if (c->serve->options.region_redirect)
        leat_serve_fail(c, LEAT_SERVE_PERMANENT_REDIRECT);
    else
        leat_serve_failf(c, LEAT_SERVE_AUTHORIZATION_HEADER_MALFORMED,
                         "The authorization header is malformed; the region '%s' is wrong; expecting '%s'",
                         claim->region, region);
    return false;
}

/* Reads the claim; false and answered when there is none, or none that can be read. */
static bool read_claim(struct leat_serve_call *c, struct claim *claim)
{
    const char *header = leat_request_header(c->x, "Authorization");
    const struct brand *brand = claim->brand;
    if (!header) {
        leat_serve_fail(c, LEAT_SERVE_ACCESS_DENIED);
        return false;
    }
    if (strncmp(header, brand->algorithm, strlen(brand->algorithm)) != 0) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_REQUEST, "Please use %s.", brand->algorithm);
        return false;
    }
    claim->payload_hash = leat_request_header(c->x, brand->hash);
    if (!parse_header(header, claim) || !set_date(c, claim)) {
        leat_serve_fail(c, LEAT_SERVE_AUTHORIZATION_HEADER_MALFORMED);
        return false;
    }
    if (!claim->payload_hash) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_REQUEST, "The header %s is missing.", brand->hash);
        return false;
    }
    return true;
}

/* Without keys the signature is not looked at, but the region it names can still be another one. */
static bool check_region_only(struct leat_serve_call *c, struct claim *claim)
{
    const char *header = leat_request_header(c->x, "Authorization");
    return !header || !parse_header(header, claim) || check_region(c, claim);
}

static bool check(struct leat_serve_call *c, struct claim *claim)
{
    if (!c->serve->options.access_key)
        return check_region_only(c, claim);
    if (!read_claim(c, claim))
        return false;
    if (strcmp(claim->service, claim->brand->service) != 0) {
        leat_serve_failf(c, LEAT_SERVE_AUTHORIZATION_HEADER_MALFORMED, "The service is not %s.", claim->brand->service);
        return false;
    }
    if (strcmp(claim->access_key, c->serve->options.access_key) != 0) {
        leat_serve_fail(c, LEAT_SERVE_INVALID_ACCESS_KEY_ID);
        return false;
    }
    return check_region(c, claim) && check_time(c, claim) && check_signature(c, claim);
}

bool leat_serve_authorize_v4(struct leat_serve_call *c)
{
    struct claim *claim = calloc(1, sizeof *claim);
    if (!claim) {
        leat_serve_fail(c, LEAT_SERVE_INTERNAL_ERROR);
        return false;
    }
    claim->brand = c->serve->dialect == &leat_serve_gcs ? &google : &aws;
    bool ok = check(c, claim);
    free(claim);
    return ok;
}
