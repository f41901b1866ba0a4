#include "store/queue.h"

#include "store/backend.h"

void leat_queue_add(struct leat_queue *q, struct leat_store_op *op)
{
    op->own->prev = q->last;
    op->own->next = NULL;
    *(q->last ? &q->last->own->next : &q->first) = op;
    q->last = op;
}

static void add_front(struct leat_queue *q, struct leat_store_op *op)
{
    op->own->prev = NULL;
    op->own->next = q->first;
    *(q->first ? &q->first->own->prev : &q->last) = op;
    q->first = op;
}

/* After the last urgent one, or the last that is either. */
static void add_early(struct leat_queue *q, struct leat_store_op *op)
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

static void add(struct leat_queue *q, struct leat_store_op *op)
{
    if (op->urgent || op->begun)
        add_early(q, op);
    else
        leat_queue_add(q, op);
}

void leat_line_add(struct leat_line *l, struct leat_store_op *op)
{
    add(&l->queued, op);
}

void leat_line_again(struct leat_line *l, struct leat_store_op *op)
{
    add_front(&l->queued, op);
}

void leat_line_take(struct leat_line *l, struct leat_store_op *op)
{
    struct leat_queue *parked = &l->parked[op->own->lane];
    leat_queue_take(op->own->parked ? parked : &l->queued, op);
    if (op->own->parked && !parked->first)
        l->parking &= ~(1ull << op->own->lane);
    op->own->parked = false;
}

struct leat_store_op *leat_line_first(const struct leat_line *l)
{
    if (l->queued.first || !l->parking)
        return l->queued.first;
    return l->parked[__builtin_ctzll(l->parking)].first;
}

/* Its lane has no room: it waits there, so that it is in nobody else's way. */
static void park(struct leat_line *l, struct leat_store_op *op)
{
    struct leat_queue *parked = &l->parked[op->own->lane];
    leat_queue_take(&l->queued, op);
    if (op->attempts)
        add_front(parked, op);
    else
        add(parked, op);
    op->own->parked = true;
    l->parking |= 1ull << op->own->lane;
}

/* One that waits in a lane which has room again. */
static struct leat_store_op *next_parked(struct leat_line *l, uint64_t now_ns)
{
    struct leat_store_op *found = NULL;
    for (uint64_t left = l->parking; left; left &= left - 1) { /* all: their paces go on by being asked */
        uint32_t lane = (uint32_t)__builtin_ctzll(left);
        if (leat_lanes_room(&l->lanes, lane, true, now_ns) && !found)
            found = l->parked[lane].first;
    }
    return found;
}

struct leat_store_op *leat_line_next(struct leat_line *l, uint64_t now_ns)
{
    struct leat_store_op *op = next_parked(l, now_ns);
    struct leat_store_op *first = l->queued.first;
    if (op && !(first && first->urgent && !op->urgent))
        return op;
    while ((first = l->queued.first)) {
        if (leat_lanes_room(&l->lanes, first->own->lane, false, now_ns))
            return first;
        park(l, first);
    }
    return op;
}
