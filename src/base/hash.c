#include "base/hash.h"

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/md5.h>
#include <openssl/sha.h>
#include <pthread.h>
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

static struct crc_tables tables; /* constant once made */

static void make_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int i = 0; i < 8; i++)
            c = c >> 1 ^ (CRC32C_POLY & (0u - (c & 1)));
        tables.t[0][b] = c;
    }
    for (uint32_t b = 0; b < 256; b++) {
        for (int k = 1; k < 8; k++)
            tables.t[k][b] = tables.t[k - 1][b] >> 8 ^ tables.t[0][tables.t[k - 1][b] & 0xff];
    }
}

static const struct crc_tables *crc_tables(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_tables);
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

static struct crc_shift shift; /* constant once made */

static void make_shift(void)
{
    for (int s = 0; s < 2; s++) {
        for (int byte = 0; byte < 4; byte++) {
            uint32_t *t = shift.t[s][byte];
            for (int bit = 0; bit < 8; bit++)
                t[1 << bit] = crc_zeros(1u << (8 * byte + bit), (size_t)(s + 1) * CRC_STRIPE);
            for (uint32_t b = 1; b < 256; b++)
                t[b] = t[b & (b - 1)] ^ t[b & (0u - b)];
        }
    }
}

static const struct crc_shift *crc_shift(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_shift);
    return &shift;
}

static uint32_t crc_advance(const uint32_t t[4][256], uint32_t c)
{
    return t[0][c & 0xff] ^ t[1][c >> 8 & 0xff] ^ t[2][c >> 16 & 0xff] ^ t[3][c >> 24];
}

__attribute__((target("sse4.2,crc32"))) static uint32_t crc32c_sse42(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t c = (uint32_t)~crc;
    uint64_t v;
    if (n >= 3 * CRC_STRIPE) {
        const struct crc_shift *zeros = crc_shift();
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
            c = crc_advance(zeros->t[1], (uint32_t)c) ^ crc_advance(zeros->t[0], (uint32_t)c1) ^ c2;
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
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return leat_xxh3_avx2(data, n);
#endif
    return XXH3_64bits(data, n);
}

struct leat_xxh3 {
    XXH3_state_t *state;
};

struct leat_xxh3 *leat_xxh3_open(void)
{
    struct leat_xxh3 *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->state = XXH3_createState();
    if (!h->state) {
        free(h);
        return NULL;
    }
    leat_xxh3_reset(h);
    return h;
}

void leat_xxh3_reset(struct leat_xxh3 *h)
{
    XXH3_64bits_reset(h->state);
}

void leat_xxh3_add(struct leat_xxh3 *h, const void *data, size_t n)
{
    if (n)
        XXH3_64bits_update(h->state, data, n);
}

uint64_t leat_xxh3_digest(const struct leat_xxh3 *h)
{
    return XXH3_64bits_digest(h->state);
}

void leat_xxh3_close(struct leat_xxh3 *h)
{
    if (!h)
        return;
    XXH3_freeState(h->state);
    free(h);
}

/* The low-level functions on purpose: they allocate nothing and cannot fail, where EVP_Digest may leave its output
 * unwritten when memory runs out. A random key or a checksum must not depend on that. */

void leat_sha256(const void *data, size_t n, uint8_t out[LEAT_SHA256_SIZE])
{
    SHA256_CTX ctx;
    SHA256_Init(&ctx);
    if (n)
        SHA256_Update(&ctx, data, n);
    SHA256_Final(out, &ctx);
}

void leat_md5(const void *data, size_t n, uint8_t out[LEAT_MD5_SIZE])
{
    MD5_CTX ctx;
    MD5_Init(&ctx);
    MD5_Update(&ctx, data, n);
    MD5_Final(out, &ctx);
}

void leat_hmac_sha256(const void *key, size_t key_n, const void *data, size_t n, uint8_t out[LEAT_SHA256_SIZE])
{
    uint8_t block[SHA256_CBLOCK] = {0};
    SHA256_CTX ctx;
    if (key_n > sizeof block)
        leat_sha256(key, key_n, block);
    else if (key_n)
        memcpy(block, key, key_n);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= 0x36;
    SHA256_Init(&ctx);
    SHA256_Update(&ctx, block, sizeof block);
    if (n)
        SHA256_Update(&ctx, data, n);
    SHA256_Final(out, &ctx);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= 0x36 ^ 0x5c;
    SHA256_Init(&ctx);
    SHA256_Update(&ctx, block, sizeof block);
    SHA256_Update(&ctx, out, LEAT_SHA256_SIZE);
    SHA256_Final(out, &ctx);
    OPENSSL_cleanse(block, sizeof block);
    OPENSSL_cleanse(&ctx, sizeof ctx);
}

struct leat_sha256 {
    SHA256_CTX ctx;
};

struct leat_sha256 *leat_sha256_open(void)
{
    struct leat_sha256 *h = malloc(sizeof *h);
    if (h)
        SHA256_Init(&h->ctx);
    return h;
}

void leat_sha256_add(struct leat_sha256 *h, const void *data, size_t n)
{
    if (n)
        SHA256_Update(&h->ctx, data, n);
}

void leat_sha256_finish(struct leat_sha256 *h, uint8_t out[LEAT_SHA256_SIZE])
{
    if (h && out)
        SHA256_Final(out, &h->ctx);
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
    for (size_t i = 0; i < 2 * n; i++) {
        if (hex_digit(text[i]) < 0)
            return false;
    }
    if (text[2 * n])
        return false;
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
    return true;
}
