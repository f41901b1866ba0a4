/* One rank of a job as it is gathered. Inside src/profile only. */
#ifndef LEAT_PROFILE_GATHER_RANK_H
#define LEAT_PROFILE_GATHER_RANK_H

#include "profile/lane.h"
#include "profile/step.h"

#define GATHER_LOADERS 16
#define GATHER_QUEUE   1024 /* steps that a rank may be ahead of the others */

/* What a loader's fetches of batches took, in its workers or in the rank itself. */
struct gather_loader {
    double fetch_s;
    double prepare_s;
    double cpu_s;
    double batches;
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
    uint32_t loader;  /* that it trains with */
    unsigned loaders; /* a bit for each that was seen */
    struct gather_loader accounts[GATHER_LOADERS];
    double steps;
    double late_s;
    double last;
    size_t made;      /* steps that its records have made */
    size_t spans;     /* kept for a time line */
    unsigned threads; /* its workers among them */
};

/* How waiting for a batch divides, as shares of it: they add up to at most 1, and what is missing is not known. `fetch`
 * is what would fall away if fetching took no time. `step_s` and `wait_s` are means. */
struct gather_shares {
    double fetch;
    double prepare;
};
struct gather_shares gather_shares_of(const struct gather_rank *rank, double step_s, double wait_s);

#endif
