/* What the scheduler knows of a chunk. The performer reads it and keeps its own things in `user`. */
#ifndef LEAT_SCHED_CHUNK_H
#define LEAT_SCHED_CHUNK_H

#include "sched/heap.h"
#include "sched/sched.h"

/* A set that has the chunk. */
struct leat_sched_ref {
    struct leat_sched_set *set;
    uint32_t number;
    struct leat_sched_ref *next;
};

struct leat_sched_chunk {
    uint8_t name[LEAT_SCHED_NAME];
    uint64_t bytes;
    void *user; /* the performer's */

    enum { LEAT_SCHED_ABSENT, LEAT_SCHED_COMING, LEAT_SCHED_READY } state; /* in memory */
    bool on_disk;
    bool storing;   /* being written to disk */
    bool from_disk; /* it is coming from there */
    bool asks_peer; /* another machine of the job is asked before the bucket: which of them had it is counted later */
    bool from_peer; /* it came from there */
    enum leat_sched_from came_from; /* when it arrived last */
    bool leaving;                   /* decided to leave memory: dropped as soon as room is needed */
    bool ahead;                     /* fetched before any batch wanted it */
    bool far;                       /* … and before the line needed it */
    bool failed;                    /* its last fetch; cleared by the next */
    bool fixed;                     /* LEAT_SCHED_MINIO: stays for good */
    uint32_t pins;
    uint32_t wants;    /* batches planned that need it */
    uint32_t guests;   /* others who have asked for it */
    uint64_t want_key; /* when the earliest of them is due */
    uint64_t touched;  /* when it was used last: a count */
    uint64_t came;     /* when it arrived: a count */
    uint64_t epoch;    /* of the lane that used it last, plus one */
    uint64_t began_ns; /* its fetch */
    uint64_t retry_ns; /* after a failure */
    unsigned failures; /* in a row */

    struct leat_sched_ref ref;     /* set NULL: none has it */
    struct leat_sched_set *source; /* the dataset that its last fetch was for; NULL: it is closed */
    struct leat_sched_lane *ahead_lane;
    struct leat_sched_chunk *ahead_prev, *ahead_next; /* of those fetched ahead for the lane */
    struct leat_sched_place ram;                      /* in the heap of those in memory that may be evicted */
    struct leat_sched_place disk;                     /* in the heap of those on disk */
    struct leat_sched_chunk *chain;                   /* of the table */
    struct leat_sched_chunk *prev, *next;             /* of those leaving */
};

#endif
