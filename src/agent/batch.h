/* A batch in the agent: its samples, and how they get into a slot of the ring. The scheduler says when; the workers
 * do the rest: one of them finds the samples, makes room for them and hands out parts, others write those, and where
 * values must be moved or pages given back when all are written, one does that. Loop thread only, but for what the
 * workers do. */
#ifndef LEAT_AGENT_BATCH_H
#define LEAT_AGENT_BATCH_H

#include <stdatomic.h>

#include "agent/outputs.h"
#include "agent/workers.h"
#include "base/pool.h"
#include "sched/cursor.h"
#include "sched/sched.h"

struct leat_loading;

/* A stretch of a batch that one worker prepares. */
struct leat_batch_part {
    struct leat_work work; /* first member */
    struct leat_loading_batch *batch;
    uint32_t first, n;
    uint64_t cpu_ns;         /* that it took */
    uint32_t decoded, taken; /* samples: made, and copied from what other loaders have made */
};

/* Its chunks are there all at once, unless they are more than the loader was promised room for: then they come in
 * groups, one after the other, and ragged values wait beside the slot until all of them are known. So do those of
 * blocks of tokens, whose lengths the workers find out. */
struct leat_loading_batch {
    struct leat_sched_batch sched; /* first member */
    struct leat_cursor_batch plan;
    struct leat_loading *loading;
    struct leat_sample *samples; /* those of other groups have no chunk */
    struct leat_error *errors;   /* by place; NULL until it is prepared */
    struct leat_shared **shared; /* by place, while a worker has put off its copy; NULL: nothing is shared */
    struct leat_slot_view view;
    bool ragged_later; /* ragged values wait beside the slot: view.kept has them */
    struct {
        void *data; /* NULL: the slot is large enough, or all is written */
        uint64_t bytes;
        int fd; /* -1: there is none. The rank is given it when the batch is published */
    } memory;
    struct leat_batch_part *parts;
    uint32_t parts_cap;
    uint32_t parts_n;        /* of the group, given to workers … */
    uint32_t parts_done;     /* … and back */
    bool handed_out;         /* parts_n is final; the loop's */
    uint32_t skipped;        /* places that were filled with other samples */
    uint64_t cost;           /* of the group, in outputs' units */
    double cost_ns;          /* what one of these takes, by what is known so far; 0: nothing is */
    struct leat_error err;   /* why it could not be prepared at all */
    struct leat_task later;  /* what is done with the whole batch, on a worker or the loop */
    _Atomic uint32_t failed; /* places; relaxed: counted by workers, read after their tasks were posted */
};

/* Takes the plan over, on success. */
leat_status leat_batch_make(struct leat_loading *l, struct leat_cursor_batch *plan, struct leat_loading_batch **out,
                            struct leat_error *err);
void leat_batch_free(struct leat_loading_batch *b); /* NULL is allowed */

/* Has the samples of its group written; leat_loading_prepared() follows, later. */
void leat_batch_prepare(struct leat_loading_batch *b);

/* How far the rank has come after it, in samples of its own, through all epochs. */
uint64_t leat_batch_place(const struct leat_loading_batch *b);

/* When all are written, and the batch is about to be published: what can only be done on the loop. */
leat_status leat_batch_finish(struct leat_loading_batch *b, struct leat_error *err);

#endif
