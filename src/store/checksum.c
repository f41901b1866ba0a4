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

bool leat_checksum_of(const struct leat_http_head *head, bool etags, struct leat_checksum *out)
{
    struct leat_checksum c = {0};
    for (size_t k = LEAT_CHECKSUM_MD5; k < KINDS && head->checksum[0]; k++) {
        if (strcmp(head->checksum_kind, kinds[k].name) == 0 && decode_base64(head->checksum, c.value, kinds[k].size))
            c.kind = (enum leat_checksum_kind)k;
    }
    if (c.kind == LEAT_CHECKSUM_NONE && etags && !head->etag_opaque && leat_checksum_etag_md5(head->etag, c.value))
        c.kind = LEAT_CHECKSUM_MD5;
    *out = c;
    return c.kind != LEAT_CHECKSUM_NONE;
}

static void put_big(uint64_t v, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(v >> 8 * (n - 1 - i));
}

struct leat_checksum_run {
    struct leat_checksum expected;
    EVP_MD_CTX *digest; /* of the kinds that are no CRC */
    uint64_t crc;
};

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

struct leat_checksum_run *leat_checksum_open(const struct leat_checksum *c, uint64_t size)
{
    char head[32];
    struct leat_checksum_run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->expected = *c;
    if (leat_checksum_joins(c->kind))
        return run;
    const EVP_MD *kind = c->kind == LEAT_CHECKSUM_MD5      ? EVP_md5()
                         : c->kind == LEAT_CHECKSUM_SHA256 ? EVP_sha256()
                                                           : EVP_sha1();
    run->digest = EVP_MD_CTX_new();
    if (run->digest && EVP_DigestInit_ex(run->digest, kind, NULL) == 1 &&
        (c->kind != LEAT_CHECKSUM_GIT || EVP_DigestUpdate(run->digest, head, git_head(size, head)) == 1))
        return run;
    EVP_MD_CTX_free(run->digest);
    free(run);
    return NULL;
}

void leat_checksum_add(struct leat_checksum_run *run, const void *data, size_t n)
{
    if (run->digest)
        EVP_DigestUpdate(run->digest, data, n);
    else
        run->crc = go_on(run->expected.kind, run->crc, data, n);
}

bool leat_checksum_close(struct leat_checksum_run *run)
{
    uint8_t value[EVP_MAX_MD_SIZE];
    if (!run)
        return true;
    bool fits = run->digest ? EVP_DigestFinal_ex(run->digest, value, NULL) == 1 &&
                                  memcmp(value, run->expected.value, kinds[run->expected.kind].size) == 0
                            : leat_checksum_fits_piece(&run->expected, run->crc);
    EVP_MD_CTX_free(run->digest);
    free(run);
    return fits;
}

bool leat_checksum_fits(const struct leat_checksum *c, const void *data, size_t n)
{
    uint8_t value[EVP_MAX_MD_SIZE];
    if (leat_checksum_joins(c->kind))
        return leat_checksum_fits_piece(c, leat_checksum_piece(c->kind, data, n));
    if (c->kind == LEAT_CHECKSUM_GIT) {
        struct leat_checksum_run *run = leat_checksum_open(c, n);
        if (!run)
            return false;
        leat_checksum_add(run, data, n);
        return leat_checksum_close(run);
    }
    if (c->kind == LEAT_CHECKSUM_MD5)
        leat_md5(data, n, value);
    else if (c->kind == LEAT_CHECKSUM_SHA256)
        leat_sha256(data, n, value);
    else if (EVP_Digest(data, n, value, NULL, EVP_sha1(), NULL) != 1)
        return false;
    return memcmp(value, c->value, kinds[c->kind].size) == 0;
}
