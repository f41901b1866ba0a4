/* How often to write a checkpoint. Pure functions. */
#ifndef LEAT_PLAN_CHECKPOINT_H
#define LEAT_PLAN_CHECKPOINT_H

#include "plan/lifetime.h"

/* Daly's higher-order estimate for a checkpoint of `cost_s` and a mean time between failures of `mtbf_s`: the
 * working time between two checkpoints. From cost = 2·MTBF on, the MTBF itself. */
double leat_plan_daly_s(double cost_s, double mtbf_s);

/* For machines whose hazard changes with age: the interval that suits the machines' ages of this moment, so
 * that a young cluster checkpoints often and a settled one seldom. `ages_s` are those of the transient
 * machines. The hazard counts as it is on average over the interval it gives. */
double leat_plan_hazard_interval_s(double cost_s, const struct leat_plan_lifetime *lifetime, const double *ages_s,
                                   size_t machines);

#endif
