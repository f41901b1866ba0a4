/* Operations in a row, linked by what the store keeps of them. */
#ifndef LEAT_STORE_QUEUE_H
#define LEAT_STORE_QUEUE_H

#include "store/store.h"

struct leat_queue {
    struct leat_store_op *first;
    struct leat_store_op *last;
};

void leat_queue_add(struct leat_queue *q, struct leat_store_op *op); /* at the end … */
void leat_queue_front(struct leat_queue *q, struct leat_store_op *op);
void leat_queue_early(struct leat_queue *q, struct leat_store_op *op); /* after the last urgent one, or, unless it is
                                                                          urgent, the last that is begun */
void leat_queue_take(struct leat_queue *q, struct leat_store_op *op);  /* out of it, wherever it is */

#endif
