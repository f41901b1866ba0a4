/* The chunk list of a shuffled epoch: every slot's chunks permuted, taken in rounds that visit the slots in a
 * scrambled low-discrepancy sequence. */
#ifndef LEAT_ORDER_LIST_H
#define LEAT_ORDER_LIST_H

#include "order/order.h"

/* `list` has room for all chunks; *n is how many are not empty. */
leat_status leat_order_make_list(const struct leat_order_spec *spec, uint64_t slots_key, uint64_t rounds_key,
                                 uint32_t *list, uint32_t *n, struct leat_error *err);

#endif
