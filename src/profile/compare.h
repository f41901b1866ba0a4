/* Two reports of one job: what changed, and whether it is more than their intervals allow. Pure. */
#ifndef LEAT_PROFILE_COMPARE_H
#define LEAT_PROFILE_COMPARE_H

#include <stdbool.h>

#include "plan/report.h"

#define LEAT_COMPARE_ROWS (LEAT_REPORT_PARTS + LEAT_REPORT_MODES + LEAT_REPORT_STALLS)

struct leat_compare_row {
    char what[48]; /* "step, observed"; "  fetch"; "stall: data" */
    struct leat_report_time a;
    struct leat_report_time b;
    /* Whether the difference is beyond both intervals together. Parts have none: they are held against the step's. */
    bool beyond;
    bool known; /* there are intervals to say so */
};

struct leat_compare {
    struct leat_compare_row row[LEAT_COMPARE_ROWS];
    size_t rows;
    char changed[8][120]; /* settings that differ, in words */
    size_t changes;
};

/* Reports of the same job on clusters that differ in the number of machines have two rows: "step, synthetic", and
 * either "stall: network" (as many ranks in all: Stash's pair, 1 × 8 and 2 × 4) or "stall: machines" (as many on each
 * machine: the planner's, 1 × 8 and 2 × 8). The one with fewer machines has 0 there. LEAT_INVALID: they are of
 * different jobs, with what differs first: GPUs, machines, batch, accelerator, model. LEAT_UNSUPPORTED: one of them has
 * too few steps. */
leat_status leat_compare(const char *a_name, const struct leat_report *a, const char *b_name,
                         const struct leat_report *b, struct leat_compare *out, struct leat_error *err);

#endif
