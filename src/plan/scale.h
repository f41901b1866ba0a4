/* How the speed of a cluster grows with its workers, and where it stops growing. Pure functions.
 *
 * Asynchronous workers around a parameter server: each adds its own rate until the server (or its link) is
 * full. Near that point they queue, the more the less regular their steps are:
 *     speed(w) = ((w·rate)^-p + cap^-p)^(-1/p)
 * p is the sharpness of the knee. A simulated closed queue at balance gives p = 3 for exponentially
 * distributed steps and p > 30 for clockwork; all between are equally likely beforehand, and so is every cap
 * from just below to ten times the largest speed seen. What the measurements leave open shows in the interval.
 *
 * Synchronous all-reduce: gradients leave in buckets while the backward pass is still running; only what is
 * not finished when it ends is waited for. */
#ifndef LEAT_PLAN_SCALE_H
#define LEAT_PLAN_SCALE_H

#include <stddef.h>

#include "base/error.h"
#include "plan/stats.h"

/* Measured speeds (any unit, > 0) of one model on one kind of worker, for various numbers of workers. */
struct leat_plan_series {
    const double *workers;
    const double *speed;
    size_t count;
};

#define LEAT_PLAN_SCALE_DRAWS 1000

/* Draws from what rate, cap, sharpness and the measurements' own scatter may be. */
struct leat_plan_saturation {
    double rate[LEAT_PLAN_SCALE_DRAWS];
    double cap[LEAT_PLAN_SCALE_DRAWS];
    double sharpness[LEAT_PLAN_SCALE_DRAWS];
    double noise[LEAT_PLAN_SCALE_DRAWS];
};

/* Fits all series together: they share the scatter (same people, same clock), each has its own rate, cap and
 * knee. Writes one result a series. */
leat_status leat_plan_saturation_fit(const struct leat_plan_series *series, size_t count,
                                     struct leat_plan_saturation *out, struct leat_error *err);

double leat_plan_saturation_speed(const struct leat_plan_saturation *s, size_t draw, double workers);

/* Median and interval of what would be measured; `spread`, when not NULL, gets the standard deviation of the
 * logarithm of the speed itself, without the scatter of a measurement. */
struct leat_plan_interval leat_plan_saturation_predict(const struct leat_plan_saturation *s, double workers,
                                                       double probability, double *spread);

/* How far two runs of the same cluster differ: the standard deviation of the logarithm of their speeds. */
double leat_plan_saturation_scatter(const struct leat_plan_saturation *s);

struct leat_plan_link {
    double bytes_per_s;
    double latency_s; /* of one hop */
};

struct leat_plan_allreduce {
    double gradient_bytes;
    double bucket_bytes;
    double backward_share;         /* of the compute time, over which the gradients become ready */
    struct leat_plan_link inside;  /* between the GPUs of a machine */
    struct leat_plan_link network; /* between machines */
};

#define LEAT_PLAN_BUCKET_BYTES   25e6      /* PyTorch's own default */
#define LEAT_PLAN_BACKWARD_SHARE (2.0 / 3) /* the backward pass costs twice the forward one */

/* Time of a step on nodes × gpus that takes compute_s on one GPU. */
double leat_plan_allreduce_step(const struct leat_plan_allreduce *model, double compute_s, unsigned nodes,
                                unsigned gpus);

struct leat_plan_scaling_row {
    unsigned nodes;
    unsigned gpus; /* a machine */
    double compute_s;
    double step_s;
};

/* Finds the bandwidth of `link` (a member of `model`) under which the model comes closest to the measured rows,
 * and with two or more rows its latency too,
 * starting from the one that `link` holds. Where communication was wholly hidden the least bandwidth that
 * hides it is taken. `error` gets the root mean square relative error of the rows. */
leat_status leat_plan_allreduce_fit(struct leat_plan_allreduce *model, struct leat_plan_link *link,
                                    const struct leat_plan_scaling_row *rows, size_t count, double *error,
                                    struct leat_error *err);

#endif
