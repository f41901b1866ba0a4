/* What was measured: a few lines of speeds of this job, or a table of other models to fit a regression to; and
 * the report of a profiler. Pure functions over text in memory. */
#ifndef LEAT_PLAN_MEASURE_H
#define LEAT_PLAN_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "plan/job.h"
#include "plan/notes.h"
#include "plan/regress.h"

/* One line; NaN or "" for what it does not say. */
struct leat_plan_measure {
    char model[64];
    char accelerator[32];
    char type[48];
    unsigned gpus; /* a machine */
    unsigned nodes;
    double batch;
    double step_s;        /* of one GPU, or of the cluster in step */
    double samples_per_s; /* of the whole cluster */
    double flops;         /* a step */
    double parameters;
    double tensors;
    double checkpoint_bytes;
    double checkpoint_s;
    unsigned file; /* into the names */
    unsigned line; /* 0: from a report */
};

/* Seconds of a step, however it was given. */
#define LEAT_PLAN_STEP_LEAST 1e-7
#define LEAT_PLAN_STEP_MOST  1e5

#define LEAT_PLAN_MEASURE_FILES 32

struct leat_plan_measures {
    char name[LEAT_PLAN_MEASURE_FILES][200];
    unsigned files;
    struct leat_plan_measure *row;
    size_t count;
};

/* CSV. Columns: accelerator; model, type, gpus, nodes, batch, step_s, steps_per_s, samples_per_s,
 * flops_per_step, parameters, tensors, checkpoint_bytes, checkpoint_s in any order, as far as they are known.
 * Adds to `out`, which the caller frees in any case. */
leat_status leat_plan_measures_csv(const char *name, const char *text, size_t n, struct leat_plan_measures *out,
                                   struct leat_plan_notes *notes, struct leat_error *err);

/* A report of `leat profile` (plan/report.h), or the short form that people write (docs/plan.md); its prep rate goes to
 * the job when the job has none. Keys that are not known are refused. */
leat_status leat_plan_measures_report(const char *name, const char *text, size_t n, struct leat_plan_job *job,
                                      struct leat_plan_measures *out, struct leat_error *err);
void leat_plan_measures_free(struct leat_plan_measures *m);

/* Which columns a regression stands on. The time of a step is fitted to FLOPs, parameters and tensors, that of a
 * checkpoint to its bytes: those of them that every usable row has. */
enum leat_plan_target { LEAT_PLAN_STEP, LEAT_PLAN_CHECKPOINT };

struct leat_plan_model {
    enum leat_plan_target target;
    struct leat_plan_fit fit;
    const char *column[LEAT_PLAN_FEATURES_MAX];
};

/* Fits the rows of `accelerator` (NULL: all). `used` and `left_out`, when not NULL, have room for m->count: which
 * rows were used and what a fit without each predicts for it. */
leat_status leat_plan_model_fit(const struct leat_plan_measures *m, enum leat_plan_target target,
                                const char *accelerator, struct leat_plan_model *out, bool *used, double *left_out,
                                struct leat_error *err);

struct leat_plan_prediction {
    struct leat_plan_interval s;
    double spread;      /* standard deviation of the relative error */
    double beyond;      /* how many times the row is beyond those of the fit; 1: it is among them */
    const char *column; /* in which it is */
};

/* The first column that the model stands on and the row lacks; NULL: it has all. */
const char *leat_plan_model_lacks(const struct leat_plan_model *model, const struct leat_plan_measure *row);

/* LEAT_UNSUPPORTED: the row lacks a column, or is more than LEAT_PLAN_FIT_BEYOND_MAX times beyond those of the fit. */
leat_status leat_plan_model_predict(const struct leat_plan_model *model, const struct leat_plan_measure *row,
                                    double probability, struct leat_plan_prediction *out, struct leat_error *err);

#endif
