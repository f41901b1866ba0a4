/* Assignment 1 (docs/order.md): which rank gets which unit of a global batch. Decided after the order, which it cannot
 * change: the set of units in a batch is the same for every world.
 *
 * Deterministic: every node computes the same answer from the same world. */
#ifndef LEAT_ORDER_ASSIGN_H
#define LEAT_ORDER_ASSIGN_H

#include <stddef.h>
#include <stdint.h>

#include "order/order.h"

#define LEAT_ORDER_ASSIGNMENT 1 /* version: ranks that assign differently must not train together */

/* A rank costs 8 bytes and a unit of a batch some 16 (with its item), on every node. These limits keep that below
 * 300 MB, and are well above what is trained with. */
#define LEAT_ORDER_WORLD_MAX (1u << 20)
#define LEAT_ORDER_BATCH_MAX (1u << 24)

/* Who takes part, and who owns what. */
struct leat_order_world {
    uint32_t ranks;
    uint32_t nodes;               /* each has at least one rank */
    const uint32_t *node_of_rank; /* the node map: < nodes, in any arrangement */
    uint32_t slots;
    const uint32_t *node_of_slot; /* the placement: < nodes; place.h makes it */
    uint32_t chunks;              /* in the dataset */
};

/* Refuses numbers that do not fit together, LEAT_LIMIT for those that are too large. */
leat_status leat_order_world_check(const struct leat_order_world *w, struct leat_error *err);

/* A global batch that can be: 1 … LEAT_ORDER_BATCH_MAX. */
leat_status leat_order_batch_check(uint64_t batch, struct leat_error *err);

/* How many of n units a rank gets: as many as every other, or one less when n is not a multiple of the ranks. None only
 * when there are fewer units than ranks. */
uint32_t leat_order_quota(const struct leat_order_world *w, uint32_t n, uint32_t rank);

/* A world made ready to assign batch after batch, with the memory that takes. One thread at a time. */
struct leat_order_assigner;

/* Checks the world and copies what it needs of it. For batches of up to batch_max units; with_costs: memory for
 * costs too. */
leat_status leat_order_assigner_open(const struct leat_order_world *w, uint32_t batch_max, bool with_costs,
                                     struct leat_order_assigner **out, struct leat_error *err);
void leat_order_assigner_close(struct leat_order_assigner *a); /* NULL is allowed */

/* Sets rank_of[i] for each of the n ≤ batch_max units of a batch. Every rank gets its quota. Units stay on the node
 * that owns their chunk as far as it has room; what is left over fills the nearest others. Within a node they go to the
 * ranks in turn, or so that the sums of `costs` (NULL: none known) come out level.
 * A rank's units keep the order they have in the batch. Time: O(n + slots + nodes), with costs O(n log ranks). */
void leat_order_assign(struct leat_order_assigner *a, const struct leat_order_item *items, const uint32_t *costs,
                       uint32_t n, uint32_t *rank_of);

/* How many of the units lie on the node of the rank they were given to. */
uint32_t leat_order_local(const struct leat_order_world *w, const struct leat_order_item *items, uint32_t n,
                          const uint32_t *rank_of);

#endif
