/* One simulated machine: a scheduler (sched/sched.h) whose actions cost virtual time instead of being performed. */
#ifndef LEAT_SIM_NODE_H
#define LEAT_SIM_NODE_H

#include "sched/heap.h"
#include "sched/sched.h"
#include "sim/belt.h"
#include "sim/cores.h"
#include "sim/deal.h"
#include "sim/peer.h"
#include "sim/wire.h"

struct leat_sim_source {
    uint64_t bytes;
    uint64_t chunks;
};

/* Where the chunks came from that an epoch used, all nodes together. */
struct leat_sim_uses {
    struct leat_sim_source ram, disk, bucket, peer; /* peer: another node */
};

/* What all nodes have. */
struct leat_sim_node_opts {
    const uint8_t *names; /* of the chunks, 32 bytes each; as the rest borrowed */
    const uint32_t *sizes;
    uint32_t chunks;
    struct leat_sim_deal *deal;
    const uint32_t *node_of_slot;
    uint32_t nodes;
    uint32_t ranks;  /* of this node */
    uint64_t needed; /* bytes for one batch of a rank */
    uint32_t slots;
    uint64_t ram, disk;
    enum leat_sched_policy policy;
    double line, connection_line; /* bytes a second */
    uint64_t latency_ns;
    uint32_t connections;
    double jitter;
    uint64_t burst_ns;
    double burst_line; /* its part of what the bucket gives all; 0: its own line */
    uint64_t seed;
    double disk_read, disk_write; /* bytes a second */
    uint32_t cores;
    double prep;      /* samples a second and core */
    bool peers;       /* nodes ask each other for what the others own: */
    double peer_line; /* bytes a second that a node gives others */
    uint64_t peer_latency_ns;
    struct leat_sim_node *all;                            /* by number */
    void (*stir)(void *user, struct leat_sim_node *node); /* something will happen there sooner than it knew */
    void *user;
    uint64_t epochs;
    struct leat_sim_uses *uses; /* epochs + 1 of them, which the nodes add to; the last: fetched for what comes after */
};

/* A rank of it. */
struct leat_sim_lane {
    struct leat_sim_node *node;
    struct leat_sched_lane *sched;
    uint32_t rank;                         /* of the job */
    uint64_t next;                         /* number of the batch planned next … */
    uint64_t published;                    /* … and of the one published next */
    uint64_t view;                         /* the epoch it stands in … */
    uint64_t stage;                        /* … and where */
    uint64_t ahead_view;                   /* the epoch and the place among the node's own chunks … */
    uint32_t ahead;                        /* … of the chunk fetched ahead next */
    uint8_t slot_of[LEAT_SCHED_SLOTS_MAX]; /* of batches that are published and not taken, by number modulo that */
};

struct leat_sim_own; /* a rank's batch */

struct leat_sim_node {
    const struct leat_sim_node_opts *opts;
    uint32_t number;
    struct leat_sched *sched;
    struct leat_sched_set *set;
    struct leat_sim_lane *lanes; /* opts->ranks of them */
    struct leat_sim_wire wire;
    struct leat_sim_door door;
    struct leat_sim_belt reads, writes;
    struct leat_sim_cores cores;
    struct leat_sim_own *preparing; /* in order of time */
    uint64_t planned;               /* epoch of the batch that was planned last */
    struct leat_sim_source used;    /* from memory, before that batch */
    uint64_t now_ns;
    bool changed; /* something was reported: the scheduler has to step */
    leat_status status;
    struct leat_error err;
    struct leat_sched_place place; /* the job's */
};

/* first_rank: of the job; the others of the node follow. */
leat_status leat_sim_node_open(const struct leat_sim_node_opts *opts, uint32_t number, uint32_t first_rank,
                               uint64_t now_ns, struct leat_sim_node *n, struct leat_error *err);
void leat_sim_node_close(struct leat_sim_node *n); /* a zeroed one is allowed */

/* All that happens up to a time, which must not be after leat_sim_node_next_ns(). */
leat_status leat_sim_node_run(struct leat_sim_node *n, uint64_t now_ns, struct leat_error *err);
uint64_t leat_sim_node_next_ns(const struct leat_sim_node *n); /* UINT64_MAX: nothing is under way */

/* A chunk that another node was asked for: it has come from there; or it has to come from the bucket after all. */
void leat_sim_node_by_peer(struct leat_sim_node *n, const struct leat_sched_chunk *c, uint64_t epoch);
void leat_sim_node_from_bucket(struct leat_sim_node *n, struct leat_sched_chunk *c, uint64_t epoch);

/* All ranks give a batch's slot back. */
void leat_sim_node_taken(struct leat_sim_node *n, uint64_t number, uint64_t now_ns);

#endif
