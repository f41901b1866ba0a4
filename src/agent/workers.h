/* The agent's worker threads: tasks are run in the order in which they are due. Each thread has a scratch for image
 * pipelines. */
#ifndef LEAT_AGENT_WORKERS_H
#define LEAT_AGENT_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

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
};

leat_status leat_workers_open(unsigned threads, struct leat_workers **out, struct leat_error *err);
void leat_workers_close(struct leat_workers *workers); /* runs what was added, then joins; NULL is allowed */

/* Waits until nothing is queued or running. */
void leat_workers_drain(struct leat_workers *workers);

/* From any thread. The memory is the caller's until run() is called. False when memory ran out. */
bool leat_workers_add(struct leat_workers *workers, struct leat_work *work);

/* Before all of them, as tasks: batches wait for chunks that are being checked. From any thread; takes no memory. */
void leat_workers_check(struct leat_workers *workers, struct leat_task *task);

#endif
