/* What a step would take if something were different, from the runs of a report. Pure.
 *
 * Workers make batches while the rank computes and communicates, so a step is the longer of the two; without workers it
 * is their sum. How fast workers are that share cores and a line says queue.h. The model's error on the measured run is
 * corrected for where it arises, and is part of the interval. */
#ifndef LEAT_PROFILE_WHATIF_H
#define LEAT_PROFILE_WHATIF_H

#include "plan/report.h"

/* 0: as it was measured. */
struct leat_whatif {
    bool cache;           /* `cached` is asked for */
    double cached;        /* share of the samples that are at hand, 0 … 1 */
    double storage_speed; /* 2: fetching takes half the time */
    double bandwidth;     /* bytes a second that storage gives a machine; fetching is then that, and nothing else */
    double sample_bytes;  /* in storage, where the report does not say; with it, fetching is believed to be reading */
    double gpu_speed;
    unsigned cores;
    unsigned workers; /* of each rank; more than 0 */
    unsigned gpus;    /* ranks of a machine */
    unsigned nodes;
    double network; /* bytes a second between machines, where the report does not know them */
};

struct leat_whatif_answer {
    struct leat_report_time step_s;
    double speed;                /* samples a second of the whole job, against now */
    enum leat_report_part limit; /* FETCH, PREPARE, COMMUNICATION; FORWARD: computing */
};

/* Whether the report shows that fetching is reading: bytes were seen to be read meanwhile, or cached batches were
 * timed. Else it may be a sleep, a lock or a client that cannot be followed, and what storage or a cache would change
 * is not known. */
bool leat_whatif_reads(const struct leat_report *r);

/* LEAT_UNSUPPORTED: the report does not hold what the question needs. */
leat_status leat_whatif_ask(const struct leat_report *r, const struct leat_whatif *what, struct leat_whatif_answer *out,
                            struct leat_error *err);

/* What limits the step in turn: the first as `what` has it, each further one with those before it gone. Returns how
 * many there are, at most `n`; 0: not enough data. */
size_t leat_whatif_limits(const struct leat_report *r, const struct leat_whatif *what, struct leat_whatif_answer *out,
                          size_t n);

/* What one rank needs to compute without waiting: workers of its loader (0: not known), cores (NaN: not known). */
unsigned leat_whatif_workers(const struct leat_report *r);
/* As many of these workers as the machine has cores for. */
unsigned leat_whatif_usable_workers(const struct leat_report *r);
struct leat_report_time leat_whatif_cores(const struct leat_report *r);

/* What another loader would have to do with: the costs of the script's samples. NaN: not known. */
struct leat_whatif_costs {
    double rank_s;       /* of a step: computing, copying and communication */
    double sample_bytes; /* in storage */
    double core_s;       /* of preparing one sample */
    double storage_rate; /* bytes a second that storage gave a machine while workers waited for it: it can do that */
    double spread;       /* of the measurement, as a share */
};
leat_status leat_whatif_costs(const struct leat_report *r, const struct leat_whatif *what,
                              struct leat_whatif_costs *out, struct leat_error *err);

#endif
