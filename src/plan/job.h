/* The job to plan for, as its file and the command line describe it: one table of settings that also knows
 * where each value came from. Pure functions over text in memory. */
#ifndef LEAT_PLAN_JOB_H
#define LEAT_PLAN_JOB_H

#include <stdbool.h>

#include "base/error.h"
#include "plan/doc.h"

enum leat_plan_mode { LEAT_PLAN_ALLREDUCE, LEAT_PLAN_ASYNC };

/* What a lost machine does to the others of a job that one machine survives: they go on, or all begin again at the last
 * checkpoint, as torchrun has it. */
enum leat_plan_restart { LEAT_PLAN_ELASTIC, LEAT_PLAN_RESTART_ALL };

/* Where a cache lies: in memory, on a disk that is paid for beside the machine, on the machine's own disk. */
enum leat_plan_store { LEAT_PLAN_STORE_MEMORY, LEAT_PLAN_STORE_DISK, LEAT_PLAN_STORE_LOCAL };

#define LEAT_PLAN_SOURCE_SIZE 96

/* One way the data may come. */
struct leat_plan_path {
    char name[32];
    char source[LEAT_PLAN_SOURCE_SIZE]; /* where its first setting stands */
    double node_bytes_per_s;
    double bucket_bytes_per_s;
    double cache_bytes; /* each machine */
    enum leat_plan_store store;
    bool store_given; /* else a disk when one is paid for, or memory */
    double usd_per_1000_requests;
    double request_bytes;
    double usd_per_egress_gb;     /* NaN: not given */
    double usd_per_disk_gb_month; /* of the cache */
};

#define LEAT_PLAN_PATHS_MAX    16
#define LEAT_PLAN_ACCURACY_MAX 32

/* Every plain setting, in the table's order. NaN: not given. */
enum leat_plan_key {
    LEAT_KEY_SAMPLES,
    LEAT_KEY_EPOCHS,
    LEAT_KEY_STEPS,
    LEAT_KEY_BATCH,
    LEAT_KEY_GLOBAL_BATCH,
    LEAT_KEY_FLOPS,
    LEAT_KEY_TRAFFIC,
    LEAT_KEY_PARAMETERS,
    LEAT_KEY_PARAMETER_BYTES,
    LEAT_KEY_TENSORS,
    LEAT_KEY_BYTES_PER_PARAMETER,
    LEAT_KEY_GPU_MEMORY,
    LEAT_KEY_CHECKPOINT_BYTES,
    LEAT_KEY_CHECKPOINT_S,
    LEAT_KEY_CHECKPOINT_RATE,
    LEAT_KEY_CHECKPOINT_INTERVAL,
    LEAT_KEY_CHECKPOINT_STALL,
    LEAT_KEY_RESTORE,
    LEAT_KEY_DATASET_BYTES,
    LEAT_KEY_WINDOW_BYTES,
    LEAT_KEY_PREP_RATE,
    LEAT_KEY_START_ON_DEMAND,
    LEAT_KEY_START_TRANSIENT,
    LEAT_KEY_REPLACE,
    LEAT_KEY_REGROUP,
    LEAT_KEY_START_SPREAD,
    LEAT_KEY_NETWORK_RATE,
    LEAT_KEY_NETWORK_LATENCY,
    LEAT_KEY_INSIDE_RATE,
    LEAT_KEY_INSIDE_LATENCY,
    LEAT_KEY_SERVER_USD,
    LEAT_KEY_BILL_INCREMENT,
    LEAT_KEY_BILL_MINIMUM,
    LEAT_KEY_COUNT
};

struct leat_plan_job {
    char name[64];
    enum leat_plan_mode mode;
    enum leat_plan_restart restart;
    bool mixed_precision;         /* said so: then speeds may be carried over to accelerators that were not measured */
    char data_region[96];         /* where the data lies: "us-east-1" or "aws/us-east-1"; "": not said */
    bool sharded;                 /* parameters, gradients and optimizer state lie in parts on all GPUs */
    double value[LEAT_KEY_COUNT]; /* bytes, seconds, bytes a second, dollars an hour */
    char source[LEAT_KEY_COUNT][LEAT_PLAN_SOURCE_SIZE]; /* "job.toml line 7", "--samples", "default" */
    struct leat_plan_path path[LEAT_PLAN_PATHS_MAX];
    unsigned paths;
    double accuracy_workers[LEAT_PLAN_ACCURACY_MAX]; /* rising */
    double accuracy_percent[LEAT_PLAN_ACCURACY_MAX];
    unsigned accuracies;
    double done; /* samples of it that an earlier part of the run trained on */
};

/* A value from elsewhere, which wins over the file's: a flag, an argument. */
struct leat_plan_setting {
    const char *key;    /* "job.samples" */
    const char *text;   /* as a user writes it: "1281167", "150GB" */
    const char *source; /* "--samples" */
};

/* `doc` may be NULL. Everything wrong or missing is named with its file and line, or its flag. */
leat_status leat_plan_job_read(const struct leat_plan_doc *doc, const struct leat_plan_setting *settings, size_t count,
                               struct leat_plan_job *out, struct leat_error *err);

bool leat_plan_job_has(const struct leat_plan_job *job, enum leat_plan_key key);
const char *leat_plan_key_name(enum leat_plan_key key); /* "model.flops" */

/* Samples still to be trained on, and how often that is all of them. */
double leat_plan_job_work(const struct leat_plan_job *job);
double leat_plan_job_epochs(const struct leat_plan_job *job); /* NaN without samples */

/* Accuracy with this many asynchronous workers, interpolated in log(workers); NaN: not given, or beyond. */
double leat_plan_job_accuracy(const struct leat_plan_job *job, double workers);

#endif
