/* A profiler's report: the one place that knows its schema, for `leat profile`, which writes it, and for all who read
 * it. It holds runs (what was measured) and the stalls that follow from pairs of them. Pure functions over text in
 * memory; docs/profile.md explains the fields. */
#ifndef LEAT_PLAN_REPORT_H
#define LEAT_PLAN_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define LEAT_REPORT_VERSION 1
#define LEAT_REPORT_RUNS    16
#define LEAT_REPORT_STALLS  16
#define LEAT_REPORT_RANKS   64
#define LEAT_REPORT_NOTES   16

/* What a step is divided into. `input` is waiting for a loader that does not say whether it fetched or prepared. */
enum leat_report_part {
    LEAT_REPORT_FETCH,
    LEAT_REPORT_PREPARE,
    LEAT_REPORT_INPUT,
    LEAT_REPORT_COPY,
    LEAT_REPORT_FORWARD,
    LEAT_REPORT_BACKWARD,
    LEAT_REPORT_COMMUNICATION,
    LEAT_REPORT_OPTIMIZER,
    LEAT_REPORT_OTHER,
    LEAT_REPORT_PARTS
};

/* How the data came. `observed`: as the script has it; `synthetic`: its own batches, again from memory; `alone`: the
 * same without the exchange of gradients. */
enum leat_report_mode { LEAT_REPORT_OBSERVED, LEAT_REPORT_SYNTHETIC, LEAT_REPORT_ALONE, LEAT_REPORT_MODES };

/* Seconds, with the interval that holds their mean with 95 %. NaN: not known. */
struct leat_report_time {
    double mean;
    double low;
    double high;
};

/* NaN or 0 for what is not known. */
struct leat_report_run {
    enum leat_report_mode mode;
    unsigned gpus; /* ranks of a machine */
    unsigned nodes;
    unsigned workers; /* of the loader; 0: it works in the rank itself */
    unsigned cores;
    bool device; /* timed by the GPU's clock */
    double steps;
    double batch; /* samples of one rank in one step */
    struct leat_report_time step_s;
    double part_s[LEAT_REPORT_PARTS];
    double fetch_s; /* of one batch in one worker */
    double prepare_s;
    double prepare_cpu_s;
    double batch_bytes;
    double gradient_bytes;
    double buckets;
    double warmup_s; /* of the first steps, beyond ordinary ones */
};

struct leat_report_stall {
    char cause[24];
    struct leat_report_time s;
    double share; /* of the step of the first run */
    int from[2];  /* runs: the first less the second; -1: of the first alone, by its records */
};

struct leat_report_rank {
    int rank;
    double steps;
    double late_s;  /* that all others waited for it, a step in the mean */
    double late_of; /* share of the steps in which it came last */
    bool died;      /* it ended without saying so, or by an exception */
};

struct leat_report {
    char leat[32];
    char made[32];
    char accelerator[128];
    char type[64];
    char model[64];
    char command[512];
    struct leat_report_run run[LEAT_REPORT_RUNS];
    size_t runs;
    struct leat_report_stall stall[LEAT_REPORT_STALLS];
    size_t stalls;
    struct leat_report_rank rank[LEAT_REPORT_RANKS];
    size_t ranks;
    char note[LEAT_REPORT_NOTES][240];
    size_t notes;
};

const char *leat_report_part_name(enum leat_report_part part);
const char *leat_report_mode_name(enum leat_report_mode mode);

/* Adds a sentence; the last place is kept for "and more". */
void leat_report_note(struct leat_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The caller's to free(); NULL: no memory. */
char *leat_report_write(const struct leat_report *r);

/* LEAT_VERSION: a newer release wrote it. LEAT_INVALID: what it is, and a key that is not known is an error too. */
leat_status leat_report_read(const char *name, const char *text, size_t n, struct leat_report *out,
                             struct leat_error *err);

/* Whether this is such a report at all, and not the short form that people write (docs/plan.md). */
bool leat_report_is(const char *text, size_t n);

/* The run of this mode with the most steps; NULL: there is none. */
const struct leat_report_run *leat_report_find(const struct leat_report *r, enum leat_report_mode mode);

#endif
