/* Sound at another rate: a sinc under a Hann window, six zero crossings to a side and a rolloff of 0.99, which is
 * torchaudio.functional.resample's default. */
#ifndef LEAT_PREP_RESAMPLE_H
#define LEAT_PREP_RESAMPLE_H

#include "prep/arena.h"

/* Samples that n become: as torchaudio counts them, rounded up. */
uint64_t leat_resample_length(uint64_t n, uint32_t from, uint32_t to);

/* The samples at the old rate that `n` samples from `first` on at the new rate are made of: *begin … *end, which may
 * lie before 0 or after the end, where silence is. */
void leat_resample_needs(uint64_t first, uint64_t n, uint32_t from, uint32_t to, int64_t *begin, int64_t *end);

/* Those n samples from `in`, which holds the ones at begin … end. */
leat_status leat_resample(const float *in, int64_t begin, uint64_t first, uint64_t n, uint32_t from, uint32_t to,
                          struct leat_arena *arena, float *out, struct leat_error *err);

#endif
