/* How often a place whose machine is replaced whenever it is taken loses one: the renewal equation of a lifetime,
 * solved on a grid that is fine wherever machines are young. Pure functions. */
#ifndef LEAT_PLAN_RENEWAL_H
#define LEAT_PLAN_RENEWAL_H

#include "plan/lifetime.h"

/* Fills in cells, cell_s and expected of a lifetime whose points, tail and mean are set. */
leat_status leat_plan_renewal_solve(struct leat_plan_lifetime *l, struct leat_error *err);

#endif
