/* Sums over a list of counts: how many samples lie before the i-th chunk, and in which chunk the n-th
 * sample lies. One stored sum per 64 counts, so the table is an eighth of a byte per count. */
#ifndef LEAT_BASE_PREFIX_H
#define LEAT_BASE_PREFIX_H

#include <stdint.h>

#include "base/error.h"

struct leat_prefix {
    const uint32_t *counts; /* borrowed */
    const uint32_t *via;    /* borrowed; the i-th count is counts[via[i]]. NULL: counts[i] */
    uint32_t n;
    uint64_t *sums; /* before every 64th count; the last one is the total */
};

leat_status leat_prefix_make(const uint32_t *counts, const uint32_t *via, uint32_t n, struct leat_prefix *out,
                             struct leat_error *err);
void leat_prefix_free(struct leat_prefix *p); /* zeroed ones are allowed */

uint64_t leat_prefix_before(const struct leat_prefix *p, uint32_t i); /* sum of the first i counts; i ≤ n */
uint64_t leat_prefix_total(const struct leat_prefix *p);

/* The i whose count covers `value`: before(i) ≤ value < before(i + 1). n when value is not below the total. */
uint32_t leat_prefix_find(const struct leat_prefix *p, uint64_t value);

#endif
