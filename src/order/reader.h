/* Reads an order from any position on: the sliding window. One thread at a time. */
#ifndef LEAT_ORDER_READER_H
#define LEAT_ORDER_READER_H

#include <stddef.h>
#include <stdint.h>

#include "order/order.h"

struct leat_order_reader;

/* Borrows the order. Opening and seeking fill a window: its units are held, 12 bytes each and some slack. */
leat_status leat_order_reader_open(const struct leat_order *o, uint64_t position, struct leat_order_reader **out,
                                   struct leat_error *err);
void leat_order_reader_close(struct leat_order_reader *r); /* NULL is allowed */

/* position ≤ units. After a failure only seek and close may be called. */
leat_status leat_order_reader_seek(struct leat_order_reader *r, uint64_t position, struct leat_error *err);

/* The next n units; fewer (in *got) only at the end of the epoch. */
leat_status leat_order_reader_next(struct leat_order_reader *r, struct leat_order_item *items, size_t n, size_t *got,
                                   struct leat_error *err);

uint64_t leat_order_reader_position(const struct leat_order_reader *r);
uint64_t leat_order_reader_stage(const struct leat_order_reader *r); /* of the unit last read */

#endif
