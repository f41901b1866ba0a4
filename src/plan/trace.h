/* When transient machines of one kind could be had, tick by tick, and a whole job replayed on that under a
 * policy. Pure functions.
 *
 * The job needs work_s of computing; transient and on-demand machines compute equally fast. Taking up work on a
 * newly ordered cluster of either kind costs changeover_s (start-up, restoring), paid for and without progress.
 * Decisions fall at ticks, since the trace knows nothing finer; a transient cluster is lost at the beginning of
 * a tick in which there is none. */
#ifndef LEAT_PLAN_TRACE_H
#define LEAT_PLAN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct leat_plan_trace {
    double gap_s;
    size_t count;
    uint8_t *up; /* 1: to be had in this tick */
};

/* {"metadata": {"gap_seconds": 600}, "data": [1, 1, 0, …]}, as published with "Can't Be Late". */
leat_status leat_plan_trace_parse(const char *name, const char *text, size_t n, struct leat_plan_trace *out,
                                  struct leat_error *err);
void leat_plan_trace_free(struct leat_plan_trace *trace);

/* Time to be had for each loss; HUGE_VAL: never lost. */
double leat_plan_trace_mtbf_s(const struct leat_plan_trace *trace);

enum leat_plan_policy {
    LEAT_PLAN_ON_DEMAND, /* always on demand */
    LEAT_PLAN_TRANSIENT, /* transient whenever there is one, else wait; no eye for the deadline */
    LEAT_PLAN_UNIFORM    /* transient as long as the job is not behind an even pace to the deadline */
};

struct leat_plan_replay {
    double work_s;
    double deadline_s;
    double changeover_s;
    double usd_per_s[2]; /* on demand, transient: of the whole cluster */
};

struct leat_plan_replayed {
    double time_s; /* HUGE_VAL: the trace went round ten times without an end */
    double usd;
    double transient_s; /* paid for */
    double on_demand_s;
    unsigned revocations;
    bool kept; /* the deadline */
};

/* From tick `start` on; the trace begins anew at its end. */
void leat_plan_replay(const struct leat_plan_trace *trace, size_t start, enum leat_plan_policy policy,
                      const struct leat_plan_replay *job, struct leat_plan_replayed *out);

/* What a policy sees when it decides. */
enum leat_plan_choice { LEAT_PLAN_IDLE, LEAT_PLAN_USE_TRANSIENT, LEAT_PLAN_USE_ON_DEMAND };

struct leat_plan_sight {
    double elapsed_s;
    double done_s;
    enum leat_plan_choice now; /* what is running, after a loss LEAT_PLAN_IDLE */
    bool warm;                 /* its changeover is over */
    bool available;
    double tick_s;
};

enum leat_plan_choice leat_plan_choose(enum leat_plan_policy policy, const struct leat_plan_replay *job,
                                       const struct leat_plan_sight *sight);

#define LEAT_PLAN_TICKS_MAX 10000000

#endif
