#include "sched/sched.h"

#include <stdlib.h>

#include "sched/inside.h"

#define RETRY_FIRST 1000000000ull
#define RETRY_MOST  30000000000ull
#define WORK        256u /* of a step: leat_sched_work() */

leat_status leat_sched_open(const struct leat_sched_opts *opts, struct leat_sched **out, struct leat_error *err)
{
    struct leat_sched *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a scheduler");
    s->opts = *opts;
    *out = s;
    return LEAT_OK;
}

void leat_sched_close(struct leat_sched *s)
{
    if (!s)
        return;
    do { /* what closed lanes have not let go of */
        s->work = WORK;
        leat_sched_release_some(s);
    } while (s->releasing || s->ending);
    for (size_t i = 0; i < s->buckets; i++) {
        struct leat_sched_chunk *next;
        for (struct leat_sched_chunk *c = leat_sched_bucket(s, i); c; c = next) {
            next = c->chain;
            c->on_disk = false; /* it stays there */
            c->storing = false;
            leat_sched_heap_remove(&s->on_disk, &c->disk);
            if (c->state == LEAT_SCHED_READY)
                leat_sched_drop(s, c);
            else
                leat_sched_settle(s, c);
        }
    }
    leat_sched_look_after(s); /* no chunk refers to closed sets any more */
    leat_sched_heap_free(&s->in_ram);
    leat_sched_heap_free(&s->on_disk);
    leat_sched_pages_free(&s->table);
    free(s);
}

void leat_sched_set_disk(struct leat_sched *s, uint64_t bytes)
{
    s->opts.disk = bytes;
}

leat_status leat_sched_found(struct leat_sched *s, const uint8_t name[LEAT_SCHED_NAME], uint64_t bytes)
{
    struct leat_sched_chunk *c = leat_sched_find(s, name);
    if (!c)
        c = leat_sched_add(s, name, bytes);
    if (!c)
        return LEAT_NO_MEMORY;
    if (c->on_disk || c->storing)
        return LEAT_OK;
    c->on_disk = true;
    s->stats.disk_used += leat_sched_footprint(s, c);
    leat_sched_loose(s, c);
    return LEAT_OK;
}

void leat_sched_measure(struct leat_sched_set_opts *o)
{
    o->bytes = 0;
    o->largest = 0;
    for (uint32_t i = 0; i < o->chunks; i++) {
        o->bytes += o->sizes[i];
        o->largest = o->sizes[i] > o->largest ? o->sizes[i] : o->largest;
    }
}

leat_status leat_sched_set_open(struct leat_sched *s, const struct leat_sched_set_opts *o, struct leat_sched_set **out,
                                struct leat_error *err)
{
    struct leat_sched_set *set = calloc(1, sizeof *set);
    if (!set)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the chunks of a dataset");
    *set = (struct leat_sched_set){.sched = s,
                                   .next = s->sets,
                                   .names = o->names,
                                   .sizes = o->sizes,
                                   .chunks = o->chunks,
                                   .bytes = o->bytes,
                                   .largest = o->largest,
                                   .user = o->user};
    s->sets = set;
    leat_sched_look_after(s); /* a small one has no step to wait for */
    *out = set;
    return LEAT_OK;
}

void leat_sched_set_close(struct leat_sched_set *set)
{
    if (!set)
        return;
    struct leat_sched *s = set->sched;
    struct leat_sched_set **p = &s->sets;
    while (*p != set)
        p = &(*p)->next;
    *p = set->next;
    set->closed = true;
    set->names = NULL;
    set->sizes = NULL;
    set->user = NULL;
    set->next = s->closed;
    s->closed = set;
    leat_sched_look_after(s);
}

void *leat_sched_set_user(const struct leat_sched_set *set)
{
    return set->user;
}

void leat_sched_set_sources(const struct leat_sched_set *set, struct leat_sched_sources *out)
{
    *out = set->sources;
}

/* Events */

static void came(struct leat_sched *s, struct leat_sched_chunk *c)
{
    s->stats.coming--;
    if (c->source)
        c->source->coming_bytes -= c->bytes;
    c->from_disk = false;
}

/* What came first stays, as long as the rest of the budget is enough to work with. */
static void fix(struct leat_sched *s, struct leat_sched_chunk *c)
{
    uint64_t work = s->stats.promised + s->stats.depth_bytes;
    if (s->opts.policy != LEAT_SCHED_MINIO || s->opts.ram < work || s->fixed_bytes + c->bytes > s->opts.ram - work)
        return;
    c->fixed = true;
    s->fixed_bytes += c->bytes;
}

void leat_sched_arrived(struct leat_sched *s, struct leat_sched_chunk *c, uint64_t now_ns)
{
    s->now_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
    if (c->source && !c->from_disk && !c->from_peer)
        leat_sched_line_arrived(&c->source->line, c->began_ns, now_ns, c->bytes);
    if (c->asks_peer)
        leat_sched_count(s, c);
    c->came_from = c->from_disk ? LEAT_SCHED_FROM_DISK : c->from_peer ? LEAT_SCHED_FROM_PEER : LEAT_SCHED_FROM_BUCKET;
    came(s, c);
    c->state = LEAT_SCHED_READY;
    if (c->ahead_lane && !c->far)
        c->ahead_lane->set->ahead_bytes += c->bytes;
    c->failures = 0;
    c->came = c->touched = ++s->counts;
    fix(s, c);
    leat_sched_loose(s, c);
}

void leat_sched_ask_peer(struct leat_sched_chunk *c)
{
    c->asks_peer = true;
}

void leat_sched_by_peer(struct leat_sched_chunk *c)
{
    c->from_peer = c->asks_peer;
}

static void not_there(struct leat_sched *s, struct leat_sched_chunk *c)
{
    came(s, c);
    s->troubles++;
    c->state = LEAT_SCHED_ABSENT;
    s->stats.ram_used -= c->bytes;
    leat_sched_unahead(c);
}

void leat_sched_failed(struct leat_sched *s, struct leat_sched_chunk *c, uint64_t now_ns)
{
    if (c->from_disk) {
        leat_sched_lost(s, c);
        return;
    }
    uint64_t pause = RETRY_FIRST << (c->failures < 5 ? c->failures : 5);
    s->now_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
    if (c->asks_peer)
        leat_sched_count(s, c);
    not_there(s, c);
    leat_sched_unnote(c);
    c->failed = true;
    c->failures++;
    pause = pause < RETRY_MOST ? pause : RETRY_MOST;
    c->retry_ns = now_ns + pause;
    s->stats.failed++;
    leat_sched_say(s, "%02x%02x could not be fetched: %s", c->name[0], c->name[1],
                   c->wants ? "tried again when a batch waits for it, or after a pause"
                            : "forgotten until it is wanted");
    leat_sched_loose(s, c);
    leat_sched_settle(s, c);
}

void leat_sched_cancelled(struct leat_sched *s, struct leat_sched_chunk *c)
{
    not_there(s, c);
    leat_sched_unnote(c);
    leat_sched_loose(s, c);
    leat_sched_settle(s, c);
}

void leat_sched_lost(struct leat_sched *s, struct leat_sched_chunk *c)
{
    s->stats.disk_bytes -= c->bytes;
    s->stats.disk_chunks--;
    if (c->source) {
        c->source->sources.disk_bytes -= c->bytes;
        c->source->sources.disk_chunks--;
    }
    leat_sched_say(s, "%02x%02x could not be read from disk: the bucket has it", c->name[0], c->name[1]);
    not_there(s, c);
    leat_sched_disk_gone(s, c);
    leat_sched_settle(s, c);
}

/* Steps */

bool leat_sched_work(struct leat_sched *s, uint32_t amount)
{
    if (!s->work) {
        s->more = true;
        return false;
    }
    s->work -= amount < s->work ? amount : s->work;
    return true;
}

static void each_lane(struct leat_sched *s, uint32_t turn, void (*visit)(struct leat_sched_lane *l))
{
    uint32_t n = s->lanes_n;
    uint32_t i = 0;
    for (unsigned pass = 0; n && pass < 2; pass++) {
        i = 0;
        for (struct leat_sched_set *set = s->sets; set; set = set->next) {
            for (struct leat_sched_lane *l = set->lanes; l; l = l->next) {
                bool late = i++ < turn % n;
                if (late == (pass == 1) && !l->ended)
                    visit(l);
            }
        }
    }
}

static void fetch_ahead(struct leat_sched_lane *l)
{
    if (!leat_sched_lane_hurries(l))
        leat_sched_lane_ahead(l);
}

static void sum_depth(struct leat_sched *s)
{
    s->stats.depth_bytes = 0;
    for (struct leat_sched_set *set = s->sets; set; set = set->next) {
        uint64_t depth = set->lanes ? leat_sched_depth(set) : 0;
        uint64_t said = set->said_depth;
        s->stats.depth_bytes += depth;
        if (depth > said + said / 4 || depth < said - said / 4) {
            leat_sched_say(s, "fetch up to %llu KiB ahead, %llu until now", (unsigned long long)depth >> 10,
                           (unsigned long long)said >> 10);
            set->said_depth = depth;
        }
    }
}

void leat_sched_step(struct leat_sched *s, uint64_t now_ns)
{
    s->now_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
    s->again_ns = 0;
    s->more = false;
    s->work = WORK;
    s->lanes_n = 0;
    for (const struct leat_sched_set *set = s->sets; set; set = set->next) {
        for (const struct leat_sched_lane *l = set->lanes; l; l = l->next)
            s->lanes_n++;
    }
    s->short_now = s->short_next;
    s->short_next = false;
    s->turn++;
    sum_depth(s);
    leat_sched_release_some(s);
    each_lane(s, s->turn, leat_sched_lane_step);
    leat_sched_guests_step(s);
    each_lane(s, s->turn, fetch_ahead);
    leat_sched_tidy(s);
    leat_sched_look_after(s);
}

/* The earliest time at which a failed chunk that a batch waits for may be tried again. */
static uint64_t retry_ns(const struct leat_sched_lane *l)
{
    uint64_t at = LEAT_SCHED_NEVER;
    for (const struct leat_sched_batch *b = l->first; b && !l->ended; b = b->next) {
        for (uint32_t i = b->group; b->state == LEAT_SCHED_PINNED && b->lacks && i < b->group_end; i++) {
            const struct leat_sched_chunk *c = b->held[i];
            if (c->failed && c->state == LEAT_SCHED_ABSENT && c->retry_ns > l->sched->now_ns && c->retry_ns < at)
                at = c->retry_ns;
        }
    }
    return at;
}

uint64_t leat_sched_wake_ns(const struct leat_sched *s)
{
    uint64_t at = s->more ? s->now_ns + 1 : s->again_ns ? s->again_ns : LEAT_SCHED_NEVER;
    if (!s->stats.failed)
        return at;
    for (const struct leat_sched_set *set = s->sets; set; set = set->next) {
        for (const struct leat_sched_lane *l = set->lanes; l; l = l->next) {
            uint64_t r = retry_ns(l);
            at = r < at ? r : at;
        }
    }
    return at;
}

void leat_sched_stats(const struct leat_sched *s, struct leat_sched_stats *out)
{
    *out = s->stats;
    out->ram = s->opts.ram;
    out->disk = s->opts.disk;
    out->chunks = s->known;
}
