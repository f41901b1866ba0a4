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

/* A file's content. text NULL: not given. */
struct leat_plan_text {
    const char *name;
    const char *text;
    size_t n;
};

struct leat_plan_trace_text {
    const char *accelerator;
    const char *region;
    struct leat_plan_text file;
};

struct leat_plan_inputs {
    struct leat_plan_text job; /* TOML, or JSON when it begins with '{' */
    const struct leat_plan_setting *settings;
    size_t setting_count;
    struct leat_plan_text catalog;
    const char *catalog_date; /* "2026-11-01"; NULL: unknown */
    const char *today;
    struct leat_plan_text measurements;
    struct leat_plan_text report;
    struct leat_plan_text revocations;
    const struct leat_plan_trace_text *traces;
    size_t trace_count;
};

struct leat_plan_options {
    double deadline_s; /* 0: none */
    double budget_usd; /* 0: none */
    unsigned max_nodes;
    const char *regions; /* separated by commas; NULL: all */
    double min_accuracy; /* percent; 0: any */
    double risk;         /* the probability with which deadline and budget must be kept */
    uint64_t seed;
    unsigned draws;
    bool (*interrupted)(void *user); /* asked now and then while pricing; NULL: never */
    void *user;
};

enum leat_plan_kind {
    LEAT_PLAN_KIND_ON_DEMAND,
    LEAT_PLAN_KIND_TRANSIENT,
    LEAT_PLAN_KIND_MIXED,
    LEAT_PLAN_KIND_UNIFORM
};

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
    double interval_s; /* between checkpoints; HUGE_VAL: only at the end */
    double accuracy;   /* percent; NaN: not given */
    bool meets;        /* deadline, budget and accuracy */
    bool front;        /* nothing else is both faster and cheaper */
    bool chosen;
    char why[200]; /* why it is chosen, or why not */
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

/* "p3.2xlarge:4:transient:us-east-1:bucket"; TYPE:1+3:mixed:… for an anchor and three transient machines. */
#define LEAT_PLAN_NAME_SIZE 160
char *leat_plan_record_name(const struct leat_plan *plan, const struct leat_plan_record *r,
                            char out[LEAT_PLAN_NAME_SIZE]);

/* The sum, line by line, each with where its numbers come from. */
struct leat_plan_line {
    char label[48];
    char value[80];
    char source[200];
};

#define LEAT_PLAN_LINES_MAX 48

struct leat_plan_lines {
    struct leat_plan_line line[LEAT_PLAN_LINES_MAX];
    size_t count;
};

/* By its full name, or the beginning of one when only one configuration begins so. */
leat_status leat_plan_explain(struct leat_plan *plan, const char *name, struct leat_plan_record *record,
                              struct leat_plan_lines *out, struct leat_error *err);

/* One record, the whole answer, and an explanation as JSON, the same for the command line and Python. */
leat_status leat_plan_json(const struct leat_plan *plan, bool all, struct leat_buf *out, struct leat_error *err);
leat_status leat_plan_explain_json(const struct leat_plan *plan, const struct leat_plan_record *record,
                                   const struct leat_plan_lines *lines, struct leat_buf *out, struct leat_error *err);

#endif
