/* Leat's own random numbers and permutations, specified in docs/random.md. Their values are part of the
 * format of orders and states: the same on every compiler, machine and release.
 *
 * Numbers are Philox4x32-10 blocks, a pure function of (key, stream, index): nothing is drawn "next" from
 * a shared generator, so no draw depends on a thread, a rank or on what was drawn before. */
#ifndef LEAT_BASE_RANDOM_H
#define LEAT_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* A 64-bit key from a purpose ("order", "augment", …) and the numbers and bytes it depends on.
 * Different purposes or arguments give unrelated keys. data may be NULL when n is 0. */
uint64_t leat_key(const char *purpose, uint64_t a, uint64_t b, const void *data, size_t n);

/* The index-th block of four 32-bit numbers of a stream. */
void leat_random_block(uint64_t key, uint64_t stream, uint64_t index, uint32_t out[4]);

/* The first 64 bits of a block. */
uint64_t leat_random_u64(uint64_t key, uint64_t stream, uint64_t index);

/* A sequence of draws from one (key, stream). Plain data: copy it, keep it on the stack. */
struct leat_rng {
    uint64_t key;
    uint64_t stream;
    uint64_t index; /* of the next block */
    uint32_t block[4];
    uint32_t used; /* numbers of the block already given out; 4: none left */
};

struct leat_rng leat_rng(uint64_t key, uint64_t stream);
uint32_t leat_rng_u32(struct leat_rng *r);
uint64_t leat_rng_u64(struct leat_rng *r);
uint64_t leat_rng_below(struct leat_rng *r, uint64_t n); /* uniform in 0 … n-1, without bias; n > 0 */
double leat_rng_unit(struct leat_rng *r);                /* multiple of 2^-53 in [0, 1) */

/* Shuffles n elements in place (Fisher-Yates from the end, drawing with leat_rng_below). */
void leat_shuffle_u32(uint64_t key, uint64_t stream, uint32_t *v, size_t n);
void leat_shuffle_u64(uint64_t key, uint64_t stream, uint64_t *v, size_t n);

/* A permutation of 0 … n-1 that needs no memory of its own size: element i of it, and back. For ranges too large to
 * be shuffled; docs/random.md says how good it is. */
#define LEAT_PERMUTATION_SMALL 256

struct leat_permutation {
    uint64_t n;
    uint64_t keys[8];
    uint32_t bits[2]; /* of the left and right half */
    uint8_t table[LEAT_PERMUTATION_SMALL];
    uint8_t inverse[LEAT_PERMUTATION_SMALL];
};

struct leat_permutation leat_permutation(uint64_t key, uint64_t n);
uint64_t leat_permute(const struct leat_permutation *p, uint64_t i);   /* i < n */
uint64_t leat_unpermute(const struct leat_permutation *p, uint64_t i); /* i < n */

#endif
