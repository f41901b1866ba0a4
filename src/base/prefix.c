#include "base/prefix.h"

#include <stdlib.h>

#define BLOCK 64u

static uint32_t count_at(const struct leat_prefix *p, uint32_t i)
{
    return p->counts[p->via ? p->via[i] : i];
}

leat_status leat_prefix_make(const uint32_t *counts, const uint32_t *via, uint32_t n, struct leat_prefix *out,
                             struct leat_error *err)
{
    struct leat_prefix p = {.counts = counts, .via = via, .n = n};
    size_t blocks = ((size_t)n + BLOCK - 1) / BLOCK;
    p.sums = malloc((blocks + 1) * sizeof *p.sums);
    if (!p.sums)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the sums of %u counts", n);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i % BLOCK == 0)
            p.sums[i / BLOCK] = sum;
        sum += count_at(&p, i);
    }
    p.sums[blocks] = sum;
    *out = p;
    return LEAT_OK;
}

void leat_prefix_free(struct leat_prefix *p)
{
    if (!p)
        return;
    free(p->sums);
    *p = (struct leat_prefix){0};
}

uint64_t leat_prefix_total(const struct leat_prefix *p)
{
    return p->sums[((size_t)p->n + BLOCK - 1) / BLOCK];
}

uint64_t leat_prefix_before(const struct leat_prefix *p, uint32_t i)
{
    if (i >= p->n)
        return leat_prefix_total(p);
    uint64_t sum = p->sums[i / BLOCK];
    for (uint32_t k = i / BLOCK * BLOCK; k < i; k++)
        sum += count_at(p, k);
    return sum;
}

uint32_t leat_prefix_find(const struct leat_prefix *p, uint64_t value)
{
    if (value >= leat_prefix_total(p))
        return p->n;
    uint32_t low = 0; /* sums[low] ≤ value < sums[high] */
    uint32_t high = (uint32_t)(((size_t)p->n + BLOCK - 1) / BLOCK);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (p->sums[middle] <= value)
            low = middle;
        else
            high = middle;
    }
    uint64_t sum = p->sums[low];
    uint32_t i = low * BLOCK;
    while (value - sum >= count_at(p, i))
        sum += count_at(p, i++);
    return i;
}
