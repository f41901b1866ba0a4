/* The planner: everything given, every configuration priced, the sensible ones picked. No I/O, no clock, no
 * threads: texts come in, records go out; src/cli/plan*.c reads the files and prints.
 *
 * Order of calls: open, price, choose; then the records are final. */
#ifndef LEAT_PLAN_PLAN_H
#define LEAT_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "plan/catalog.h"
#include "plan/job.h"
#include "plan/notes.h"
#include "plan/stats.h"
#include "plan/terms.h"
#include "plan/traces.h"

struct leat_plan_inputs {
    struct leat_plan_text job; /* TOML, or JSON when it begins with '{' */
    const struct leat_plan_setting *settings;
    size_t setting_count;
    const struct leat_plan_catalog_file *catalogs;
    size_t catalog_count;
    const char *today;
    const struct leat_plan_text *hardware; /* over the built-in table */
    size_t hardware_count;
    const struct leat_plan_text *measurements;
    size_t measurement_count;
    const struct leat_plan_text *reports;
    size_t report_count;
    const struct leat_plan_text *revocations;
    size_t revocation_count;
    const struct leat_plan_text *egress; /* what bytes cost that leave a region */
    size_t egress_count;
    struct leat_plan_text traces;             /* the table */
    const struct leat_plan_text *trace_files; /* those it names, in its order */
    size_t trace_count;
    struct leat_plan_text past; /* a run that has happened, or come so far; text NULL: none */
    bool resume;                /* plan the rest of it; else only learn from it */
};

#define LEAT_PLAN_REGIONS_MAX 64

struct leat_plan_options {
    double deadline_s; /* 0: none */
    double budget_usd; /* 0: none */
    unsigned max_nodes;
    const char *regions[LEAT_PLAN_REGIONS_MAX]; /* names, or several separated by commas */
    size_t region_count;                        /* 0: all */
    double min_accuracy;                        /* percent; 0: any */
    double risk;                                /* the probability with which deadline and budget must be kept */
    uint64_t seed;
    unsigned draws;
    bool (*interrupted)(void *user); /* asked now and then while pricing; NULL: never */
    void *user;
};

/* The options' defaults, and one option from the text a user gives: the one reader for flags, arguments and requests.
 * Keys: deadline, budget, max_nodes, region (adds one), min_accuracy, risk, seed, draws. `text` must outlive `o`. */
struct leat_plan_options leat_plan_options_default(void);
leat_status leat_plan_option_set(struct leat_plan_options *o, const char *key, const char *text,
                                 struct leat_error *err);

enum leat_plan_kind {
    LEAT_PLAN_KIND_ON_DEMAND,
    LEAT_PLAN_KIND_TRANSIENT,
    LEAT_PLAN_KIND_MIXED,
    LEAT_PLAN_KIND_UNIFORM,
    LEAT_PLAN_KIND_FLEXIBLE, /* the same over several types of machines */
    LEAT_PLAN_KINDS
};

/* On demand and transient by turns, on traces. */
static inline bool leat_plan_kind_turns(enum leat_plan_kind kind)
{
    return kind == LEAT_PLAN_KIND_UNIFORM || kind == LEAT_PLAN_KIND_FLEXIBLE;
}

const char *leat_plan_kind_name(enum leat_plan_kind kind);

struct leat_plan_record {
    const struct leat_plan_offer *offer;
    enum leat_plan_kind kind;
    unsigned nodes;
    int path;                         /* into job->path; -1: the data path is not planned */
    struct leat_plan_interval time_s; /* expected, and the interval that holds nine of ten runs */
    struct leat_plan_interval usd;
    double risk_time_s; /* kept with the probability asked for */
    double risk_usd;
    double stall_share; /* of the time, GPUs waiting: for each other, for the network, for data */
    double data_share;  /* the part of it that is data */
    double revocations;
    double usd_per_hour;  /* of the whole cluster; of uniform progress, while it is transient */
    double samples_per_s; /* while it trains, with its data */
    double speed_spread;  /* standard deviation of its logarithm */
    double checkpoint_s;  /* to write one */
    double start_s;       /* until the slowest machine is ready */
    double hazard_spread;
    double interval_s; /* between checkpoints; HUGE_VAL: only at the end */
    double accuracy;   /* percent; NaN: not given */
    bool transferred;  /* its accelerator was not measured: a speed carried over from another */
    bool meets;        /* deadline, budget and accuracy */
    bool front;        /* nothing else is faster and no dearer, or cheaper and no slower */
    bool chosen;
    const struct leat_plan_offer
        *same_as;      /* the very same in another place stands for it; NULL: it stands for itself */
    char also_in[120]; /* places that it stands for: "eu-west-1, us-west-2" */
    char why[300];     /* why it is chosen, or why not */
};

struct leat_plan;

leat_status leat_plan_open(const struct leat_plan_inputs *inputs, const struct leat_plan_options *options,
                           struct leat_plan **out, struct leat_error *err);
void leat_plan_close(struct leat_plan *plan); /* NULL is allowed */

/* Prices every configuration. Fails when there is none at all, naming what is missing, and when interrupted. */
leat_status leat_plan_price(struct leat_plan *plan, struct leat_error *err);

/* Marks front, meets, chosen and why, and sorts: the chosen first, then the front by time, then the rest by
 * money. True when something meets deadline, budget and accuracy; else the nearest is chosen. */
bool leat_plan_choose_records(struct leat_plan *plan);

const struct leat_plan_record *leat_plan_records(const struct leat_plan *plan, size_t *count);
const struct leat_plan_notes *leat_plan_notes_of(const struct leat_plan *plan);
const struct leat_plan_notes *leat_plan_left_out(const struct leat_plan *plan); /* and what would be needed */
const struct leat_plan_job *leat_plan_job_of(const struct leat_plan *plan);
const struct leat_plan_options *leat_plan_options_of(const struct leat_plan *plan);

/* "p3.2xlarge:4:transient:us-east-1:bucket"; TYPE:1+3:mixed:… for an anchor and three transient machines; with several
 * catalogs the region is PROVIDER/REGION. */
#define LEAT_PLAN_NAME_SIZE 240
char *leat_plan_record_name(const struct leat_plan *plan, const struct leat_plan_record *r,
                            char out[LEAT_PLAN_NAME_SIZE]);

/* Of the price that the configuration pays first; "": the catalog names none. */
const char *leat_plan_record_zone(const struct leat_plan_record *r);

/* By its full name, or the beginning of one when only one configuration begins so; NULL: the chosen one. */
leat_status leat_plan_find(const struct leat_plan *plan, const char *name, struct leat_plan_record *out,
                           struct leat_error *err);

/* The record by its name, and the terms of its sum. */
leat_status leat_plan_explain(struct leat_plan *plan, const char *name, struct leat_plan_record *record,
                              struct leat_plan_terms *out, struct leat_error *err);

/* One record, the whole answer, and an explanation as JSON, the same for the command line and Python. */
leat_status leat_plan_json(const struct leat_plan *plan, bool all, struct leat_buf *out, struct leat_error *err);
leat_status leat_plan_explain_json(const struct leat_plan *plan, const struct leat_plan_record *record,
                                   const struct leat_plan_terms *terms, struct leat_buf *out, struct leat_error *err);

#endif
