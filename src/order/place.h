/* Placement: which node of a job owns which slots of a dataset (docs/order.md). Every node of a job makes the same
 * table, or is given it.
 *
 * A node's share of the slots is its share of the ranks. */
#ifndef LEAT_ORDER_PLACE_H
#define LEAT_ORDER_PLACE_H

#include <stdint.h>

#include "order/order.h"

/* The table when nothing speaks for another: each node owns a run of slots, in the order of the nodes. Runs, because
 * the order visits the slots so that any run gets its share of any stretch of the chunk list.
 * node_of_rank: all below `nodes`. */
leat_status leat_order_place(uint32_t slots, uint32_t ranks, const uint32_t *node_of_rank, uint32_t nodes,
                             uint32_t *node_of_slot, struct leat_error *err);

/* The table for a job whose nodes have changed: as few slots as possible change hands. `before` is the table of
 * `nodes_before` nodes; was[k] is the number that node k had in it, or LEAT_ORDER_NONE when it has joined since.
 * node_of_slot must not be `before`. */
leat_status leat_order_place_again(uint32_t slots, const uint32_t *before, uint32_t nodes_before, uint32_t ranks,
                                   const uint32_t *node_of_rank, uint32_t nodes, const uint32_t *was,
                                   uint32_t *node_of_slot, struct leat_error *err);

/* The table of nodes with one rank each that came one after the other: what leat_order_place_again() makes of the table
 * of one node, then of two, and so on, in 2 ms for any number of nodes (that takes 90 ms for 1000, 1 s for 4096). */
leat_status leat_order_place_grown(uint32_t slots, uint32_t nodes, uint32_t *node_of_slot, struct leat_error *err);

#endif
