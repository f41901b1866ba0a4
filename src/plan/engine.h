/* How fast one kind of machine works on the job: one GPU, the GPUs of a machine, several machines. Made from
 * whatever was measured, and keeps the sentence that says from what. Pure functions. */
#ifndef LEAT_PLAN_ENGINE_H
#define LEAT_PLAN_ENGINE_H

#include "plan/job.h"
#include "plan/measure.h"
#include "plan/scale.h"

#define LEAT_PLAN_WORKERS_MAX 4096

struct leat_plan_engine {
    char accelerator[32];
    char type[48];      /* "": any type with this accelerator */
    char missing[300];  /* not "": what must be given before anything can be said */
    double step_s;      /* of one GPU */
    double step_spread; /* standard deviation of its logarithm */
    char step_source[160];

    /* Asynchronous: rate, cap and knee; `measured` points to draws, else the cap is the server's link. */
    struct leat_plan_saturation *saturation;
    double cap;            /* samples a second; HUGE_VAL: none known */
    unsigned workers_most; /* largest cluster measured */

    /* All-reduce. */
    struct leat_plan_allreduce allreduce;
    double inside_error; /* of the links' share of a step; NaN: the link is not known */
    double network_error;
    char scale_source[200];

    double *cache_speed; /* by workers: asynchronous predictions are costly */
    double *cache_spread;
};

leat_status leat_plan_engine_make(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                                  const char *type, const char *accelerator, struct leat_plan_engine *out,
                                  struct leat_error *err);
void leat_plan_engine_free(struct leat_plan_engine *engine);

/* Samples a second that the GPUs of a cluster can take, and the spread of that. False, with a sentence in `why`,
 * when something must be given first. */
bool leat_plan_engine_speed(struct leat_plan_engine *engine, const struct leat_plan_job *job, unsigned nodes,
                            unsigned gpus, double *samples_per_s, double *spread, char why[300]);

#endif
