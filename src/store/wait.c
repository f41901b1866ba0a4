#include "store/wait.h"

#include "base/clock.h"
#include "base/thread.h"
#include "store/backend.h"

#define STOP_POLL (100 * LEAT_MS)

void leat_wait_init(struct leat_wait *w, bool (*stop)(void *user), void *stop_user)
{
    *w = (struct leat_wait){.stop = stop, .stop_user = stop_user};
    pthread_mutex_init(&w->mu, NULL);
    leat_cond_init(&w->cond);
}

void leat_wait_init_for(struct leat_wait *w, const struct leat_store *store)
{
    const struct leat_store_opts *opts = leat_store_settings(store);
    leat_wait_init(w, opts->stop, opts->stop_user);
}

void leat_wait_end(struct leat_wait *w)
{
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->mu);
}

void leat_wait_sent(struct leat_wait *w)
{
    pthread_mutex_lock(&w->mu);
    w->pending++;
    pthread_mutex_unlock(&w->mu);
}

void leat_wait_came(struct leat_wait *w)
{
    pthread_mutex_lock(&w->mu);
    w->pending--;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mu); /* the wait may be gone after this */
}

static void on_done(struct leat_store_op *op)
{
    leat_wait_came(op->user);
}

void leat_wait_submit(struct leat_wait *w, struct leat_store *store, struct leat_store_op *op)
{
    op->done = on_done;
    op->user = w;
    leat_wait_sent(w);
    leat_store_submit(store, op);
}

bool leat_wait_for(struct leat_wait *w, uint32_t most, void (*cancel)(void *arg), void *arg)
{
    bool stopped = false;
    pthread_mutex_lock(&w->mu);
    while (w->pending > most) { /* each operation has a deadline */
        leat_cond_wait(&w->cond, &w->mu, w->stop && !stopped ? leat_after(STOP_POLL) : LEAT_NEVER);
        if (w->pending <= most || stopped || !w->stop)
            continue;
        pthread_mutex_unlock(&w->mu); /* cancelling may end operations at once */
        stopped = w->stop(w->stop_user);
        if (stopped && !cancel)
            return false;
        if (stopped)
            cancel(arg);
        pthread_mutex_lock(&w->mu);
    }
    pthread_mutex_unlock(&w->mu);
    return !stopped;
}
