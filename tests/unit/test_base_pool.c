#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "unit.h"

struct job {
    struct leat_task task; /* first: run() casts back */
    struct leat_pool *pool;
    atomic_int *done;
    int *order;
    int number;
    int again; /* times it adds itself once more */
};

static void run(struct leat_task *task)
{
    struct job *job = (struct job *)task;
    int place = atomic_fetch_add(job->done, 1);
    if (job->order)
        job->order[place] = job->number;
    if (job->again-- > 0)
        leat_pool_add(job->pool, task);
}

TEST(one_thread_runs_tasks_in_the_order_they_were_added)
{
    enum { N = 1000 };
    struct leat_error err;
    struct leat_pool *pool;
    static struct job jobs[N];
    static int order[N];
    atomic_int done = 0;
    assert_ok(leat_pool_open("pool", 1, &pool, &err), err);
    for (int i = 0; i < N; i++) {
        jobs[i] = (struct job){.task.run = run, .done = &done, .order = order, .number = i};
        leat_pool_add(pool, &jobs[i].task);
    }
    leat_pool_close(pool);
    assert_int_equal(done, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(order[i], i);
}

TEST(closing_runs_what_was_added_and_what_that_adds)
{
    enum { N = 200 };
    struct leat_error err;
    struct leat_pool *pool;
    static struct job jobs[N];
    atomic_int done = 0;
    assert_ok(leat_pool_open("pool", 4, &pool, &err), err);
    for (int i = 0; i < N; i++) {
        jobs[i] = (struct job){.task.run = run, .pool = pool, .done = &done, .again = 3};
        leat_pool_add(pool, &jobs[i].task);
    }
    leat_pool_close(pool);
    assert_int_equal(done, 4 * N);
}

TEST(an_idle_pool_closes_at_once)
{
    struct leat_error err;
    struct leat_pool *pool;
    for (unsigned threads = 1; threads < 5; threads++) {
        assert_ok(leat_pool_open("pool", threads, &pool, &err), err);
        leat_pool_close(pool);
    }
    leat_pool_close(NULL);
}

struct meeting {
    struct leat_task task;
    pthread_barrier_t *all;
};

static void meet(struct leat_task *task)
{
    pthread_barrier_wait(((struct meeting *)task)->all);
}

/* A task that hangs keeps none waiting as long as there may be another thread. */
TEST(tasks_that_wait_for_each_other_run_at_once)
{
    enum { N = 32 };
    struct leat_error err;
    struct leat_pool *pool;
    struct meeting meetings[N];
    pthread_barrier_t all[3];
    assert_ok(leat_pool_open_growing("pool", 2, N, &pool, &err), err);
    for (int round = 0; round < 3; round++) { /* later ones find the threads idle, or on the way to it */
        pthread_barrier_init(&all[round], NULL, N + 1);
        for (int i = 0; i < N; i++) {
            meetings[i] = (struct meeting){.task.run = meet, .all = &all[round]};
            leat_pool_add(pool, &meetings[i].task);
        }
        pthread_barrier_wait(&all[round]);
    }
    leat_pool_close(pool);
    for (int round = 0; round < 3; round++)
        pthread_barrier_destroy(&all[round]);
}
