#include "store/checksum.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/hash.h"

static const struct {
    const char *name;
    size_t size;
} kinds[] = {
    [LEAT_CHECKSUM_NONE] = {"", 0},
    [LEAT_CHECKSUM_MD5] = {"md5", LEAT_MD5_SIZE},
    [LEAT_CHECKSUM_CRC32] = {"crc32", 4},
    [LEAT_CHECKSUM_CRC32C] = {"crc32c", 4},
    [LEAT_CHECKSUM_CRC64NVME] = {"crc64nvme", 8},
    [LEAT_CHECKSUM_SHA1] = {"sha1", 20},
    [LEAT_CHECKSUM_SHA256] = {"sha256", LEAT_SHA256_SIZE},
    [LEAT_CHECKSUM_GIT] = {"git", 20},
};

#define BASE64_MAX 48
#define KINDS      (sizeof kinds / sizeof *kinds)

const char *leat_checksum_name(enum leat_checksum_kind kind)
{
    return kinds[kind].name;
}

enum leat_checksum_kind leat_checksum_called(const char *name)
{
    size_t i = 0;
    while (i < KINDS && strcmp(kinds[i].name, name) != 0)
        i++;
    return i < KINDS ? (enum leat_checksum_kind)i : LEAT_CHECKSUM_NONE;
}

/* Exactly n bytes. */
static bool decode_base64(const char *text, uint8_t *out, size_t n)
{
    uint8_t decoded[BASE64_MAX + 3];
    size_t len = strlen(text);
    size_t padding = n % 3 ? 3 - n % 3 : 0;
    if (len != (n + 2) / 3 * 4 || len > BASE64_MAX || strcspn(text, "=") != len - padding)
        return false;
    if (EVP_DecodeBlock(decoded, (const unsigned char *)text, (int)len) < 0)
        return false;
    memcpy(out, decoded, n);
    return true;
}

bool leat_checksum_etag_md5(const char *etag, uint8_t out[LEAT_CHECKSUM_BYTES])
{
    char hex[2 * LEAT_MD5_SIZE + 1];
    size_t quoted = *etag == '"';
    if (strlen(etag) != sizeof hex - 1 + 2 * quoted)
        return false;
    memcpy(hex, etag + quoted, sizeof hex - 1);
    hex[sizeof hex - 1] = '\0';
    return leat_unhex(hex, out, LEAT_MD5_SIZE);
}

/* An x-amz-checksum of n characters. */
static bool take_value(const struct leat_http_head *head, size_t n, struct leat_checksum *c)
{
    char text[sizeof head->checksum];
    memcpy(text, head->checksum, n);
    text[n] = '\0';
    for (size_t k = LEAT_CHECKSUM_MD5; k < KINDS && n; k++) {
        if (strcmp(head->checksum_kind, kinds[k].name) == 0 && decode_base64(text, c->value, kinds[k].size))
            c->kind = (enum leat_checksum_kind)k;
    }
    return c->kind != LEAT_CHECKSUM_NONE;
}

bool leat_checksum_of(const struct leat_http_head *head, bool etags, struct leat_checksum *out)
{
    struct leat_checksum c = {0};
    if (!take_value(head, strlen(head->checksum), &c) && etags && !head->etag_opaque &&
        leat_checksum_etag_md5(head->etag, c.value))
        c.kind = LEAT_CHECKSUM_MD5;
    *out = c;
    return c.kind != LEAT_CHECKSUM_NONE;
}

bool leat_checksum_of_parts(const struct leat_http_head *head, struct leat_checksum *out)
{
    struct leat_checksum c = {0};
    const char *dash = strrchr(head->checksum, '-'); /* which base64 has not */
    int used = 0;
    if (!dash || sscanf(dash + 1, "%5u%n", &c.parts, &used) != 1 || dash[1 + used] || !c.parts || dash[1] < '0' ||
        dash[1] > '9' || !take_value(head, (size_t)(dash - head->checksum), &c))
        return false;
    *out = c;
    return true;
}

static void put_big(uint64_t v, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(v >> 8 * (n - 1 - i));
}

bool leat_checksum_joins(enum leat_checksum_kind kind)
{
    return kind == LEAT_CHECKSUM_CRC32 || kind == LEAT_CHECKSUM_CRC32C || kind == LEAT_CHECKSUM_CRC64NVME;
}

static uint64_t go_on(enum leat_checksum_kind kind, uint64_t crc, const void *data, size_t n)
{
    if (kind == LEAT_CHECKSUM_CRC32)
        return leat_crc32((uint32_t)crc, data, n);
    return kind == LEAT_CHECKSUM_CRC32C ? leat_crc32c((uint32_t)crc, data, n) : leat_crc64nvme(crc, data, n);
}

uint64_t leat_checksum_piece(enum leat_checksum_kind kind, const void *data, size_t n)
{
    return go_on(kind, 0, data, n);
}

uint64_t leat_checksum_join(enum leat_checksum_kind kind, uint64_t a, uint64_t b, uint64_t b_bytes)
{
    uint64_t polynomial = kind == LEAT_CHECKSUM_CRC32    ? LEAT_CRC32_POLYNOMIAL
                          : kind == LEAT_CHECKSUM_CRC32C ? LEAT_CRC32C_POLYNOMIAL
                                                         : LEAT_CRC64NVME_POLYNOMIAL;
    return leat_crc_combine(polynomial, a, b, b_bytes);
}

uint64_t leat_checksum_nest(enum leat_checksum_kind kind, uint64_t outer, uint64_t piece)
{
    uint8_t value[LEAT_CHECKSUM_BYTES];
    put_big(piece, kinds[kind].size, value);
    return go_on(kind, outer, value, kinds[kind].size);
}

void leat_checksum_write(enum leat_checksum_kind kind, uint64_t crc, char out[LEAT_CHECKSUM_TEXT])
{
    uint8_t value[LEAT_CHECKSUM_BYTES];
    put_big(crc, kinds[kind].size, value);
    EVP_EncodeBlock((unsigned char *)out, value, (int)kinds[kind].size);
}

bool leat_checksum_fits_piece(const struct leat_checksum *c, uint64_t crc)
{
    uint8_t value[LEAT_CHECKSUM_BYTES];
    put_big(crc, kinds[c->kind].size, value);
    return memcmp(value, c->value, kinds[c->kind].size) == 0;
}

/* What git puts before the bytes, with its NUL. */
static size_t git_head(uint64_t size, char out[32])
{
    return (size_t)snprintf(out, 32, "blob %" PRIu64, size) + 1;
}

/* One that is being made. */
struct digest {
    EVP_MD_CTX *md; /* of the kinds that are no CRC */
    uint64_t crc;
};

struct leat_checksum_run {
    struct leat_checksum expected;
    struct digest bytes;
    struct digest parts;  /* of the parts', where it is one of those */
    uint64_t to_part_end; /* bytes */
};

static const EVP_MD *digest_of(enum leat_checksum_kind kind)
{
    return kind == LEAT_CHECKSUM_MD5 ? EVP_md5() : kind == LEAT_CHECKSUM_SHA256 ? EVP_sha256() : EVP_sha1();
}

static bool digest_open(struct digest *d, enum leat_checksum_kind kind)
{
    d->crc = 0;
    if (leat_checksum_joins(kind))
        return true;
    d->md = EVP_MD_CTX_new();
    return d->md && EVP_DigestInit_ex(d->md, digest_of(kind), NULL) == 1;
}

static void digest_add(struct digest *d, enum leat_checksum_kind kind, const void *data, size_t n)
{
    if (d->md)
        EVP_DigestUpdate(d->md, data, n);
    else
        d->crc = go_on(kind, d->crc, data, n);
}

/* And begins again. */
static bool digest_end(struct digest *d, enum leat_checksum_kind kind, uint8_t value[EVP_MAX_MD_SIZE])
{
    if (d->md)
        return EVP_DigestFinal_ex(d->md, value, NULL) == 1 && EVP_DigestInit_ex(d->md, digest_of(kind), NULL) == 1;
    put_big(d->crc, kinds[kind].size, value);
    d->crc = 0;
    return true;
}

static void run_free(struct leat_checksum_run *run)
{
    EVP_MD_CTX_free(run->bytes.md);
    EVP_MD_CTX_free(run->parts.md);
    free(run);
}

struct leat_checksum_run *leat_checksum_open(const struct leat_checksum *c, uint64_t size)
{
    char head[32];
    struct leat_checksum_run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->expected = *c;
    run->to_part_end = c->parts ? c->part_size : UINT64_MAX;
    if (!digest_open(&run->bytes, c->kind) || (c->parts && !digest_open(&run->parts, c->kind))) {
        run_free(run);
        return NULL;
    }
    if (c->kind == LEAT_CHECKSUM_GIT)
        digest_add(&run->bytes, c->kind, head, git_head(size, head));
    return run;
}

static void end_part(struct leat_checksum_run *run)
{
    uint8_t value[EVP_MAX_MD_SIZE];
    enum leat_checksum_kind kind = run->expected.kind;
    digest_end(&run->bytes, kind, value);
    digest_add(&run->parts, kind, value, kinds[kind].size);
    run->to_part_end = run->expected.part_size;
}

void leat_checksum_add(struct leat_checksum_run *run, const void *data, size_t n)
{
    const uint8_t *at = data;
    while (n) {
        size_t step = n < run->to_part_end ? n : (size_t)run->to_part_end;
        digest_add(&run->bytes, run->expected.kind, at, step);
        at += step;
        n -= step;
        run->to_part_end -= step;
        if (!run->to_part_end)
            end_part(run);
    }
}

bool leat_checksum_close(struct leat_checksum_run *run)
{
    uint8_t value[EVP_MAX_MD_SIZE];
    if (!run)
        return true;
    const struct leat_checksum *c = &run->expected;
    if (c->parts && run->to_part_end < c->part_size)
        end_part(run);
    bool fits = digest_end(c->parts ? &run->parts : &run->bytes, c->kind, value) &&
                memcmp(value, c->value, kinds[c->kind].size) == 0;
    run_free(run);
    return fits;
}

bool leat_checksum_fits(const struct leat_checksum *c, const void *data, size_t n)
{
    uint8_t value[EVP_MAX_MD_SIZE];
    if (c->parts || c->kind == LEAT_CHECKSUM_GIT) {
        struct leat_checksum_run *run = leat_checksum_open(c, n);
        if (!run)
            return false;
        leat_checksum_add(run, data, n);
        return leat_checksum_close(run);
    }
    if (leat_checksum_joins(c->kind))
        return leat_checksum_fits_piece(c, leat_checksum_piece(c->kind, data, n));
    if (c->kind == LEAT_CHECKSUM_MD5)
        leat_md5(data, n, value);
    else if (c->kind == LEAT_CHECKSUM_SHA256)
        leat_sha256(data, n, value);
    else if (EVP_Digest(data, n, value, NULL, EVP_sha1(), NULL) != 1)
        return false;
    return memcmp(value, c->value, kinds[c->kind].size) == 0;
}
