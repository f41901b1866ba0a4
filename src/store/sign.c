#include "store/sign.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/url.h"
#include "store/sign_ecdsa.h"

#define TEXT_MAX ((size_t)1 << 20) /* of a canonical request: far beyond what any server takes */

/* The same signature under two names. */
struct brand {
    const char *algorithm;
    const char *start; /* of the key */
    const char *last;  /* of the scope */
    const char *date;
    const char *hash;
};

static const struct brand aws = {"AWS4-HMAC-SHA256", "AWS4", "aws4_request", "x-amz-date", "x-amz-content-sha256"};
static const struct brand several = {LEAT_SIGN_ECDSA, NULL, "aws4_request", "x-amz-date", "x-amz-content-sha256"};
static const struct brand google = {"GOOG4-HMAC-SHA256", "GOOG4", "goog4_request", "x-goog-date",
                                    "x-goog-content-sha256"};

static const struct brand *brand_of(const struct leat_sign_request *request)
{
    return request->google ? &google : request->asymmetric ? &several : &aws;
}

bool leat_sign_encode(struct leat_buf *out, const char *text, size_t n, bool keep_slash)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '.' || c == '_' || c == '~' || (c == '/' && keep_slash);
        if (plain) {
            leat_buf_char(out, (char)c);
        } else {
            char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
            leat_buf_add(out, escaped, sizeof escaped);
        }
    }
    return !out->failed;
}

/* Names and values as they are signed, in one buffer, and in which order. */
struct item {
    size_t name;
    size_t name_n;
    size_t value;
    size_t value_n;
    size_t at; /* where it stood: equal names keep their order */
};

struct items {
    struct leat_buf text;
    struct item *item;
    size_t n;
};

static bool items_init(struct items *s, size_t max)
{
    *s = (struct items){0};
    leat_buf_init(&s->text, TEXT_MAX);
    s->item = calloc(max ? max : 1, sizeof *s->item);
    return s->item != NULL;
}

static void items_free(struct items *s)
{
    leat_buf_free(&s->text);
    free(s->item);
}

static int compare_bytes(const char *a, size_t a_n, const char *b, size_t b_n)
{
    int c = memcmp(a, b, a_n < b_n ? a_n : b_n);
    return c ? c : (a_n > b_n) - (a_n < b_n);
}

static int compare_names(const struct item *x, const struct item *y, const char *text)
{
    return compare_bytes(text + x->name, x->name_n, text + y->name, y->name_n);
}

static int by_name_and_value(const void *a, const void *b, void *user)
{
    const struct item *x = a;
    const struct item *y = b;
    const char *text = user;
    int c = compare_names(x, y, text);
    return c ? c : compare_bytes(text + x->value, x->value_n, text + y->value, y->value_n);
}

static int by_name_and_place(const void *a, const void *b, void *user)
{
    const struct item *x = a;
    const struct item *y = b;
    int c = compare_names(x, y, user);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

/* Writes the sorted pairs. */
static void add_pairs(struct leat_buf *out, struct items *s)
{
    if (s->n > 1)
        qsort_r(s->item, s->n, sizeof *s->item, by_name_and_value, s->text.data);
    for (size_t i = 0; i < s->n; i++) {
        if (i)
            leat_buf_char(out, '&');
        leat_buf_add(out, s->text.data + s->item[i].name, s->item[i].name_n);
        leat_buf_char(out, '=');
        leat_buf_add(out, s->text.data + s->item[i].value, s->item[i].value_n);
    }
}

bool leat_sign_query(struct leat_buf *out, const struct leat_sign_pair *query, size_t n)
{
    struct items s;
    bool ok = items_init(&s, n);
    for (size_t i = 0; ok && i < n; i++) {
        struct item *it = &s.item[s.n++];
        it->name = s.text.len;
        ok = leat_sign_encode(&s.text, query[i].name, strlen(query[i].name), false);
        it->value = s.text.len;
        it->name_n = it->value - it->name;
        ok = ok && leat_sign_encode(&s.text, query[i].value, strlen(query[i].value), false);
        it->value_n = s.text.len - it->value;
    }
    if (ok)
        add_pairs(out, &s);
    items_free(&s);
    if (!ok)
        out->failed = true;
    return !out->failed;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* White space around the value goes, and each run of it inside becomes one space. */
static void add_header_value(struct leat_buf *out, const char *value)
{
    bool gap = false;
    bool any = false;
    for (const char *p = value; *p; p++) {
        if (is_space(*p)) {
            gap = any;
            continue;
        }
        if (gap)
            leat_buf_char(out, ' ');
        leat_buf_char(out, *p);
        gap = false;
        any = true;
    }
}

static bool valid_header(const struct leat_sign_pair *h)
{
    if (!*h->name || strpbrk(h->value, "\r\n"))
        return false;
    for (const char *p = h->name; *p; p++) {
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || *p == ':' || *p == ';')
            return false;
    }
    return true;
}

static void add_header(struct items *s, const char *name, const char *value)
{
    struct item *it = &s->item[s->n];
    it->at = s->n++;
    it->name = s->text.len;
    for (const char *p = name; *p; p++)
        leat_buf_char(&s->text, (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p));
    it->value = s->text.len;
    it->name_n = it->value - it->name;
    add_header_value(&s->text, value);
    it->value_n = s->text.len - it->value;
}

/* All headers that are signed, in order. */
static leat_status collect_headers(const struct leat_sign_request *request, const char *date, const char *session_token,
                                   struct items *s, struct leat_error *err)
{
    if (!items_init(s, request->headers_n + 5))
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to sign a request");
    add_header(s, "host", request->host);
    add_header(s, brand_of(request)->hash, request->payload_hash);
    add_header(s, brand_of(request)->date, date);
    if (request->asymmetric)
        add_header(s, "x-amz-region-set", request->region);
    if (session_token && *session_token)
        add_header(s, request->token_name ? request->token_name : "x-amz-security-token", session_token);
    for (size_t i = 0; i < request->headers_n; i++) {
        if (!valid_header(&request->headers[i]))
            return leat_fail(err, LEAT_INVALID, "the header '%.80s' cannot be sent: a line break or a bad name",
                             request->headers[i].name);
        add_header(s, request->headers[i].name, request->headers[i].value);
    }
    leat_status rc = leat_buf_check(&s->text, "what is signed of the headers", err);
    if (rc == LEAT_OK)
        qsort_r(s->item, s->n, sizeof *s->item, by_name_and_place, s->text.data);
    return rc;
}

static bool same_name(const struct items *s, size_t i, size_t j)
{
    return compare_names(&s->item[i], &s->item[j], s->text.data) == 0;
}

/* "name:value\n" lines; values of a repeated name are joined by commas. */
static void add_header_lines(struct leat_buf *out, const struct items *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct item *it = &s->item[i];
        if (i && same_name(s, i - 1, i)) {
            leat_buf_char(out, ',');
        } else {
            leat_buf_add(out, s->text.data + it->name, it->name_n);
            leat_buf_char(out, ':');
        }
        leat_buf_add(out, s->text.data + it->value, it->value_n);
        if (i + 1 == s->n || !same_name(s, i, i + 1))
            leat_buf_char(out, '\n');
    }
}

static void add_header_names(struct leat_buf *out, const struct items *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (i && same_name(s, i - 1, i))
            continue;
        if (i)
            leat_buf_char(out, ';');
        leat_buf_add(out, s->text.data + s->item[i].name, s->item[i].name_n);
    }
}

static leat_status add_canonical(const struct leat_sign_request *request, const struct items *headers,
                                 struct leat_buf *out, struct leat_error *err)
{
    leat_buf_str(out, request->method);
    leat_buf_char(out, '\n');
    leat_sign_encode(out, request->path, strlen(request->path), true);
    leat_buf_char(out, '\n');
    leat_sign_query(out, request->query, request->query_n);
    leat_buf_char(out, '\n');
    add_header_lines(out, headers);
    leat_buf_char(out, '\n');
    add_header_names(out, headers);
    leat_buf_char(out, '\n');
    leat_buf_str(out, request->payload_hash);
    return leat_buf_check(out, "what is signed of the request", err);
}

leat_status leat_sign_canonical(const struct leat_sign_request *request, const char *date, const char *session_token,
                                struct leat_buf *out, struct leat_error *err)
{
    struct items headers;
    leat_status rc = collect_headers(request, date, session_token, &headers, err);
    if (rc == LEAT_OK)
        rc = add_canonical(request, &headers, out, err);
    items_free(&headers);
    return rc;
}

/* Decodes and encodes again: one spelling for all. */
static bool add_received(struct leat_buf *out, const char *text, size_t n, bool in_query)
{
    struct leat_buf plain;
    leat_buf_init(&plain, n + 1);
    bool ok = leat_url_decode(&plain, text, n, in_query);
    if (ok && plain.len)
        leat_sign_encode(out, plain.data, plain.len, !in_query);
    leat_buf_free(&plain);
    return ok;
}

static bool add_received_query(struct leat_buf *out, const char *query, const char *skip)
{
    struct items s;
    size_t most = 1;
    for (const char *p = query; *p; p++)
        most += *p == '&';
    bool ok = items_init(&s, most);
    for (const char *p = query; ok && *p;) {
        size_t n = strcspn(p, "&");
        const char *equals = memchr(p, '=', n);
        size_t name_n = equals ? (size_t)(equals - p) : n;
        bool skipped = n == 0 || (skip && strlen(skip) == name_n && memcmp(p, skip, name_n) == 0);
        if (!skipped) {
            struct item *it = &s.item[s.n++];
            it->name = s.text.len;
            ok = add_received(&s.text, p, name_n, true);
            it->value = s.text.len;
            it->name_n = it->value - it->name;
            ok = ok && (!equals || add_received(&s.text, equals + 1, n - name_n - 1, true));
            it->value_n = s.text.len - it->value;
        }
        p += n;
        p += *p == '&';
    }
    if (ok && !s.text.failed)
        add_pairs(out, &s);
    ok = ok && !s.text.failed;
    items_free(&s);
    return ok;
}

leat_status leat_sign_canonical_received(const struct leat_sign_received *request, struct leat_buf *out,
                                         struct leat_error *err)
{
    leat_buf_str(out, request->method);
    leat_buf_char(out, '\n');
    bool ok = add_received(out, request->path, strlen(request->path), false);
    leat_buf_char(out, '\n');
    ok = ok && add_received_query(out, request->query, request->skip);
    if (!ok)
        return leat_fail(err, LEAT_INVALID, "the request's path or query cannot be decoded");
    leat_buf_char(out, '\n');
    for (size_t i = 0; i < request->headers_n; i++) {
        const struct leat_sign_pair *h = &request->headers[i];
        bool again = i && strcmp(h->name, request->headers[i - 1].name) == 0;
        bool more = i + 1 < request->headers_n && strcmp(h->name, request->headers[i + 1].name) == 0;
        leat_buf_str(out, again ? "," : h->name);
        if (!again)
            leat_buf_char(out, ':');
        add_header_value(out, h->value);
        if (!more)
            leat_buf_char(out, '\n');
    }
    leat_buf_char(out, '\n');
    leat_buf_str(out, request->signed_headers);
    leat_buf_char(out, '\n');
    leat_buf_str(out, request->payload_hash);
    return leat_buf_check(out, "what is signed of the request", err);
}

static leat_status make_key(const struct brand *brand, const char *secret_key, const char *date, const char *region,
                            const char *service, uint8_t out[LEAT_SHA256_SIZE], struct leat_error *err)
{
    struct leat_buf first;
    leat_buf_init(&first, 1024);
    leat_buf_printf(&first, "%s%s", brand->start, secret_key);
    leat_status rc = leat_buf_check(&first, "the secret key", err);
    if (rc == LEAT_OK) {
        leat_hmac_sha256(first.data, first.len, date, 8, out);
        leat_hmac_sha256(out, LEAT_SHA256_SIZE, region, strlen(region), out);
        leat_hmac_sha256(out, LEAT_SHA256_SIZE, service, strlen(service), out);
        leat_hmac_sha256(out, LEAT_SHA256_SIZE, brand->last, strlen(brand->last), out);
        OPENSSL_cleanse(first.data, first.len);
    }
    leat_buf_free(&first);
    return rc;
}

leat_status leat_sign_key(const char *secret_key, const char *date, const char *region, const char *service,
                          uint8_t out[LEAT_SHA256_SIZE], struct leat_error *err)
{
    return make_key(&aws, secret_key, date, region, service, out, err);
}

/* What a signature is over. region NULL: the scope names none. */
static leat_status add_text(const struct brand *brand, const char *date, const char *region, const char *service,
                            const char *canonical, size_t canonical_n, struct leat_buf *text, struct leat_error *err)
{
    uint8_t digest[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    leat_sha256(canonical, canonical_n, digest);
    leat_hex(digest, sizeof digest, hex);
    leat_buf_printf(text, "%s\n%s\n%.8s/%s%s%s/%s\n%s", brand->algorithm, date, date, region ? region : "",
                    region ? "/" : "", service, brand->last, hex);
    return leat_buf_check(text, "the text to sign", err);
}

static leat_status make_signature(const struct brand *brand, const uint8_t key[LEAT_SHA256_SIZE], const char *date,
                                  const char *region, const char *service, const char *canonical, size_t canonical_n,
                                  char out[LEAT_SIGN_SIGNATURE], struct leat_error *err)
{
    uint8_t digest[LEAT_SHA256_SIZE];
    struct leat_buf text;
    leat_buf_init(&text, TEXT_MAX);
    leat_status rc = add_text(brand, date, region, service, canonical, canonical_n, &text, err);
    if (rc == LEAT_OK) {
        leat_hmac_sha256(key, LEAT_SHA256_SIZE, text.data, text.len, digest);
        leat_hex(digest, sizeof digest, out);
    }
    leat_buf_free(&text);
    return rc;
}

leat_status leat_sign_canonical_signature(const uint8_t key[LEAT_SHA256_SIZE], const char *date, const char *region,
                                          const char *service, const char *canonical, size_t canonical_n,
                                          char out[LEAT_SIGN_SIGNATURE], struct leat_error *err)
{
    return make_signature(&aws, key, date, region, service, canonical, canonical_n, out, err);
}

leat_status leat_sign_received(const struct leat_sign_received *request, bool is_google, const char *secret_key,
                               const char *date, const char *region, const char *service, char out[LEAT_SIGN_SIGNATURE],
                               struct leat_error *err)
{
    const struct brand *brand = is_google ? &google : &aws;
    uint8_t key[LEAT_SHA256_SIZE];
    struct leat_buf canonical;
    leat_buf_init(&canonical, TEXT_MAX);
    leat_status rc = leat_sign_canonical_received(request, &canonical, err);
    if (rc == LEAT_OK)
        rc = make_key(brand, secret_key, date, region, service, key, err);
    if (rc == LEAT_OK)
        rc = make_signature(brand, key, date, region, service, canonical.data, canonical.len, out, err);
    OPENSSL_cleanse(key, sizeof key);
    leat_buf_free(&canonical);
    return rc;
}

/* SigV4A's: the same text but for the region, another key, another signature. */
static leat_status sign_several(const struct leat_sign_keys *keys, const struct leat_sign_request *request,
                                const char *date, const struct leat_buf *canonical, char out[LEAT_SIGN_ECDSA_HEX],
                                struct leat_error *err)
{
    uint8_t key[LEAT_SIGN_ECDSA_KEY];
    struct leat_buf text;
    leat_buf_init(&text, TEXT_MAX);
    leat_status rc = add_text(&several, date, NULL, request->service, canonical->data, canonical->len, &text, err);
    if (rc == LEAT_OK)
        rc = leat_sign_ecdsa_key(keys, key, err);
    if (rc == LEAT_OK)
        rc = leat_sign_ecdsa(key, text.data, text.len, out, err);
    OPENSSL_cleanse(key, sizeof key);
    leat_buf_free(&text);
    return rc;
}

static leat_status sign_one(const struct leat_sign_keys *keys, const struct leat_sign_request *request,
                            const char *date, const struct leat_buf *canonical, char out[LEAT_SIGN_SIGNATURE],
                            struct leat_error *err)
{
    uint8_t key[LEAT_SHA256_SIZE];
    const struct brand *brand = brand_of(request);
    leat_status rc = make_key(brand, keys->secret_key, date, request->region, request->service, key, err);
    if (rc == LEAT_OK)
        rc = make_signature(brand, key, date, request->region, request->service, canonical->data, canonical->len, out,
                            err);
    OPENSSL_cleanse(key, sizeof key);
    return rc;
}

static leat_status format_date(int64_t time_s, char date[LEAT_SIGN_DATE], struct leat_error *err)
{
    time_t t = (time_t)time_s;
    struct tm tm;
    if (time_s < 0 || !gmtime_r(&t, &tm) || strftime(date, LEAT_SIGN_DATE, "%Y%m%dT%H%M%SZ", &tm) != LEAT_SIGN_DATE - 1)
        return leat_fail(err, LEAT_INVALID, "the clock says %lld s since 1970, which cannot be signed",
                         (long long)time_s);
    return LEAT_OK;
}

leat_status leat_sign(const struct leat_sign_keys *keys, const struct leat_sign_request *request,
                      char date[LEAT_SIGN_DATE], struct leat_buf *authorization, struct leat_error *err)
{
    struct items headers = {0};
    struct leat_buf canonical;
    char when[LEAT_SIGN_DATE];
    char signature[LEAT_SIGN_ECDSA_HEX]; /* the longer one */
    leat_buf_init(&canonical, TEXT_MAX);
    leat_status rc = format_date(request->time_s, when, err);
    if (rc != LEAT_OK)
        return rc;
    rc = collect_headers(request, when, keys->session_token, &headers, err);
    if (rc != LEAT_OK)
        goto done;
    rc = add_canonical(request, &headers, &canonical, err);
    if (rc != LEAT_OK)
        goto done;
    rc = request->asymmetric ? sign_several(keys, request, when, &canonical, signature, err)
                             : sign_one(keys, request, when, &canonical, signature, err);
    if (rc != LEAT_OK)
        goto done;
    leat_buf_printf(authorization, "%s Credential=%s/%.8s/%s%s%s/%s, SignedHeaders=", brand_of(request)->algorithm,
                    keys->access_key, when, request->asymmetric ? "" : request->region, request->asymmetric ? "" : "/",
                    request->service, brand_of(request)->last);
    add_header_names(authorization, &headers);
    leat_buf_printf(authorization, ", Signature=%s", signature);
    rc = leat_buf_check(authorization, "the Authorization header", err);
    if (rc == LEAT_OK)
        memcpy(date, when, sizeof when);
done:
    leat_buf_free(&canonical);
    items_free(&headers);
    return rc;
}
