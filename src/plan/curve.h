/* How a step of synchronous training grows with the members of a ring: the GPUs of a machine, or machines. No single
 * form fits all models and links, so several are kept and averaged, each weighted by how well it foretold the larger
 * measured clusters from the smaller ones; what they disagree about widens the interval. Pure functions. */
#ifndef LEAT_PLAN_CURVE_H
#define LEAT_PLAN_CURVE_H

#include <stdbool.h>

#include "plan/scale.h"

enum leat_plan_form {
    LEAT_PLAN_FORM_LINE,     /* speed is a straight line in the members */
    LEAT_PLAN_FORM_CONSTANT, /* the efficiency of the largest measured cluster stays */
    LEAT_PLAN_FORM_RING,     /* a step grows with 2(n-1)/n, nothing hidden behind computing */
    LEAT_PLAN_FORM_TREE,     /* … with log2 n */
    LEAT_PLAN_FORM_BUCKETS,  /* leat_plan_allreduce_step: buckets overlap the backward pass */
    LEAT_PLAN_FORMS
};

#define LEAT_PLAN_CURVE_ROWS 32

struct leat_plan_curve {
    bool network;                     /* members are machines, not the GPUs of one */
    struct leat_plan_allreduce model; /* the bucket form, its link fitted; gradient_bytes NaN: no such form */
    size_t count;                     /* measured clusters, by members, each once */
    double members[LEAT_PLAN_CURVE_ROWS];
    double over_s[LEAT_PLAN_CURVE_ROWS]; /* a step beyond that of one member; never less than nothing */
    double contradiction;                /* logarithm of how much faster than one member a cluster was measured */
    double weight[LEAT_PLAN_FORMS];
};

/* One measured cluster. base_s: a step of one member of it; compute_s: of one GPU. */
struct leat_plan_curve_row {
    unsigned nodes;
    unsigned gpus;
    double base_s;
    double compute_s;
    double step_s;
};

/* Makes a curve of `network` or not from `count` rows, at least one; rows of equal members are averaged. `model` holds
 * the links known so far; the one this curve is about is fitted here. */
leat_status leat_plan_curve_fit(const struct leat_plan_allreduce *model, bool network,
                                const struct leat_plan_curve_row *rows, size_t count, struct leat_plan_curve *out,
                                struct leat_error *err);

/* A step of `row`'s cluster (its step_s is not read), at least that of one member: all of them wait for the last.
 * *spread gets the standard deviation of its logarithm, without that of base_s. */
double leat_plan_curve_step(const struct leat_plan_curve *curve, const struct leat_plan_curve_row *row, double *spread);

/* Other weights than those found by the fit, which it makes add up to 1: for judging forms one by one. */
void leat_plan_curve_reweigh(struct leat_plan_curve *curve, const double weight[LEAT_PLAN_FORMS]);

const char *leat_plan_form_name(enum leat_plan_form form);

/* What the GPUs of one machine cost each other where nothing was measured: 55 published tables of 1 and 8 GPUs joined
 * by NVLink lose a tenth of a step on average, and anything from 1 to 35 %. A share of the step, and its uncertainty.
 */
double leat_plan_curve_prior(unsigned gpus, double *spread);

#define LEAT_PLAN_PRIOR_OVER   0.114
#define LEAT_PLAN_PRIOR_SPREAD 0.073

#endif
