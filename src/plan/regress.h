/* Time as a sum of parts that cannot be negative: t = c0 + c1·x1 + c2·x2 + …, every c ≥ 0.
 *
 * A step or a checkpoint takes a fixed time, plus a time per FLOP, plus a time per tensor (a kernel launched, a
 * file entry written): none of these can be less than nothing, which is all the regularisation that tables of a
 * dozen models need. Errors count relative to the measured time, since a model ten times as large is measured
 * ten times as coarsely. The error stated is that of rows left out of the fit, one at a time. It says nothing about
 * what lies far from the rows: there the interval widens, and leat_plan_fit_beyond() says how far it is. */
#ifndef LEAT_PLAN_REGRESS_H
#define LEAT_PLAN_REGRESS_H

#include <stddef.h>

#include "base/error.h"
#include "plan/stats.h"

#define LEAT_PLAN_FEATURES_MAX 6 /* the constant not counted */
#define LEAT_PLAN_FIT_TERMS    (LEAT_PLAN_FEATURES_MAX + 1)

/* Fits to the smaller of the published models, asked about the larger ones, were off by 5 to 12 % for each doubling
 * beyond the largest fitted row up to three doublings, and by half and more beyond that (checkpoints). */
#define LEAT_PLAN_FIT_DOUBLING   0.1
#define LEAT_PLAN_FIT_BEYOND_MAX 8

struct leat_plan_fit {
    size_t features;
    double constant;
    double slope[LEAT_PLAN_FEATURES_MAX];
    size_t rows;
    double left_out_mean; /* mean |predicted/measured − 1| of rows left out */
    double left_out_worst;
    double spread;                        /* standard deviation of the relative error of rows left out */
    double freedom;                       /* degrees of freedom behind the spread */
    double least[LEAT_PLAN_FEATURES_MAX]; /* of the rows */
    double most[LEAT_PLAN_FEATURES_MAX];
    double inverse[LEAT_PLAN_FIT_TERMS][LEAT_PLAN_FIT_TERMS]; /* of the normal matrix; 0 for terms that are not used */
};

/* x: rows × features, row by row. y: measured times, all > 0. `left_out`, when not NULL, gets for each row what
 * a fit without it predicts. Refuses fewer than features + 3 rows: nothing could be said about the error. */
leat_status leat_plan_fit(const double *x, const double *y, size_t rows, size_t features, struct leat_plan_fit *out,
                          double *left_out, struct leat_error *err);

/* How many times x is beyond the rows, at least 1: above the largest in a column (*column gets its number), or below
 * the smallest as far as that changes the prediction. More than LEAT_PLAN_FIT_BEYOND_MAX is not to be believed. */
double leat_plan_fit_beyond(const struct leat_plan_fit *fit, const double *x, size_t *column);

/* Standard deviation of the prediction's relative error: that of rows left out, more where x has more leverage than
 * they have, and more beyond them. */
double leat_plan_fit_spread(const struct leat_plan_fit *fit, const double *x);

/* The prediction and its interval of the given probability, for example .9. */
struct leat_plan_interval leat_plan_fit_predict(const struct leat_plan_fit *fit, const double *x, double probability);

#endif
