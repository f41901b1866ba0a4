/* Operations in a row, linked by what the store keeps of them; and the line of those that wait to begin. */
#ifndef LEAT_STORE_QUEUE_H
#define LEAT_STORE_QUEUE_H

#include "store/lanes.h"
#include "store/store.h"

struct leat_queue {
    struct leat_store_op *first;
    struct leat_store_op *last;
};

void leat_queue_add(struct leat_queue *q, struct leat_store_op *op);  /* at the end */
void leat_queue_take(struct leat_queue *q, struct leat_store_op *op); /* out of it, wherever it is */

/* Urgent ones first, then those of something that is begun. What a lane has no room for is parked there. */
struct leat_line {
    struct leat_queue queued;
    struct leat_queue parked[LEAT_LANES];
    uint64_t parking; /* which of them hold some, one bit each */
    struct leat_lanes lanes;
};

void leat_line_add(struct leat_line *l, struct leat_store_op *op);
void leat_line_again(struct leat_line *l, struct leat_store_op *op); /* before all: it has waited already */
void leat_line_take(struct leat_line *l, struct leat_store_op *op);
struct leat_store_op *leat_line_first(const struct leat_line *l);           /* any; NULL: none waits */
struct leat_store_op *leat_line_next(struct leat_line *l, uint64_t now_ns); /* to begin; NULL: none may */

#endif
