/* The files behind `leat plan`: reading inputs, printing answers. */
#ifndef LEAT_CLI_PLAN_H
#define LEAT_CLI_PLAN_H

#include <stdio.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/option.h"
#include "plan/compare.h"
#include "plan/plan.h"
#include "plan/report.h"

struct plan_settings {
    const char *job;
    struct leat_option_list catalogs;
    struct leat_option_list hardware;
    struct leat_option_list measurements;
    struct leat_option_list reports;
    struct leat_option_list revocations;
    struct leat_option_list egress;
    const char *traces;
    const char *resume;
    const char *compare;
    const char *as;
    const char *script;
    const char *predict;
    const char *html;
    struct leat_option_list regions;
    struct leat_option_list sets;
    const char *risk;
    const char *budget;
    const char *min_accuracy;
    const char *deadline;
    const char *max_nodes;
    const char *seed;
    const char *draws;
    bool json;
    bool all;
    /* What the job's file may say too. */
    const char *name;
    const char *samples;
    const char *epochs;
    const char *steps;
    const char *batch;
    const char *mode;
    const char *flops;
    const char *parameters;
    const char *parameter_bytes;
    const char *tensors;
    const char *checkpoint_bytes;
    const char *checkpoint_time;
    const char *dataset;
};

#define PLAN_FILE_MAX (64 << 20)

/* A whole file; `date`, when not NULL, gets the day it was last changed. */
leat_status leat_cli_plan_read(const char *path, struct leat_buf *out, char date[11], struct leat_error *err);
void leat_cli_plan_today(char date[11]);

/* A profiler's report; the caller's to free(). */
leat_status leat_cli_report_read(const char *path, struct leat_report **out, struct leat_error *err);

void leat_cli_plan_notes(const struct leat_plan_notes *notes, enum leat_log_level level);
void leat_cli_plan_table(const struct leat_plan *plan, bool all, FILE *out);
void leat_cli_plan_lines(const struct leat_plan *plan, const struct leat_plan_record *record,
                         const struct leat_plan_terms *terms, FILE *out);
void leat_cli_plan_compared(const struct leat_plan_comparison *c, FILE *out);
leat_status leat_cli_plan_html(const struct leat_plan *plan, struct leat_buf *out, struct leat_error *err);
int leat_cli_plan_fit(const struct plan_settings *s, const char *path);

/* Whether a table is one of machines that were watched, and the fit of their lifetimes. */
bool leat_cli_plan_has_lives(const char *path, const struct leat_buf *text);
int leat_cli_plan_fit_lives(const struct plan_settings *s, const char *path, const struct leat_buf *text);

#endif
