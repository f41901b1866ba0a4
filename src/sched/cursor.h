/* A rank's way through the order: batch after batch, epoch after epoch, and the chunks that its node needs ahead of
 * them. The order of one dataset, or a mixture of several. Arithmetic only; one thread at a time.
 *
 * Of a mixture the cursor counts units of all streams together. Which stream a unit comes from follows from its number
 * (order/mixture.h), and so does where every stream stands: the first unit of a stream is the first of its epoch 0, and
 * each goes on into its next epoch whenever one is over, in the middle of a batch too. An epoch of the mixture is as
 * long as it was said to be. */
#ifndef LEAT_SCHED_CURSOR_H
#define LEAT_SCHED_CURSOR_H

#include "order/assign.h"
#include "order/batch.h"
#include "order/mixture.h"
#include "order/order.h"
#include "sched/sched.h"

struct leat_cursor;

struct leat_cursor_opts {
    const struct leat_order_spec *specs; /* one for each stream; copied, but what they point to is borrowed. Their
                                            epochs do not matter */
    uint32_t specs_n;
    const struct leat_mixture *mixture; /* of as many streams; borrowed. NULL: there is one, and epochs are its own */
    uint64_t epoch_units;               /* with a mixture: units in an epoch */
    uint64_t epoch, position;           /* where to begin */
    uint32_t global_batch;
    enum leat_order_last last;
    uint32_t rank, world;
    const uint32_t *node_of_rank; /* NULL: all on one node; copied */
    /* The placement that ranks are assigned by, the same on all of them: one entry for each slot of all streams' chunks
     * together (leat_order_slots()). NULL: made from the node map; copied. */
    const uint32_t *node_of_slot;
};

/* A sample of a batch: a unit of a stream in one of the stream's epochs. */
struct leat_cursor_unit {
    struct leat_order_item item; /* the chunk's number in its own stream */
    uint32_t stream;
    uint64_t epoch;
    uint64_t number; /* of the unit in its stream */
    bool valid;      /* false: padded */
    uint32_t where;  /* its chunk among those of the batch */
};

/* One rank's part of a global batch. */
struct leat_cursor_batch {
    bool end; /* of the epoch: no samples */
    uint64_t epoch;
    uint64_t position; /* of the order after it */
    uint64_t stage;    /* after it, counted from the opening */
    uint32_t n;        /* samples */
    struct leat_cursor_unit *units;
    uint32_t *chunks; /* distinct, in ascending order; numbered through all streams */
    uint32_t chunks_n;
};

leat_status leat_cursor_open(const struct leat_cursor_opts *opts, struct leat_cursor **out, struct leat_error *err);
void leat_cursor_close(struct leat_cursor *c); /* NULL is allowed */

leat_status leat_cursor_next(struct leat_cursor *c, struct leat_cursor_batch *out, struct leat_error *err);
/* Whether that may take longer than a millisecond: the batch is large, chunks have many units, or an order of many
 * chunks is made (a tenth of a second for a million of them) or freed. */
bool leat_cursor_next_is_slow(const struct leat_cursor *c);
void leat_cursor_batch_free(struct leat_cursor_batch *b); /* a zeroed one is allowed */

/* The next chunk of this node's, in the order of their first use, from the cursor to the end of the next epoch; each is
 * named once. False: that is the end for now. *chunk is LEAT_ORDER_NONE when none of those looked at was one, and there
 * are more: a machine that owns little of ten million chunks finds its next one in several calls. */
#define LEAT_CURSOR_LOOKS 512u /* places of each stream that a call looks at */
bool leat_cursor_ahead(struct leat_cursor *c, uint32_t *chunk, uint64_t *stage);

/* Where the cursor stands; what it points to stays until the next call of this function, and the orders until the call
 * of leat_cursor_next() after the next: one of them may run on another thread while what was seen here is still used.
 */
void leat_cursor_view(struct leat_cursor *c, struct leat_sched_view *out);

/* Who owns what from now on, where that is no longer what ranks are assigned by: a machine of the job is lost, or has
 * joined it. As many entries as there are slots; copied. `node`: the number that this machine has in it. What is
 * prefetched and kept follows it, what the rank is given does not. */
void leat_cursor_own(struct leat_cursor *c, const uint32_t *node_of_slot, uint32_t node);
uint32_t leat_cursor_slots(const struct leat_cursor *c);
uint32_t leat_cursor_nodes(const struct leat_cursor *c);
uint32_t leat_cursor_owner(const struct leat_cursor *c, uint32_t chunk); /* node, of a chunk of all streams */
uint32_t leat_cursor_node(const struct leat_cursor *c);                  /* that the rank is on */
const uint32_t *leat_cursor_placement(const struct leat_cursor *c);      /* what ranks are assigned by */

uint64_t leat_cursor_epoch_units(const struct leat_cursor *c);
const struct leat_order *leat_cursor_order(const struct leat_cursor *c, uint32_t stream); /* as it stands in it */
const uint32_t *leat_cursor_node_of_rank(const struct leat_cursor *c);                    /* world of them */

#endif
