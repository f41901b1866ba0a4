/* One configuration while it is priced, for the files that do it: price.c, bill.c, outcome.c. */
#ifndef LEAT_PLAN_SUM_H
#define LEAT_PLAN_SUM_H

#include "plan/feed.h"
#include "plan/run.h"
#include "plan/speed.h"
#include "plan/terms.h"
#include "plan/world.h"

struct leat_plan_sum {
    struct leat_plan *plan;
    const struct leat_plan_case *c;
    const struct leat_plan_job *job;
    struct leat_plan_engine *engine;
    struct leat_plan_terms *terms; /* NULL: nobody asks */
    struct leat_plan_cluster cluster;
    unsigned workers;
    double work;
    double gpu_speed;                         /* samples a second that the GPUs could take */
    double speed[LEAT_PLAN_MACHINES_MAX + 1]; /* and get, by machines ready */
    double spread;
    double data_share;  /* of the time, waiting for data */
    double cache_bytes; /* of one machine, as far as it has room */
    double fetched_bytes;
    double cached_bytes;
    double restore_s; /* of a checkpoint */
    double write_s;
    double machines_usd_h[2]; /* of all machines on demand, of all transient ones */
    double beside_usd_h[2];   /* the parameter server, disks */
    double egress_usd_gb;
    double paid_h[3];     /* hours of machines on demand, of transient ones, and of what is beside them */
    double transient_usd; /* traces: what the zones' own prices come to */
    double rounding_usd;  /* what billing by steps adds */
    struct leat_plan_run run;
    const struct leat_plan_revocation *revocation;
    struct leat_plan_market market; /* the zones' traces; count 0: none */
    const char *trace_name;         /* of the first */
    bool traced;                    /* replayed on the traces instead of drawn from lifetimes */
};

/* bill.c: prices of everything by the hour, and the money of a finished record as terms. */
leat_status leat_plan_bill(struct leat_plan_sum *s, struct leat_error *err);
void leat_plan_bill_terms(struct leat_plan_sum *s, double revocations);

/* outcome.c: time and money of the run, mean and draws, into the record. */
leat_status leat_plan_outcome(struct leat_plan_sum *s, struct leat_plan_record *out, struct leat_error *err);

#define LEAT_PLAN_PATH_SOURCE_SIZE 160
char *leat_plan_path_source(const struct leat_plan_path *path, char out[LEAT_PLAN_PATH_SOURCE_SIZE]);

#endif
