#include "base/pool.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"

struct leat_pool {
    const char *name;
    unsigned most;
    pthread_mutex_t mu;
    pthread_cond_t work;
    struct leat_task *first; /* hold mu */
    struct leat_task **last; /* hold mu */
    unsigned queued;         /* hold mu */
    unsigned idle;           /* hold mu: threads that wait for work, also when it is there already */
    unsigned threads_n;      /* hold mu */
    pthread_t *threads;      /* hold mu */
    bool stop;               /* hold mu */
};

static void *run_pool(void *arg)
{
    struct leat_pool *pool = arg;
    pthread_mutex_lock(&pool->mu);
    for (;;) {
        pool->idle++;
        while (!pool->first && !pool->stop)
            leat_cond_wait(&pool->work, &pool->mu, LEAT_NEVER);
        pool->idle--;
        struct leat_task *t = pool->first;
        if (!t)
            break;
        pool->first = t->next;
        pool->queued--;
        if (!pool->first)
            pool->last = &pool->first;
        pthread_mutex_unlock(&pool->mu);
        t->run(t);
        pthread_mutex_lock(&pool->mu);
    }
    pthread_mutex_unlock(&pool->mu);
    return NULL;
}

/* Holding mu. */
static leat_status start_one(struct leat_pool *pool, struct leat_error *err)
{
    leat_status rc = leat_thread_start(&pool->threads[pool->threads_n], pool->name, run_pool, pool, err);
    pool->threads_n += rc == LEAT_OK;
    return rc;
}

leat_status leat_pool_open(const char *name, unsigned threads, struct leat_pool **out, struct leat_error *err)
{
    return leat_pool_open_growing(name, threads, threads, out, err);
}

leat_status leat_pool_open_growing(const char *name, unsigned least, unsigned most, struct leat_pool **out,
                                   struct leat_error *err)
{
    struct leat_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a thread pool");
    pthread_mutex_init(&pool->mu, NULL);
    leat_cond_init(&pool->work);
    pool->last = &pool->first;
    pool->name = name;
    pool->most = most;
    pool->threads = calloc(most, sizeof *pool->threads);
    leat_status rc = pool->threads ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a thread pool");
    pthread_mutex_lock(&pool->mu);
    while (rc == LEAT_OK && pool->threads_n < least)
        rc = start_one(pool, err);
    pthread_mutex_unlock(&pool->mu);
    if (rc != LEAT_OK) {
        leat_pool_close(pool);
        return rc;
    }
    *out = pool;
    return LEAT_OK;
}

void leat_pool_close(struct leat_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mu);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mu);
    for (unsigned i = 0; i < pool->threads_n; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mu);
    free(pool->threads);
    free(pool);
}

void leat_pool_add(struct leat_pool *pool, struct leat_task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&pool->mu);
    *pool->last = task;
    pool->last = &task->next;
    pool->queued++;
    if (pool->queued > pool->idle && pool->threads_n < pool->most && !pool->stop)
        start_one(pool, NULL); /* if none can be started, the others do it */
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->mu);
}
