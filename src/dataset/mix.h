/* Whether the chunks of a dataset are sorted by class, judged by a few samples of a few chunks: by how much likelier
 * two samples of one chunk are of the same class than two of different chunks. Arithmetic only. */
#ifndef LEAT_DATASET_MIX_H
#define LEAT_DATASET_MIX_H

#include <stdbool.h>
#include <stdint.h>

#define LEAT_MIX_CHUNKS  16u  /* are looked at, at most … */
#define LEAT_MIX_SAMPLES 256u /* … and as many samples in all, in rows of at least 16 per chunk */

struct leat_mix {
    uint32_t chunks;
    uint32_t counts[LEAT_MIX_CHUNKS];
    int64_t labels[LEAT_MIX_CHUNKS][LEAT_MIX_SAMPLES];
};

/* Which chunks of a dataset to look at: `chunk(i)` for i < leat_mix_chunks(), and which samples of one with n. */
uint32_t leat_mix_chunks(uint32_t chunks);
uint32_t leat_mix_chunk(uint32_t chunks, uint32_t i);
uint32_t leat_mix_samples(uint32_t chunks, uint32_t n);
uint32_t leat_mix_sample(uint32_t chunks, uint32_t n, uint32_t i);

void leat_mix_add(struct leat_mix *m, uint32_t i, int64_t label); /* to the i-th of the chunks looked at */

struct leat_mix_result {
    double within; /* how often two samples of one chunk are of one class … */
    double across; /* … and two of different chunks */
    bool sorted;
};
struct leat_mix_result leat_mix_judge(struct leat_mix *m); /* sorts its labels */

#endif
