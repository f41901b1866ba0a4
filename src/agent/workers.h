/* The agent's worker threads: tasks are run in the order in which they are due. Each thread has a scratch for image
 * pipelines. */
#ifndef LEAT_AGENT_WORKERS_H
#define LEAT_AGENT_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/trace.h"
#include "base/error.h"
#include "base/pool.h"
#include "prep/pipeline.h"

struct leat_workers;

/* A task with a time. Its thread's scratch, a struct leat_scratch, is in task.with when it runs. */
struct leat_work {
    struct leat_task task; /* first member */
    uint64_t due;          /* smaller ones first … */
    uint64_t cost;         /* … of equal ones the larger: the last to be begun should not be the last to end … */
    uint64_t sequence;     /* … and else as they were added; the workers' */
    struct {
        uint32_t who;
        uint64_t number, amount;
    } trace; /* what it is called there, agent/trace.h */
};

/* `trace` has a ring for each of them; NULL: nothing is kept. */
leat_status leat_workers_open(unsigned threads, struct leat_trace *trace, struct leat_workers **out,
                              struct leat_error *err);
void leat_workers_close(struct leat_workers *workers); /* runs what was added, then joins; NULL is allowed */

/* Waits until nothing is queued or running. */
void leat_workers_drain(struct leat_workers *workers);

/* From any thread. The memory is the caller's until run() is called. False when memory ran out. */
bool leat_workers_add(struct leat_workers *workers, struct leat_work *work);

/* How many threads there are, how many are at work now, and for how long all of them have been. From any thread. */
struct leat_workers_stats {
    unsigned threads, busy;
    uint64_t busy_ns;
};
void leat_workers_stats(struct leat_workers *workers, struct leat_workers_stats *out);

/* Before all of them, as tasks: batches wait for chunks that are being checked. From any thread; takes no memory. */
void leat_workers_check(struct leat_workers *workers, struct leat_task *task);

#endif
