/* Inside the engine: what store.c and hedging.c share. */
#ifndef LEAT_STORE_STORE_IMPL_H
#define LEAT_STORE_STORE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/random.h"
#include "store/backend.h"
#include "store/hedge.h"
#include "store/pace.h"
#include "store/queue.h"
#include "store/retry.h"

enum leat_op_state { LEAT_OP_IDLE, LEAT_OP_QUEUED, LEAT_OP_RUNNING, LEAT_OP_WAITING };

struct leat_store {
    enum leat_scheme scheme; /* constant after open, as all of this group */
    char *host;
    struct leat_store_opts opts;
    char *headers;                 /* that were asked for; NULL: none */
    bool given;                    /* keys and the like come from another process … */
    char place[LEAT_ACCESS_PLACE]; /* … as what it knows of this place */
    struct leat_loop *loop;
    struct leat_backend *backend;
    bool lanes;  /* keys are told apart: else all are in the first one */
    bool hedges; /* what is late is asked for a second time */
    struct {
        struct leat_line line;
        struct leat_queue active; /* running or waiting for their next attempt */
        uint32_t running;
        struct leat_pace pace;
        struct leat_retry_budget budget;
        struct leat_rng jitter;
        bool reached; /* the other side has answered at least once */
        bool closing;
        struct leat_hedge hedge;
        uint32_t seconds;          /* requests in flight for what is late */
        struct leat_timer tick;    /* keeps the pace going while long transfers run */
    } own;                         /* loop thread only */
    atomic_bool states_crc32c;     /* the server states that of what it stores; a hint, relaxed */
    struct leat_store_stats stats; /* written on the loop thread, read anywhere: relaxed atomics */
    struct {
        pthread_mutex_t mu;
        pthread_cond_t idle;
        uint32_t ops; /* submitted and not yet given back, and tasks posted and not yet run */
        struct leat_store_op *starved;
    } open;                   /* hold mu */
    struct leat_task starved; /* on its way while there are some */
};

#define LEAT_STORE_COUNT(store, field, n) __atomic_fetch_add(&(store)->stats.field, (n), __ATOMIC_RELAXED)

/* Something is on its way, or no longer: the store waits for it when it is closed. */
void leat_store_count_in(struct leat_store *store);
void leat_store_count_out(struct leat_store *store);

/* Begins an attempt: it counts as in flight until leat_store_attempted(). */
void leat_store_begin(struct leat_store *store, struct leat_store_op *op);

/* An attempt begins: it may become late. */
void leat_hedging_start(struct leat_store *store, struct leat_store_op *op);

/* An attempt has ended, with op's status. True: it was a second request, and is dealt with. Else op may have been given
 * the second's answer. */
bool leat_hedging_ended(struct leat_store *store, struct leat_store_op *op);

#endif
