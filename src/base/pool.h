/* Threads that run tasks in the order they were added. */
#ifndef LEAT_BASE_POOL_H
#define LEAT_BASE_POOL_H

#include "base/error.h"

/* A piece of work. The memory is the caller's and must stay until run() is called; run() may add it again
 * somewhere or free it. */
struct leat_task {
    void (*run)(struct leat_task *task);
    struct leat_task *next; /* of the task's holder */
    void *with;             /* what the thread that runs it has for it: a worker its scratch; else not set */
};

struct leat_pool;

leat_status leat_pool_open(const char *name, unsigned threads, struct leat_pool **out, struct leat_error *err);

/* One whose tasks may hang: beyond the first threads, others are started when all are at work, and stay. A task waits
 * for another one to end only when there are as many as allowed, or no more can be started. */
leat_status leat_pool_open_growing(const char *name, unsigned least, unsigned most, struct leat_pool **out,
                                   struct leat_error *err);
void leat_pool_close(struct leat_pool *pool); /* runs what was added, then joins the threads; NULL is allowed */
void leat_pool_add(struct leat_pool *pool, struct leat_task *task); /* any thread; takes no memory, cannot fail */

#endif
