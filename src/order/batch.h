/* Global batches: the next G units of the order. What happens at the end of an epoch has a name. */
#ifndef LEAT_ORDER_BATCH_H
#define LEAT_ORDER_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "order/order.h"

enum leat_order_last {
    LEAT_ORDER_DROP, /* an incomplete last batch is not delivered */
    LEAT_ORDER_PAD,  /* it is filled up by its own units again, in order, marked as not valid */
    LEAT_ORDER_SHORT /* it is delivered short */
};

struct leat_order_batch {
    uint32_t take; /* units of the order in it; 0: the epoch is over */
    uint32_t size; /* places in it: take, or more when padded */
};

/* The batch of G = `batch` units at a position. batch > 0. */
struct leat_order_batch leat_order_batch_at(uint64_t units, uint64_t position, uint32_t batch,
                                            enum leat_order_last last);

/* Batches from a position to the end of the epoch. */
uint64_t leat_order_batches(uint64_t units, uint64_t position, uint32_t batch, enum leat_order_last last);

/* Fills places take … size-1 of a padded batch: place i gets the unit of place i modulo take. */
void leat_order_batch_pad(struct leat_order_item *items, struct leat_order_batch b);

const char *leat_order_last_name(enum leat_order_last last); /* "drop", "pad", "short" */
leat_status leat_order_last_parse(const char *text, enum leat_order_last *out, struct leat_error *err);

#endif
