/* The files behind `leat plan`: reading inputs, printing answers. */
#ifndef LEAT_CLI_PLAN_H
#define LEAT_CLI_PLAN_H

#include <stdio.h>

#include "base/buf.h"
#include "base/log.h"
#include "plan/plan.h"

struct plan_settings {
    const char *job;
    const char *catalog;
    const char *measurements;
    const char *report;
    const char *revocations;
    const char *traces;
    const char *predict;
    const char *html;
    const char *region;
    const char *risk;
    const char *budget;
    double min_accuracy;
    const char *deadline;
    uint64_t max_nodes;
    uint64_t seed;
    uint64_t draws;
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

#define PLAN_FILE_MAX   (64 << 20)
#define PLAN_TRACES_MAX 256

/* A whole file; `date`, when not NULL, gets the day it was last changed. */
leat_status leat_cli_plan_read(const char *path, struct leat_buf *out, char date[11], struct leat_error *err);
void leat_cli_plan_today(char date[11]);

void leat_cli_plan_notes(const struct leat_plan_notes *notes, enum leat_log_level level);
void leat_cli_plan_table(const struct leat_plan *plan, bool all, FILE *out);
void leat_cli_plan_lines(const struct leat_plan *plan, const struct leat_plan_record *record,
                         const struct leat_plan_lines *lines, FILE *out);
leat_status leat_cli_plan_html(const struct leat_plan *plan, struct leat_buf *out, struct leat_error *err);
int leat_cli_plan_fit(const struct plan_settings *s, const char *path);

#endif
