/* When transient machines were available, tick by tick, in one or several zones, and a whole job replayed on that under
 * a policy. Pure functions.
 *
 * The job needs work_s of computing on demand; transient machines of another type may be faster or slower. A newly
 * ordered cluster of either kind works after start_s, and after changeover_s when it takes up work that others began;
 * both are paid for. Decisions fall at ticks, since the trace knows nothing finer; a transient cluster is lost at the
 * beginning of a tick in which its zone has none, and with it the work since the last checkpoint. */
#ifndef LEAT_PLAN_TRACE_H
#define LEAT_PLAN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct leat_plan_trace {
    double gap_s;
    size_t count;
    bool counts;    /* ticks say how many machines there were, not whether there were any */
    uint16_t *free; /* in each tick */
};

/* {"metadata": {"gap_seconds": 600}, "data": [1, 1, 0, …]}, as published with "Can't Be Late". A trace with a number
 * above 1 is one of counts. */
leat_status leat_plan_trace_parse(const char *name, const char *text, size_t n, struct leat_plan_trace *out,
                                  struct leat_error *err);
void leat_plan_trace_free(struct leat_plan_trace *trace);

/* Were `machines` available in this tick? */
bool leat_plan_trace_up(const struct leat_plan_trace *trace, size_t tick, unsigned machines);

/* Available time per loss of `machines`. Without any loss, as if one came at the trace's end; 0: never available.
 */
double leat_plan_trace_mtbf_s(const struct leat_plan_trace *trace, unsigned machines);

enum leat_plan_policy {
    LEAT_PLAN_ON_DEMAND, /* always on demand */
    LEAT_PLAN_TRANSIENT, /* transient whenever there is one, else wait; no eye for the deadline */
    LEAT_PLAN_UNIFORM    /* transient as long as the job is not behind an even pace to the deadline */
};

#define LEAT_PLAN_MARKET_MAX 64

/* Zones, and types of machines in them, on which the cluster may run, as a whole on one at a time. Traces have one gap;
 * the shortest ends the round. */
struct leat_plan_market {
    size_t count;
    struct {
        const struct leat_plan_trace *trace;
        double usd_per_s; /* of the whole transient cluster */
        double speed;     /* in that of the on-demand cluster; 0: the same */
    } zone[LEAT_PLAN_MARKET_MAX];
};

struct leat_plan_replay {
    double work_s; /* checkpoints included */
    double deadline_s;
    double start_s;
    double changeover_s;
    double piece_s;   /* of work between two checkpoints, each with its own; 0: a loss costs no work */
    double usd_per_s; /* on demand */
    unsigned machines;
};

struct leat_plan_replayed {
    double time_s; /* HUGE_VAL: the traces went round ten times without an end */
    double usd;
    double transient_s; /* paid for */
    double on_demand_s;
    double transient_usd;
    double lost_s; /* of work done again */
    unsigned revocations;
    unsigned orders; /* clusters taken up */
    bool kept;       /* the deadline */
};

/* From tick `start` on; the traces begin again at their end. */
void leat_plan_replay(const struct leat_plan_market *market, size_t start, enum leat_plan_policy policy,
                      const struct leat_plan_replay *job, struct leat_plan_replayed *out);

/* What a policy sees when it decides. */
enum leat_plan_choice { LEAT_PLAN_IDLE, LEAT_PLAN_USE_TRANSIENT, LEAT_PLAN_USE_ON_DEMAND };

struct leat_plan_sight {
    double elapsed_s;
    double done_s;
    double starting_s;         /* of a start still to come */
    enum leat_plan_choice now; /* what is running, after a loss LEAT_PLAN_IDLE */
    bool available;            /* where it runs, or in any zone */
    double speed;              /* of the machines available there, in that of on-demand ones; 0: the same */
    double tick_s;
};

enum leat_plan_choice leat_plan_choose(enum leat_plan_policy policy, const struct leat_plan_replay *job,
                                       const struct leat_plan_sight *sight);

#define LEAT_PLAN_TICKS_MAX 10000000

#endif
