/* What a step would take if something were different, from the runs of a report. Pure.
 *
 * Workers make batches while the rank computes: a step is the longer of the two (without workers: their sum), and then
 * the exposed communication. Preparing shares the machine's cores; fetching does not need any. */
#ifndef LEAT_PROFILE_WHATIF_H
#define LEAT_PROFILE_WHATIF_H

#include "plan/report.h"

/* 0 or NaN: as it was measured. */
struct leat_whatif {
    double cached;        /* share of fetching that falls away, 0 … 1; NaN */
    double storage_speed; /* 2: fetching takes half the time */
    double gpu_speed;
    unsigned cores;
    unsigned workers; /* of each rank; more than 0 */
    unsigned gpus;    /* ranks of a machine */
};

struct leat_whatif_answer {
    struct leat_report_time step_s;
    double speed;                /* samples of a rank and second, against now */
    enum leat_report_part limit; /* FETCH, PREPARE, COMMUNICATION; FORWARD: computing */
};

/* LEAT_UNSUPPORTED: the report does not hold what the question needs. */
leat_status leat_whatif_ask(const struct leat_report *r, const struct leat_whatif *what, struct leat_whatif_answer *out,
                            struct leat_error *err);

/* Workers of each rank that would keep up with computing; 0: not known. */
unsigned leat_whatif_workers(const struct leat_report *r);

#endif
