#include "mount/hold.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"

#define BUCKETS     1024u
#define THREADS_MAX 16u
#define AHEAD_MAX   32u /* waiting to be loaded ahead; more are not wanted that much */
#define FAILED_FOR  LEAT_S

enum state { LOADING, READY, FAILED };

struct leat_held {
    struct leat_held *next;  /* of its bucket */
    struct leat_held *newer; /* of those that nobody holds: by when they were used last */
    struct leat_held *older;
    uint64_t id;
    uint64_t bytes;
    enum state state;
    uint32_t count;    /* callers who hold it or wait for it, and the one who loads it */
    bool taken;        /* since it was loaded, by another than the one who loads ahead */
    uint64_t until_ns; /* failed: as long as it is believed */
    void *thing;
    struct leat_error err;
};

struct leat_hold {
    struct leat_hold_opts opts; /* constant after the opening, as threads */
    pthread_t threads[THREADS_MAX];
    unsigned threads_n;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* something was loaded */
    pthread_cond_t asked;   /* something is to be loaded ahead, or it is over */
    struct {                /* hold mutex */
        struct leat_held *buckets[BUCKETS];
        struct leat_held *newest;
        struct leat_held *oldest;
        uint64_t idle_bytes; /* of those that nobody holds */
        uint64_t ahead[AHEAD_MAX];
        uint32_t ahead_n;
        bool closing;
        struct leat_hold_stats stats;
    } locked;
};

static struct leat_held **find(struct leat_hold *h, uint64_t id)
{
    struct leat_held **at = &h->locked.buckets[(id ^ id >> 32) % BUCKETS];
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

/* Among those that nobody holds. Hold the mutex, as below. */
static void link_idle(struct leat_hold *h, struct leat_held *x)
{
    x->older = h->locked.newest;
    x->newer = NULL;
    *(x->older ? &x->older->newer : &h->locked.oldest) = x;
    h->locked.newest = x;
    h->locked.idle_bytes += x->bytes;
}

static void unlink_idle(struct leat_hold *h, struct leat_held *x)
{
    *(x->older ? &x->older->newer : &h->locked.oldest) = x->newer;
    *(x->newer ? &x->newer->older : &h->locked.newest) = x->older;
    h->locked.idle_bytes -= x->bytes;
}

/* Takes it out of the table; the caller frees it. */
static void forget(struct leat_hold *h, struct leat_held *x)
{
    *find(h, x->id) = x->next;
    unlink_idle(h, x);
    h->locked.stats.bytes -= x->bytes;
}

/* Takes out what is too much, the one that was used longest ago first; the list goes through `next`. `but` stays. */
static struct leat_held *evict(struct leat_hold *h, const struct leat_held *but)
{
    struct leat_held *gone = NULL;
    while (h->locked.oldest && h->locked.oldest != but && h->locked.stats.bytes > h->opts.budget) {
        struct leat_held *x = h->locked.oldest;
        forget(h, x);
        x->next = gone;
        gone = x;
    }
    return gone;
}

static void drop_all(struct leat_hold *h, struct leat_held *gone)
{
    while (gone) {
        struct leat_held *next = gone->next;
        if (gone->state == READY)
            h->opts.drop(h->opts.user, gone->thing);
        free(gone);
        gone = next;
    }
}

static void let_go(struct leat_hold *h, struct leat_held *x)
{
    if (--x->count == 0)
        link_idle(h, x);
}

/* What is there of it, held once more; or NULL. A failure that is too old is as if it had not been. */
static struct leat_held *look(struct leat_hold *h, uint64_t id, struct leat_held **gone)
{
    struct leat_held *x = *find(h, id);
    if (x && x->state == FAILED && x->count == 0 && leat_now_ns() >= x->until_ns) {
        forget(h, x);
        x->next = *gone;
        *gone = x;
        return NULL;
    }
    if (x && x->count++ == 0)
        unlink_idle(h, x);
    return x;
}

static struct leat_held *add(struct leat_hold *h, uint64_t id)
{
    struct leat_held *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->id = id;
    x->bytes = h->opts.bytes(h->opts.user, id);
    x->state = LOADING;
    x->count = 1;
    *find(h, id) = x;
    h->locked.stats.bytes += x->bytes;
    return x;
}

/* Loads what was added. Called and returns with the mutex held, which it lets go of meanwhile. */
static void load(struct leat_hold *h, struct leat_held *x)
{
    struct leat_held *gone = evict(h, NULL); /* before, so that the new one has room */
    if (h->locked.stats.bytes > h->locked.stats.peak_bytes)
        h->locked.stats.peak_bytes = h->locked.stats.bytes;
    h->locked.stats.loads++;
    pthread_mutex_unlock(&h->mutex);
    drop_all(h, gone);
    void *thing = NULL;
    leat_status rc = h->opts.load(h->opts.user, x->id, &thing, &x->err);
    pthread_mutex_lock(&h->mutex);
    x->thing = thing;
    x->state = rc == LEAT_OK ? READY : FAILED;
    if (rc != LEAT_OK) {
        h->locked.stats.bytes -= x->bytes;
        x->bytes = 0;
        x->until_ns = leat_after(FAILED_FOR);
    }
    pthread_cond_broadcast(&h->changed);
}

/* The thing, held; ready or failed. NULL: no memory. Hold the mutex. */
static struct leat_held *get(struct leat_hold *h, uint64_t id, struct leat_held **gone)
{
    struct leat_held *x = look(h, id, gone);
    if (!x) {
        x = add(h, id);
        if (x)
            load(h, x);
        return x;
    }
    h->locked.stats.hits += x->state == READY;
    while (x->state == LOADING) /* the thread that loads it has a deadline */
        leat_cond_wait(&h->changed, &h->mutex, LEAT_NEVER);
    return x;
}

leat_status leat_hold_take(struct leat_hold *h, uint64_t id, struct leat_held **out, bool *fresh,
                           struct leat_error *err)
{
    struct leat_held *gone = NULL;
    leat_status rc = LEAT_OK;
    pthread_mutex_lock(&h->mutex);
    struct leat_held *x = get(h, id, &gone);
    if (!x) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to load with");
    } else if (x->state == FAILED) {
        rc = x->err.status;
        if (err)
            *err = x->err;
        let_go(h, x);
    } else {
        *fresh = !x->taken;
        x->taken = true;
        *out = x;
    }
    pthread_mutex_unlock(&h->mutex);
    drop_all(h, gone);
    return rc;
}

void leat_hold_give(struct leat_hold *h, struct leat_held *x)
{
    pthread_mutex_lock(&h->mutex);
    let_go(h, x);
    struct leat_held *gone = evict(h, x); /* a thing larger than the budget is read piece by piece too */
    pthread_mutex_unlock(&h->mutex);
    drop_all(h, gone);
}

void *leat_held_thing(const struct leat_held *x)
{
    return x->thing;
}

/* Ahead */

static void *run_ahead(void *arg)
{
    struct leat_hold *h = arg;
    pthread_mutex_lock(&h->mutex);
    while (!h->locked.closing) {
        if (h->locked.ahead_n == 0) {
            leat_cond_wait(&h->asked, &h->mutex, LEAT_NEVER);
            continue;
        }
        uint64_t id = h->locked.ahead[0];
        memmove(h->locked.ahead, h->locked.ahead + 1, --h->locked.ahead_n * sizeof id);
        uint64_t in_use = h->locked.stats.bytes - h->locked.idle_bytes;
        if (*find(h, id) || in_use + h->opts.bytes(h->opts.user, id) > h->opts.budget)
            continue;
        struct leat_held *x = add(h, id);
        if (!x)
            continue; /* who needs it will say that there is no memory */
        load(h, x);
        let_go(h, x);
    }
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}

void leat_hold_ahead(struct leat_hold *h, uint64_t id)
{
    bool known = false;
    if (h->threads_n == 0)
        return;
    pthread_mutex_lock(&h->mutex);
    for (uint32_t i = 0; i < h->locked.ahead_n; i++)
        known = known || h->locked.ahead[i] == id;
    if (!known && !*find(h, id) && h->locked.ahead_n < AHEAD_MAX) {
        h->locked.ahead[h->locked.ahead_n++] = id;
        pthread_cond_signal(&h->asked);
    }
    pthread_mutex_unlock(&h->mutex);
}

bool leat_hold_has(struct leat_hold *h, uint64_t id)
{
    pthread_mutex_lock(&h->mutex);
    const struct leat_held *x = *find(h, id);
    bool has = x && x->state != FAILED;
    pthread_mutex_unlock(&h->mutex);
    return has;
}

void leat_hold_stats(struct leat_hold *h, struct leat_hold_stats *out)
{
    pthread_mutex_lock(&h->mutex);
    *out = h->locked.stats;
    pthread_mutex_unlock(&h->mutex);
}

leat_status leat_hold_open(const struct leat_hold_opts *opts, struct leat_hold **out, struct leat_error *err)
{
    struct leat_hold *h = calloc(1, sizeof *h);
    if (!h)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to hold chunks with");
    h->opts = *opts;
    pthread_mutex_init(&h->mutex, NULL);
    leat_cond_init(&h->changed);
    leat_cond_init(&h->asked);
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && h->threads_n < opts->threads && h->threads_n < THREADS_MAX) {
        rc = leat_thread_start(&h->threads[h->threads_n], "leat-ahead", run_ahead, h, err);
        h->threads_n += rc == LEAT_OK;
    }
    if (rc != LEAT_OK) {
        leat_hold_close(h);
        return rc;
    }
    *out = h;
    return LEAT_OK;
}

void leat_hold_close(struct leat_hold *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->mutex);
    h->locked.closing = true;
    pthread_cond_broadcast(&h->asked);
    pthread_mutex_unlock(&h->mutex);
    for (unsigned i = 0; i < h->threads_n; i++)
        pthread_join(h->threads[i], NULL);
    for (unsigned i = 0; i < BUCKETS; i++)
        drop_all(h, h->locked.buckets[i]);
    pthread_cond_destroy(&h->asked);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->mutex);
    free(h);
}
