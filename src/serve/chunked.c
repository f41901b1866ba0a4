#include "serve/chunked.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"

#define LINE_MAX_BYTES     4096
#define TRAILERS_MAX_BYTES 16384
#define CHUNK_MAX          ((uint64_t)5 << 30)
#define EMPTY_HASH         "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

enum state {
    SIZE,    /* in the line "HEX;chunk-signature=…" */
    DATA,    /* `left` bytes of the chunk to come */
    DATA_CR, /* the line break after it */
    TRAILER, /* lines "name:value", then an empty one */
    LAST,    /* the empty line after the last chunk */
    DONE,
    BAD
};

struct leat_serve_chunked {
    struct leat_serve_chunked_options options;
    struct leat_serve_chunk_key key;
    enum state state;
    struct leat_buf line;
    uint64_t left;
    uint64_t size;
    struct leat_sha256 *hash; /* of the chunk */
    char claimed[LEAT_SIGN_SIGNATURE];
    struct leat_buf trailers; /* "name:value\n", as they are signed */
    bool trailer_signed;
};

struct leat_serve_chunked *leat_serve_chunked_open(const struct leat_serve_chunked_options *options)
{
    struct leat_serve_chunked *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->options = *options;
    if (options->key) {
        c->key = *options->key;
        c->options.key = &c->key;
    }
    leat_buf_init(&c->line, LINE_MAX_BYTES);
    leat_buf_init(&c->trailers, TRAILERS_MAX_BYTES);
    return c;
}

void leat_serve_chunked_close(struct leat_serve_chunked *c)
{
    if (!c)
        return;
    OPENSSL_cleanse(&c->key, sizeof c->key);
    leat_sha256_finish(c->hash, NULL);
    leat_buf_free(&c->line);
    leat_buf_free(&c->trailers);
    free(c);
}

bool leat_serve_chunked_done(const struct leat_serve_chunked *c)
{
    return c->state == DONE;
}

uint64_t leat_serve_chunked_size(const struct leat_serve_chunked *c)
{
    return c->size;
}

/* Each signature covers the one before it, so chunks cannot be left out or change places. */
static bool check_signature(struct leat_serve_chunked *c, const char *kind, const char *before, const char *hash)
{
    struct leat_buf text;
    uint8_t digest[LEAT_SHA256_SIZE];
    char actual[LEAT_SIGN_SIGNATURE];
    if (!c->options.key)
        return true;
    leat_buf_init(&text, LINE_MAX_BYTES);
    leat_buf_printf(&text, "%s\n%s\n%s\n%s\n%s%s", kind, c->key.date, c->key.scope, c->key.signature, before, hash);
    leat_hmac_sha256(c->key.key, sizeof c->key.key, text.data, text.len, digest);
    leat_hex(digest, sizeof digest, actual);
    bool same = !text.failed && CRYPTO_memcmp(actual, c->claimed, sizeof actual) == 0;
    leat_buf_free(&text);
    memcpy(c->key.signature, actual, sizeof actual);
    return same;
}

static bool check_chunk(struct leat_serve_chunked *c)
{
    uint8_t digest[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    if (!c->options.has_signatures || !c->options.key)
        return true;
    if (c->hash)
        leat_sha256_finish(c->hash, digest);
    else
        leat_sha256("", 0, digest);
    c->hash = NULL;
    leat_hex(digest, sizeof digest, hex);
    return check_signature(c, "AWS4-HMAC-SHA256-PAYLOAD", EMPTY_HASH "\n", hex);
}

static bool check_trailers(struct leat_serve_chunked *c)
{
    uint8_t digest[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    if (!c->options.has_signatures)
        return true;
    leat_sha256(c->trailers.data, c->trailers.len, digest);
    leat_hex(digest, sizeof digest, hex);
    return c->trailer_signed && check_signature(c, "AWS4-HMAC-SHA256-TRAILER", "", hex);
}

static bool set_claimed(struct leat_serve_chunked *c, const char *hex, size_t n)
{
    if (n != LEAT_SIGN_SIGNATURE - 1)
        return false;
    memcpy(c->claimed, hex, n);
    c->claimed[n] = '\0';
    return true;
}

/* "1a2b;chunk-signature=…" */
static bool take_size(struct leat_serve_chunked *c)
{
    static const char name[] = ";chunk-signature=";
    const char *p = c->line.data;
    uint64_t v = 0;
    size_t digits = strspn(p, "0123456789abcdefABCDEF");
    if (digits == 0 || digits > 16)
        return false;
    for (size_t i = 0; i < digits; i++)
        v = v << 4 | (uint64_t)(p[i] <= '9' ? p[i] - '0' : (p[i] | 0x20) - 'a' + 10);
    p += digits;
    if (v > CHUNK_MAX || (*p && *p != ';'))
        return false;
    if (c->options.has_signatures) {
        size_t n = strlen(name);
        if (strncmp(p, name, n) != 0 || !set_claimed(c, p + n, strcspn(p + n, ";")))
            return false;
    }
    c->left = v;
    if (v && c->options.has_signatures && c->options.key) {
        c->hash = leat_sha256_open();
        return c->hash != NULL;
    }
    return true;
}

static bool take_trailer(struct leat_serve_chunked *c)
{
    static const char signature[] = "x-amz-trailer-signature";
    char *colon = strchr(c->line.data, ':');
    if (!colon || colon == c->line.data)
        return false;
    *colon = '\0';
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    if (strcasecmp(c->line.data, signature) == 0) {
        c->trailer_signed = true;
        return set_claimed(c, value, strlen(value));
    }
    leat_buf_printf(&c->trailers, "%s:%s\n", c->line.data, value);
    c->options.trailer(c->line.data, value, c->options.user);
    return !c->trailers.failed;
}

/* A whole line is in. */
static bool take_line(struct leat_serve_chunked *c, enum leat_serve_code *why)
{
    *why = LEAT_SERVE_INVALID_REQUEST;
    switch (c->state) {
    case SIZE:
        if (!take_size(c))
            return false;
        c->state = DATA;
        if (c->left)
            return true;
        *why = LEAT_SERVE_SIGNATURE_DOES_NOT_MATCH;
        c->state = c->options.has_trailers ? TRAILER : LAST;
        return check_chunk(c);
    case DATA_CR:
        c->state = SIZE;
        return c->line.len == 0;
    case TRAILER:
        if (c->line.len)
            return take_trailer(c);
        *why = LEAT_SERVE_SIGNATURE_DOES_NOT_MATCH;
        c->state = DONE;
        return check_trailers(c);
    case LAST:
        c->state = DONE;
        return c->line.len == 0;
    default:
        return false;
    }
}

static bool add_to_line(struct leat_serve_chunked *c, char byte, enum leat_serve_code *why)
{
    *why = LEAT_SERVE_INVALID_REQUEST;
    if (byte != '\n')
        return byte && leat_buf_char(&c->line, byte);
    if (c->line.len == 0 || c->line.data[c->line.len - 1] != '\r')
        return false;
    c->line.data[--c->line.len] = '\0';
    bool ok = take_line(c, why);
    leat_buf_clear(&c->line);
    return ok;
}

static bool add_data(struct leat_serve_chunked *c, const char *data, size_t n, enum leat_serve_code *why)
{
    if (c->hash)
        leat_sha256_add(c->hash, data, n);
    c->options.data(data, n, c->options.user);
    c->size += n;
    c->left -= n;
    if (c->left)
        return true;
    c->state = DATA_CR;
    *why = LEAT_SERVE_SIGNATURE_DOES_NOT_MATCH;
    return check_chunk(c);
}

bool leat_serve_chunked_add(struct leat_serve_chunked *c, const char *data, size_t n, enum leat_serve_code *why)
{
    *why = LEAT_SERVE_INVALID_REQUEST;
    while (n && c->state != BAD) {
        size_t take = 1;
        bool ok;
        if (c->state == DONE) {
            ok = false; /* something after the end */
        } else if (c->state == DATA) {
            take = n < c->left ? n : (size_t)c->left;
            ok = add_data(c, data, take, why);
        } else {
            ok = add_to_line(c, *data, why);
        }
        if (!ok)
            c->state = BAD;
        data += take;
        n -= take;
    }
    return c->state != BAD;
}
