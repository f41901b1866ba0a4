/* Chunks for other machines. A guest gets what is there; what is not is brought as if it were needed now, so that all
 * who ask for it, and the lanes here, share one fetch. Guests never make a lane wait for ever: they evict only what
 * nobody has pinned, and hold no more than half of what is promised to nobody. One chunk at a time they may always
 * have, else a small memory would serve nobody. */
#include "sched/inside.h"

static void unlist(struct leat_sched_guest *g)
{
    struct leat_sched *s = g->sched;
    *(g->prev ? &g->prev->next : &s->guests_first) = g->next;
    *(g->next ? &g->next->prev : &s->guests_last) = g->prev;
    g->prev = g->next = NULL;
}

bool leat_sched_guest_come(struct leat_sched_set *set, uint32_t number, struct leat_sched_guest *g, uint64_t now_ns)
{
    struct leat_sched *s = set->sched;
    struct leat_sched_chunk *c = number < set->chunks ? leat_sched_touch(set, number) : NULL;
    if (!c)
        return false;
    s->now_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
    c->guests++;
    g->sched = s;
    g->set = set;
    g->chunk = c;
    g->number = number;
    g->since_ns = s->now_ns;
    g->here = false;
    g->next = NULL;
    g->prev = s->guests_last;
    *(g->prev ? &g->prev->next : &s->guests_first) = g;
    s->guests_last = g;
    return true;
}

void leat_sched_guest_leave(struct leat_sched_guest *g)
{
    struct leat_sched *s = g->sched;
    struct leat_sched_chunk *c = g->chunk;
    if (!c)
        return;
    g->chunk = NULL;
    c->guests--;
    if (!g->here) {
        unlist(g);
    } else {
        s->guest_bytes -= c->bytes;
        if (!--c->pins)
            s->stats.ram_pinned -= c->bytes;
    }
    leat_sched_loose(s, c);
    leat_sched_settle(s, c);
}

bool leat_sched_guest_coming(const struct leat_sched_guest *g)
{
    return g->chunk && !g->here && g->chunk->state == LEAT_SCHED_COMING;
}

static bool may_hold(const struct leat_sched *s, uint64_t bytes)
{
    uint64_t spare = s->opts.ram > s->stats.promised ? (s->opts.ram - s->stats.promised) / 2 : 0;
    return !s->guest_bytes || s->guest_bytes + bytes <= spare;
}

/* False: it waits. */
static bool serve(struct leat_sched *s, struct leat_sched_guest *g)
{
    struct leat_sched_chunk *c = g->chunk;
    if (c->state == LEAT_SCHED_READY && (c->pins || may_hold(s, c->bytes))) {
        if (!c->pins++) {
            s->stats.ram_pinned += c->bytes;
            leat_sched_keep(s, c);
        }
        s->guest_bytes += c->bytes;
        c->touched = ++s->counts;
        unlist(g);
        g->here = true;
        g->done(g, true);
        return true;
    }
    if (c->state != LEAT_SCHED_ABSENT)
        return false;
    if (c->failed && c->began_ns >= g->since_ns) {
        unlist(g);
        g->chunk = NULL;
        c->guests--;
        leat_sched_settle(s, c);
        g->done(g, false);
        return true;
    }
    struct leat_sched_call call = {.guest = g->set, .key = s->now_ns, .ranges = 1};
    if (may_hold(s, c->bytes) && leat_sched_bring(c, &call))
        leat_sched_say(s, "fetch %02x%02x from %s for another machine", c->name[0], c->name[1],
                       c->from_disk ? "disk" : "the bucket");
    return false;
}

void leat_sched_guests_step(struct leat_sched *s)
{
    struct leat_sched_guest *next;
    for (struct leat_sched_guest *g = s->guests_first; g; g = next) {
        next = g->next; /* `done` may let this one go, and no other */
        serve(s, g);
    }
}

const struct leat_sched_chunk *leat_sched_here(const struct leat_sched_set *set, uint32_t number)
{
    const struct leat_sched_chunk *c = leat_sched_find(set->sched, set->names + (size_t)number * LEAT_SCHED_NAME);
    return c && c->state == LEAT_SCHED_READY ? c : NULL;
}

bool leat_sched_only_on_disk(const struct leat_sched_set *set, uint32_t number)
{
    const struct leat_sched_chunk *c = leat_sched_find(set->sched, set->names + (size_t)number * LEAT_SCHED_NAME);
    return c && c->state == LEAT_SCHED_ABSENT && c->on_disk;
}
