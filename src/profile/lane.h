/* A lane: the records that one thread of a training script leaves in shared memory (observer/lane.py writes
 * them, docs/profile.md has the layout). One writer, one reader, no locks: the writer moves the head, the reader the
 * tail, and a full lane drops records and counts them. What the writer says is checked before it is used. */
#ifndef LEAT_PROFILE_LANE_H
#define LEAT_PROFILE_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum leat_lane_kind {
    LEAT_LANE_WAIT = 1,
    LEAT_LANE_COPY,
    LEAT_LANE_BACKWARD,
    LEAT_LANE_COMM,
    LEAT_LANE_OPTIM,
    LEAT_LANE_FETCH,
    LEAT_LANE_READ, /* bytes read in `value`, of these from a disk in `extra`, by as many fetches as `flags` says */
    LEAT_LANE_SAVE, /* a checkpoint of `value` bytes */
    LEAT_LANE_LOAD,
    LEAT_LANE_BUCKET, /* of gradients: `loader` is its place, `value` its bytes */
    LEAT_LANE_FLOPS,  /* of one step; `extra`: not all of it could be counted */
    LEAT_LANE_LINK,   /* an all-reduce of `value` bytes; `extra` is what leat_lane_link_of() reads */
    LEAT_LANE_SOURCE, /* `value` bytes for `flags` batches, from a bucket, or with `extra` 1 from a disk, as the loader
                       * or its sockets tell; as long as it was waited for, 0 where it was not what kept the loader */
    LEAT_LANE_LOOK, /* in a differential block the training's own weights were put back, for the script to take them */
    LEAT_LANE_KINDS
};

#define LEAT_LANE_EXHAUSTED 1U    /* a wait that ended with the loader's end */
#define LEAT_LANE_DEVICE    2U    /* on the GPU's clock */
#define LEAT_LANE_ACCOUNTED 4U    /* a fetch that the loader itself tells of, as a part of the wait */
#define LEAT_LANE_OPENING   8U    /* a wait for the beginning of an epoch; that for its first batch follows */
#define LEAT_LANE_EMPTY     16U   /* a wait for a batch that was not there yet */
#define LEAT_LANE_NO_GRAD   32U   /* a wait while no gradients are made */
#define LEAT_LANE_WARMUP    0x80U /* in `mode`: not to be counted */

struct leat_lane_record {
    uint64_t start_ns;
    uint64_t end_ns; /* not before start_ns */
    uint64_t value;  /* samples of a batch, bytes of a copy, nanoseconds of preparing in a fetch */
    uint64_t extra;  /* bytes of a batch, nanoseconds of processor time in a fetch */
    uint32_t loader;
    uint8_t kind;
    uint8_t mode;
    uint16_t flags;
};

enum leat_lane_state { LEAT_LANE_RUNNING, LEAT_LANE_ENDED, LEAT_LANE_RAISED };

struct leat_lane_head {
    uint32_t pid;
    uint32_t tid;
    uint32_t parent;
    int rank; /* -1: not said */
    unsigned world;
    int local_rank;
    unsigned local_world;
    bool worker; /* of a loader */
    uint32_t loader;
    enum leat_lane_state state;
    uint64_t dropped;
    uint64_t gradient_bytes;
    unsigned buckets;
    unsigned workers;
    uint64_t samples; /* of the dataset; 0: not said */
    uint64_t peak_bytes;
    unsigned node;         /* 0: this machine; others: records that came from there */
    uint64_t epoch;        /* batches of one, once one is over; 0: not known */
    unsigned expect;       /* ranks of all machines that will tell; 0: those of this one */
    char accelerator[128]; /* "": none was used */
};

struct leat_lane;

/* The file stays mapped until close. LEAT_CORRUPT: it is no lane; LEAT_VERSION: one of another release. */
leat_status leat_lane_open(const char *path, struct leat_lane **out, struct leat_error *err);
void leat_lane_close(struct leat_lane *lane); /* NULL is allowed */

struct leat_lane_head leat_lane_look(const struct leat_lane *lane);

/* Takes up to n records that ended before `until_ns`: a record that is a moment old is whole on every machine. Records
 * that make no sense are left out and counted as dropped. */
size_t leat_lane_take(struct leat_lane *lane, uint64_t until_ns, struct leat_lane_record *out, size_t n);

#endif
