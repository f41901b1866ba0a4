/* A rank's way through the order: batch after batch, epoch after epoch, and the chunks that its node needs ahead of
 * them. Arithmetic only; one thread at a time. */
#ifndef LEAT_SCHED_CURSOR_H
#define LEAT_SCHED_CURSOR_H

#include "order/assign.h"
#include "order/batch.h"
#include "order/order.h"
#include "sched/sched.h"

struct leat_cursor;

struct leat_cursor_opts {
    struct leat_order_spec spec; /* its epoch does not matter */
    uint64_t epoch, position;    /* where to begin */
    uint32_t global_batch;
    enum leat_order_last last;
    uint32_t rank, world;
    const uint32_t *node_of_rank; /* NULL: all on one node; copied */
};

/* One rank's part of a global batch. */
struct leat_cursor_batch {
    bool end; /* of the epoch: no samples */
    uint64_t epoch;
    uint64_t position;             /* of the order after it */
    uint64_t stage;                /* after it, counted from the opening */
    uint32_t n;                    /* samples */
    struct leat_order_item *items; /* n of them */
    uint64_t *numbers;             /* of the samples in the dataset */
    bool *valid;                   /* false: padded */
    uint32_t *chunks;              /* distinct, in ascending order */
    uint32_t chunks_n;
    uint32_t *where; /* of each sample's chunk among them */
};

leat_status leat_cursor_open(const struct leat_cursor_opts *opts, struct leat_cursor **out, struct leat_error *err);
void leat_cursor_close(struct leat_cursor *c); /* NULL is allowed */

leat_status leat_cursor_next(struct leat_cursor *c, struct leat_cursor_batch *out, struct leat_error *err);
void leat_cursor_batch_free(struct leat_cursor_batch *b); /* a zeroed one is allowed */

/* The next chunk of this node's, in the order of their first use, from the cursor to the end of the next epoch; each is
 * named once. False: that is the end for now. */
bool leat_cursor_ahead(struct leat_cursor *c, uint32_t *chunk, uint64_t *stage);

/* Where the cursor stands. The orders stay until the call of leat_cursor_next() after the next: one of them may run on
 * another thread while what was seen here is still used. */
void leat_cursor_view(const struct leat_cursor *c, struct leat_sched_view *out);

const struct leat_order *leat_cursor_order(const struct leat_cursor *c);
const uint32_t *leat_cursor_node_of_rank(const struct leat_cursor *c); /* world of them */

#endif
