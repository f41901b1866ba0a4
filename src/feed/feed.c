#include "feed/feed.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define ARRIVALS_MAX 2u /* a chunk that is bad twice is bad in the bucket */

/* What the feed knows of a cached chunk. The op and the task travel; everything else stays on the feed's thread. */
struct held {
    struct leat_store_op op; /* first member */
    struct leat_task task;
    struct leat_feed *feed;
    struct leat_cache_entry *entry;
    struct leat_chunk chunk; /* when ready */
    char *key;
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

static void fetch(struct held *h);

/* On the feed's thread: a chunk has been fetched and checked, or not. */
static void settle(struct leat_task *task)
{
    struct held *h = (struct held *)((char *)task - offsetof(struct held, task));
    struct leat_feed *f = h->feed;
    leat_status status = h->err.status;
    h->coming = false;
    f->stats.coming--;
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
            fetch(h);
            return;
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
    if (leat_root_check_chunk(root, h->entry->chunk, h->entry->data, n, &h->err) == LEAT_OK)
        leat_chunk_read(h->entry->data, n, &h->chunk, &h->err);
    h->task.run = settle;
    h->feed->opts.back(h->feed->opts.user, &h->task);
}

/* On the store's thread. */
static void arrived(struct leat_store_op *op)
{
    struct held *h = (struct held *)op;
    h->arrivals++;
    h->err = op->err;
    if (op->status == LEAT_OK) {
        h->err = (struct leat_error){0};
        h->task.run = check;
        h->feed->opts.later(h->feed->opts.user, &h->task);
    } else {
        h->task.run = settle;
        h->feed->opts.back(h->feed->opts.user, &h->task);
    }
}

static void fetch(struct held *h)
{
    struct leat_feed *f = h->feed;
    h->op = (struct leat_store_op){
        .verb = LEAT_STORE_GET,
        .key = h->key,
        .length = h->entry->bytes,
        .into = h->entry->data,
        .done = arrived,
    };
    h->coming = true;
    h->failed = false;
    h->err = (struct leat_error){0};
    f->stats.coming++;
    leat_store_submit(store_of(f), &h->op);
}

/* Makes room and sends for the chunk; NULL when there is none. */
static struct leat_cache_entry *add(struct leat_feed *f, uint32_t chunk, uint64_t use)
{
    const struct leat_root *root = leat_dataset_root(f->opts.dataset);
    struct leat_cache_entry *e = leat_cache_add(f->set, chunk, root->sizes[chunk], use);
    if (!e)
        return NULL;
    struct held *h = calloc(1, sizeof *h);
    char name[LEAT_NAME_MAX];
    leat_name_chunk(leat_root_chunk_name(root, chunk), name);
    if (h)
        h->key = leat_home_key(leat_dataset_home(f->opts.dataset), name);
    if (!h || !h->key) {
        held_free(h);
        leat_cache_remove(e);
        return NULL;
    }
    h->feed = f;
    h->entry = e;
    e->user = h;
    fetch(h);
    return e;
}

bool leat_feed_pin(struct leat_feed *f, uint32_t chunk, uint64_t use)
{
    struct leat_cache_entry *e = leat_cache_find(f->set, chunk);
    if (!e)
        e = add(f, chunk, use);
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
    return leat_cache_find(f->set, chunk) || add(f, chunk, use);
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
            leat_store_cancel(store_of(f), &h->op); /* settle() follows */
        else if (h)
            forget(NULL, e);
    }
    if (!f->stats.coming)
        free_feed(f);
}
