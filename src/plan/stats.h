/* The little statistics that the planner's models share. Pure functions. */
#ifndef LEAT_PLAN_STATS_H
#define LEAT_PLAN_STATS_H

#include <stddef.h>

#include "base/random.h"

/* A prediction: the middle and the ends of an interval of stated probability. */
struct leat_plan_interval {
    double mean;
    double lo;
    double hi;
};

/* Sorts v. */
void leat_plan_sort(double *v, size_t n);

/* The q-th quantile of sorted values, interpolated between order statistics so that [q, 1-q] of n draws holds
 * the next draw with probability 1-2q (Weibull's positions: k/(n+1)). */
double leat_plan_quantile(const double *sorted, size_t n, double q);

double leat_plan_mean(const double *v, size_t n);

/* Inverse of the standard normal distribution; q in (0, 1). */
double leat_plan_normal_quantile(double q);

/* A standard normal draw. */
double leat_plan_normal(struct leat_rng *rng);

/* Student's t: the quantile for `freedom` degrees, by Hill's expansion. Good to 1e-3 from 3 degrees on. */
double leat_plan_t_quantile(double q, double freedom);

#endif
