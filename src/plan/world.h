/* The inside of a plan, for the files of this folder that make it up. */
#ifndef LEAT_PLAN_WORLD_H
#define LEAT_PLAN_WORLD_H

#include "plan/engine.h"
#include "plan/plan.h"
#include "plan/revoke.h"

struct leat_plan_named_trace {
    char accelerator[32];
    char region[40]; /* "*": any */
    char name[200];
    struct leat_plan_trace trace;
};

struct leat_plan {
    struct leat_plan_options options;
    char regions[1024];
    struct leat_plan_job job;
    struct leat_plan_catalog catalog;
    struct leat_plan_measures measures;
    struct leat_plan_revocations revocations;
    struct leat_plan_named_trace *traces;
    size_t trace_count;
    struct leat_plan_engine *engines;
    size_t engine_count;
    size_t *engine_of; /* by offer */
    bool has_checkpoint_model;
    struct leat_plan_model checkpoint_model;
    struct leat_plan_notes notes;
    struct leat_plan_notes left_out; /* why configurations could not be priced */
    struct leat_plan_record *records;
    size_t count;
    size_t cap;
    double *draws; /* room for times, money and a sorted copy of each */
};

/* What one configuration is; priced into a record. */
struct leat_plan_case {
    const struct leat_plan_offer *offer;
    enum leat_plan_kind kind;
    unsigned nodes;
    int path;
};

/* False, with a sentence in `why`, when the configuration cannot be priced. `lines` may be NULL. */
bool leat_plan_price_case(struct leat_plan *plan, const struct leat_plan_case *c, struct leat_plan_record *out,
                          struct leat_plan_lines *lines, char why[300]);

#endif
