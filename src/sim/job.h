/* A training job, simulated: its machines, each with the scheduler that the agent has (sched/sched.h), on a virtual
 * clock. Nothing is fetched, stored or prepared; what that would take is counted.
 *
 * All ranks step together, as an all-reduce makes them: a step begins when the last rank has its batch, lasts as long
 * as the computation, and then every rank gives its slot back. A function of its options: same options, same result.
 *
 * What is simple here: reads and writes of a disk do not slow each other down, preparation takes batches in the order
 * in which their chunks came, and opening a connection costs nothing. */
#ifndef LEAT_SIM_JOB_H
#define LEAT_SIM_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "order/batch.h"
#include "sched/sched.h"
#include "sim/node.h"

/* Below these every number is exact, and memory for tables is available. */
#define LEAT_SIM_NODES_MAX  65536u
#define LEAT_SIM_EPOCHS_MAX 100000u

struct leat_sim_job_opts {
    /* The dataset; borrowed. */
    const uint8_t *id;      /* 32 bytes */
    const uint8_t *names;   /* of the chunks, 32 bytes each */
    const uint32_t *counts; /* samples */
    const uint32_t *sizes;  /* bytes */
    uint32_t chunks;

    /* The training. */
    uint64_t seed;
    bool shuffle;
    uint32_t window;
    uint32_t nodes;
    uint32_t ranks; /* of each node */
    uint32_t batch; /* of each rank */
    enum leat_order_last last;
    uint64_t epochs;
    uint64_t compute_ns; /* of a step */

    /* Each machine. Rates of 0: no limit. */
    uint64_t ram, disk;
    enum leat_sched_policy policy;
    uint32_t slots; /* batches that are ready at the most, those in use included; 2 … LEAT_SCHED_SLOTS_MAX */
    double line, connection_line; /* bytes a second */
    uint64_t latency_ns;          /* of the bucket */
    uint32_t connections;         /* 0: adapts as the store does */
    uint64_t burst_ns;            /* what an idle line saves up, as a time at its rate */
    double jitter;                /* how much requests differ in speed: 0 not at all, 0.2 by up to a fifth */
    double disk_read, disk_write; /* bytes a second */
    uint32_t cores;
    double prep; /* samples a second and core */

    bool peers;               /* what another node owns is asked of it before the bucket: */
    double peer_line;         /* bytes a second that a node gives all others; 0: no limit */
    uint64_t peer_latency_ns; /* of its answer */

    double bucket_line; /* bytes a second for all machines together; 0: no limit */

    bool (*stop)(void *user); /* asked often; NULL: never. True: LEAT_CANCELLED */
    void (*progress)(void *user, uint64_t samples);
    void *user;
};

/* An epoch. A chunk counts in the epoch that uses it, also when it was fetched before the last one's end. */
struct leat_sim_epoch_result {
    uint64_t time_ns;
    uint64_t stall_ns; /* of it, steps waited … */
    uint64_t data_ns;  /* … for chunks … */
    uint64_t prep_ns;  /* … and for preparation */
    uint64_t steps;
    uint64_t samples;          /* delivered, without padding */
    struct leat_sim_uses uses; /* where chunks came from */
    uint64_t stored_bytes;     /* from memory to disk while it lasted */
    uint64_t requests;         /* to the bucket while it lasted */
};

double leat_sim_hits(
    const struct leat_sim_uses *uses); /* share of the bytes that did not come from the bucket, 0 … 1 */

struct leat_sim_job_result {
    struct leat_sim_epoch_result *epochs; /* opts.epochs of them */
    uint64_t epochs_n;
    struct leat_sim_uses ahead; /* fetched for what would have come after them */
    uint64_t first_ns;          /* until the first step began */
    uint64_t time_ns;
    uint64_t events;
};

/* Memory without which a node cannot make its ranks' batches. */
leat_status leat_sim_job_needed(const struct leat_sim_job_opts *opts, uint64_t *bytes, struct leat_error *err);

/* LEAT_INVALID or LEAT_LIMIT for numbers that cannot work, with a sentence that says which. */
leat_status leat_sim_job(const struct leat_sim_job_opts *opts, struct leat_sim_job_result *out, struct leat_error *err);
void leat_sim_job_result_free(struct leat_sim_job_result *r); /* a zeroed one is allowed */

#endif
