#include "store/queue.h"

#include "store/backend.h"

void leat_queue_add(struct leat_queue *q, struct leat_store_op *op)
{
    op->own->prev = q->last;
    op->own->next = NULL;
    *(q->last ? &q->last->own->next : &q->first) = op;
    q->last = op;
}

void leat_queue_front(struct leat_queue *q, struct leat_store_op *op)
{
    op->own->prev = NULL;
    op->own->next = q->first;
    *(q->first ? &q->first->own->prev : &q->last) = op;
    q->first = op;
}

void leat_queue_early(struct leat_queue *q, struct leat_store_op *op)
{
    struct leat_store_op *next = q->first;
    while (next && (next->urgent || (next->begun && !op->urgent)))
        next = next->own->next;
    if (!next) {
        leat_queue_add(q, op);
        return;
    }
    op->own->prev = next->own->prev;
    op->own->next = next;
    *(next->own->prev ? &next->own->prev->own->next : &q->first) = op;
    next->own->prev = op;
}

void leat_queue_take(struct leat_queue *q, struct leat_store_op *op)
{
    *(op->own->prev ? &op->own->prev->own->next : &q->first) = op->own->next;
    *(op->own->next ? &op->own->next->own->prev : &q->last) = op->own->prev;
    op->own->prev = op->own->next = NULL;
}
