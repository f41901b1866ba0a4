#include "feed/feed.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define ARRIVALS_MAX 2u /* a chunk that is bad twice is bad in the bucket */

/* What somebody waits for is fetched in so many ranges at most, all of them in flight at once: one that had to wait for
 * another would take a round trip more. Ranges shorter than the least spend more time on the way than on the line. */
#define RANGES_TOGETHER LEAT_STORE_HURRY
#define RANGE_LEAST     (1u << 20)

struct held;

/* One request of a chunk's. */
struct range {
    struct leat_store_op op; /* first member */
    struct held *held;
};

/* What the feed knows of a cached chunk. Ranges and task travel; everything else stays on the feed's thread. */
struct held {
    struct leat_task task;
    struct leat_feed *feed;
    struct leat_cache_entry *entry;
    struct leat_chunk chunk; /* when ready */
    char *key;
    struct range *ranges; /* while it is coming */
    uint32_t ranges_n;
    uint32_t ranges_left; /* the store's thread, while they are on their way */
    unsigned arrivals;
    bool coming;
    bool failed;
    struct leat_error err;
};

struct leat_feed {
    struct leat_feed_opts opts;
    struct leat_cache_set *set;
    struct leat_feed_stats stats;
    bool closing;
    void (*closed)(void *user);
    void *closed_user;
};

static struct leat_store *store_of(const struct leat_feed *f)
{
    return leat_dataset_home(f->opts.dataset)->store;
}

static void free_feed(struct leat_feed *f)
{
    void (*closed)(void *user) = f->closed;
    void *user = f->closed_user;
    leat_cache_set_close(f->set);
    free(f);
    if (closed)
        closed(user);
}

static void held_free(struct held *h)
{
    if (!h)
        return;
    free(h->ranges);
    free(h->key);
    free(h);
}

static void forget(void *user, struct leat_cache_entry *entry)
{
    (void)user;
    held_free(entry->user);
    entry->user = NULL;
}

static void drop(struct held *h)
{
    struct leat_cache_entry *e = h->entry;
    held_free(h);
    e->user = NULL;
    leat_cache_remove(e);
}

static bool fetch(struct held *h, uint32_t together);

/* On the feed's thread: a chunk has been fetched and checked, or not. */
static void settle(struct leat_task *task)
{
    struct held *h = (struct held *)((char *)task - offsetof(struct held, task));
    struct leat_feed *f = h->feed;
    leat_status status = h->err.status;
    h->coming = false;
    f->stats.coming--;
    free(h->ranges);
    h->ranges = NULL;
    if (f->closing) {
        if (h->entry->pins)
            leat_cache_unpin(h->entry);
        drop(h);
        if (!f->stats.coming)
            free_feed(f);
        return;
    }
    if (status == LEAT_CORRUPT) {
        f->stats.corrupt++;
        if (h->arrivals < ARRIVALS_MAX) {
            leat_log(LEAT_LOG_WARN, "%s; fetching it again", h->err.text);
            struct leat_error corrupt = h->err;
            if (fetch(h, 0))
                return;
            h->err = corrupt;
        }
    }
    if (status == LEAT_CORRUPT)
        leat_fail_context(&h->err, status, "'%s'", h->key);
    if (status != LEAT_OK) {
        f->stats.failed++;
        h->failed = true;
        if (!h->entry->pins)
            drop(h); /* nobody waits for it: a later pin tries again */
    } else {
        h->entry->ready = true;
        f->stats.fetched_chunks++;
        f->stats.fetched_bytes += h->entry->bytes;
    }
    f->opts.changed(f->opts.user);
}

/* On a worker: eight megabytes take a millisecond or two. */
static void check(struct leat_task *task)
{
    struct held *h = (struct held *)((char *)task - offsetof(struct held, task));
    const struct leat_root *root = leat_dataset_root(h->feed->opts.dataset);
    size_t n = (size_t)h->entry->bytes;
    leat_root_open_chunk(root, h->entry->chunk, h->entry->data, n, &h->chunk, &h->err);
    h->task.run = settle;
    h->feed->opts.back(h->feed->opts.user, &h->task);
}

/* On the store's thread: one of the ranges. A checksum is over the whole chunk, so it waits for the last. */
static void arrived(struct leat_store_op *op)
{
    struct held *h = ((struct range *)op)->held;
    if (op->status != LEAT_OK && h->err.status == LEAT_OK)
        h->err = op->err;
    if (--h->ranges_left)
        return;
    h->arrivals++;
    if (h->err.status == LEAT_OK) {
        h->task.run = check;
        h->feed->opts.later(h->feed->opts.user, &h->task);
    } else {
        h->task.run = settle;
        h->feed->opts.back(h->feed->opts.user, &h->task);
    }
}

/* How many ranges a chunk of so many bytes comes in. */
static uint32_t count_ranges(uint64_t bytes, uint32_t together)
{
    uint64_t most = bytes / RANGE_LEAST;
    uint32_t n = together ? RANGES_TOGETHER / together : 1;
    n = n < most ? n : (uint32_t)most;
    return n ? n : 1;
}

/* Sends for it. False: no memory. */
static bool fetch(struct held *h, uint32_t together)
{
    struct leat_feed *f = h->feed;
    uint64_t bytes = h->entry->bytes;
    uint32_t n = count_ranges(bytes, together);
    h->ranges = calloc(n, sizeof *h->ranges);
    if (!h->ranges)
        return false;
    h->ranges_n = h->ranges_left = n;
    h->coming = true;
    h->failed = false;
    h->err = (struct leat_error){0};
    f->stats.coming++;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = bytes * i / n;
        h->ranges[i].held = h;
        h->ranges[i].op = (struct leat_store_op){
            .verb = LEAT_STORE_GET,
            .key = h->key,
            .offset = at,
            .length = bytes * (i + 1) / n - at,
            .into = (char *)h->entry->data + at,
            .urgent = together > 0,
            .done = arrived,
        };
    }
    for (uint32_t i = 0; i < n; i++)
        leat_store_submit(store_of(f), &h->ranges[i].op);
    return true;
}

/* Makes room and sends for the chunk; NULL when there is none. */
static struct leat_cache_entry *add(struct leat_feed *f, uint32_t chunk, uint64_t use, uint32_t together)
{
    const struct leat_root *root = leat_dataset_root(f->opts.dataset);
    struct leat_cache_entry *e = leat_cache_add(f->set, chunk, root->sizes[chunk], use);
    if (!e)
        return NULL;
    struct held *h = calloc(1, sizeof *h);
    char name[LEAT_NAME_MAX];
    leat_name_chunk(leat_root_chunk_name(root, chunk), name);
    if (h) {
        h->key = leat_home_key(leat_dataset_home(f->opts.dataset), name);
        h->feed = f;
        h->entry = e;
    }
    if (!h || !h->key || !fetch(h, together)) {
        held_free(h);
        leat_cache_remove(e);
        return NULL;
    }
    e->user = h;
    return e;
}

bool leat_feed_pin(struct leat_feed *f, uint32_t chunk, uint64_t use, uint32_t together)
{
    struct leat_cache_entry *e = leat_cache_find(f->set, chunk);
    if (!e)
        e = add(f, chunk, use, together);
    if (!e)
        return false;
    leat_cache_pin(e);
    return true;
}

void leat_feed_unpin(struct leat_feed *f, uint32_t chunk)
{
    struct leat_cache_entry *e = leat_cache_find(f->set, chunk);
    if (!e)
        return;
    leat_cache_unpin(e);
    struct held *h = e->user;
    if (!e->pins && h->failed && !h->coming)
        drop(h);
}

bool leat_feed_prefetch(struct leat_feed *f, uint32_t chunk, uint64_t use)
{
    return leat_cache_find(f->set, chunk) || add(f, chunk, use, 0);
}

enum leat_feed_state leat_feed_look(struct leat_feed *f, uint32_t number, const struct leat_chunk **chunk,
                                    struct leat_error *err)
{
    struct leat_cache_entry *e = leat_cache_find(f->set, number);
    struct held *h = e ? e->user : NULL;
    if (!h)
        return LEAT_FEED_ABSENT;
    if (h->failed) {
        if (err)
            *err = h->err;
        return LEAT_FEED_FAILED;
    }
    if (!e->ready)
        return LEAT_FEED_COMING;
    *chunk = &h->chunk;
    return LEAT_FEED_READY;
}

void leat_feed_stats(const struct leat_feed *f, struct leat_feed_stats *out)
{
    *out = f->stats;
}

/* settle() follows. */
static void cancel(struct held *h)
{
    for (uint32_t i = 0; i < h->ranges_n; i++)
        leat_store_cancel(store_of(h->feed), &h->ranges[i].op);
}

leat_status leat_feed_open(const struct leat_feed_opts *opts, struct leat_feed **out, struct leat_error *err)
{
    struct leat_feed *f = calloc(1, sizeof *f);
    if (!f)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a feed");
    f->opts = *opts;
    leat_status rc = leat_cache_set_open(opts->cache, leat_dataset_root(opts->dataset)->chunks, opts->next_use, forget,
                                         opts->user, &f->set, err);
    if (rc != LEAT_OK) {
        free(f);
        return rc;
    }
    *out = f;
    return LEAT_OK;
}

void leat_feed_close(struct leat_feed *f, void (*closed)(void *user), void *user)
{
    if (!f) {
        if (closed)
            closed(user);
        return;
    }
    f->closing = true;
    f->closed = closed;
    f->closed_user = user;
    uint32_t chunks = leat_dataset_root(f->opts.dataset)->chunks;
    for (uint32_t i = 0; i < chunks; i++) {
        struct leat_cache_entry *e = leat_cache_find(f->set, i);
        struct held *h = e ? e->user : NULL;
        if (h && h->coming)
            cancel(h);
        else if (h)
            forget(NULL, e);
    }
    if (!f->stats.coming)
        free_feed(f);
}
