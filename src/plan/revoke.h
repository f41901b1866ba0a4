/* Lifetimes of transient machines by accelerator and region, from a table of points; and availability traces by
 * the same keys. Pure functions over text in memory. */
#ifndef LEAT_PLAN_REVOKE_H
#define LEAT_PLAN_REVOKE_H

#include "base/error.h"
#include "plan/lifetime.h"
#include "plan/trace.h"

struct leat_plan_revocation {
    char accelerator[32];
    char region[64]; /* "*": any */
    unsigned line;   /* of its first point */
    struct leat_plan_lifetime lifetime;
};

struct leat_plan_revocations {
    char name[256];
    struct leat_plan_revocation *row;
    size_t count;
};

/* CSV with the columns accelerator, region, age_h, probability and perhaps `then`: "taken" when whoever reaches
 * the last age is taken at it, "steady" (as without the column) when the last hazard goes on. Adds to `out`. */
leat_status leat_plan_revocations_csv(const char *name, const char *text, size_t n, struct leat_plan_revocations *out,
                                      struct leat_error *err);
void leat_plan_revocations_free(struct leat_plan_revocations *r);

/* The exact region first, then "*"; NULL: nothing is known. */
const struct leat_plan_revocation *leat_plan_revocations_find(const struct leat_plan_revocations *r,
                                                              const char *accelerator, const char *region);

/* Whether anything is known about an accelerator, in whatever region. */
bool leat_plan_revocations_know(const struct leat_plan_revocations *r, const char *accelerator);

#endif
