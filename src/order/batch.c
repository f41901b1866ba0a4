#include "order/batch.h"

#include <string.h>

static const char *const names[] = {"drop", "pad", "short"};

struct leat_order_batch leat_order_batch_at(uint64_t units, uint64_t position, uint32_t batch,
                                            enum leat_order_last last)
{
    uint64_t left = position < units ? units - position : 0;
    if (left >= batch)
        return (struct leat_order_batch){batch, batch};
    if (left == 0 || last == LEAT_ORDER_DROP)
        return (struct leat_order_batch){0, 0};
    return (struct leat_order_batch){(uint32_t)left, last == LEAT_ORDER_PAD ? batch : (uint32_t)left};
}

uint64_t leat_order_batches(uint64_t units, uint64_t position, uint32_t batch, enum leat_order_last last)
{
    uint64_t left = position < units ? units - position : 0;
    return left / batch + (left % batch && last != LEAT_ORDER_DROP);
}

void leat_order_batch_pad(struct leat_order_item *items, struct leat_order_batch b)
{
    for (uint32_t i = b.take; b.take && i < b.size; i++)
        items[i] = items[i - b.take];
}

const char *leat_order_last_name(enum leat_order_last last)
{
    return names[last];
}

leat_status leat_order_last_parse(const char *text, enum leat_order_last *out, struct leat_error *err)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum leat_order_last)i;
            return LEAT_OK;
        }
    }
    return leat_fail(err, LEAT_INVALID, "last batch '%s' is not one of drop, pad, short", text);
}
