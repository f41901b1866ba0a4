/* Second requests for reads that are late.
 *
 * The second request is an operation of the store's own, with memory of its own: two answers must never be written to
 * one place. The first good answer wins. When it is the second's, the first request is cancelled, and only when that
 * has ended are the bytes handed over. A second request is asked once and judged as every answer is: pins, ranges,
 * lengths and checksums hold for it. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/store_impl.h"

#define AT_ONCE 8u /* second requests in flight: they take memory that nobody has planned for */

static void free_second(struct leat_store_op *second)
{
    free(second->into);
    free(second->own);
    free(second);
}

static struct leat_store_op *make_second(struct leat_store *store, const struct leat_store_op *op)
{
    struct leat_store_op *second = malloc(sizeof *second);
    struct leat_store_own *own = calloc(1, sizeof *own);
    void *into = malloc(op->length);
    if (!second || !own || !into) {
        free(second);
        free(own);
        free(into);
        return NULL;
    }
    *second = *op;
    second->into = into;
    second->got = 0;
    second->moved = NULL;
    second->attempts = 1;
    second->own = own;
    own->op = second;
    own->store = store;
    own->is_second = true;
    own->lane = op->own->lane;
    own->deadline_ns = op->own->deadline_ns;
    own->first_ns = own->started_ns = leat_now_ns();
    return second;
}

static void on_late(struct leat_timer *timer)
{
    struct leat_store_op *op = ((struct leat_store_own *)((char *)timer - offsetof(struct leat_store_own, timer)))->op;
    struct leat_store *store = op->own->store;
    if (store->own.closing || op->own->cancelled || store->own.seconds >= AT_ONCE ||
        !leat_hedge_take(&store->own.hedge, op->length))
        return;
    struct leat_store_op *second = make_second(store, op);
    if (!second)
        return; /* nothing is lost but time */
    second->own->first = op;
    op->own->second = second;
    store->own.seconds++;
    leat_store_count_in(store);
    LEAT_STORE_COUNT(store, hedges, 1);
    LEAT_STORE_COUNT(store, hedged_bytes, op->length);
    leat_store_begin(store, second);
}

void leat_hedging_start(struct leat_store *store, struct leat_store_op *op)
{
    if (!store->hedges || op->verb != LEAT_STORE_GET || !op->length || op->found) /* heads of two would be mixed */
        return;
    uint64_t late_ns = leat_hedge_begin(&store->own.hedge, op->length);
    if (!late_ns || op->attempts > 1)
        return;
    op->own->timer.fire = on_late;
    leat_loop_arm(store->loop, &op->own->timer, op->own->started_ns + late_ns);
}

/* The second request is no longer wanted: it frees itself when it has ended. */
static void drop(struct leat_store *store, struct leat_store_op *op)
{
    struct leat_store_op *second = op->own->second;
    op->own->second = NULL;
    second->own->first = NULL;
    if (second->own->state == LEAT_OP_RUNNING)
        store->backend->ops->cancel(store->backend, second);
    else
        free_second(second);
}

/* The answer of the second request becomes that of the operation, whose own request has ended. */
static void hand_over(struct leat_store *store, struct leat_store_op *op)
{
    struct leat_store_op *second = op->own->second;
    memcpy(op->into, second->into, second->got);
    op->got = second->got;
    op->status = LEAT_OK;
    op->own->err = (struct leat_error){0};
    op->own->object = second->own->object;
    op->own->call.head = second->own->call.head;
    LEAT_STORE_COUNT(store, hedges_won, 1);
    if (op->moved)
        op->moved(op, (size_t)op->got);
    drop(store, op);
}

bool leat_hedging_ended(struct leat_store *store, struct leat_store_op *op)
{
    struct leat_store_own *own = op->own;
    if (own->is_second) {
        store->own.seconds--;
        own->state = LEAT_OP_IDLE;
        struct leat_store_op *first = own->first;
        if (first && op->status == LEAT_OK)
            store->backend->ops->cancel(store->backend, first); /* hands over when that has ended */
        else if (first)
            drop(store, first);
        else
            free_second(op);
        leat_store_count_out(store);
        return true;
    }
    if (store->hedges && op->verb == LEAT_STORE_GET && (op->status == LEAT_OK || own->second))
        leat_hedge_took(&store->own.hedge, op->length, leat_now_ns() - own->started_ns);
    leat_loop_disarm(store->loop, &own->timer);
    if (!own->second)
        return false;
    if (op->status != LEAT_OK && !own->cancelled && own->second->own->state == LEAT_OP_IDLE)
        hand_over(store, op);
    else
        drop(store, op);
    return false;
}
