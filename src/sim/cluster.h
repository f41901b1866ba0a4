/* A training on a cluster, event by event: machines ordered, ready and taken, pieces of work, checkpoints,
 * what is lost. Shares the description of a run with the planner but none of its arithmetic, so that each can
 * be checked against the other. Pure functions of the seed. */
#ifndef LEAT_SIM_CLUSTER_H
#define LEAT_SIM_CLUSTER_H

#include "plan/run.h"

enum leat_sim_interval {
    LEAT_SIM_EVEN,     /* the run's own interval, in equal pieces */
    LEAT_SIM_BY_HAZARD /* chosen again after each checkpoint from the machines' ages */
};

struct leat_sim_result {
    double time_s;
    double usd;
    unsigned revocations;
    unsigned checkpoints;
    double lost_work_s;  /* done and lost again */
    double machine_s[2]; /* paid for: anchors, transients */
};

/* The run number `index` of a seed. */
void leat_sim_cluster(const struct leat_plan_run *run, enum leat_sim_interval interval, uint64_t seed, uint64_t index,
                      struct leat_sim_result *out);

#endif
