#include "base/random.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

/* Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). */
#define PHILOX_M0 0xd2511f53u
#define PHILOX_M1 0xcd9e8d57u
#define PHILOX_W0 0x9e3779b9u
#define PHILOX_W1 0xbb67ae85u

uint64_t leat_key(const char *purpose, uint64_t a, uint64_t b, const void *data, size_t n)
{
    uint8_t inner[LEAT_SHA256_SIZE];
    uint8_t outer[3 * 32] = {0};
    uint8_t digest[LEAT_SHA256_SIZE];
    /* Three fixed-size parts, so that no two argument lists can run into each other. */
    leat_sha256(purpose, strlen(purpose), inner);
    memcpy(outer, inner, sizeof inner);
    leat_put_u64(outer + 32, a);
    leat_put_u64(outer + 40, b);
    leat_put_u64(outer + 48, n);
    leat_sha256(data ? data : "", data ? n : 0, inner);
    memcpy(outer + 64, inner, sizeof inner);
    leat_sha256(outer, sizeof outer, digest);
    return leat_get_u64(digest);
}

void leat_random_block(uint64_t key, uint64_t stream, uint64_t index, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)index;
    uint32_t c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)stream;
    uint32_t c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)key;
    uint32_t k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t leat_random_u64(uint64_t key, uint64_t stream, uint64_t index)
{
    uint32_t b[4];
    leat_random_block(key, stream, index, b);
    return (uint64_t)b[0] | (uint64_t)b[1] << 32;
}

struct leat_rng leat_rng(uint64_t key, uint64_t stream)
{
    return (struct leat_rng){.key = key, .stream = stream, .used = 4};
}

uint32_t leat_rng_u32(struct leat_rng *r)
{
    if (r->used == 4) {
        leat_random_block(r->key, r->stream, r->index++, r->block);
        r->used = 0;
    }
    return r->block[r->used++];
}

uint64_t leat_rng_u64(struct leat_rng *r)
{
    uint64_t lo = leat_rng_u32(r);
    return lo | (uint64_t)leat_rng_u32(r) << 32;
}

uint64_t leat_rng_below(struct leat_rng *r, uint64_t n)
{
    /* The high half of u·n, rejecting the 2^64 mod n low halves that would make some results likelier. That number
     * is below n, so the division for it is rarely needed. */
    for (;;) {
        unsigned __int128 product = (unsigned __int128)leat_rng_u64(r) * n;
        uint64_t low = (uint64_t)product;
        if (low >= n || low >= (0 - n) % n)
            return (uint64_t)(product >> 64);
    }
}

double leat_rng_unit(struct leat_rng *r)
{
    return (double)(leat_rng_u64(r) >> 11) * 0x1p-53;
}

void leat_shuffle_u32(uint64_t key, uint64_t stream, uint32_t *v, size_t n)
{
    struct leat_rng r = leat_rng(key, stream);
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)leat_rng_below(&r, i);
        uint32_t t = v[i - 1];
        v[i - 1] = v[j];
        v[j] = t;
    }
}

void leat_shuffle_u64(uint64_t key, uint64_t stream, uint64_t *v, size_t n)
{
    struct leat_rng r = leat_rng(key, stream);
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)leat_rng_below(&r, i);
        uint64_t t = v[i - 1];
        v[i - 1] = v[j];
        v[j] = t;
    }
}

/* Up to LEAT_PERMUTATION_SMALL elements: a shuffled table. More: a Feistel network over the smallest number of bits
 * that holds n, walked until it lands below n. (Over few bits such a network is measurably far from a random
 * permutation: with n = 6 and eight rounds some orders come up twice as often as others.) */

#define ROUNDS 8

static uint64_t feistel_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return x;
}

struct leat_permutation leat_permutation(uint64_t key, uint64_t n)
{
    struct leat_permutation p = {.n = n};
    if (n <= LEAT_PERMUTATION_SMALL) {
        uint32_t v[LEAT_PERMUTATION_SMALL];
        for (uint32_t i = 0; i < n; i++)
            v[i] = i;
        leat_shuffle_u32(key, n, v, (size_t)n);
        for (uint32_t i = 0; i < n; i++) {
            p.table[i] = (uint8_t)v[i];
            p.inverse[v[i]] = (uint8_t)i;
        }
        return p;
    }
    uint32_t bits = 2;
    while (bits < 64 && n > (uint64_t)1 << bits)
        bits++;
    p.bits[0] = bits / 2;
    p.bits[1] = bits - bits / 2;
    for (uint64_t i = 0; i < ROUNDS; i++)
        p.keys[i] = leat_random_u64(key, n, i);
    return p;
}

static uint64_t low_bits(uint64_t x, uint32_t bits)
{
    return x & (((uint64_t)1 << bits) - 1); /* bits ≤ 32 */
}

uint64_t leat_permute(const struct leat_permutation *p, uint64_t i)
{
    if (p->n <= LEAT_PERMUTATION_SMALL)
        return p->table[i];
    do {
        uint64_t left = i >> p->bits[1];
        uint64_t right = low_bits(i, p->bits[1]);
        for (int round = 0; round < ROUNDS; round += 2) {
            left ^= low_bits(feistel_mix(right ^ p->keys[round]), p->bits[0]);
            right ^= low_bits(feistel_mix(left ^ p->keys[round + 1]), p->bits[1]);
        }
        i = left << p->bits[1] | right;
    } while (i >= p->n);
    return i;
}

uint64_t leat_unpermute(const struct leat_permutation *p, uint64_t i)
{
    if (p->n <= LEAT_PERMUTATION_SMALL)
        return p->inverse[i];
    do {
        uint64_t left = i >> p->bits[1];
        uint64_t right = low_bits(i, p->bits[1]);
        for (int round = ROUNDS - 2; round >= 0; round -= 2) {
            right ^= low_bits(feistel_mix(left ^ p->keys[round + 1]), p->bits[1]);
            left ^= low_bits(feistel_mix(right ^ p->keys[round]), p->bits[0]);
        }
        i = left << p->bits[1] | right;
    } while (i >= p->n);
    return i;
}
