/* The feed: performs what the scheduler decides about chunks. It brings them from a bucket or from disk into memory,
 * checked, writes them to disk, and lets go of them. It decides nothing about what comes when. A chunk that is made of
 * a recipe comes in two steps: the recipe, which a worker reads, and the pieces that it names. From another machine it
 * comes as it lies in memory there, and the recipe after it where there is nothing else to compare it with.
 *
 * One thread, to which `back` leads; fetching runs in the store, reading and writing in the disk, checking wherever
 * `later` puts it. */
#ifndef LEAT_FEED_FEED_H
#define LEAT_FEED_FEED_H

#include "base/error.h"
#include "base/pool.h"
#include "cache/disk.h"
#include "dataset/chunk.h"
#include "dataset/dataset.h"
#include "sched/chunk.h"

struct leat_feed;
struct leat_source; /* a dataset that chunks come from */

/* Another machine of the job, which is asked before the bucket. */
struct leat_feed_peer {
    struct leat_store *store; /* NULL: none */
    char key[224];            /* of the chunk there */
    char recipe[224];         /* … and of what it was made of */
    void *who;                /* the caller's */
    uint64_t late_ns;         /* when it will be late; LEAT_NEVER: that is not known */
};

struct leat_feed_opts {
    struct leat_disk *disk;                            /* NULL: none */
    void (*later)(void *user, struct leat_task *task); /* runs a task on some other thread, soon */
    void (*back)(void *user, struct leat_task *task);  /* runs a task on the feed's own thread; from any thread */

    /* Runs a task that frees memory on some other thread, or at once. NULL: it is freed at once. */
    void (*release)(void *user, struct leat_task *task);

    /* What has become of a chunk; on the feed's thread, never inside a call of the feed's functions. `err` of lost and
     * stored: what the disk said. */
    void (*arrived)(void *user, struct leat_sched_chunk *chunk);
    void (*failed)(void *user, struct leat_sched_chunk *chunk); /* leat_feed_error() says why */
    void (*cancelled)(void *user, struct leat_sched_chunk *chunk);
    void (*lost)(void *user, struct leat_sched_chunk *chunk, const struct leat_error *err);
    void (*stored)(void *user, struct leat_sched_chunk *chunk, const struct leat_error *err);
    /* What came of asking a machine, once for each: err NULL, and its bytes were right. LEAT_CORRUPT: they were not.
     * LEAT_CANCELLED, LEAT_NOT_FOUND: nothing can be said of it. */
    void (*peered)(void *user, void *who, const struct leat_error *err, uint64_t bytes, uint64_t ns);
    bool (*late)(void *user, void *who, uint64_t bytes); /* it is; true: the bucket may be asked instead */
    void *user;
};

/* All of it is borrowed and must outlive the feed. */
leat_status leat_feed_open(const struct leat_feed_opts *opts, struct leat_feed **out, struct leat_error *err);
void leat_feed_close(struct leat_feed *feed); /* nothing may be on its way, or kept; NULL is allowed */

leat_status leat_source_open(struct leat_feed *feed, const struct leat_dataset *dataset, struct leat_source **out,
                             struct leat_error *err);
/* Cancels what is on its way. `closed` is called on the feed's thread when nothing refers to the dataset any more and
 * the source has been freed; at once when there is nothing. NULL is allowed. */
void leat_source_close(struct leat_source *source, void (*closed)(void *user), void *user);

struct leat_source_stats {
    uint64_t corrupt; /* arrivals that did not match their checksum */
    uint64_t failed;
    uint64_t coming;      /* now */
    uint64_t disk_chunks; /* that came from the disk … */
    uint64_t disk_ns;     /* … and how long each took, added up; the same of the bucket */
    uint64_t bucket_chunks;
    uint64_t bucket_ns;
    uint64_t peer_chunks;
    uint64_t peer_ns;
    uint64_t peer_late;    /* machines that took too long, whether or not the bucket was asked instead */
    uint64_t peer_failed;  /* … that gave no answer, or a wrong one */
    uint64_t peer_without; /* … that had the chunk not, or too much to do */
};
void leat_source_stats(const struct leat_source *source, struct leat_source_stats *out);

/* Chunks are served to other machines from now on: recipes stay in memory as long as what was made of them, of all
 * sources together `most` bytes. Who asks for one that did not stay takes it from the bucket. */
void leat_source_keep_recipes(struct leat_source *source, uint64_t most);

/* Looks for machines that are late, once for each chunk. Returns when the next one will be; LEAT_NEVER: none. */
uint64_t leat_source_hurry(struct leat_source *source, uint64_t now_ns);

/* The actions. False: it cannot be begun (no memory), and no event follows. */
bool leat_feed_fetch(struct leat_source *source, struct leat_sched_chunk *chunk, const struct leat_sched_fetch *how,
                     const struct leat_feed_peer *peer); /* NULL: the bucket; a peer is told of only when it is true */
bool leat_feed_store(struct leat_feed *feed, struct leat_sched_chunk *chunk);
void leat_feed_drop(struct leat_feed *feed, struct leat_sched_chunk *chunk);
void leat_feed_forget(struct leat_feed *feed, struct leat_sched_chunk *chunk);
void leat_feed_gone(struct leat_feed *feed, struct leat_sched_chunk *chunk);

/* Memory of a dropped chunk is kept for the next one; this gives it back. After each round of decisions. */
void leat_feed_trim(struct leat_feed *feed);

const struct leat_chunk *leat_feed_chunk(const struct leat_sched_chunk *chunk); /* of one that is ready */
bool leat_feed_by_peer(const struct leat_sched_chunk *chunk);                   /* … and came from another machine */
const void *leat_feed_bytes(const struct leat_sched_chunk *chunk);              /* all chunk->bytes of it */
/* What it was made of; NULL: of nothing, or it is not known any more. */
const void *leat_feed_recipe(const struct leat_sched_chunk *chunk, size_t *n);
const struct leat_error *leat_feed_error(const struct leat_sched_chunk *chunk); /* of one whose fetch failed */

#endif
