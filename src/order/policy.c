#include "order/policy.h"

#include "order/draw.h"

bool leat_order_uses(const struct leat_order *o, uint32_t chunk, uint64_t *first, uint64_t *last)
{
    uint32_t place = o->place[chunk];
    if (place == LEAT_ORDER_NONE)
        return false;
    uint32_t count = o->spec.counts[chunk];
    uint64_t stride = leat_order_stride(o, count);
    *first = place + (leat_order_offset_at(o, chunk, stride, 0) >> 32);
    *last = place + (leat_order_offset_at(o, chunk, stride, count - 1) >> 32);
    return true;
}

uint64_t leat_order_next_use(const struct leat_order *now, const struct leat_order *next, uint64_t stage,
                             uint32_t chunk)
{
    uint64_t first;
    uint64_t last;
    if (leat_order_uses(now, chunk, &first, &last) && last >= stage)
        return first > stage ? first : stage;
    if (next && leat_order_uses(next, chunk, &first, &last))
        return leat_order_stages(now) + first;
    return LEAT_ORDER_NEVER;
}

size_t leat_order_upcoming(const struct leat_order *now, const struct leat_order *next, uint64_t stage, size_t skip,
                           uint32_t *chunks, size_t n)
{
    size_t found = 0;
    uint64_t live = stage < now->spec.window ? 0 : stage - now->spec.window + 1;
    for (uint64_t p = live; p < now->places && found < n; p++) {
        uint64_t first;
        uint64_t last;
        if (p < stage && leat_order_uses(now, now->list[p], &first, &last) && last < stage)
            continue; /* already through */
        if (skip)
            skip--;
        else
            chunks[found++] = now->list[p];
    }
    for (uint64_t p = skip; next && p < next->places && found < n; p++)
        chunks[found++] = next->list[p];
    return found;
}
