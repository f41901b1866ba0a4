/* How fast one kind of machine works on the job: one GPU, the GPUs of a machine, several machines. Made from
 * whatever was measured, and keeps the sentence that says from what. Pure functions. */
#ifndef LEAT_PLAN_ENGINE_H
#define LEAT_PLAN_ENGINE_H

#include "plan/curve.h"
#include "plan/hardware.h"
#include "plan/job.h"
#include "plan/measure.h"
#include "plan/scale.h"

#define LEAT_PLAN_WORKERS_MAX 4096

/* Two runs of the same job on two machines of the same kind differ by about this much; said in docs/plan.md. */
#define LEAT_PLAN_SPREAD_ONCE  0.03 /* measured once */
#define LEAT_PLAN_SPREAD_LEAST 0.01 /* however often measured */

struct leat_plan_known_speed {
    double samples_per_s; /* 0: not yet asked for */
    double spread;
};

/* A cluster that was measured as it is. */
struct leat_plan_measured {
    unsigned nodes;
    unsigned gpus;
    double step_s; /* geometric mean of its lines */
    double spread;
    unsigned lines;
    unsigned file;
    unsigned first_line; /* 0: of a report */
};

struct leat_plan_engine {
    char accelerator[32];
    char type[48];      /* "": any type with this accelerator */
    char missing[300];  /* not "": what must be given before anything can be said */
    double step_s;      /* of one GPU */
    double step_spread; /* standard deviation of its logarithm */
    char step_source[160];
    bool transferred;                          /* carried over from another accelerator: nobody measured this one */
    const struct leat_plan_measures *measures; /* the caller's */

    struct leat_plan_measured *measured; /* several GPUs or workers */
    size_t measured_count;

    /* Asynchronous: rate, cap and knee; without measured clusters the cap is the server's link. */
    struct leat_plan_saturation *saturation;
    double cap;                          /* samples a second; HUGE_VAL: none known */
    unsigned workers_most;               /* largest cluster measured */
    struct leat_plan_known_speed *cache; /* by workers: predictions are costly */

    /* All-reduce. */
    struct leat_plan_allreduce allreduce; /* gradient_bytes NaN: not known. Its links are fitted, else nominal */
    struct leat_plan_curve *inside;       /* NULL: nothing measured */
    struct leat_plan_curve *network;
};

/* `hardware` may be NULL: the built-in table alone. */
leat_status leat_plan_engine_make(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                                  const struct leat_plan_hardware *hardware, const char *type, const char *accelerator,
                                  struct leat_plan_engine *out, struct leat_error *err);
void leat_plan_engine_free(struct leat_plan_engine *engine);

/* Lines about a very type win over those about its accelerator. */
bool leat_plan_engine_by_type(const struct leat_plan_measures *measures, const char *type);

/* Whether a line is about this job, at its batch, on this engine. */
bool leat_plan_engine_has(const struct leat_plan_engine *engine, const struct leat_plan_job *job,
                          const struct leat_plan_measure *m);

/* "measured, speeds.csv line 7" */
void leat_plan_engine_source(const struct leat_plan_measures *measures, const struct leat_plan_measure *m,
                             const char *what, char *out, size_t n);

#endif
