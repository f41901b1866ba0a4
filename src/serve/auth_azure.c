/* Azure's two kinds of signatures, computed again from the request as it arrived. */
#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "serve/auth.h"
#include "serve/dialect.h"
#include "serve/target.h"

#define TEXT_MAX   ((size_t)256 << 10)
#define KEY_MAX    256
#define SKEW_MAX_S 900
#define OWN_MAX    64 /* headers that begin with x-ms- */

/* How many bytes it has; 0: it is none. */
static size_t decode_key(const char *secret, unsigned char key[KEY_MAX])
{
    size_t n = strlen(secret);
    size_t padding = n > 1 ? (secret[n - 1] == '=') + (secret[n - 2] == '=') : 0;
    if (n == 0 || n > KEY_MAX || n % 4)
        return 0;
    int key_n = EVP_DecodeBlock(key, (const unsigned char *)secret, (int)n) - (int)padding;
    return key_n > 0 ? (size_t)key_n : 0;
}

bool leat_serve_azure_key(const char *secret)
{
    unsigned char key[KEY_MAX];
    bool good = decode_key(secret, key) > 0;
    OPENSSL_cleanse(key, sizeof key);
    return good;
}

/* The account's key over the text, in base64. False: no memory for the text. */
static bool sign(const struct leat_serve_call *c, const struct leat_buf *text, char out[64])
{
    unsigned char key[KEY_MAX];
    uint8_t digest[LEAT_SHA256_SIZE];
    if (text->failed)
        return false;
    leat_hmac_sha256(key, decode_key(c->serve->options.secret_key, key), text->data, text->len, digest);
    EVP_EncodeBlock((unsigned char *)out, digest, sizeof digest);
    OPENSSL_cleanse(key, sizeof key);
    return true;
}

static bool same(const char *a, const char *b)
{
    size_t n = strlen(a);
    return n == strlen(b) && CRYPTO_memcmp(a, b, n) == 0;
}

struct own {
    const char *line[OWN_MAX][2];
    size_t n;
};

static void collect(const char *name, const char *value, void *user)
{
    struct own *own = user;
    if (strncasecmp(name, "x-ms-", 5) == 0 && own->n < OWN_MAX) {
        own->line[own->n][0] = name;
        own->line[own->n++][1] = value;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_argument(const void *a, const void *b)
{
    return strcasecmp((*(const struct leat_serve_arg *const *)a)->name,
                      (*(const struct leat_serve_arg *const *)b)->name);
}

static void add_lower(struct leat_buf *out, const char *text)
{
    for (; *text; text++)
        leat_buf_char(out, (char)tolower((unsigned char)*text));
}

/* What the account's key signs: https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key */
static void string_to_sign(const struct leat_serve_call *c, struct leat_buf *out)
{
    static const char *const named[] = {
        "Content-Encoding",  "Content-Language", "Content-Length", "Content-MD5",         "Content-Type", "Date",
        "If-Modified-Since", "If-Match",         "If-None-Match",  "If-Unmodified-Since", "Range"};
    const struct leat_serve_arg *sorted[LEAT_SERVE_ARGS_MAX] = {0};
    struct own own = {.n = 0};
    leat_buf_printf(out, "%s\n", leat_request_method(c->x));
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const char *value = leat_request_header(c->x, named[i]);
        bool nothing = !value || (i == 2 && strcmp(value, "0") == 0);
        leat_buf_printf(out, "%s\n", nothing ? "" : value);
    }
    leat_request_headers(c->x, collect, &own);
    qsort(own.line, own.n, sizeof *own.line, by_name);
    for (size_t i = 0; i < own.n; i++) {
        add_lower(out, own.line[i][0]);
        leat_buf_printf(out, ":%s\n", own.line[i][1]);
    }
    leat_buf_printf(out, "/%s%s", c->account, leat_serve_target_path(leat_request_path(c->x)));
    for (size_t i = 0; i < c->args; i++)
        sorted[i] = &c->arg[i];
    qsort(sorted, c->args, sizeof *sorted, by_argument);
    for (size_t i = 0; i < c->args; i++) {
        leat_buf_char(out, '\n');
        add_lower(out, sorted[i]->name);
        leat_buf_printf(out, ":%s", sorted[i]->value);
    }
}

static bool parse_time(const char *text, const char *format, int64_t *out)
{
    struct tm tm;
    memset(&tm, 0, sizeof tm);
    const char *end = text ? strptime(text, format, &tm) : NULL;
    if (!end || *end)
        return false;
    *out = (int64_t)timegm(&tm);
    return true;
}

static bool shared_key(struct leat_serve_call *c, const char *authorization)
{
    struct leat_buf text;
    char signature[64];
    char wanted[256] = "";
    int64_t then;
    int64_t now = leat_wall_s() + c->serve->options.clock_skew_s;
    leat_buf_init(&text, TEXT_MAX);
    string_to_sign(c, &text);
    if (sign(c, &text, signature))
        snprintf(wanted, sizeof wanted, "SharedKey %.100s:%s", c->serve->options.access_key, signature);
    leat_buf_free(&text);
    return *wanted && same(authorization, wanted) && strcmp(c->account, c->serve->options.access_key) == 0 &&
           parse_time(leat_request_header(c->x, "x-ms-date"), "%a, %d %b %Y %H:%M:%S GMT", &then) &&
           then >= now - SKEW_MAX_S && then <= now + SKEW_MAX_S;
}

/* https://learn.microsoft.com/rest/api/storageservices/create-service-sas: versions from 2020-12-06 on */
static bool access_signature(struct leat_serve_call *c)
{
    static const char *const before[] = {"sp", "st", "se"};
    static const char *const after[] = {"si",  "sip",  "spr",  "sv",   "sr",   "snapshot",
                                        "ses", "rscc", "rscd", "rsce", "rscl", "rsct"};
    struct leat_buf text;
    char signature[64];
    int64_t ends;
    const char *sr = leat_serve_arg(c, "sr");
    const char *sv = leat_serve_arg(c, "sv");
    leat_buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        leat_buf_printf(&text, "%s\n", leat_serve_arg(c, before[i]) ? leat_serve_arg(c, before[i]) : "");
    leat_buf_printf(&text, "/blob/%s/%s", c->account, c->bucket_name);
    if (sr && strcmp(sr, "b") == 0)
        leat_buf_printf(&text, "/%s", c->key.data);
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        leat_buf_printf(&text, "\n%s", leat_serve_arg(c, after[i]) ? leat_serve_arg(c, after[i]) : "");
    bool good = sv && strcmp(sv, "2020-12-06") >= 0 && sign(c, &text, signature) &&
                same(leat_serve_arg(c, "sig"), signature) && strcmp(c->account, c->serve->options.access_key) == 0;
    leat_buf_free(&text);
    return good && parse_time(leat_serve_arg(c, "se"), "%Y-%m-%dT%H:%M:%SZ", &ends) &&
           ends > leat_wall_s() + c->serve->options.clock_skew_s;
}

static bool is_allowed(const struct leat_serve_call *c)
{
    const char *rights = leat_serve_arg(c, "sp");
    const char *needed = strcmp(c->op->method, "DELETE") == 0 ? "d"
                         : c->op->writes                      ? "wc"
                         : c->op->level == LEAT_SERVE_BUCKET  ? "l"
                                                              : "r";
    return rights && strpbrk(rights, needed);
}

bool leat_serve_authorize_azure(struct leat_serve_call *c)
{
    const char *authorization = leat_request_header(c->x, "Authorization");
    if (!c->serve->options.access_key)
        return true;
    if (authorization && strncmp(authorization, "Bearer ", 7) == 0) {
        leat_serve_fail(c, LEAT_SERVE_EXPIRED_TOKEN);
    } else if (!authorization && !leat_serve_arg(c, "sig")) {
        leat_serve_fail(c, LEAT_SERVE_NO_SUCH_KEY); /* to those without keys there is nothing */
    } else if (authorization ? !shared_key(c, authorization) : !access_signature(c)) {
        leat_serve_fail(c, LEAT_SERVE_SIGNATURE_DOES_NOT_MATCH);
    } else if (!authorization && !is_allowed(c)) {
        leat_serve_fail(c, LEAT_SERVE_ACCESS_DENIED);
    } else {
        return true;
    }
    return false;
}
