/* Memory and disk: who stays, who goes.
 *
 * Chunks in memory that nobody has pinned lie in a heap by next use, chunks on disk in another. Keys are not kept up to
 * date all the time: the one on top is computed again before it is believed, whatever changes a chunk's use puts it at
 * its new place, and each step looks at a few more in turn. So an eviction costs a handful of keys, however many chunks
 * there are.
 *
 * With a disk, chunks leave memory before their room is needed: the farthest are marked as leaving and written, if they
 * are worth it, so that the one that needs room finds chunks that can be dropped at once. Nobody who waits, waits for a
 * write. */
#include <stdarg.h>
#include <stdio.h>

#include "order/order.h"
#include "sched/inside.h"

#define TRIES       8u         /* keys computed again for one eviction */
#define CREEP       4u         /* keys looked at in turn, for each step and heap */
#define CREEP_NS    1000000ull /* … but not more often than this */
#define FORGETS     128u       /* chunks on disk given up in a step, when it was made smaller */
#define STORES      4u         /* writes under way at most */
#define RESERVE_MAX (256ull << 20)
#define AGAIN_NS    100000000ull /* when there was no memory for a fetch */

void leat_sched_say(struct leat_sched *s, const char *format, ...)
{
    char text[240];
    if (!s->opts.ops->why)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->opts.ops->why(s->opts.user, text);
}

static struct leat_sched_chunk *by_ram(struct leat_sched_place *p)
{
    return p ? (struct leat_sched_chunk *)((char *)p - offsetof(struct leat_sched_chunk, ram)) : NULL;
}

static struct leat_sched_chunk *by_disk(struct leat_sched_place *p)
{
    return p ? (struct leat_sched_chunk *)((char *)p - offsetof(struct leat_sched_chunk, disk)) : NULL;
}

uint64_t leat_sched_footprint(const struct leat_sched *s, const struct leat_sched_chunk *c)
{
    return s->opts.disk_bytes ? s->opts.disk_bytes(c->bytes) : c->bytes;
}

/* A copy on disk beside one in memory that stays is needed when memory has let go of it after its next use. */
static uint64_t disk_key(const struct leat_sched *s, const struct leat_sched_chunk *c)
{
    return leat_sched_use(s, c, c->state != LEAT_SCHED_ABSENT && !c->leaving);
}

static void place_on_disk(struct leat_sched *s, struct leat_sched_chunk *c)
{
    if (c->on_disk && !c->from_disk)
        leat_sched_heap_put(&s->on_disk, &c->disk, disk_key(s, c));
    else
        leat_sched_heap_remove(&s->on_disk, &c->disk);
}

static void stop_leaving(struct leat_sched *s, struct leat_sched_chunk *c)
{
    if (!c->leaving)
        return;
    *(c->prev ? &c->prev->next : &s->leaving_first) = c->next;
    *(c->next ? &c->next->prev : &s->leaving_last) = c->prev;
    c->prev = c->next = NULL;
    c->leaving = false;
    s->leaving_bytes -= c->bytes;
}

static void begin_leaving(struct leat_sched *s, struct leat_sched_chunk *c)
{
    leat_sched_heap_remove(&s->in_ram, &c->ram);
    c->leaving = true;
    c->prev = s->leaving_last;
    c->next = NULL;
    *(c->prev ? &c->prev->next : &s->leaving_first) = c;
    s->leaving_last = c;
    s->leaving_bytes += c->bytes;
}

void leat_sched_keep(struct leat_sched *s, struct leat_sched_chunk *c)
{
    stop_leaving(s, c);
    leat_sched_heap_remove(&s->in_ram, &c->ram);
    place_on_disk(s, c);
}

void leat_sched_loose(struct leat_sched *s, struct leat_sched_chunk *c)
{
    if (c->wants)
        stop_leaving(s, c);
    if (c->state == LEAT_SCHED_READY && !c->pins && !c->leaving && !c->storing)
        leat_sched_heap_put(&s->in_ram, &c->ram, leat_sched_use(s, c, false));
    else
        leat_sched_heap_remove(&s->in_ram, &c->ram);
    place_on_disk(s, c);
}

void leat_sched_unahead(struct leat_sched_chunk *c)
{
    struct leat_sched_lane *l = c->ahead_lane;
    if (!l)
        return;
    if (c->far)
        l->set->far_bytes -= c->bytes;
    else if (c->state == LEAT_SCHED_READY)
        l->set->ahead_bytes -= c->bytes;
    c->far = false;
    *(c->ahead_prev ? &c->ahead_prev->ahead_next : &l->ahead) = c->ahead_next;
    if (c->ahead_next)
        c->ahead_next->ahead_prev = c->ahead_prev;
    c->ahead_prev = c->ahead_next = NULL;
    c->ahead_lane = NULL;
    c->ahead = false;
}

void leat_sched_drop(struct leat_sched *s, struct leat_sched_chunk *c)
{
    stop_leaving(s, c);
    leat_sched_heap_remove(&s->in_ram, &c->ram);
    leat_sched_unahead(c);
    if (c->fixed)
        s->fixed_bytes -= c->bytes;
    c->fixed = false;
    c->state = LEAT_SCHED_ABSENT;
    s->stats.ram_used -= c->bytes;
    s->opts.ops->drop(s->opts.user, c);
    place_on_disk(s, c);
    leat_sched_settle(s, c);
}

void leat_sched_disk_gone(struct leat_sched *s, struct leat_sched_chunk *c)
{
    leat_sched_heap_remove(&s->on_disk, &c->disk);
    if (c->on_disk)
        s->stats.disk_used -= leat_sched_footprint(s, c);
    c->on_disk = false;
}

/* The member of a heap that is needed last, by a key computed now. */
static struct leat_sched_place *farthest(struct leat_sched *s, struct leat_sched_heap *h, bool disk)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct leat_sched_place *p = leat_sched_heap_top(h);
        if (!p)
            return NULL;
        uint64_t key = disk ? disk_key(s, by_disk(p)) : leat_sched_use(s, by_ram(p), false);
        if (key == p->key)
            return p;
        leat_sched_heap_put(h, p, key);
        if (leat_sched_heap_top(h) == p)
            return p;
    }
    return leat_sched_heap_top(h);
}

/* Makes room on disk for a chunk that is needed before others there. */
static bool disk_room(struct leat_sched *s, const struct leat_sched_chunk *c)
{
    uint64_t bytes = leat_sched_footprint(s, c);
    uint64_t key = leat_sched_use(s, c, false);
    if (bytes > s->opts.disk)
        return false;
    while (s->stats.disk_used + bytes > s->opts.disk) {
        struct leat_sched_chunk *w = by_disk(farthest(s, &s->on_disk, true));
        if (!w || w->disk.key <= key || s->opts.policy == LEAT_SCHED_MINIO)
            return false;
        leat_sched_say(s, "forget %02x%02x on disk: nothing there is needed later", w->name[0], w->name[1]);
        leat_sched_disk_gone(s, w);
        s->stats.forgotten++;
        s->opts.ops->forget(s->opts.user, w);
        leat_sched_settle(s, w);
    }
    return true;
}

/* A chunk being written takes memory that nobody can have, and a disk may hang. So writes take no more than half of
 * what is promised to nobody; one is always allowed, else a small memory would never use its disk. */
static bool may_write(const struct leat_sched *s, const struct leat_sched_chunk *c)
{
    uint64_t spare = s->opts.ram > s->stats.promised ? (s->opts.ram - s->stats.promised) / 2 : 0;
    return !s->storing || (s->storing < STORES && s->storing_bytes + c->bytes <= spare);
}

/* Writes a chunk that leaves memory to disk, if it is worth a place there and the disk keeps up. True: it is on its
 * way. */
static bool store(struct leat_sched *s, struct leat_sched_chunk *c)
{
    if (!s->opts.disk || c->on_disk || c->storing || s->opts.policy == LEAT_SCHED_NONE || !may_write(s, c) ||
        !disk_room(s, c))
        return false;
    if (!s->opts.ops->store(s->opts.user, c))
        return false;
    c->storing = true;
    s->storing++;
    s->storing_bytes += c->bytes;
    s->stats.disk_used += leat_sched_footprint(s, c);
    leat_sched_say(s, "demote %02x%02x to disk: needed after all else in memory, before something there", c->name[0],
                   c->name[1]);
    return true;
}

void leat_sched_stored(struct leat_sched *s, struct leat_sched_chunk *c, bool ok)
{
    c->storing = false;
    s->storing--;
    s->storing_bytes -= c->bytes;
    if (ok) {
        c->on_disk = true;
        s->stats.stored_bytes += c->bytes;
        s->stats.stored_chunks++;
    } else {
        s->stats.disk_used -= leat_sched_footprint(s, c);
        leat_sched_say(s, "%02x%02x did not get to disk", c->name[0], c->name[1]);
    }
    leat_sched_loose(s, c);
    leat_sched_settle(s, c);
}

static struct leat_sched_chunk *droppable(const struct leat_sched *s)
{
    struct leat_sched_chunk *c = s->leaving_first;
    while (c && c->storing)
        c = c->next;
    return c;
}

/* It would go to disk if the disk had time for it. */
static bool disk_is_busy(const struct leat_sched *s, const struct leat_sched_chunk *c)
{
    return s->opts.disk && s->opts.policy != LEAT_SCHED_NONE && !c->on_disk && !may_write(s, c) &&
           s->stats.disk_used + leat_sched_footprint(s, c) <= s->opts.disk;
}

static bool make_room(struct leat_sched *s, uint64_t bytes, uint64_t key, bool urgent, bool patient)
{
    if (bytes > s->opts.ram)
        return false;
    if (!urgent && s->short_now)
        return false; /* room that comes free is a first batch's: in small pieces it would go to others for ever */
    while (s->stats.ram_used + bytes > s->opts.ram) {
        struct leat_sched_chunk *c = droppable(s);
        if (!c) {
            c = by_ram(farthest(s, &s->in_ram, false));
            if (!c || (!urgent && c->ram.key <= key))
                return false;
            if (patient && disk_is_busy(s, c))
                return false; /* the end of a write makes room for the next */
            if ((!urgent || patient) && store(s, c)) {
                begin_leaving(s, c);
                return false; /* the end of the write makes room */
            }
        }
        s->stats.evicted++;
        leat_sched_say(s, "drop %02x%02x: %s", c->name[0], c->name[1],
                       urgent ? "a batch is waited for" : "needed later than what comes");
        leat_sched_drop(s, c);
    }
    return true;
}

void leat_sched_tidy(struct leat_sched *s)
{
    uint64_t reserve = s->opts.ram / 16 < RESERVE_MAX ? s->opts.ram / 16 : RESERVE_MAX;
    reserve = reserve > 2 * s->chunk_max ? reserve : 2 * s->chunk_max;
    while (s->opts.disk && s->storing < STORES && s->stats.ram_used + reserve > s->opts.ram + s->leaving_bytes) {
        struct leat_sched_chunk *c = by_ram(farthest(s, &s->in_ram, false));
        if (!c || c->wants || c->ahead || disk_is_busy(s, c))
            break; /* what could only be dropped stays until its room is needed */
        begin_leaving(s, c);
        store(s, c);
        place_on_disk(s, c);
    }
    while (s->opts.policy == LEAT_SCHED_NONE) { /* nothing is kept beyond its use, though there is room */
        struct leat_sched_chunk *c = by_ram(farthest(s, &s->in_ram, false));
        if (!c || c->ram.key != LEAT_SCHED_NEVER)
            break;
        s->stats.evicted++;
        leat_sched_drop(s, c);
    }
    for (unsigned n = 0; s->stats.disk_used > s->opts.disk; n++) { /* it was made smaller */
        struct leat_sched_chunk *w = by_disk(farthest(s, &s->on_disk, true));
        if (!w)
            break;
        if (n == FORGETS) {
            s->more = true;
            break;
        }
        leat_sched_say(s, "forget %02x%02x on disk: there is less room than before", w->name[0], w->name[1]);
        leat_sched_disk_gone(s, w);
        s->stats.forgotten++;
        s->opts.ops->forget(s->opts.user, w);
        leat_sched_settle(s, w);
    }
    if (s->now_ns < s->crept_ns + CREEP_NS)
        return;
    s->crept_ns = s->now_ns;
    for (unsigned i = 0; i < CREEP; i++) {
        s->creep++;
        if (s->in_ram.n)
            leat_sched_loose(s, by_ram(leat_sched_heap_at(&s->in_ram, 1 + s->creep % s->in_ram.n)));
        if (s->on_disk.n)
            place_on_disk(s, by_disk(leat_sched_heap_at(&s->on_disk, 1 + s->creep % s->on_disk.n)));
    }
}

/* Which epoch of a lane a stage lies in, as a mark that differs from one to the next. Batches of the epoch before may
 * still be on their way. */
static uint32_t mark(const struct leat_sched_lane *l, uint64_t stage, uint32_t number)
{
    const struct leat_sched_stream *v = leat_sched_stream_of(l, number);
    uint64_t end = v->before + leat_order_stages(v->now);
    if (l->view.streams_n > 1) /* batches that are planned are of this epoch, to within one of them */
        return 1 + (uint32_t)(stage < leat_sched_lane_stage(v, end) ? v->before : end);
    if (stage < v->before)
        return 1 + (uint32_t)l->before_last;
    return 1 + (uint32_t)(stage < end ? v->before : end);
}

/* NULL: none was made, or there is no memory for it. */
static uint32_t *mark_of(struct leat_sched_set *set, uint32_t number, bool make)
{
    size_t byte = (size_t)number * sizeof(uint32_t);
    if (make && !leat_sched_pages_make(&set->epochs, byte))
        return NULL;
    return leat_sched_pages_has(&set->epochs, byte) ? leat_sched_pages_at(&set->epochs, byte) : NULL;
}

/* Counts chunks that are fetched twice in an epoch. */
static void note(struct leat_sched *s, const struct leat_sched_fetch *how, const struct leat_sched_call *call)
{
    uint32_t epoch = mark(call->lane, call->stage, how->number);
    uint32_t *last = mark_of(how->set, how->number, true);
    if (!last)
        return;
    s->stats.refetched += *last == epoch;
    how->set->sources.refetched += *last == epoch;
    *last = epoch;
}

/* The set's own; else of any that has the chunk. */
static const struct leat_sched_ref *ref_of(const struct leat_sched_chunk *c, const struct leat_sched_set *set)
{
    const struct leat_sched_ref *any = NULL;
    for (const struct leat_sched_ref *r = &c->ref; r && r->set; r = r->next) {
        if (r->set == set)
            return r;
        if (!any && !r->set->closed)
            any = r;
    }
    return any;
}

void leat_sched_unnote(const struct leat_sched_chunk *c)
{
    const struct leat_sched_ref *r = c->source ? ref_of(c, c->source) : NULL;
    uint32_t *last = r && r->set == c->source ? mark_of(r->set, r->number, false) : NULL;
    if (last)
        *last = 0;
}

static void count_in(struct leat_sched_sources *from, const struct leat_sched_chunk *c)
{
    *(c->from_disk ? &from->disk_bytes : c->from_peer ? &from->peer_bytes : &from->bucket_bytes) += c->bytes;
    *(c->from_disk ? &from->disk_chunks : c->from_peer ? &from->peer_chunks : &from->bucket_chunks) += 1;
}

void leat_sched_count(struct leat_sched *s, const struct leat_sched_chunk *c)
{
    struct leat_sched_stats *all = &s->stats;
    if (c->source)
        count_in(&c->source->sources, c);
    *(c->from_disk ? &all->disk_bytes : c->from_peer ? &all->peer_bytes : &all->bucket_bytes) += c->bytes;
    *(c->from_disk ? &all->disk_chunks : c->from_peer ? &all->peer_chunks : &all->bucket_chunks) += 1;
}

/* From the lane's own dataset: what goes wrong there is its own affair. */
bool leat_sched_bring(struct leat_sched_chunk *c, const struct leat_sched_call *call)
{
    const struct leat_sched_set *set = call->guest ? call->guest : call->lane->set;
    struct leat_sched *s = set->sched;
    const struct leat_sched_ref *r = ref_of(c, set);
    if (!r)
        return false; /* its dataset is being closed */
    struct leat_sched_fetch how = {.set = r->set,
                                   .number = r->number,
                                   .from_disk = c->on_disk,
                                   .ranges = call->ranges,
                                   .urgent = call->urgent,
                                   .guest = call->guest != NULL};
    c->state = LEAT_SCHED_COMING; /* before room is made: else its own copy on disk may be what goes for it */
    c->from_disk = how.from_disk;
    c->asks_peer = c->from_peer = false;
    place_on_disk(s, c);
    bool room = make_room(s, c->bytes, call->key, call->urgent, call->lane && call->lane->patient);
    if (!room || !s->opts.ops->fetch(s->opts.user, c, &how)) {
        c->state = LEAT_SCHED_ABSENT;
        c->from_disk = false;
        place_on_disk(s, c);
        if (room) {
            s->again_ns = s->now_ns + AGAIN_NS;
            leat_sched_say(s, "%02x%02x cannot be fetched now: again in 100 ms", c->name[0], c->name[1]);
        }
        return false;
    }
    c->source = how.set;
    c->began_ns = s->now_ns;
    c->failed = false;
    s->stats.ram_used += c->bytes;
    s->stats.coming++;
    how.set->coming_bytes += c->bytes;
    if (!c->asks_peer)
        leat_sched_count(s, c);
    if (!how.from_disk && s->opts.marks && call->lane)
        note(s, &how, call);
    return true;
}
