#include "dataset/mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PER_CHUNK_MIN 16u
#define EXCESS        0.1 /* of the way from mixed (0) to one class per chunk (1) … */
/* … and more than chance explains: with two chunks and two classes the excess is the square of a normal variable, which
 * exceeds its own deviation by this much once in ten thousand times. */
#define SIGMAS 14.0

uint32_t leat_mix_chunks(uint32_t chunks)
{
    return chunks < LEAT_MIX_CHUNKS ? chunks : LEAT_MIX_CHUNKS;
}

uint32_t leat_mix_chunk(uint32_t chunks, uint32_t i)
{
    return (uint32_t)((uint64_t)i * chunks / leat_mix_chunks(chunks));
}

uint32_t leat_mix_samples(uint32_t chunks, uint32_t n)
{
    uint32_t most = LEAT_MIX_SAMPLES / leat_mix_chunks(chunks);
    most = most < PER_CHUNK_MIN ? PER_CHUNK_MIN : most;
    return n < most ? n : most;
}

uint32_t leat_mix_sample(uint32_t chunks, uint32_t n, uint32_t i)
{
    return (uint32_t)((uint64_t)i * n / leat_mix_samples(chunks, n));
}

void leat_mix_add(struct leat_mix *m, uint32_t i, int64_t label)
{
    if (i >= m->chunks)
        m->chunks = i + 1;
    m->labels[i][m->counts[i]++] = label;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* How many pairs of the labels are equal. */
static double same_pairs(int64_t *labels, uint32_t n)
{
    double pairs = 0;
    qsort(labels, n, sizeof *labels, by_value);
    for (uint32_t start = 0; start < n;) {
        uint32_t end = start;
        while (end < n && labels[end] == labels[start])
            end++;
        pairs += (double)(end - start) * (end - start - 1) / 2;
        start = end;
    }
    return pairs;
}

struct leat_mix_result leat_mix_judge(struct leat_mix *m)
{
    int64_t all[LEAT_MIX_CHUNKS * LEAT_MIX_SAMPLES];
    uint32_t n = 0;
    double within = 0;
    double within_same = 0;
    struct leat_mix_result r = {0};
    for (uint32_t c = 0; c < m->chunks; c++) {
        memcpy(all + n, m->labels[c], m->counts[c] * sizeof *all);
        n += m->counts[c];
        within += (double)m->counts[c] * (m->counts[c] - 1.) / 2;
        within_same += same_pairs(m->labels[c], m->counts[c]);
    }
    double across = (double)n * (n - 1.) / 2 - within;
    double across_same = same_pairs(all, n) - within_same;
    if (within < 1 || across < 1)
        return r; /* one chunk, or one sample in each: there is nothing to be sorted */
    r.within = within_same / within;
    r.across = across_same / across;
    double chance = sqrt(r.across * (1 - r.across) / within);
    r.sorted = r.across < 1 && r.within - r.across > EXCESS * (1 - r.across) && r.within - r.across > SIGMAS * chance;
    return r;
}
