#include "base/hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

#define CRC32C_POLY 0x82f63b78u /* Castagnoli, reflected */

/* table[k][b]: the CRC of byte b followed by k zero bytes (slicing by eight). */
struct crc_tables {
    uint32_t t[8][256];
};

static const struct crc_tables *crc_tables(void)
{
    static struct crc_tables tables;
    static int ready; /* 0 none, 1 being made, 2 ready */
    if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) == 2)
        return &tables;
    struct crc_tables made;
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int i = 0; i < 8; i++)
            c = c >> 1 ^ (CRC32C_POLY & (0u - (c & 1)));
        made.t[0][b] = c;
    }
    for (uint32_t b = 0; b < 256; b++) {
        for (int k = 1; k < 8; k++)
            made.t[k][b] = made.t[k - 1][b] >> 8 ^ made.t[0][made.t[k - 1][b] & 0xff];
    }
    int none = 0;
    if (__atomic_compare_exchange_n(&ready, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        tables = made;
        __atomic_store_n(&ready, 2, __ATOMIC_RELEASE); /* partner: the acquire load above */
    }
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) != 2)
        continue; /* another thread copies 8 KiB */
    return &tables;
}

uint32_t leat_crc32c_portable(uint32_t crc, const void *data, size_t n)
{
    const struct crc_tables *t = crc_tables();
    const uint8_t *p = data;
    uint32_t c = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t lo = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        c = t->t[7][lo & 0xff] ^ t->t[6][lo >> 8 & 0xff] ^ t->t[5][lo >> 16 & 0xff] ^ t->t[4][lo >> 24] ^
            t->t[3][p[4]] ^ t->t[2][p[5]] ^ t->t[1][p[6]] ^ t->t[0][p[7]];
    }
    for (; n; n--, p++)
        c = c >> 8 ^ t->t[0][(c ^ *p) & 0xff];
    return ~c;
}

#if defined(__x86_64__)

/* Three streams of this many bytes hide the three-cycle latency of the crc32 instruction. */
#define CRC_STRIPE ((size_t)4096)

/* Advances a CRC over CRC_STRIPE (shift[0]) or 2·CRC_STRIPE (shift[1]) zero bytes: multiplication by
 * x^(8·bytes) as four byte-indexed tables, since the map is linear. */
struct crc_shift {
    uint32_t t[2][4][256];
};

static uint32_t crc_zeros(uint32_t c, size_t n)
{
    const struct crc_tables *t = crc_tables();
    for (; n; n--)
        c = c >> 8 ^ t->t[0][c & 0xff];
    return c;
}

static const struct crc_shift *crc_shift(void)
{
    static struct crc_shift shift;
    static int ready;
    if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) == 2)
        return &shift;
    struct crc_shift made;
    for (int s = 0; s < 2; s++) {
        for (int byte = 0; byte < 4; byte++) {
            made.t[s][byte][0] = 0;
            for (int bit = 0; bit < 8; bit++)
                made.t[s][byte][1 << bit] = crc_zeros(1u << (8 * byte + bit), (size_t)(s + 1) * CRC_STRIPE);
            for (uint32_t b = 1; b < 256; b++)
                made.t[s][byte][b] = made.t[s][byte][b & (b - 1)] ^ made.t[s][byte][b & (0u - b)];
        }
    }
    int none = 0;
    if (__atomic_compare_exchange_n(&ready, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        shift = made;
        __atomic_store_n(&ready, 2, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) != 2)
        continue;
    return &shift;
}

static uint32_t crc_advance(const uint32_t t[4][256], uint32_t c)
{
    return t[0][c & 0xff] ^ t[1][c >> 8 & 0xff] ^ t[2][c >> 16 & 0xff] ^ t[3][c >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t c = (uint32_t)~crc;
    uint64_t v;
    if (n >= 3 * CRC_STRIPE) {
        const struct crc_shift *shift = crc_shift();
        for (; n >= 3 * CRC_STRIPE; n -= 3 * CRC_STRIPE, p += 3 * CRC_STRIPE) {
            uint64_t c1 = 0;
            uint64_t c2 = 0;
            for (size_t i = 0; i < CRC_STRIPE; i += 8) {
                memcpy(&v, p + i, 8);
                c = _mm_crc32_u64(c, v);
                memcpy(&v, p + CRC_STRIPE + i, 8);
                c1 = _mm_crc32_u64(c1, v);
                memcpy(&v, p + 2 * CRC_STRIPE + i, 8);
                c2 = _mm_crc32_u64(c2, v);
            }
            c = crc_advance(shift->t[1], (uint32_t)c) ^ crc_advance(shift->t[0], (uint32_t)c1) ^ c2;
        }
    }
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&v, p, 8);
        c = _mm_crc32_u64(c, v);
    }
    for (; n; n--, p++)
        c = _mm_crc32_u8((uint32_t)c, *p);
    return ~(uint32_t)c;
}

uint32_t leat_crc32c(uint32_t crc, const void *data, size_t n)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(crc, data, n) : leat_crc32c_portable(crc, data, n);
}

const char *leat_crc32c_kind(void)
{
    return __builtin_cpu_supports("sse4.2") ? "sse4.2" : "table";
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

uint32_t leat_crc32c(uint32_t crc, const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t c = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        c = __crc32cd(c, v);
    }
    for (; n; n--, p++)
        c = __crc32cb(c, *p);
    return ~c;
}

const char *leat_crc32c_kind(void)
{
    return "armv8";
}

#else

uint32_t leat_crc32c(uint32_t crc, const void *data, size_t n)
{
    return leat_crc32c_portable(crc, data, n);
}

const char *leat_crc32c_kind(void)
{
    return "table";
}

#endif

uint64_t leat_xxh3(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

void leat_sha256(const void *data, size_t n, uint8_t out[LEAT_SHA256_SIZE])
{
    EVP_Digest(data, n, out, NULL, EVP_sha256(), NULL);
}

void leat_hmac_sha256(const void *key, size_t key_n, const void *data, size_t n, uint8_t out[LEAT_SHA256_SIZE])
{
    HMAC(EVP_sha256(), key, (int)key_n, data, n, out, NULL);
}

struct leat_sha256 {
    EVP_MD_CTX *ctx;
};

struct leat_sha256 *leat_sha256_open(void)
{
    struct leat_sha256 *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        leat_sha256_finish(h, NULL);
        return NULL;
    }
    return h;
}

void leat_sha256_add(struct leat_sha256 *h, const void *data, size_t n)
{
    EVP_DigestUpdate(h->ctx, data, n);
}

void leat_sha256_finish(struct leat_sha256 *h, uint8_t out[LEAT_SHA256_SIZE])
{
    if (!h)
        return;
    if (out)
        EVP_DigestFinal_ex(h->ctx, out, NULL);
    EVP_MD_CTX_free(h->ctx);
    free(h);
}

void leat_hex(const void *data, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = data;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * n] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool leat_unhex(const char *text, void *out, size_t n)
{
    uint8_t *p = out;
    for (size_t i = 0; i < n; i++) {
        int hi = hex_digit(text[2 * i]);
        int lo = hi < 0 ? -1 : hex_digit(text[2 * i + 1]);
        if (lo < 0)
            return false;
        p[i] = (uint8_t)(hi << 4 | lo);
    }
    return text[2 * n] == '\0';
}
