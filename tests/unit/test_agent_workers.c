/* Worker threads run what is due first, all of it, and end when told. */
#include "agent/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit.h"

struct job {
    struct leat_work work; /* first member */
    struct record *record;
    uint32_t number;
};

struct record {
    pthread_mutex_t mu;
    uint32_t ran[2000];
    uint32_t n;
    _Atomic bool gate; /* workers wait in run() until it is open */
    _Atomic uint32_t inside;
};

static void run_job(struct leat_task *task)
{
    struct job *j = (struct job *)task;
    struct record *r = j->record;
    assert_non_null(task->with);
    atomic_fetch_add(&r->inside, 1);
    while (!atomic_load(&r->gate))
        leat_sleep_until(leat_after(LEAT_MS));
    pthread_mutex_lock(&r->mu);
    r->ran[r->n++] = j->number;
    pthread_mutex_unlock(&r->mu);
}

static struct record *make_record(bool open)
{
    struct record *r = calloc(1, sizeof *r);
    assert_non_null(r);
    pthread_mutex_init(&r->mu, NULL);
    atomic_store(&r->gate, open);
    return r;
}

static void free_record(struct record *r)
{
    pthread_mutex_destroy(&r->mu);
    free(r);
}

TEST(earliest_due_runs_first_and_equal_ones_in_turn)
{
    struct leat_workers *w;
    struct record *r = make_record(false);
    static struct job jobs[500];
    assert_int_equal(leat_workers_open(1, NULL, &w, NULL), LEAT_OK);
    for (uint32_t i = 0; i < 500; i++) {
        jobs[i] =
            (struct job){.work = {.task.run = run_job, .due = i ? (i * 7919u) % 97 : 0}, .record = r, .number = i};
        assert_true(leat_workers_add(w, &jobs[i].work));
        while (i == 0 && !atomic_load(&r->inside))
            leat_sleep_until(leat_after(LEAT_MS)); /* the first one holds the only thread */
    }
    atomic_store(&r->gate, true);
    leat_workers_drain(w);
    assert_int_equal(r->n, 500);
    for (uint32_t i = 2; i < 500; i++) {
        const struct job *a = &jobs[r->ran[i - 1]];
        const struct job *b = &jobs[r->ran[i]];
        assert_true(a->work.due < b->work.due || (a->work.due == b->work.due && a->number < b->number));
    }
    leat_workers_close(w);
    free_record(r);
}

TEST(drain_waits_for_what_runs_and_what_is_queued)
{
    struct leat_workers *w;
    struct record *r = make_record(true);
    static struct job jobs[1000];
    assert_int_equal(leat_workers_open(4, NULL, &w, NULL), LEAT_OK);
    leat_workers_drain(w); /* nothing there */
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 1000; i++) {
            jobs[i] = (struct job){.work = {.task.run = run_job, .due = i}, .record = r, .number = i};
            assert_true(leat_workers_add(w, &jobs[i].work));
        }
        leat_workers_drain(w);
        assert_int_equal(r->n, 1000 * (uint32_t)(round + 1));
    }
    leat_workers_close(w);
    free_record(r);
}

TEST(close_runs_what_was_added)
{
    struct leat_workers *w;
    struct record *r = make_record(true);
    static struct job jobs[300];
    assert_int_equal(leat_workers_open(3, NULL, &w, NULL), LEAT_OK);
    for (uint32_t i = 0; i < 300; i++) {
        jobs[i] = (struct job){.work = {.task.run = run_job, .due = 1}, .record = r, .number = i};
        assert_true(leat_workers_add(w, &jobs[i].work));
    }
    leat_workers_close(w);
    assert_int_equal(r->n, 300);
    free_record(r);
    leat_workers_close(NULL);
}
