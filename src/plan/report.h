/* A profiler's report: the one place that knows its schema, for `leat profile`, which writes it, and for all who read
 * it. It holds runs (what was measured) and the stalls that follow from pairs of them. Pure functions over text in
 * memory; docs/profile.md explains the fields. */
#ifndef LEAT_PLAN_REPORT_H
#define LEAT_PLAN_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define LEAT_REPORT_VERSION 3
#define LEAT_REPORT_RUNS    16
#define LEAT_REPORT_STALLS  24
#define LEAT_REPORT_RANKS   64
#define LEAT_REPORT_NOTES   16
#define LEAT_REPORT_BUCKETS 64
#define LEAT_REPORT_LINKS   96
#define LEAT_REPORT_STEPS   2048
#define LEAT_REPORT_SPANS   8192

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
 * same without the exchange of gradients; `single`: the same, and the other ranks stand still; `cached` and `cold`:
 * its loader reads the same samples again, from memory, and from where they lie. */
enum leat_report_mode {
    LEAT_REPORT_OBSERVED,
    LEAT_REPORT_SYNTHETIC,
    LEAT_REPORT_ALONE,
    LEAT_REPORT_SINGLE,
    LEAT_REPORT_CACHED,
    LEAT_REPORT_COLD,
    LEAT_REPORT_MODES
};

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
    double handover_s; /* the shortest wait for a batch that a worker had ready */
    double batch_bytes;
    double gradient_bytes;
    double buckets;
    double warmup_s;                          /* of the first steps, beyond ordinary ones */
    double bucket_bytes[LEAT_REPORT_BUCKETS]; /* of each bucket of gradients, in the order in which they leave */
    size_t bucket_count;
    double flops;             /* of one rank in one step, forward and backward */
    double copied_bytes;      /* to the accelerator, of one rank in one step */
    double read_bytes;        /* that one rank and its workers read from files in one step, from memory or a disk */
    double disk_bytes;        /* of these, what came from a disk */
    double bucket_read_bytes; /* from a bucket, by the account of leat.Loader */
    double memory_rate;       /* bytes a second while reading what the machine has in memory */
    double disk_rate;         /* … what it has to get from a disk */
    double bucket_rate;       /* … from a bucket */
    double dataset_samples;   /* of the loader that trains */
    double peak_gpu_bytes;    /* the most that one rank's tensors took */
    double cores_used;        /* of this machine, by the script and its workers, in the mean */
    double checkpoint_write_s;
    double checkpoint_read_s;
    double checkpoint_bytes;
};

struct leat_report_stall {
    char cause[24];
    struct leat_report_time s;
    double share; /* of the step of the first run */
    int from[2];  /* runs: the first less the second; -1: of the first alone, by its records */
};

struct leat_report_rank {
    int rank;
    unsigned node;
    double steps;
    double late_s;  /* that all others waited for it, a step in the mean */
    double late_of; /* share of the steps in which it came last */
    bool died;      /* it ended without saying so, or by an exception */
};

/* An all-reduce of this many bytes over these ranks, measured beside the training. */
struct leat_report_link {
    char scope[16];   /* "machine": ranks of one; "network": one rank of each machine; "pair": two ranks; "all" */
    char backend[16]; /* gloo, nccl */
    int a;            /* of a pair; -1: no pair */
    int b;
    unsigned ranks;
    double bytes;
    struct leat_report_time s;
};

/* One step of one rank, for a time line: seconds since the first one in the report. The parts follow each other in the
 * order of `stage_s`, which is wait, copy, forward, backward, communication, optimizer, other. */
#define LEAT_REPORT_STAGES 7
struct leat_report_step {
    int rank;
    enum leat_report_mode mode;
    double start_s;
    double stage_s[LEAT_REPORT_STAGES];
};

/* What a thread was seen doing in those steps. `thread` is 0 for the rank's own, 1 … for its loader's workers. */
struct leat_report_span {
    int rank;
    unsigned thread;
    char what[16]; /* wait, fetch, copy, backward, communication, optimizer */
    double start_s;
    double end_s;
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
    struct leat_report_link link[LEAT_REPORT_LINKS];
    size_t links;
    struct leat_report_step step[LEAT_REPORT_STEPS];
    size_t steps;
    struct leat_report_span span[LEAT_REPORT_SPANS];
    size_t spans;
};

const char *leat_report_part_name(enum leat_report_part part);
const char *leat_report_mode_name(enum leat_report_mode mode);
const char *leat_report_stage_name(size_t stage);

/* With everything that may be unknown said to be so. */
void leat_report_run_init(struct leat_report_run *run);

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
