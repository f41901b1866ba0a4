/* The inside of a disk cache, for disk.c (the interface), disk_work.c (operations) and disk_look.c (the folder). */
#ifndef LEAT_CACHE_DISK_IMPL_H
#define LEAT_CACHE_DISK_IMPL_H

#include <pthread.h>
#include <sys/types.h>

#include "cache/disk.h"
#include "cache/disk_index.h"
#include "cache/segment.h"

/* Enough calls under way to keep the disk busy while some of the workers hash and copy: four reach 0.8 of the speed. A
 * call is as large as a huge page, and its memory is one: pages that lie together are fewer parts of a request, which
 * on a virtual disk is half of the time (measured with chunks of 8 MiB: 863 MB/s without, 1281 with). */
#define LEAT_DISK_WORKERS 8u
#define LEAT_DISK_CALL    (2u << 20) /* bytes */

struct leat_disk_worker {
    struct leat_disk *disk;
    pthread_t thread;
    uint8_t *piece; /* LEAT_DISK_CALL bytes, aligned for O_DIRECT */
    bool started;

    /* Hold mu. */
    struct leat_disk_op *op; /* what it works at; NULL: nothing, or the caller has been told that it takes too long */
    uint64_t deadline_ns;    /* of op; moves on with every piece */
    bool touching;           /* the caller's memory is in use: the operation cannot be taken away now */
    bool exited;
};

struct leat_disk_queue {
    struct leat_disk_op *first;
    struct leat_disk_op **last;
};

/* After errors the disk rests, so that nobody waits for it in vain, and is tried again later. */
struct leat_disk_rest {
    struct leat_error err;
    unsigned failures; /* in a row */
    uint64_t until_ns;
};

struct leat_disk {
    char dir[LEAT_DISK_PATH];
    uint64_t budget; /* the most */
    uint64_t segment_bytes;
    uint64_t patience_ns;
    uint64_t look_ns;
    void (*shrunk)(void *user, uint64_t budget);
    void (*found)(void *user, const uint8_t name[32], uint64_t bytes);
    void *user;
    struct leat_disk_worker workers[LEAT_DISK_WORKERS];
    pthread_t watcher;
    bool watching;
    pthread_mutex_t reserving; /* held over a call to the disk and while mu is taken; never while mu is held */

    pthread_mutex_t mu; /* guards all below */
    pthread_cond_t work;
    pthread_cond_t watch;
    pthread_cond_t exits;
    pthread_cond_t removed; /* a chunk has left the disk */
    struct leat_disk_queue reads;
    struct leat_disk_queue writes;
    struct leat_disk_queue answers; /* finished without a worker; the watcher calls done() */
    struct leat_segment **segments;
    size_t segments_n;
    size_t segments_cap;
    struct leat_disk_index index;
    uint64_t used;          /* footprint of our chunks, and of those being written */
    uint64_t shared;        /* footprint of others' chunks that are in the index */
    uint64_t foreign;       /* bytes that segments of others take of the disk, at the last look or write */
    uint64_t limit;         /* what all segments together may take, at the last look */
    uint64_t reported;      /* the budget as the caller knows it */
    uint64_t full_until_ns; /* the disk said that it is full: the limit does not grow before */
    struct leat_disk_rest writing;
    struct leat_disk_rest reading;
    unsigned said;   /* statuses that the log has had */
    unsigned stuck;  /* workers whose operation was given back and who are not back themselves */
    unsigned making; /* segments that workers are making */
    bool look_due;
    bool looking;
    bool no_punch; /* space of removed chunks cannot be given back, only reused */
    bool stop;
    uint64_t stop_by_ns; /* when stopping: removals go on until then */
    unsigned holders;    /* workers that have not exited, and the owner until it has closed: the last to let go frees */
    unsigned calling;    /* callbacks under way on workers: the closing waits for their end */
    bool watcher_stop;   /* the closing waits no longer for workers: all operations are taken away, nothing is told */
    int folder;
    dev_t device; /* of the folder */
    ino_t inode;
    struct leat_disk_stats stats;
};

/* disk.c; hold mu. */
void leat_disk_push(struct leat_disk_queue *q, struct leat_disk_op *op);
struct leat_disk_op *leat_disk_pop(struct leat_disk_queue *q);
void leat_disk_say(struct leat_disk *d, const struct leat_error *err, const char *then); /* once for each status */
void leat_disk_forget(struct leat_disk *d, struct leat_disk_place place); /* out of the index, then off the disk */
bool leat_disk_keep_segment(struct leat_disk *d, struct leat_segment *s); /* false without memory */
void leat_disk_drop_segment(struct leat_disk *d, struct leat_segment *s); /* with its chunks; not its file */
void leat_disk_leave(struct leat_disk *d, struct leat_segment *s);        /* one user less */
uint64_t leat_disk_report(struct leat_disk *d, bool *changed);
void leat_disk_let_go(struct leat_disk *d); /* unlocks mu; frees the disk when nobody else holds it */

/* disk_work.c */
void *leat_disk_work(void *arg);                            /* a worker */
void leat_disk_tell_budget(struct leat_disk *d);            /* mu not held; calls shrunk() when it has changed */
bool leat_disk_calls(struct leat_disk *d);                  /* hold mu: whether a callback may begin now … */
void leat_disk_called(struct leat_disk *d);                 /* … and it has ended */
void leat_disk_bury(struct leat_segment *s, uint32_t slot); /* hold mu: a dead slot nobody reads waits for removal */

/* disk_look.c */
leat_status leat_disk_scan(struct leat_disk *d, struct leat_error *err); /* at the opening */
void leat_disk_look(struct leat_disk *d);                                /* now and then, on a worker, mu not held */
/* Bytes that segments of others take now; mu not held. False: that cannot be found out. */
bool leat_disk_foreign(struct leat_disk *d, uint64_t *bytes);
/* Tells the other agents what a segment of ours takes now; mu not held. */
void leat_disk_reserve(struct leat_disk *d, const struct leat_segment *s);

#endif
