/* Assignment: which rank gets which unit of a global batch. Decided after the order, which it cannot change:
 * the set of units in a batch is the same for every world.
 *
 * Deterministic: every node computes the same answer from the same world. */
#ifndef LEAT_ORDER_ASSIGN_H
#define LEAT_ORDER_ASSIGN_H

#include <stddef.h>
#include <stdint.h>

#include "order/order.h"

/* Who takes part, and who owns what. Borrowed by the calls below. */
struct leat_order_world {
    uint32_t ranks;
    uint32_t nodes;
    const uint32_t *node_of_rank; /* < nodes */
    uint32_t slots;
    const uint32_t *node_of_slot; /* the placement: < nodes */
    uint32_t chunks;              /* in the dataset */
};

/* The placement when nothing speaks for another: node k owns the k-th of equal runs of slots. Runs, because
 * the order visits the slots so that any run gets its share of any stretch of the chunk list. */
void leat_order_place_slots(uint32_t slots, uint32_t nodes, uint32_t *node_of_slot);

/* Refuses numbers that do not fit together. */
leat_status leat_order_world_check(const struct leat_order_world *w, struct leat_error *err);

/* How many of n units a rank gets: as many as every other, or one less when n is no multiple of the ranks. */
uint32_t leat_order_quota(const struct leat_order_world *w, uint32_t n, uint32_t rank);

/* Sets rank_of[i] for each of the n units of a batch. Every rank gets its quota. Units go to the node that
 * owns their chunk while it has room, in order of position; the rest fill the other nodes. Within a node
 * they go to the ranks in turn, or so that the sums of `costs` (NULL: none known) come out level.
 * A rank's units keep the order they have in the batch. */
leat_status leat_order_assign(const struct leat_order_world *w, const struct leat_order_item *items,
                              const uint32_t *costs, uint32_t n, uint32_t *rank_of, struct leat_error *err);

/* How many of the units lie on the node of the rank they were given to. */
uint32_t leat_order_local(const struct leat_order_world *w, const struct leat_order_item *items, uint32_t n,
                          const uint32_t *rank_of);

#endif
