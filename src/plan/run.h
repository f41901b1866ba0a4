/* One run of a job on one cluster: how long and how dear, by formula, and by draws over everything that is not
 * certain. Pure functions; the event simulation in src/sim checks both.
 *
 * What happens, here and there alike: all machines are ordered at time 0, each takes start_s or so, and work begins
 * with the slowest. A transient machine that is taken is ordered again at once and ready replace_s later. Machines age
 * and are billed from their order on.
 *
 *  - rollback (synchronous training without a machine that stays): a machine taken stops the cluster until all
 *    are ready again, and what was done since the last checkpoint is lost.
 *  - otherwise (a parameter server or an on-demand anchor keeps the state): the others go on at their own
 *    speed, after a pause of regroup_s at every coming and going.
 *
 * A run that takes a hundred times as long as undisturbed is given up there: nobody would wait for it.
 *
 * A checkpoint stops the work for checkpoint_s, after equal pieces of work of about interval_s each and at the
 * end. One that is written in the background counts only lag_s after that; the next waits for it. */
#ifndef LEAT_PLAN_RUN_H
#define LEAT_PLAN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/lifetime.h"
#include "plan/stats.h"

struct leat_plan_run {
    double work;
    unsigned anchors;    /* machines that stay */
    unsigned transients; /* machines that may be taken */
    const double *speed; /* work a second with 0 … anchors+transients machines ready */
    double speed_spread; /* standard deviation of log(true speed / speed) */
    bool rollback;
    double checkpoint_s;
    double lag_s;
    double interval_s; /* HUGE_VAL: one checkpoint at the end */
    double start_s;
    double start_spread; /* standard deviation of log(true start / start_s) */
    double replace_s;
    double regroup_s;
    const struct leat_plan_lifetime *lifetime; /* of transients; may be NULL without any */
    double hazard_spread; /* standard deviation of log(true hazard / the lifetime's); drawn once a run */
    double usd_per_s;
    double usd_fixed;
    double usd_per_revocation; /* what a new machine must fetch again */
    double bill_increment_s;   /* machines are paid for in steps of this; 0: by the second */
    double bill_minimum_s;     /* and for this long at least */
};

struct leat_plan_expected {
    double time_s;
    double usd;
    double revocations;
    double start_s;      /* until the slowest machine is ready */
    double work_s;       /* at full speed, nothing in the way */
    double checkpoint_s; /* writing checkpoints */
    double lost_s;       /* repeated, waited or slowed down because of revocations */
    double skew_s;       /* what uncertain speeds add to the mean: these five make time_s */
    double pieces;       /* checkpoints written */
};

/* Seconds that one machine is paid for which is kept for `time_s`. */
double leat_plan_run_billed_s(const struct leat_plan_run *run, double time_s);

void leat_plan_run_expect(const struct leat_plan_run *run, struct leat_plan_expected *out);

/* What chance has in store for `count` runs, the same for every cluster: two of them can then be compared by few
 * draws. One thread at a time. */
struct leat_plan_luck;
leat_status leat_plan_luck_new(uint64_t seed, size_t count, struct leat_plan_luck **out, struct leat_error *err);
void leat_plan_luck_free(struct leat_plan_luck *luck); /* NULL is allowed */

/* As many runs as there is luck for: times and money, in the order drawn. */
leat_status leat_plan_run_draw(const struct leat_plan_run *run, struct leat_plan_luck *luck, double *time_s,
                               double *usd, struct leat_error *err);

/* Work between checkpoints that costs least time in expectation: Daly's, with the mean time between revocations
 * that this run will see (its hazard over its own length, not the machines' mean lifetime). HUGE_VAL where
 * nothing can be lost. */
double leat_plan_run_interval_s(const struct leat_plan_run *run);

#define LEAT_PLAN_MACHINES_MAX 1024
#define LEAT_PLAN_PATIENCE     100.0

#endif
