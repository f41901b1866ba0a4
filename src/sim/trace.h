/* Availability traces made from a seed, and the cheapest schedule of somebody who knows one in advance. */
#ifndef LEAT_SIM_TRACE_H
#define LEAT_SIM_TRACE_H

#include "plan/trace.h"

struct leat_sim_weather {
    double up_mean_s;   /* how long machines are available at a stretch */
    double down_mean_s; /* and not */
    double early;       /* share of the stretches of either kind that end early: within a tenth of the mean */
};

/* The caller frees with leat_plan_trace_free. */
leat_status leat_sim_trace(const struct leat_sim_weather *weather, double gap_s, size_t count, uint64_t seed,
                           struct leat_plan_trace *out, struct leat_error *err);

/* Least money that keeps the deadline from tick `start` on, deciding at ticks like the policies, by dynamic
 * programming over (tick, progress, what is running). HUGE_VAL when nothing keeps it. Times are taken in units
 * of a twentieth of a tick, rounded up. Of a market of one zone; who knows the future saves before each loss. */
leat_status leat_sim_clairvoyant(const struct leat_plan_market *market, size_t start,
                                 const struct leat_plan_replay *job, double *usd, struct leat_error *err);

#endif
