/* What the workers of a disk cache do: read, write and remove chunks. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/thread.h"
#include "cache/disk_impl.h"

#define BLOCK       LEAT_SEGMENT_BLOCK
#define REST_NS     (30 * LEAT_S)
#define FULL_NS     (60 * LEAT_S)
#define FAILURES_OK 3u /* errors in a row before the disk rests: one bad block is no bad disk */

void leat_disk_bury(struct leat_segment *s, uint32_t slot)
{
    s->slots[slot].hash = s->dead_first;
    s->dead_first = slot + 1;
}

/* --- between the worker and the watcher --- */

/* A worker's copy of an operation. The caller may free the original as soon as the watcher has taken it away, which can
 * happen whenever mu is not held. So `op` is only compared with, and `data` is used between hold() and let_go(). */
struct task {
    const struct leat_disk_op *op;
    uint8_t name[32];
    void *data;
    uint64_t bytes;
};

/* From here until let_go() the operation cannot be taken away. False when it has been. */
static bool hold(struct leat_disk_worker *w, const struct task *t)
{
    pthread_mutex_lock(&w->disk->mu);
    bool ours = w->op == t->op;
    w->touching = ours;
    w->deadline_ns = leat_after(w->disk->patience_ns);
    pthread_mutex_unlock(&w->disk->mu);
    return ours;
}

static void let_go(struct leat_disk_worker *w)
{
    pthread_mutex_lock(&w->disk->mu);
    w->touching = false;
    if (w->disk->watcher_stop)
        pthread_cond_signal(&w->disk->watch); /* it waits to take the operation away */
    pthread_mutex_unlock(&w->disk->mu);
}

bool leat_disk_calls(struct leat_disk *d)
{
    if (d->watcher_stop)
        return false;
    d->calling++;
    return true;
}

void leat_disk_called(struct leat_disk *d)
{
    if (--d->calling == 0)
        pthread_cond_broadcast(&d->exits);
}

/* --- errors; hold mu --- */

static void note_error(struct leat_disk *d, struct leat_disk_rest *rest, const struct leat_error *err, bool at_once)
{
    d->stats.errors++;
    rest->failures++;
    rest->err = *err;
    if (at_once || rest->failures >= FAILURES_OK)
        rest->until_ns = leat_after(REST_NS);
    leat_disk_say(d, err, rest == &d->reading ? "what it held is fetched again" : "nothing more is stored for now");
}

/* The disk is full for others' reasons: what is stored stays, what is not does not come. */
static void note_full(struct leat_disk *d, const struct leat_error *err)
{
    uint64_t now_used = d->used + d->foreign;
    if (d->limit > now_used)
        d->limit = now_used;
    d->full_until_ns = leat_after(FULL_NS);
    d->stats.refused++;
    leat_disk_say(d, err, "the cache keeps what it has and stores nothing new");
}

void leat_disk_tell_budget(struct leat_disk *d)
{
    bool changed;
    pthread_mutex_lock(&d->mu);
    uint64_t budget = leat_disk_report(d, &changed);
    if (changed && d->shrunk && leat_disk_calls(d)) {
        pthread_mutex_unlock(&d->mu);
        d->shrunk(d->user, budget);
        pthread_mutex_lock(&d->mu);
        leat_disk_called(d);
    }
    pthread_mutex_unlock(&d->mu);
}

/* --- reading --- */

struct reading {
    struct leat_disk_place place;
    struct leat_segment_slot entry; /* as it was found */
    bool counted;                   /* among the slot's readers */
};

static leat_status begin_read(struct leat_disk *d, const struct task *t, struct reading *r, struct leat_error *err)
{
    r->place = leat_disk_index_find(&d->index, t->name);
    if (!r->place.segment) {
        d->stats.missing++;
        return leat_fail(err, LEAT_NOT_FOUND, "the chunk is not in the disk cache");
    }
    struct leat_segment_slot *e = &r->place.segment->slots[r->place.slot];
    if (e->bytes != t->bytes)
        return leat_fail(err, LEAT_INVALID, "the chunk in the disk cache has %llu bytes, but %llu were asked for",
                         (unsigned long long)e->bytes, (unsigned long long)t->bytes);
    r->entry = *e;
    r->counted = r->place.segment->ours;
    e->readers += r->counted;
    r->place.segment->users++;
    return LEAT_OK;
}

/* Hold mu. The chunk could not be read or was not right: it goes, unless something else is in its place already. */
static void drop_bad(struct leat_disk *d, const struct reading *r)
{
    struct leat_disk_place now = leat_disk_index_find(&d->index, r->entry.name);
    if (now.segment == r->place.segment && now.slot == r->place.slot &&
        now.segment->slots[now.slot].sequence == r->entry.sequence)
        leat_disk_forget(d, now);
}

static void end_read(struct leat_disk *d, const struct reading *r, leat_status rc, struct leat_error *err)
{
    struct leat_segment *s = r->place.segment;
    if (rc == LEAT_OK) {
        d->stats.reads++;
        d->stats.read_bytes += r->entry.bytes;
        d->reading.failures = 0;
    } else if (rc != LEAT_CANCELLED) {
        drop_bad(d, r);
    }
    if (rc == LEAT_CORRUPT && !s->ours) {
        /* Its owner has most likely removed it; if not, the owner will find out. */
        d->stats.missing++;
        leat_fail(err, LEAT_NOT_FOUND, "the chunk is no longer in the disk cache");
    } else if (rc == LEAT_CORRUPT) {
        d->stats.damaged++;
        leat_disk_say(d, err, "dropped, and fetched again");
    } else if (rc != LEAT_OK && rc != LEAT_CANCELLED) {
        note_error(d, &d->reading, err, false);
    }
    if (r->counted) {
        struct leat_segment_slot *e = &s->slots[r->place.slot];
        if (--e->readers == 0 && e->state == LEAT_SLOT_DEAD)
            leat_disk_bury(s, r->place.slot);
    }
    leat_disk_leave(d, s);
}

/* LEAT_CANCELLED: the operation was taken away. */
static leat_status copy_out(struct leat_disk_worker *w, const struct task *t, const struct reading *r,
                            struct leat_error *err)
{
    const struct leat_segment *s = r->place.segment;
    uint64_t bytes = r->entry.bytes;
    uint64_t hash = bytes;
    leat_status rc = LEAT_OK;
    for (uint64_t at = 0; at < bytes && rc == LEAT_OK; at += LEAT_DISK_CALL) {
        size_t n = bytes - at < LEAT_DISK_CALL ? (size_t)(bytes - at) : LEAT_DISK_CALL;
        rc =
            leat_segment_read(s, (uint64_t)r->entry.block * BLOCK + at, w->piece, (n + BLOCK - 1) / BLOCK * BLOCK, err);
        if (!hold(w, t))
            return LEAT_CANCELLED;
        if (rc == LEAT_OK)
            leat_copy_past_caches((uint8_t *)t->data + at, w->piece, n);
        let_go(w);
        hash = rc == LEAT_OK ? leat_segment_hash(hash, w->piece, n) : 0;
    }
    if (rc == LEAT_OK && hash != r->entry.hash)
        rc = leat_fail(err, LEAT_CORRUPT, "a chunk in '%s' does not match its checksum", s->file);
    return rc;
}

static leat_status run_read(struct leat_disk_worker *w, const struct task *t, struct leat_error *err)
{
    struct leat_disk *d = w->disk;
    struct reading r;
    pthread_mutex_lock(&d->mu);
    leat_status rc = begin_read(d, t, &r, err);
    pthread_mutex_unlock(&d->mu);
    if (rc != LEAT_OK)
        return rc;
    rc = copy_out(w, t, &r, err);
    pthread_mutex_lock(&d->mu);
    end_read(d, &r, rc, err);
    pthread_mutex_unlock(&d->mu);
    return rc == LEAT_OK ? rc : err->status;
}

/* --- removing --- */

/* Hold mu, which is let go meanwhile. Takes one removed chunk off the disk; false when there is none. */
static bool remove_one(struct leat_disk *d)
{
    struct leat_segment *s = NULL;
    for (size_t i = 0; i < d->segments_n && !s; i++)
        s = d->segments[i]->dead_first ? d->segments[i] : NULL;
    if (!s)
        return false;
    uint32_t slot = s->dead_first - 1;
    struct leat_segment_slot entry = s->slots[slot];
    s->dead_first = (uint32_t)entry.hash;
    s->users++;
    pthread_mutex_unlock(&d->mu);
    /* The entry first: a crash in between leaves nothing that would be believed. A hole that cannot be made is space
     * that is only reused. An entry that cannot be taken out keeps its place. */
    leat_status rc = leat_segment_retract(s, slot, NULL);
    bool punched = leat_segment_punch(s, &entry);
    pthread_mutex_lock(&d->mu);
    d->no_punch = !punched;
    if (rc == LEAT_OK) {
        leat_segment_give_back(s, slot);
    } else {
        s->taken_bytes -= leat_segment_footprint(entry.bytes); /* nobody waits for this room any more */
        s->spoilt = true;
    }
    pthread_mutex_unlock(&d->mu);
    leat_disk_reserve(d, s);
    pthread_mutex_lock(&d->mu);
    pthread_cond_broadcast(&d->removed);
    leat_disk_leave(d, s);
    return true;
}

/* --- writing --- */

/* Hold mu. Space for the chunk in a segment of ours that has room. */
static bool find_room(struct leat_disk *d, const struct task *t, struct leat_disk_place *place)
{
    for (size_t i = 0; i < d->segments_n; i++) {
        struct leat_segment *s = d->segments[i];
        if (s->ours && !s->spoilt && leat_segment_take(s, t->name, t->bytes, &place->slot)) {
            place->segment = s;
            s->users++;
            return true;
        }
    }
    return false;
}

/* Hold mu, which is let go while the file is made. */
static leat_status make_room(struct leat_disk *d, const struct task *t, struct leat_disk_place *place,
                             struct leat_error *err)
{
    struct leat_segment *s = NULL;
    int folder = d->folder;
    d->making++;
    pthread_mutex_unlock(&d->mu);
    leat_status rc = leat_segment_make(folder, t->bytes > d->segment_bytes ? t->bytes : d->segment_bytes, &s, err);
    pthread_mutex_lock(&d->mu);
    d->making--;
    if (rc != LEAT_OK)
        return rc;
    bool found = find_room(d, t, place); /* another thread was faster: one new segment is enough */
    if (found || !leat_disk_keep_segment(d, s)) {
        unlinkat(folder, s->file, 0);
        leat_segment_close(s);
        return found ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    }
    if (!find_room(d, t, place))
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    return LEAT_OK;
}

/* Hold mu. What our own segments take: more than `used` while removed chunks are on the disk still. */
static uint64_t taken(const struct leat_disk *d)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < d->segments_n; i++)
        bytes += d->segments[i]->ours ? d->segments[i]->taken_bytes : 0;
    return bytes;
}

static leat_status fail_full(struct leat_disk *d, struct leat_error *err)
{
    d->stats.refused++;
    return leat_fail(err, LEAT_NO_SPACE, "the disk cache is full: %llu bytes of %llu are taken",
                     (unsigned long long)(d->used + d->foreign), (unsigned long long)d->limit);
}

/* Hold mu, which is released meanwhile. Agents share a budget without a lock: each first publishes its reservation,
 * then adds up those of all others. Of two agents that do so at the same time, at least one sees the other, so together
 * they never take too much; at worst both give up. Room of chunks that are being removed is waited for. */
static leat_status claim_room(struct leat_disk *d, struct leat_disk_place place, struct leat_error *err)
{
    struct leat_segment *s = place.segment;
    uint64_t until = leat_after(d->patience_ns);
    uint64_t foreign;
    pthread_mutex_unlock(&d->mu);
    leat_disk_reserve(d, s);
    bool known = leat_disk_foreign(d, &foreign);
    pthread_mutex_lock(&d->mu);
    if (known)
        d->foreign = foreign;
    while (known && taken(d) + foreign > d->limit && d->used + foreign <= d->limit && !d->stop) {
        if (!remove_one(d) && !leat_cond_wait(&d->removed, &d->mu, until))
            break;
    }
    if (known && taken(d) + foreign <= d->limit)
        return LEAT_OK;
    leat_status rc = fail_full(d, err);
    leat_segment_give_back(s, place.slot);
    pthread_mutex_unlock(&d->mu);
    leat_disk_reserve(d, s);
    pthread_mutex_lock(&d->mu);
    leat_disk_leave(d, s);
    return rc;
}

/* Hold mu. `there`: it is stored already. */
static leat_status begin_write(struct leat_disk *d, const struct task *t, struct leat_disk_place *place, bool *there,
                               struct leat_error *err)
{
    uint64_t footprint = leat_segment_footprint(t->bytes);
    *there = leat_disk_index_find(&d->index, t->name).segment != NULL;
    if (*there)
        return LEAT_OK;
    if (t->bytes == 0 || t->bytes > LEAT_SEGMENT_BYTES_MAX)
        return leat_fail(err, LEAT_INVALID, "a chunk of %llu bytes cannot be stored in the disk cache",
                         (unsigned long long)t->bytes);
    if (d->used + d->foreign + footprint > d->limit)
        return fail_full(d, err);
    d->used += footprint;
    leat_status rc = find_room(d, t, place) ? LEAT_OK : make_room(d, t, place, err);
    if (rc == LEAT_OK)
        rc = claim_room(d, *place, err);
    if (rc != LEAT_OK)
        d->used -= footprint;
    return rc;
}

/* LEAT_CANCELLED: the operation was taken away. */
static leat_status copy_in(struct leat_disk_worker *w, const struct task *t, struct leat_segment *s,
                           struct leat_segment_slot *e, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint64_t at = 0; at < e->bytes && rc == LEAT_OK; at += LEAT_DISK_CALL) {
        size_t n = e->bytes - at < LEAT_DISK_CALL ? (size_t)(e->bytes - at) : LEAT_DISK_CALL;
        size_t whole = (n + BLOCK - 1) / BLOCK * BLOCK;
        if (!hold(w, t))
            return LEAT_CANCELLED;
        memcpy(w->piece, (const uint8_t *)t->data + at, n);
        let_go(w);
        e->hash =
            leat_segment_hash(at ? e->hash : e->bytes, w->piece, n); /* of what is written, not of what may change */
        memset(w->piece + n, 0, whole - n);
        rc = leat_segment_write(s, (uint64_t)e->block * BLOCK + at, w->piece, whole, err);
    }
    return rc;
}

/* Hold mu. Gives up a chunk that was not, or not rightly, written. */
static void undo_write(struct leat_disk *d, struct leat_disk_place place, leat_status rc, const struct leat_error *err)
{
    struct leat_segment *s = place.segment;
    d->used -= leat_segment_footprint(s->slots[place.slot].bytes);
    s->slots[place.slot].state = LEAT_SLOT_DEAD; /* off the disk with it, whatever has got there */
    leat_disk_bury(s, place.slot);
    if (rc == LEAT_NO_SPACE)
        note_full(d, err);
    else if (rc == LEAT_IO)
        s->spoilt = true;
}

static leat_status end_write(struct leat_disk_worker *w, const struct task *t, struct leat_disk_place place,
                             const struct leat_segment_slot *e, leat_status rc, struct leat_error *err)
{
    struct leat_disk *d = w->disk;
    struct leat_segment *s = place.segment;
    bool twice = leat_disk_index_find(&d->index, e->name).segment != NULL; /* two wrote the same */
    if (rc == LEAT_OK && w->op != t->op)
        rc = LEAT_CANCELLED;
    if (rc == LEAT_OK && s->gone)
        rc = leat_fail(err, LEAT_NOT_FOUND, "the segment '%s' has been removed", s->file);
    if (rc == LEAT_OK && !twice && !leat_disk_index_reserve(&d->index, 1))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    if (rc == LEAT_OK && !twice) {
        s->slots[place.slot].hash = e->hash;
        leat_segment_set_live(s, place.slot);
        leat_disk_index_add(&d->index, place);
        d->stats.writes++;
        d->stats.written_bytes += e->bytes;
        d->writing.failures = 0;
    } else {
        undo_write(d, place, rc, err);
    }
    leat_disk_leave(d, s);
    return rc;
}

static leat_status run_write(struct leat_disk_worker *w, const struct task *t, struct leat_error *err)
{
    struct leat_disk *d = w->disk;
    struct leat_disk_place place = {0};
    struct leat_segment_slot entry = {0};
    bool there;
    pthread_mutex_lock(&d->mu);
    leat_status rc = begin_write(d, t, &place, &there, err);
    bool ours_full = rc == LEAT_NO_SPACE && !err->os_error;
    if (rc == LEAT_OK && !there) {
        entry = place.segment->slots[place.slot];
        pthread_mutex_unlock(&d->mu);
        rc = copy_in(w, t, place.segment, &entry, err);
        if (rc == LEAT_OK)
            rc = leat_segment_publish(place.segment, place.slot, &entry, err);
        pthread_mutex_lock(&d->mu);
        rc = end_write(w, t, place, &entry, rc, err);
    } else if (rc == LEAT_NO_SPACE && !ours_full) {
        note_full(d, err);
    }
    if (rc != LEAT_OK && rc != LEAT_NO_SPACE && rc != LEAT_CANCELLED && rc != LEAT_INVALID && rc != LEAT_NO_MEMORY)
        note_error(d, &d->writing, err, rc == LEAT_DENIED);
    pthread_mutex_unlock(&d->mu);
    if (rc == LEAT_NO_SPACE && !ours_full)
        leat_disk_tell_budget(d);
    return rc;
}

/* --- the worker --- */

/* Hold mu. */
static struct leat_disk_op *next_op(struct leat_disk_worker *w)
{
    struct leat_disk *d = w->disk;
    bool writes_first = w == &d->workers[0];
    struct leat_disk_op *op = leat_disk_pop(writes_first ? &d->writes : &d->reads);
    return op ? op : leat_disk_pop(writes_first ? &d->reads : &d->writes);
}

/* Hold mu, which is let go meanwhile. */
static void perform(struct leat_disk_worker *w, struct leat_disk_op *op)
{
    struct leat_disk *d = w->disk;
    struct leat_error err = {0};
    struct task t = {.op = op, .data = op->data, .bytes = op->bytes};
    bool reads = op->kind == LEAT_DISK_READ;
    memcpy(t.name, op->name, sizeof t.name);
    w->op = op;
    w->deadline_ns = leat_after(d->patience_ns);
    pthread_mutex_unlock(&d->mu);
    leat_status rc = reads ? run_read(w, &t, &err) : run_write(w, &t, &err);
    pthread_mutex_lock(&d->mu);
    if (w->op != op) { /* taken away: answered, and perhaps freed */
        d->stuck--;
        return;
    }
    w->op = NULL;
    if (rc != LEAT_OK)
        op->err = err;
    d->calling++; /* though the disk may be closing: each operation is answered once */
    pthread_mutex_unlock(&d->mu);
    op->done(op);
    pthread_mutex_lock(&d->mu);
    leat_disk_called(d);
}

void *leat_disk_work(void *arg)
{
    struct leat_disk_worker *w = arg;
    struct leat_disk *d = w->disk;
    pthread_mutex_lock(&d->mu);
    for (;;) {
        struct leat_disk_op *op;
        if (d->stop && leat_now_ns() >= d->stop_by_ns)
            break;
        if (remove_one(d))
            continue;
        if (d->stop)
            break;
        if (d->look_due && !d->looking) {
            d->look_due = false;
            d->looking = true;
            pthread_mutex_unlock(&d->mu);
            leat_disk_look(d);
            pthread_mutex_lock(&d->mu);
            d->looking = false;
        } else if ((op = next_op(w))) {
            perform(w, op);
        } else {
            leat_cond_wait(&d->work, &d->mu, LEAT_NEVER);
        }
    }
    w->exited = true;
    pthread_cond_broadcast(&d->exits);
    leat_disk_let_go(d);
    return NULL;
}
