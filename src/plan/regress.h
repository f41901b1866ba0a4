/* Time as a sum of parts that cannot be negative: t = c0 + c1·x1 + c2·x2 + …, every c ≥ 0.
 *
 * A step or a checkpoint takes a fixed time, plus a time per FLOP, plus a time per tensor (a kernel launched, a
 * file entry written): none of these can be less than nothing, which is all the regularisation that tables of a
 * dozen models need. Errors count relative to the measured time, since a model ten times as large is measured
 * ten times as coarsely. The error stated is that of rows left out of the fit, one at a time. */
#ifndef LEAT_PLAN_REGRESS_H
#define LEAT_PLAN_REGRESS_H

#include <stddef.h>

#include "base/error.h"
#include "plan/stats.h"

#define LEAT_PLAN_FEATURES_MAX 6 /* the constant not counted */

struct leat_plan_fit {
    size_t features;
    double constant;
    double slope[LEAT_PLAN_FEATURES_MAX];
    size_t rows;
    double left_out_mean; /* mean |predicted/measured − 1| of rows left out */
    double left_out_worst;
    double spread;  /* standard deviation of the relative error of rows left out */
    double freedom; /* degrees of freedom behind the spread */
};

/* x: rows × features, row by row. y: measured times, all > 0. `left_out`, when not NULL, gets for each row what
 * a fit without it predicts. Refuses fewer than features + 3 rows: nothing could be said about the error. */
leat_status leat_plan_fit(const double *x, const double *y, size_t rows, size_t features, struct leat_plan_fit *out,
                          double *left_out, struct leat_error *err);

/* The prediction and its interval of the given probability, for example .9. */
struct leat_plan_interval leat_plan_fit_predict(const struct leat_plan_fit *fit, const double *x, double probability);

#endif
