#include "serve/digest.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/crc.h"
#include "base/hash.h"

#define VALUE_MAX  32 /* bytes of the longest checksum */
#define BASE64_MAX 48

enum algorithm { NONE, CRC32, CRC32C, CRC64NVME, SHA1, SHA256, ALGORITHMS };

static const struct {
    const char *header;
    size_t size;
} algorithms[ALGORITHMS] = {
    [CRC32] = {"x-amz-checksum-crc32", 4},         [CRC32C] = {"x-amz-checksum-crc32c", 4},
    [CRC64NVME] = {"x-amz-checksum-crc64nvme", 8}, [SHA1] = {"x-amz-checksum-sha1", 20},
    [SHA256] = {"x-amz-checksum-sha256", 32},
};

struct leat_serve_digest {
    EVP_MD_CTX *md5;
    EVP_MD_CTX *sha; /* of SHA1 and SHA256 */
    struct leat_sha256 *payload;
    uint64_t crc;
    enum algorithm algorithm;
    bool has_md5;
    unsigned char expected_md5[LEAT_SERVE_MD5];
    uint8_t expected_payload[LEAT_SHA256_SIZE];
    unsigned char expected[VALUE_MAX];
    char base64[BASE64_MAX + 1];
};

struct leat_serve_digest *leat_serve_digest_open(void)
{
    struct leat_serve_digest *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->md5 = EVP_MD_CTX_new();
    if (!d->md5 || EVP_DigestInit_ex(d->md5, EVP_md5(), NULL) != 1) {
        leat_serve_digest_close(d);
        return NULL;
    }
    return d;
}

void leat_serve_digest_close(struct leat_serve_digest *d)
{
    if (!d)
        return;
    EVP_MD_CTX_free(d->md5);
    EVP_MD_CTX_free(d->sha);
    leat_sha256_finish(d->payload, NULL);
    free(d);
}

/* Exactly n bytes. */
static bool decode_base64(const char *text, unsigned char *out, size_t n)
{
    unsigned char decoded[BASE64_MAX];
    size_t len = strlen(text);
    if (len != (n + 2) / 3 * 4 || len > BASE64_MAX)
        return false;
    /* OpenSSL takes any '=' at the end for a zero: count them here. */
    size_t padding = n % 3 ? 3 - n % 3 : 0;
    if (strcspn(text, "=") != len - padding)
        return false;
    if (EVP_DecodeBlock(decoded, (const unsigned char *)text, (int)len) < 0)
        return false;
    memcpy(out, decoded, n);
    return true;
}

bool leat_serve_digest_expect_md5(struct leat_serve_digest *d, const char *base64)
{
    d->has_md5 = decode_base64(base64, d->expected_md5, LEAT_SERVE_MD5);
    return d->has_md5;
}

bool leat_serve_digest_expect_sha256(struct leat_serve_digest *d, const char *hex)
{
    if (!leat_unhex(hex, d->expected_payload, LEAT_SHA256_SIZE))
        return false;
    d->payload = leat_sha256_open();
    return d->payload != NULL;
}

/* False: not a known one, or a second one. */
static bool set_algorithm(struct leat_serve_digest *d, const char *header)
{
    for (int a = NONE + 1; a < ALGORITHMS; a++) {
        if (strcasecmp(algorithms[a].header, header) != 0)
            continue;
        if (d->algorithm)
            return false; /* one is allowed */
        d->algorithm = (enum algorithm)a;
        if (a != SHA1 && a != SHA256)
            return true;
        d->sha = EVP_MD_CTX_new();
        return d->sha && EVP_DigestInit_ex(d->sha, a == SHA1 ? EVP_sha1() : EVP_sha256(), NULL) == 1;
    }
    return false;
}

bool leat_serve_digest_expect_checksum(struct leat_serve_digest *d, const char *header, const char *base64)
{
    if (!set_algorithm(d, header) || !decode_base64(base64, d->expected, algorithms[d->algorithm].size))
        return false;
    memcpy(d->base64, base64, strlen(base64) + 1);
    return true;
}

static void add_crc(struct leat_serve_digest *d, const void *data, size_t n)
{
    if (d->algorithm == CRC32C)
        d->crc = leat_crc32c((uint32_t)d->crc, data, n);
    else if (d->algorithm == CRC32)
        d->crc = leat_crc32((uint32_t)d->crc, data, n);
    else if (d->algorithm == CRC64NVME)
        d->crc = leat_crc64nvme(d->crc, data, n);
}

void leat_serve_digest_add(struct leat_serve_digest *d, const void *data, size_t n)
{
    EVP_DigestUpdate(d->md5, data, n);
    if (d->payload)
        leat_sha256_add(d->payload, data, n);
    if (d->sha)
        EVP_DigestUpdate(d->sha, data, n);
    else
        add_crc(d, data, n);
}

static bool checksum_matches(struct leat_serve_digest *d)
{
    unsigned char actual[VALUE_MAX];
    size_t size = algorithms[d->algorithm].size;
    if (!d->algorithm)
        return true;
    if (d->sha)
        EVP_DigestFinal_ex(d->sha, actual, NULL);
    for (size_t i = 0; !d->sha && i < size; i++)
        actual[i] = (unsigned char)(d->crc >> 8 * (size - 1 - i)); /* big-endian */
    return memcmp(actual, d->expected, size) == 0;
}

bool leat_serve_digest_finish(struct leat_serve_digest *d, unsigned char md5[LEAT_SERVE_MD5], enum leat_serve_code *why)
{
    uint8_t payload[LEAT_SHA256_SIZE];
    bool hashed = d->payload != NULL;
    EVP_DigestFinal_ex(d->md5, md5, NULL);
    leat_sha256_finish(d->payload, payload);
    d->payload = NULL;
    *why = LEAT_SERVE_CONTENT_SHA256_MISMATCH;
    if (hashed && memcmp(payload, d->expected_payload, sizeof payload) != 0)
        return false;
    *why = LEAT_SERVE_BAD_DIGEST;
    return (!d->has_md5 || memcmp(md5, d->expected_md5, LEAT_SERVE_MD5) == 0) && checksum_matches(d);
}

const char *leat_serve_digest_header(const struct leat_serve_digest *d, const char **base64)
{
    if (!d->algorithm)
        return NULL;
    *base64 = d->base64;
    return algorithms[d->algorithm].header;
}
