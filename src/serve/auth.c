#include "serve/auth.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "serve/target.h"
#include "serve/xml.h"

#define HEADERS_MAX    256
#define TEXT_MAX       ((size_t)512 << 10)
#define SKEW_MAX_S     900
#define EXPIRES_MAX_S  604800
#define ALGORITHM      "AWS4-HMAC-SHA256"
#define LONGEST_SCOPED 128 /* of a part of the credential */

/* What the client says of its signature, wherever it says it. */
struct claim {
    bool in_query;
    char access_key[LONGEST_SCOPED];
    char day[LONGEST_SCOPED];
    char region[LONGEST_SCOPED];
    char service[LONGEST_SCOPED];
    char signed_headers[4096];
    char signature[LEAT_SIGN_SIGNATURE];
    char date[LEAT_SIGN_DATE];
    uint64_t expires_s; /* in_query */
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
    static const char last[] = "/aws4_request";
    size_t tail = strlen(last);
    if (n < tail || memcmp(text + n - tail, last, tail) != 0)
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
    if (strncmp(header, ALGORITHM " ", strlen(ALGORITHM) + 1) != 0)
        return false;
    for (const char *p = header + strlen(ALGORITHM); *p;) {
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

static bool parse_query(const struct leat_serve_call *c, struct claim *out)
{
    const char *algorithm = leat_serve_arg(c, "X-Amz-Algorithm");
    const char *credential = leat_serve_arg(c, "X-Amz-Credential");
    const char *date = leat_serve_arg(c, "X-Amz-Date");
    const char *expires = leat_serve_arg(c, "X-Amz-Expires");
    const char *headers = leat_serve_arg(c, "X-Amz-SignedHeaders");
    const char *signature = leat_serve_arg(c, "X-Amz-Signature");
    const char *hash = leat_serve_arg(c, "X-Amz-Content-Sha256");
    out->in_query = true;
    out->payload_hash = hash ? hash : LEAT_SIGN_UNSIGNED;
    return algorithm && strcmp(algorithm, ALGORITHM) == 0 && credential && date && expires && headers && signature &&
           parse_credential(credential, strlen(credential), out) &&
           copy_text(date, strlen(date), out->date, sizeof out->date) &&
           copy_text(headers, strlen(headers), out->signed_headers, sizeof out->signed_headers) &&
           strlen(signature) == LEAT_SIGN_SIGNATURE - 1 &&
           copy_text(signature, strlen(signature), out->signature, sizeof out->signature) &&
           leat_parse_u64(expires, "expires", &out->expires_s, NULL) == LEAT_OK && out->expires_s >= 1 &&
           out->expires_s <= EXPIRES_MAX_S;
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
    const char *date = leat_request_header(c->x, "x-amz-date");
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
                          struct leat_serve_chunk_key *out)
{
    struct leat_buf canonical;
    struct leat_sign_received r = {
        .method = leat_request_method(c->x),
        .path = leat_serve_target_path(leat_request_path(c->x)),
        .query = leat_request_query(c->x),
        .skip = claim->in_query ? "X-Amz-Signature" : NULL,
        .headers = picked->pair,
        .headers_n = picked->n,
        .signed_headers = claim->signed_headers,
        .payload_hash = claim->payload_hash,
    };
    leat_buf_init(&canonical, TEXT_MAX);
    bool ok =
        leat_sign_canonical_received(&r, &canonical, NULL) == LEAT_OK &&
        leat_sign_key(c->serve->options.secret_key, claim->date, claim->region, "s3", out->key, NULL) == LEAT_OK &&
        leat_sign_canonical_signature(out->key, claim->date, claim->region, "s3", canonical.data, canonical.len,
                                      out->signature, NULL) == LEAT_OK;
    leat_buf_free(&canonical);
    return ok;
}

/* Everything about the signature itself. */
static bool check_signature(struct leat_serve_call *c, const struct claim *claim, struct leat_serve_chunk_key *out)
{
    struct headers *all = calloc(2, sizeof *all);
    char *names = malloc(sizeof claim->signed_headers + 2);
    bool ok = false;
    if (!all || !names) {
        leat_serve_fail(c, LEAT_SERVE_INTERNAL_ERROR);
        goto done;
    }
    leat_request_headers(c->x, collect, &all[0]);
    for (size_t i = 0; i < all[0].n; i++) {
        if (strncasecmp(all[0].pair[i].name, "x-amz-", 6) == 0 &&
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
        !sign_received(c, claim, &all[1], out) ||
        CRYPTO_memcmp(out->signature, claim->signature, sizeof out->signature) != 0) {
        leat_serve_fail(c, LEAT_SERVE_SIGNATURE_DOES_NOT_MATCH);
        goto done;
    }
    memcpy(out->date, claim->date, sizeof out->date);
    snprintf(out->scope, sizeof out->scope, "%.8s/%.127s/s3/aws4_request", claim->day, claim->region);
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
        leat_serve_failf(c,
                         claim->in_query ? LEAT_SERVE_AUTHORIZATION_QUERY_PARAMETERS_ERROR
                                         : LEAT_SERVE_AUTHORIZATION_HEADER_MALFORMED,
                         "The date is not one, or not that of the credential.");
        return false;
    }
    if (claim->in_query) {
        if (then > now + SKEW_MAX_S)
            leat_serve_failf(c, LEAT_SERVE_ACCESS_DENIED, "The request is not valid yet.");
        else if (then + (int64_t)claim->expires_s < now)
            leat_serve_failf(c, LEAT_SERVE_ACCESS_DENIED, "The request has expired.");
        else
            return true;
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
    bool in_query = leat_serve_arg(c, "X-Amz-Algorithm") || leat_serve_arg(c, "X-Amz-Signature");
    if (header && in_query) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_ARGUMENT, "Only one of header and query may carry a signature.");
        return false;
    }
    if (in_query) {
        if (parse_query(c, claim))
            return true;
        leat_serve_fail(c, LEAT_SERVE_AUTHORIZATION_QUERY_PARAMETERS_ERROR);
        return false;
    }
    if (!header) {
        leat_serve_fail(c, LEAT_SERVE_ACCESS_DENIED);
        return false;
    }
    if (strncmp(header, ALGORITHM, strlen(ALGORITHM)) != 0) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_REQUEST, "Please use " ALGORITHM ".");
        return false;
    }
    claim->payload_hash = leat_request_header(c->x, "x-amz-content-sha256");
    if (!parse_header(header, claim) || !set_date(c, claim)) {
        leat_serve_fail(c, LEAT_SERVE_AUTHORIZATION_HEADER_MALFORMED);
        return false;
    }
    if (!claim->payload_hash) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_REQUEST, "The header x-amz-content-sha256 is missing.");
        return false;
    }
    return true;
}

/* Without keys the signature is not looked at, but the region it names can still be another one. */
static bool check_region_only(struct leat_serve_call *c)
{
    const char *header = leat_request_header(c->x, "Authorization");
    struct claim *claim = calloc(1, sizeof *claim);
    bool ok = true;
    if (claim && c->serve->options.region && ((header && parse_header(header, claim)) || parse_query(c, claim)))
        ok = check_region(c, claim);
    free(claim);
    return ok;
}

bool leat_serve_authorize(struct leat_serve_call *c, struct leat_serve_chunk_key *chunks, bool *checked)
{
    *checked = false;
    if (!c->serve->options.access_key)
        return check_region_only(c);
    struct claim *claim = calloc(1, sizeof *claim);
    bool ok = false;
    if (!claim) {
        leat_serve_fail(c, LEAT_SERVE_INTERNAL_ERROR);
    } else if (read_claim(c, claim)) {
        if (strcmp(claim->service, "s3") != 0)
            leat_serve_failf(c, LEAT_SERVE_AUTHORIZATION_HEADER_MALFORMED, "The service is not s3.");
        else if (strcmp(claim->access_key, c->serve->options.access_key) != 0)
            leat_serve_fail(c, LEAT_SERVE_INVALID_ACCESS_KEY_ID);
        else
            ok = check_region(c, claim) && check_time(c, claim) && check_signature(c, claim, chunks);
    }
    free(claim);
    *checked = ok;
    return ok;
}
