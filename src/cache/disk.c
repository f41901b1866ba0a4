/* Who does what. Callers only touch tables under one lock and never wait for the disk. Four workers do the calls that
 * may block: they take reads before writes (one of them the other way round, so that neither starves) and removals
 * before both. The watcher makes no call that may block: it takes operations away from workers that the kernel keeps
 * too long and answers what needs no worker. So that an operation can be taken away, the kernel never sees the caller's
 * memory: data goes through a buffer of the worker's, in pieces that stay in the processor's cache. */
#include "cache/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "cache/disk_impl.h"

#define PATIENCE_NS   (10 * LEAT_S)
#define LOOK_NS       LEAT_S
#define STOP_NS       (2 * LEAT_S)
#define SEGMENTS      64u /* that a full cache has, within these sizes */
#define SEGMENT_LEAST (64ull << 20)
#define SEGMENT_MOST  (16ull << 30)

void leat_disk_push(struct leat_disk_queue *q, struct leat_disk_op *op)
{
    op->next = NULL;
    *q->last = op;
    q->last = &op->next;
}

struct leat_disk_op *leat_disk_pop(struct leat_disk_queue *q)
{
    struct leat_disk_op *op = q->first;
    if (op) {
        q->first = op->next;
        if (!q->first)
            q->last = &q->first;
    }
    return op;
}

void leat_disk_say(struct leat_disk *d, const struct leat_error *err, const char *then)
{
    unsigned bit = 1u << ((unsigned)err->status % 32);
    if (d->said & bit)
        return;
    d->said |= bit;
    leat_log(LEAT_LOG_WARN, "disk cache '%s': %s; %s", d->dir, err->text, then);
}

/* --- chunks and segments --- */

void leat_disk_forget(struct leat_disk *d, struct leat_disk_place place)
{
    struct leat_segment *s = place.segment;
    struct leat_segment_slot *e = &s->slots[place.slot];
    uint64_t footprint = leat_segment_footprint(e->bytes);
    leat_disk_index_remove(&d->index, e->name);
    leat_segment_set_dead(s, place.slot);
    if (s->ours)
        d->used -= footprint;
    else
        d->shared -= footprint;
    if (s->ours && e->readers == 0)
        leat_disk_bury(s, place.slot);
    pthread_cond_signal(&d->work);
}

bool leat_disk_keep_segment(struct leat_disk *d, struct leat_segment *s)
{
    if (d->segments_n == d->segments_cap) {
        size_t cap = d->segments_cap ? 2 * d->segments_cap : 64;
        struct leat_segment **more = reallocarray(d->segments, cap, sizeof *more);
        if (!more)
            return false;
        d->segments = more;
        d->segments_cap = cap;
    }
    d->segments[d->segments_n++] = s;
    return true;
}

void leat_disk_leave(struct leat_disk *d, struct leat_segment *s)
{
    (void)d;
    if (--s->users == 0 && s->gone)
        leat_segment_close(s);
}

void leat_disk_drop_segment(struct leat_disk *d, struct leat_segment *s)
{
    for (uint32_t i = 0; i < s->slots_n; i++) {
        struct leat_segment_slot *e = &s->slots[i];
        if (e->state != LEAT_SLOT_LIVE)
            continue;
        struct leat_disk_place place = leat_disk_index_find(&d->index, e->name);
        if (place.segment != s || place.slot != i)
            continue;
        leat_disk_index_remove(&d->index, e->name);
        *(s->ours ? &d->used : &d->shared) -= leat_segment_footprint(e->bytes);
    }
    for (size_t i = 0; i < d->segments_n; i++) {
        if (d->segments[i] == s)
            d->segments[i--] = d->segments[--d->segments_n];
    }
    s->gone = true;
    s->users++;
    leat_disk_leave(d, s);
}

/* What the chunks of the index may take, and whether the caller has to be told. Small changes are kept back: free space
 * moves all the time. */
uint64_t leat_disk_report(struct leat_disk *d, bool *changed)
{
    uint64_t hidden = d->foreign > d->shared ? d->foreign - d->shared : 0;
    uint64_t budget = d->limit > hidden ? d->limit - hidden : 0;
    uint64_t step = d->reported / 64;
    *changed = budget > d->reported + step || budget + step < d->reported || (budget == 0 && d->reported);
    if (*changed)
        d->reported = budget;
    return d->reported;
}

/* --- the watcher --- */

static void answer(struct leat_disk *d, struct leat_disk_op *op)
{
    leat_disk_push(&d->answers, op);
    pthread_cond_signal(&d->watch);
}

static void time_out(struct leat_disk *d, struct leat_disk_op *op)
{
    d->stats.timeouts++;
    leat_fail(&op->err, LEAT_TIMEOUT, "the disk of the cache folder '%s' has not answered for %.1f s", d->dir,
              (double)d->patience_ns / 1e9);
    leat_disk_say(d, &op->err, "going on without it until it answers");
    leat_disk_push(&d->answers, op);
}

static void time_out_queue(struct leat_disk *d, struct leat_disk_queue *q, uint64_t now)
{
    while (q->first && q->first->deadline_ns <= now)
        time_out(d, leat_disk_pop(q));
}

/* Before the watcher ends, it takes all operations away: when the kernel returns a worker after the closing, its caller
 * may have freed the memory. */
static void take_away(struct leat_disk *d, uint64_t now)
{
    for (unsigned i = 0; i < LEAT_DISK_WORKERS; i++) {
        struct leat_disk_worker *w = &d->workers[i];
        if (!w->op || w->touching || (w->deadline_ns > now && !d->watcher_stop))
            continue;
        time_out(d, w->op);
        w->op = NULL;
        d->stuck++;
    }
    time_out_queue(d, &d->reads, now);
    time_out_queue(d, &d->writes, now);
}

/* Hold mu. */
static bool any_op(const struct leat_disk *d)
{
    bool any = false;
    for (unsigned i = 0; i < LEAT_DISK_WORKERS; i++)
        any = any || d->workers[i].op;
    return any;
}

static void *watch(void *arg)
{
    struct leat_disk *d = arg;
    uint64_t tick = d->patience_ns / 4 < d->look_ns ? d->patience_ns / 4 : d->look_ns;
    uint64_t look = leat_after(d->look_ns);
    pthread_mutex_lock(&d->mu);
    for (;;) {
        uint64_t now = leat_now_ns();
        take_away(d, now);
        if (now >= look && !d->stop) {
            look = leat_after(d->look_ns);
            d->look_due = true;
            pthread_cond_signal(&d->work);
        }
        struct leat_disk_op *op = leat_disk_pop(&d->answers);
        if (op) {
            pthread_mutex_unlock(&d->mu);
            op->done(op);
            pthread_mutex_lock(&d->mu);
            continue;
        }
        if (d->watcher_stop && !any_op(d)) /* a copy from or to its memory ends within microseconds */
            break;
        leat_cond_wait(&d->watch, &d->mu, now + tick);
    }
    pthread_mutex_unlock(&d->mu);
    return NULL;
}

/* --- opening and closing --- */

static void disk_free(struct leat_disk *d)
{
    for (size_t i = 0; i < d->segments_n; i++)
        leat_segment_close(d->segments[i]);
    for (unsigned i = 0; i < LEAT_DISK_WORKERS; i++)
        free(d->workers[i].piece);
    free(d->segments);
    leat_disk_index_free(&d->index);
    if (d->folder >= 0)
        close(d->folder);
    pthread_cond_destroy(&d->removed);
    pthread_cond_destroy(&d->exits);
    pthread_cond_destroy(&d->watch);
    pthread_cond_destroy(&d->work);
    pthread_mutex_destroy(&d->reserving);
    pthread_mutex_destroy(&d->mu);
    free(d);
}

void leat_disk_let_go(struct leat_disk *d)
{
    bool last = --d->holders == 0;
    pthread_mutex_unlock(&d->mu);
    if (last)
        disk_free(d);
}

static struct leat_disk *new_disk(const struct leat_disk_opts *opts)
{
    struct leat_disk *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    snprintf(d->dir, sizeof d->dir, "%s", opts->dir ? opts->dir : "");
    d->patience_ns = opts->patience_ns ? opts->patience_ns : PATIENCE_NS;
    d->look_ns = opts->look_ns ? opts->look_ns : LOOK_NS;
    d->shrunk = opts->shrunk;
    d->found = opts->found;
    d->user = opts->user;
    d->folder = -1;
    d->holders = 1;
    d->reads.last = &d->reads.first;
    d->writes.last = &d->writes.first;
    d->answers.last = &d->answers.first;
    pthread_mutex_init(&d->mu, NULL);
    pthread_mutex_init(&d->reserving, NULL);
    leat_cond_init(&d->work);
    leat_cond_init(&d->watch);
    leat_cond_init(&d->exits);
    leat_cond_init(&d->removed);
    return d;
}

static leat_status start_threads(struct leat_disk *d, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (unsigned i = 0; rc == LEAT_OK && i < LEAT_DISK_WORKERS; i++) {
        struct leat_disk_worker *w = &d->workers[i];
        void *piece = NULL;
        w->disk = d;
        if (posix_memalign(&piece, LEAT_DISK_CALL, LEAT_DISK_CALL) != 0)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
        madvise(piece, LEAT_DISK_CALL, MADV_HUGEPAGE); /* a wish */
        w->piece = piece;
        rc = leat_thread_start(&w->thread, "leat-disk", leat_disk_work, w, err);
        w->started = rc == LEAT_OK;
        d->holders += w->started; /* a worker lets go after `stop`, so not yet */
    }
    if (rc == LEAT_OK)
        rc = leat_thread_start(&d->watcher, "leat-disk-watch", watch, d, err);
    d->watching = rc == LEAT_OK;
    return rc;
}

leat_status leat_disk_open(const struct leat_disk_opts *opts, struct leat_disk **out, struct leat_error *err)
{
    struct stat st;
    if (opts->budget && opts->budget < LEAT_DISK_BUDGET_MIN)
        return leat_fail(err, LEAT_INVALID, "a disk cache of %llu bytes cannot hold a chunk: give it more than %llu",
                         (unsigned long long)opts->budget, (unsigned long long)LEAT_DISK_BUDGET_MIN);
    struct leat_disk *d = new_disk(opts);
    if (!d)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    d->budget = opts->budget;
    leat_status rc = leat_disk_folder_open(opts->dir, true, &d->folder, err);
    if (rc == LEAT_OK && fstat(d->folder, &st) == 0) {
        const char *caveat = leat_disk_folder_caveat(d->folder);
        if (caveat)
            leat_log(LEAT_LOG_WARN, "the cache folder '%s' %s", d->dir, caveat);
        d->device = st.st_dev;
        d->inode = st.st_ino;
    }
    if (rc == LEAT_OK)
        rc = leat_disk_scan(d, err);
    if (rc == LEAT_OK) {
        d->segment_bytes = d->budget / SEGMENTS / LEAT_SEGMENT_BLOCK * LEAT_SEGMENT_BLOCK;
        if (d->segment_bytes < SEGMENT_LEAST)
            d->segment_bytes = SEGMENT_LEAST;
        if (d->segment_bytes > SEGMENT_MOST)
            d->segment_bytes = SEGMENT_MOST;
        rc = start_threads(d, err);
    }
    if (rc != LEAT_OK) {
        leat_disk_close(d);
        return rc;
    }
    *out = d;
    return LEAT_OK;
}

static void cancel_queue(struct leat_disk *d, struct leat_disk_queue *q)
{
    struct leat_disk_op *op;
    while ((op = leat_disk_pop(q))) {
        leat_fail(&op->err, LEAT_CANCELLED, "the disk cache was closed before this started");
        answer(d, op);
    }
}

static unsigned running(const struct leat_disk *d)
{
    unsigned n = 0;
    for (unsigned i = 0; i < LEAT_DISK_WORKERS; i++)
        n += d->workers[i].started && !d->workers[i].exited;
    return n;
}

void leat_disk_close(struct leat_disk *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->mu);
    d->stop = true;
    d->stop_by_ns = leat_after(d->patience_ns < STOP_NS ? d->patience_ns : STOP_NS);
    cancel_queue(d, &d->reads);
    cancel_queue(d, &d->writes);
    pthread_cond_broadcast(&d->work);
    pthread_cond_broadcast(&d->removed);
    uint64_t deadline =
        leat_after(d->patience_ns + d->patience_ns / 2); /* the watcher takes away what is late before */
    while (running(d) && leat_cond_wait(&d->exits, &d->mu, deadline))
        continue;
    d->watcher_stop = true;
    pthread_cond_signal(&d->watch);
    bool exited[LEAT_DISK_WORKERS];
    for (unsigned i = 0; i < LEAT_DISK_WORKERS; i++) {
        exited[i] = d->workers[i].exited;
        if (d->workers[i].started && !exited[i])
            pthread_detach(d->workers[i].thread);
    }
    pthread_mutex_unlock(&d->mu);
    for (unsigned i = 0; i < LEAT_DISK_WORKERS; i++) {
        if (exited[i])
            pthread_join(d->workers[i].thread, NULL);
    }
    if (d->watching)
        pthread_join(d->watcher, NULL);
    pthread_mutex_lock(&d->mu);
    while (d->calling)
        leat_cond_wait(&d->exits, &d->mu, LEAT_NEVER); /* callbacks do not block */
    leat_disk_let_go(d);
}

/* --- the interface --- */

uint64_t leat_disk_budget(const struct leat_disk *d)
{
    struct leat_disk *mine = (struct leat_disk *)(uintptr_t)d;
    pthread_mutex_lock(&mine->mu);
    uint64_t budget = d->reported;
    pthread_mutex_unlock(&mine->mu);
    return budget;
}

uint64_t leat_disk_footprint(uint64_t bytes)
{
    return leat_segment_footprint(bytes);
}

void leat_disk_each(struct leat_disk *d, leat_disk_visit *visit, void *user)
{
    pthread_mutex_lock(&d->mu);
    for (size_t i = 0; d->index.bits && i < (size_t)1 << d->index.bits; i++) {
        const struct leat_disk_place *p = &d->index.places[i];
        if (p->segment)
            visit(user, p->segment->slots[p->slot].name, p->segment->slots[p->slot].bytes);
    }
    pthread_mutex_unlock(&d->mu);
}

void leat_disk_submit(struct leat_disk *d, struct leat_disk_op *op)
{
    uint64_t now = leat_now_ns();
    op->err = (struct leat_error){0};
    op->deadline_ns = now + d->patience_ns;
    pthread_mutex_lock(&d->mu);
    const struct leat_disk_rest *rest = op->kind == LEAT_DISK_READ ? &d->reading : &d->writing;
    if (d->stop) {
        leat_fail(&op->err, LEAT_CANCELLED, "the disk cache is closed");
        answer(d, op);
    } else if (rest->until_ns > now) {
        op->err = rest->err;
        answer(d, op);
    } else if (d->stuck == LEAT_DISK_WORKERS) {
        time_out(d, op);
        pthread_cond_signal(&d->watch);
    } else {
        leat_disk_push(op->kind == LEAT_DISK_READ ? &d->reads : &d->writes, op);
        pthread_cond_signal(&d->work);
    }
    pthread_mutex_unlock(&d->mu);
}

void leat_disk_remove(struct leat_disk *d, const uint8_t name[32])
{
    pthread_mutex_lock(&d->mu);
    struct leat_disk_place place = leat_disk_index_find(&d->index, name);
    if (place.segment) {
        d->stats.removed++;
        leat_disk_forget(d, place);
    }
    pthread_mutex_unlock(&d->mu);
}

void leat_disk_stats(struct leat_disk *d, struct leat_disk_stats *out)
{
    uint64_t now = leat_now_ns();
    pthread_mutex_lock(&d->mu);
    *out = d->stats;
    out->budget = d->reported;
    out->used = d->used;
    out->shared = d->shared;
    out->chunks = d->index.count;
    out->failed = d->writing.until_ns > now || d->reading.until_ns > now || d->stuck == LEAT_DISK_WORKERS;
    for (size_t i = 0; i < d->segments_n; i++) {
        out->segments += d->segments[i]->ours;
        out->direct = out->direct || d->segments[i]->direct >= 0;
    }
    pthread_mutex_unlock(&d->mu);
}
