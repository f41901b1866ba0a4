#include "store/loops.h"

#include <pthread.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct leat_loop *loop; /* NULL: a free place */
    uint32_t stores;
} places[LEAT_LOOPS_MAX]; /* hold mu */

/* Threads stay with the parent: what a child opens gets loops of its own. */
static void forget(void)
{
    pthread_mutex_init(&mu, NULL);
    for (uint32_t i = 0; i < LEAT_LOOPS_MAX; i++)
        places[i].loop = NULL;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget);
}

leat_status leat_loops_take(struct leat_loop **out, struct leat_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    leat_status rc = LEAT_OK;
    pthread_mutex_lock(&mu);
    uint32_t best = 0;
    for (uint32_t i = 1; i < LEAT_LOOPS_MAX; i++) {
        uint32_t best_n = places[best].loop ? places[best].stores : 0;
        uint32_t n = places[i].loop ? places[i].stores : 0;
        if (n < best_n)
            best = i;
    }
    if (!places[best].loop) {
        places[best].stores = 0;
        rc = leat_loop_open("leat-store", &places[best].loop, err);
        if (rc != LEAT_OK)
            places[best].loop = NULL;
    }
    if (rc == LEAT_OK) {
        places[best].stores++;
        *out = places[best].loop;
    }
    pthread_mutex_unlock(&mu);
    return rc;
}

void leat_loops_give_back(struct leat_loop *loop)
{
    struct leat_loop *over = NULL;
    if (!loop)
        return;
    pthread_mutex_lock(&mu);
    for (uint32_t i = 0; i < LEAT_LOOPS_MAX; i++) {
        if (places[i].loop == loop && --places[i].stores == 0) {
            over = loop;
            places[i].loop = NULL;
        }
    }
    pthread_mutex_unlock(&mu);
    leat_loop_close(over);
}
