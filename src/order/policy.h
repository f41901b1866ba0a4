/* Prefetch and eviction, derived from the order: which chunks are needed next, and when a chunk is needed
 * again. Across the border of an epoch too, when the next epoch's order is given.
 *
 * Times are stages counted from the beginning of the current epoch; the next epoch's follow on. */
#ifndef LEAT_ORDER_POLICY_H
#define LEAT_ORDER_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "order/order.h"

#define LEAT_ORDER_NEVER UINT64_MAX

/* First and last stage in which a chunk is needed. False for a chunk that the order never needs. */
bool leat_order_uses(const struct leat_order *o, uint32_t chunk, uint64_t *first, uint64_t *last);

/* The next stage, `stage` or later, in which the chunk may be needed: LEAT_ORDER_NEVER when no given order
 * needs it again. next may be NULL. Evict the chunk with the largest value. */
uint64_t leat_order_next_use(const struct leat_order *now, const struct leat_order *next, uint64_t stage,
                             uint32_t chunk);

/* The chunks in the order in which they are first needed. Those live at `stage` come first, then the ones
 * to come, then the next epoch's. Writes up to n of them after the first `skip`; returns how many.
 * A chunk may appear twice, once in each epoch. */
size_t leat_order_upcoming(const struct leat_order *now, const struct leat_order *next, uint64_t stage, size_t skip,
                           uint32_t *chunks, size_t n);

#endif
