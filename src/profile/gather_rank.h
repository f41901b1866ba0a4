/* One rank of a job as it is gathered. Inside src/profile only. */
#ifndef LEAT_PROFILE_GATHER_RANK_H
#define LEAT_PROFILE_GATHER_RANK_H

#include "plan/report.h"
#include "profile/lane.h"
#include "profile/step.h"

#define GATHER_LOADERS LEAT_STEP_LOADERS
#define GATHER_QUEUE   1024 /* steps that a rank may be ahead of the others */

/* What a loader's fetches of batches took, in its workers or in the rank itself. */
struct gather_loader {
    double fetch_s;
    double prepare_s;
    double cpu_s;
    double batches;
    double read_bytes; /* of as many batches as `read_batches` */
    double disk_bytes;
    double read_batches;
    double stood_s;         /* how long fetches had no core */
    double reading_s;       /* … while bytes were read: else it was not for storage that they stood */
    double from_disk_bytes; /* while (nearly) all came from a disk, and for how long the reading thread stood */
    double from_disk_s;
    double memory_bytes;
    double memory_s;
    double bucket_bytes; /* of as many batches as `bucket_batches` */
    double bucket_batches;
    double from_bucket_bytes; /* while they were waited for, and for how long */
    double from_bucket_s;
};

/* Checkpoints: the mean of those that are at least half as large as the largest. */
struct gather_checkpoint {
    double largest;
    double bytes;
    double s;
    double count;
};

struct gather_rank {
    uint32_t pid;
    struct leat_lane_head head;
    struct leat_stepper stepper;
    struct leat_step queue[GATHER_QUEUE];
    size_t first;
    size_t queued;
    size_t skipped; /* steps that were dropped because the queue was full */
    bool trains;    /* it had a step */
    bool gone;
    bool died;
    unsigned trained; /* a bit for each loader that it has trained with */
    unsigned loaders; /* a bit for each that was seen */
    struct gather_loader accounts[GATHER_LOADERS];
    struct gather_loader block[LEAT_REPORT_MODES]; /* of loaders that read samples again: cached, cold */
    struct gather_checkpoint saved;
    struct gather_checkpoint loaded;
    double bucket[LEAT_REPORT_BUCKETS];
    size_t buckets;
    double flops; /* 0: not counted */
    bool flops_missed;
    double steps;
    double compared; /* observed ones, with those of the others */
    double late_s;
    double late_wait_s;
    double last;
    size_t made;      /* steps that its records have made */
    size_t spans;     /* kept for a time line */
    unsigned threads; /* its workers among them */
};

/* What the loaders that it trains with did in this mode; a script may make a new one for every epoch. */
struct gather_loader gather_rank_account(const struct gather_rank *rank, unsigned mode);

/* A record beside a step's own: what a loader, a checkpoint, a count of FLOPs tells. */
void gather_rank_tell(struct gather_rank *rank, uint32_t loader, const struct leat_lane_record *r);

/* The seconds of processor time of a process so far; NaN: it is gone, or may not be asked. */
double gather_cpu_s(uint32_t pid);

/* How waiting for a batch divides, as shares of it: they add up to at most 1, and what is missing is not known. `fetch`
 * is what would fall away if fetching took no time. `step_s` and `wait_s` are means. */
struct gather_shares {
    double fetch;
    double prepare;
};
struct gather_shares gather_shares_of(const struct gather_loader *l, unsigned workers, double step_s, double wait_s);

#endif
