/* The inside of a plan, for the files of this folder that make it up. */
#ifndef LEAT_PLAN_WORLD_H
#define LEAT_PLAN_WORLD_H

#include "plan/egress.h"
#include "plan/engine.h"
#include "plan/past.h"
#include "plan/plan.h"
#include "plan/revoke.h"
#include "plan/run.h"
#include "plan/terms.h"
#include "plan/traces.h"

struct leat_plan {
    struct leat_plan_options options;
    struct leat_plan_job job;
    struct leat_plan_hardware hardware;
    struct leat_plan_catalog catalog;
    struct leat_plan_measures measures;
    struct leat_plan_revocations revocations;
    struct leat_plan_egress egress;
    struct leat_plan_past past; /* config "": none */
    bool resumed;               /* the rest of it is planned */
    struct leat_plan_traces traces;
    struct leat_plan_engine *engines;
    size_t engine_count;
    size_t *engine_of;                                 /* by offer */
    const struct leat_plan_revocation **revocation_of; /* by offer; NULL: nothing is known */
    bool has_checkpoint_model;
    struct leat_plan_model checkpoint_model;
    struct leat_plan_notes notes;
    struct leat_plan_notes left_out; /* why configurations could not be priced */
    struct leat_plan_record *records;
    size_t count;
    size_t cap;
    struct leat_plan_luck *luck;
    double *draws; /* room for times, money and a sorted copy of each */
};

/* What one configuration is; priced into a record. */
struct leat_plan_case {
    const struct leat_plan_offer *offer;
    enum leat_plan_kind kind;
    unsigned nodes;
    int path;
};

/* LEAT_UNSUPPORTED, with what would be needed, when the configuration cannot be priced. `terms` may be NULL. */
leat_status leat_plan_price_case(struct leat_plan *plan, const struct leat_plan_case *c, struct leat_plan_record *out,
                                 struct leat_plan_terms *terms, struct leat_error *err);

#endif
