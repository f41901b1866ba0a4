#include "agent/workers.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"

struct worker {
    struct leat_workers *all;
    pthread_t thread;
    struct leat_scratch *scratch;
    struct leat_trace_ring *trace; /* NULL: none */
};

struct leat_workers {
    struct worker *workers;
    unsigned n; /* threads that run */
    unsigned made;
    struct {
        pthread_mutex_t mu;
        pthread_cond_t added;
        pthread_cond_t idle;
        unsigned running;
        uint64_t busy_ns;        /* of tasks that have ended */
        struct leat_work **heap; /* earliest due first */
        size_t n;
        size_t cap;
        uint64_t sequence;
        struct leat_task *checks, **checks_end; /* come first */
        bool stop;
    } queue; /* hold mu */
};

static bool earlier(const struct leat_work *a, const struct leat_work *b)
{
    if (a->due != b->due)
        return a->due < b->due;
    return a->cost != b->cost ? a->cost > b->cost : a->sequence < b->sequence;
}

static struct leat_work *pop(struct leat_workers *w)
{
    struct leat_work *first = w->queue.heap[0];
    struct leat_work *last = w->queue.heap[--w->queue.n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->queue.n; i = child) {
        if (child + 1 < w->queue.n && earlier(w->queue.heap[child + 1], w->queue.heap[child]))
            child++;
        if (!earlier(w->queue.heap[child], last))
            break;
        w->queue.heap[i] = w->queue.heap[child];
    }
    w->queue.heap[i] = last;
    return first;
}

bool leat_workers_add(struct leat_workers *w, struct leat_work *work)
{
    bool ok = true;
    pthread_mutex_lock(&w->queue.mu);
    if (w->queue.n == w->queue.cap) {
        size_t cap = w->queue.cap ? w->queue.cap * 2 : 256;
        struct leat_work **heap = realloc(w->queue.heap, cap * sizeof(struct leat_work *));
        ok = heap != NULL;
        if (ok) {
            w->queue.heap = heap;
            w->queue.cap = cap;
        }
    }
    if (ok) {
        size_t i = w->queue.n++;
        work->sequence = w->queue.sequence++;
        for (; i > 0 && earlier(work, w->queue.heap[(i - 1) / 2]); i = (i - 1) / 2)
            w->queue.heap[i] = w->queue.heap[(i - 1) / 2];
        w->queue.heap[i] = work;
        pthread_cond_signal(&w->queue.added);
    }
    pthread_mutex_unlock(&w->queue.mu);
    return ok;
}

void leat_workers_check(struct leat_workers *w, struct leat_task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&w->queue.mu);
    *w->queue.checks_end = task;
    w->queue.checks_end = &task->next;
    pthread_cond_signal(&w->queue.added);
    pthread_mutex_unlock(&w->queue.mu);
}

static bool has_work(const struct leat_workers *w)
{
    return w->queue.n || w->queue.checks;
}

/* Hold mu, which is given up meanwhile. */
static void run_next(struct worker *worker)
{
    struct leat_workers *w = worker->all;
    struct leat_task *task = w->queue.checks;
    struct leat_trace_event did = {.kind = LEAT_TRACE_CHECK};
    if (!task) {
        struct leat_work *work = pop(w);
        task = &work->task;
        did = (struct leat_trace_event){.kind = LEAT_TRACE_PREPARE,
                                        .who = work->trace.who,
                                        .number = work->trace.number,
                                        .amount = work->trace.amount};
    } else {
        w->queue.checks = task->next;
        if (!w->queue.checks)
            w->queue.checks_end = &w->queue.checks;
    }
    w->queue.running++;
    pthread_mutex_unlock(&w->queue.mu);
    task->with = worker->scratch;
    did.begin_ns = leat_now_ns();
    task->run(task); /* which may free it */
    did.end_ns = leat_now_ns();
    leat_trace_add(worker->trace, &did);
    pthread_mutex_lock(&w->queue.mu);
    w->queue.busy_ns += did.end_ns - did.begin_ns;
    if (--w->queue.running == 0 && !has_work(w))
        pthread_cond_broadcast(&w->queue.idle);
}

static void *run_worker(void *arg)
{
    struct worker *worker = arg;
    struct leat_workers *w = worker->all;
    pthread_mutex_lock(&w->queue.mu);
    for (;;) {
        while (!has_work(w) && !w->queue.stop)
            leat_cond_wait(&w->queue.added, &w->queue.mu, LEAT_NEVER);
        if (!has_work(w))
            break;
        run_next(worker);
    }
    pthread_mutex_unlock(&w->queue.mu);
    return NULL;
}

leat_status leat_workers_open(unsigned threads, struct leat_trace *trace, struct leat_workers **out,
                              struct leat_error *err)
{
    struct leat_workers *w = calloc(1, sizeof *w);
    if (!w)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for worker threads");
    pthread_mutex_init(&w->queue.mu, NULL);
    w->queue.checks_end = &w->queue.checks;
    leat_cond_init(&w->queue.added);
    leat_cond_init(&w->queue.idle);
    w->workers = calloc(threads, sizeof *w->workers);
    leat_status rc = w->workers ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for worker threads");
    while (rc == LEAT_OK && w->n < threads) {
        struct worker *worker = &w->workers[w->n];
        worker->all = w;
        worker->trace = trace ? leat_trace_worker(trace, w->n) : NULL;
        rc = leat_scratch_open(0, NULL, &worker->scratch, err);
        w->made += rc == LEAT_OK;
        if (rc == LEAT_OK)
            rc = leat_thread_start(&worker->thread, "leat-prep", run_worker, worker, err);
        w->n += rc == LEAT_OK;
    }
    if (rc != LEAT_OK) {
        leat_workers_close(w);
        return rc;
    }
    *out = w;
    return LEAT_OK;
}

void leat_workers_close(struct leat_workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->queue.mu);
    w->queue.stop = true;
    pthread_cond_broadcast(&w->queue.added);
    pthread_mutex_unlock(&w->queue.mu);
    for (unsigned i = 0; i < w->n; i++)
        pthread_join(w->workers[i].thread, NULL);
    for (unsigned i = 0; w->workers && i < w->made; i++)
        leat_scratch_close(w->workers[i].scratch);
    pthread_cond_destroy(&w->queue.added);
    pthread_cond_destroy(&w->queue.idle);
    pthread_mutex_destroy(&w->queue.mu);
    free(w->queue.heap);
    free(w->workers);
    free(w);
}

void leat_workers_stats(struct leat_workers *w, struct leat_workers_stats *out)
{
    pthread_mutex_lock(&w->queue.mu);
    *out = (struct leat_workers_stats){.threads = w->n, .busy = w->queue.running, .busy_ns = w->queue.busy_ns};
    pthread_mutex_unlock(&w->queue.mu);
}

void leat_workers_drain(struct leat_workers *w)
{
    pthread_mutex_lock(&w->queue.mu);
    while (has_work(w) || w->queue.running)
        leat_cond_wait(&w->queue.idle, &w->queue.mu, LEAT_NEVER);
    pthread_mutex_unlock(&w->queue.mu);
}
