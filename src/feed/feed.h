/* The feed: brings the chunks of one dataset from its store into the cache, checked, and keeps those that are needed.
 * It decides nothing about what comes when; that is read off the order by whoever pins and prefetches.
 *
 * One thread, to which `back` leads; fetching runs in the store, checking wherever `later` puts it. */
#ifndef LEAT_FEED_FEED_H
#define LEAT_FEED_FEED_H

#include "base/error.h"
#include "base/pool.h"
#include "cache/cache.h"
#include "dataset/chunk.h"
#include "dataset/dataset.h"

struct leat_feed;

struct leat_feed_opts {
    const struct leat_dataset *dataset;
    struct leat_cache *cache;
    leat_cache_next_use *next_use;                     /* for eviction */
    void (*later)(void *user, struct leat_task *task); /* runs a task on some other thread, soon */
    void (*back)(void *user, struct leat_task *task);  /* runs a task on the feed's own thread; from any thread */
    void (*changed)(void *user);                       /* a chunk has arrived or failed; on the feed's thread */
    void *user;
};

/* All of it is borrowed and must outlive the feed. */
leat_status leat_feed_open(const struct leat_feed_opts *opts, struct leat_feed **out, struct leat_error *err);

/* Cancels what is on its way. `closed` is called on the feed's thread when nothing refers to the feed any more and
 * it has been freed. NULL is allowed (then closed is called at once). */
void leat_feed_close(struct leat_feed *feed, void (*closed)(void *user), void *user);

/* Keeps a chunk, and fetches it first when it is not there; `use` says how soon it is needed (0: now). False when
 * there is no room for it now. Every success needs one unpin.
 *
 * `together`: somebody waits, and for so many absent chunks. They come before all others, and when they are few each of
 * them in several ranges, for a connection alone may be far slower than the line. 0: one request does. */
bool leat_feed_pin(struct leat_feed *feed, uint32_t chunk, uint64_t use, uint32_t together);
void leat_feed_unpin(struct leat_feed *feed, uint32_t chunk);

/* Fetches a chunk that is not there, as long as only later needed ones have to go for it. False: no room. */
bool leat_feed_prefetch(struct leat_feed *feed, uint32_t chunk, uint64_t use);

enum leat_feed_state { LEAT_FEED_ABSENT, LEAT_FEED_COMING, LEAT_FEED_READY, LEAT_FEED_FAILED };

/* READY sets *chunk, valid while it is pinned; FAILED sets *err (which may be NULL). */
enum leat_feed_state leat_feed_look(struct leat_feed *feed, uint32_t number, const struct leat_chunk **chunk,
                                    struct leat_error *err);

struct leat_feed_stats {
    uint64_t fetched_chunks;
    uint64_t fetched_bytes;
    uint64_t corrupt; /* arrivals that did not match their checksum */
    uint64_t failed;
    uint64_t coming; /* now */
};
void leat_feed_stats(const struct leat_feed *feed, struct leat_feed_stats *out);

#endif
