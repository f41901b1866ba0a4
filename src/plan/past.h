/* A run that has happened, or has come so far: what it did, took and cost, and what was measured in it. Read from JSON,
 * and learned from. Pure functions over text in memory. */
#ifndef LEAT_PLAN_PAST_H
#define LEAT_PLAN_PAST_H

#include "plan/catalog.h"
#include "plan/measure.h"
#include "plan/plan.h"
#include "plan/revoke.h"

#define LEAT_PLAN_PAST_LIVES_MAX 4096

/* NaN: not said. */
struct leat_plan_past {
    char name[200]; /* the file's */
    char config[LEAT_PLAN_NAME_SIZE];
    double samples; /* trained on */
    double elapsed_s;
    double usd;
    double revocations;
    double samples_per_s; /* of all GPUs together, while they trained */
    double step_s;        /* or this, from which the other is made */
    double checkpoint_s;
    double start_s;
    struct leat_plan_life *lives; /* of its machines */
    size_t life_count;
    /* Once its configuration is found in a catalog. */
    const struct leat_plan_offer *offer;
    enum leat_plan_kind kind;
    unsigned nodes;
    int path;
};

/* {"config": "p3.2xlarge:4:transient:us-east-1", "samples": …, "elapsed_s": …, and as far as they are known "usd",
 * "revocations", "samples_per_s" or "step_s", "checkpoint_s", "start_s", "lives": [{"hours": 3.2, "how": "taken"}, …]}.
 * Other keys are refused. The caller frees `out` in any case. */
leat_status leat_plan_past_read(const char *name, const char *text, size_t n, struct leat_plan_past *out,
                                struct leat_error *err);
void leat_plan_past_free(struct leat_plan_past *past);

/* Finds the configuration's offer, kind, machines and path. */
leat_status leat_plan_past_locate(struct leat_plan_past *past, const struct leat_plan_catalog *catalog,
                                  const struct leat_plan_job *job, struct leat_error *err);

/* Its speed as a measured cluster, its checkpoints and its start as settings, its machines' lives as lifetimes of its
 * type and region. With `alone`, what was measured on such a cluster before no longer counts: the run goes on on the
 * machines it has. */
leat_status leat_plan_past_learn(const struct leat_plan_past *past, bool alone, struct leat_plan_job *job,
                                 struct leat_plan_measures *measures, struct leat_plan_revocations *revocations,
                                 struct leat_error *err);

#endif
