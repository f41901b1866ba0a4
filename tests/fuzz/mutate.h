/* Changes inputs at random, without knowing what they mean: a small stand-in for libFuzzer's mutations. */
#ifndef LEAT_TESTS_MUTATE_H
#define LEAT_TESTS_MUTATE_H

#include <stddef.h>
#include <stdint.h>

struct mutate_bytes {
    uint8_t *data;
    size_t n;
};

/* Sources for mutations: other inputs, and words of the format. Either may be empty; both are borrowed. */
void mutate_from(const struct mutate_bytes *inputs, size_t n, const struct mutate_bytes *words, size_t n_words);

/* What LLVMFuzzerMutate() does from now on follows from this alone. */
void mutate_seed(uint64_t seed, uint64_t number);

/* At random, below n; n is not 0. */
size_t mutate_below(size_t n);

#endif
