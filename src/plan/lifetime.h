/* How long transient machines live. Their hazard is a bathtub, not a constant: many are taken in the first
 * hour, few later, and some providers take all at a fixed age. So a lifetime is given as points of its
 * distribution (age, probability of having been taken by then), straight lines between. Pure functions. */
#ifndef LEAT_PLAN_LIFETIME_H
#define LEAT_PLAN_LIFETIME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define LEAT_PLAN_POINTS_MAX  64
#define LEAT_PLAN_CELLS_MAX   192
#define LEAT_PLAN_GENERATIONS 4 /* lives on end over which machines that all end at one age keep step */

struct leat_plan_lifetime {
    size_t count;
    double age_s[LEAT_PLAN_POINTS_MAX]; /* the first is 0 */
    double probability[LEAT_PLAN_POINTS_MAX];
    bool ends;        /* a machine that reaches the last age is taken then */
    double tail_rate; /* hazard beyond the last age otherwise: that of the last stretch goes on */
    double mean_s;
    /* Revocations of one place whose machine is replaced whenever it is taken (a renewal process): how many are
     * expected up to cell_s[i], straight lines between. Beyond the last one they come every mean_s. */
    size_t cells;
    double cell_s[LEAT_PLAN_CELLS_MAX];
    double expected[LEAT_PLAN_CELLS_MAX];
};

/* Ages rise from 0, probabilities from 0 to at most 1, neither NaN; somebody must be taken at some time.
 * `what` names the source in errors. */
leat_status leat_plan_lifetime_set(const double *age_s, const double *probability, size_t count, bool ends,
                                   const char *what, struct leat_plan_lifetime *out, struct leat_error *err);

/* What is wrong with point i, given those before it; NULL: nothing. For readers that can name its line. */
const char *leat_plan_lifetime_flaw(const double *age_s, const double *probability, size_t i);

double leat_plan_lifetime_cdf(const struct leat_plan_lifetime *l, double age_s);
double leat_plan_lifetime_hazard(const struct leat_plan_lifetime *l, double age_s); /* a second */
double leat_plan_lifetime_draw(const struct leat_plan_lifetime *l, double u);       /* u in [0, 1) */

/* Expected revocations of one replaced place within t. */
double leat_plan_lifetime_renewals(const struct leat_plan_lifetime *l, double t_s);

/* Where a provider takes all machines at a fixed age, those that nothing else hit go at the same moment. When that
 * happens in (from_s, to_s], *each gets the share of places that get so far, and the time is returned; else 0. */
double leat_plan_lifetime_common_end_s(const struct leat_plan_lifetime *l, double from_s, double to_s, double *each);

#endif
