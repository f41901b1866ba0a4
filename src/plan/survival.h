/* Machines whose lives were watched, some to their end and some only for a while: the distribution of lifetimes behind
 * them, and how many revocations it stands on. Pure functions. */
#ifndef LEAT_PLAN_SURVIVAL_H
#define LEAT_PLAN_SURVIVAL_H

#include "plan/lifetime.h"

struct leat_plan_life {
    double age_s;   /* when it was taken, or last seen */
    bool taken;     /* else stopped by its owner, or still running: it would have lived longer */
    double start_s; /* when it began, on a clock that all of them share; the same for all where that is not known */
};

struct leat_plan_survival {
    size_t machines;
    size_t taken; /* those that only reached a maximum life not among them */
    size_t reached;
    double watched_s; /* all ages together */
    bool ends;        /* a machine that reaches the last age is taken then */
    size_t points;
    double age_s[LEAT_PLAN_POINTS_MAX];
    double probability[LEAT_PLAN_POINTS_MAX];
};

/* The hazard is taken as constant over stretches that hold equal numbers of revocations: those of a stretch over the
 * time that all machines spent in it, whether they were taken there or not. Where nearly all that came so far went
 * within the last twenty-fifth of the longest life, the provider may have a maximum, and the distribution ends there.
 * But machines that began together and were lost together look the same: it is a maximum only where machines reached it
 * that began at three times at least, or where it is a whole number of days, as the limits of providers are. Without
 * any revocation, half of one is taken for seen. Sorts `lives`. `what` names the source in errors. */
leat_status leat_plan_survival_fit(struct leat_plan_life *lives, size_t count, const char *what,
                                   struct leat_plan_survival *out, struct leat_error *err);

/* Revocations that the fit stands on, at least a half: one over its root is the relative error of the hazard. */
double leat_plan_survival_events(const struct leat_plan_survival *s);

/* How much the hazard of one place differs from study to study, beside the size of the samples: the standard deviation
 * of its logarithm between two published studies of the same accelerators and regions (docs/plan.md). */
#define LEAT_PLAN_HAZARD_DRIFT 1.3

/* Of the logarithm of the hazard: what this many revocations leave open, and the drift. */
double leat_plan_hazard_spread(double events);

#endif
