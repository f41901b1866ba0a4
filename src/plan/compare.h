/* A finished run beside what was predicted for it, and what is predicted once it has been learned from. Pure functions.
 */
#ifndef LEAT_PLAN_COMPARE_H
#define LEAT_PLAN_COMPARE_H

#include "plan/plan.h"

#define LEAT_PLAN_COMPARED_MAX 8

struct leat_plan_compared {
    const char *what; /* "time", "money", … */
    const char *unit; /* "s", "usd", "samples/s", "" */
    struct leat_plan_interval predicted;
    double measured;
    bool inside;                        /* the interval that holds nine of ten */
    struct leat_plan_interval refitted; /* with this run learned from */
};

struct leat_plan_comparison {
    char config[LEAT_PLAN_NAME_SIZE];
    struct leat_plan_compared row[LEAT_PLAN_COMPARED_MAX];
    size_t count;
    char measurements[400]; /* lines of a table that --measurements reads, with their header; "": no speed was said */
};

/* `inputs->past` is the run. Refuses one that is not finished. */
leat_status leat_plan_compare(const struct leat_plan_inputs *inputs, const struct leat_plan_options *options,
                              struct leat_plan_comparison *out, struct leat_error *err);

leat_status leat_plan_compare_json(const struct leat_plan_comparison *c, struct leat_buf *out, struct leat_error *err);

#endif
