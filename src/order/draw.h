/* What order.c and reader.c share: an open order, and where the units of one chunk fall. */
#ifndef LEAT_ORDER_DRAW_H
#define LEAT_ORDER_DRAW_H

#include "base/prefix.h"
#include "order/order.h"

struct leat_order {
    struct leat_order_spec spec; /* view is not kept; window is 1 without shuffle */
    uint64_t strata_key;
    uint64_t jitter_key;
    uint32_t places;
    uint32_t *list;              /* chunk by place */
    uint32_t *place;             /* place by chunk */
    struct leat_prefix by_chunk; /* units before a chunk */
    struct leat_prefix by_place; /* units before a place */
};

/* Units of a chunk are dealt to the window in equal strata, in units of 2^-32 of a stage: the unit with
 * stratum j falls between j·stride and (j + 1)·stride after the chunk's own place. */
static inline uint64_t leat_order_stride(const struct leat_order *o, uint32_t count)
{
    return ((uint64_t)o->spec.window << 32) / count;
}

static inline uint64_t leat_order_offset(uint64_t stride, uint32_t stratum, uint32_t jitter)
{
    return stratum * stride + (uint64_t)(((unsigned __int128)stride * jitter) >> 32);
}

/* The offset of one stratum, without drawing the others'. */
uint64_t leat_order_offset_at(const struct leat_order *o, uint32_t chunk, uint64_t stride, uint32_t stratum);

#endif
