/* A feed over a server that misbehaves, whose thread is the test's own: tasks that come back wait until it runs them.
 */
#ifndef LEAT_TESTS_FEED_BENCH_H
#define LEAT_TESTS_FEED_BENCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "dataset/pack.h"
#include "disk_bench.h"
#include "feed/feed.h"
#include "store_bench.h"

#define FEW 8u /* chunks that every dataset has at least */

extern char folder[64]; /* what the bucket holds */

/* The server, and what it does to requests for chunks and for objects that were indexed. */
struct bucket {
    struct peer *peer;
    atomic_int flips;        /* answers still to be damaged; below 0: all */
    atomic_int recipe_flips; /* the same for sections */
    atomic_uint code;        /* 0: a proper answer */
    atomic_bool never;       /* answers when the other side has hung up */
    atomic_bool never_recipe;
    atomic_bool cut; /* objects are a byte shorter */
    atomic_uint requests;
    atomic_uint recipes; /* requests for sections */
    const char *etag;    /* of everything; set while nothing is on its way */
};
extern struct bucket bucket;

void feed_bench_begin(void); /* starts the server */
void feed_bench_end(void);

void pack_samples(const char *name, uint32_t samples, uint32_t chunk_bytes, size_t value_bytes);

enum fate { NOTHING, ARRIVED, FAILED, CANCELLED, LOST, STORED, NOT_STORED };

struct bench {
    struct leat_dataset *dataset;
    const struct leat_root *root;
    struct leat_pool *pool;
    char dir[64];
    struct leat_disk *disk;
    struct leat_feed *feed;
    struct leat_source *source;
    struct {
        pthread_mutex_t mu;
        pthread_cond_t cond;
        struct leat_task *first, **last;
    } locked;
    struct leat_sched_chunk *chunks; /* by number */
    enum fate *fates;
    struct leat_error err; /* of the disk, the last */
    unsigned events;
    unsigned closed;
    struct leat_feed_peer peer; /* to be asked first; store NULL: none */
    unsigned peered;            /* how often it was judged … */
    leat_status judged;         /* … and how at last */
    unsigned late;              /* how often it was */
    bool may_hurry;
    bool inside; /* a call of the feed's functions */
};

struct bench *open_bench(const char *name, uint64_t disk);
void close_bench(struct bench *b);
void on_closed(void *user); /* counts in `closed` */

/* Runs what has come back, waiting for it; false: nothing came for this long. */
bool turn(struct bench *b, uint64_t wait_ns);
void await_events(struct bench *b, unsigned wanted);

bool try_fetch(struct bench *b, uint32_t number, struct leat_sched_fetch how);
void fetch(struct bench *b, uint32_t number, struct leat_sched_fetch how);

/* Fetches it, or stores it, and waits; what became of it. */
enum fate bring(struct bench *b, uint32_t number, struct leat_sched_fetch how);
enum fate keep(struct bench *b, uint32_t number);

/* Its samples are those that were packed: keys are the seeds of their values. */
void assert_right(struct bench *b, uint32_t number, size_t value_bytes);

static const struct leat_sched_fetch plain = {.ranges = 1};
static const struct leat_sched_fetch disk_read = {.from_disk = true};

#endif
