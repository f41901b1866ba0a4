/* The speed of a cluster of one engine's machines: as measured where it was measured, else by what the measured
 * clusters teach, else by the links that the job or the hardware table names. Pure functions. */
#ifndef LEAT_PLAN_SPEED_H
#define LEAT_PLAN_SPEED_H

#include "plan/engine.h"

/* The links count only where nothing was measured. NaN: not known. */
struct leat_plan_cluster {
    unsigned nodes;
    unsigned gpus; /* of each machine */
    struct leat_plan_link inside;
    struct leat_plan_link network;
    const char *inside_source;
    const char *network_source;
};

struct leat_plan_speed {
    double samples_per_s; /* that the GPUs can take */
    double spread;        /* standard deviation of its logarithm, between runs */
    unsigned accumulate;  /* batches of each GPU in one step of the optimizer */
};

/* Takes what was measured about clusters. Part of leat_plan_engine_make. */
leat_status leat_plan_speed_fit(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                                struct leat_plan_engine *e, struct leat_error *err);

/* LEAT_UNSUPPORTED, with the setting that must be given first, when nothing can be said. */
leat_status leat_plan_speed(struct leat_plan_engine *e, const struct leat_plan_job *job,
                            const struct leat_plan_cluster *cluster, struct leat_plan_speed *out,
                            struct leat_error *err);

/* The sentence that says where that speed comes from. */
#define LEAT_PLAN_SPEED_SOURCE_SIZE 240
void leat_plan_speed_source(const struct leat_plan_engine *e, const struct leat_plan_job *job,
                            const struct leat_plan_cluster *cluster, char out[LEAT_PLAN_SPEED_SOURCE_SIZE]);

#endif
