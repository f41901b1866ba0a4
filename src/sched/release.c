/* What batches and lanes let go of: thousands of chunks, each of which gets a new place among those that may be
 * evicted. Up to AT_ONCE of them are released immediately, the rest by the following steps, as far as the work of a
 * step allows. Chunks stay pinned until they are released; a batch that needs their room waits for it, and takes it
 * from no other lane. */
#include <stdlib.h>

#include "sched/inside.h"

#define AT_ONCE 256u

/* The chunks of a batch, by place. */
struct held {
    struct held *next; /* of those that are being released */
    uint32_t n;
    uint32_t at;     /* those before it have been released … */
    uint32_t due;    /* … and those before this are to be */
    uint32_t pinned; /* those before it are pinned */
    bool listed;
    bool whole; /* the batch has it no more: freed in the end */
    struct leat_sched_chunk *chunks[];
};

static struct held *held_of(struct leat_sched_chunk **chunks)
{
    return (struct held *)((char *)chunks - offsetof(struct held, chunks));
}

struct leat_sched_chunk **leat_sched_hold(uint32_t n)
{
    struct held *h = calloc(1, sizeof *h + (size_t)n * sizeof(struct leat_sched_chunk *));
    if (!h)
        return NULL;
    h->n = n;
    return h->chunks;
}

static void let_go(struct leat_sched *s, struct held *h, uint32_t i)
{
    struct leat_sched_chunk *c = h->chunks[i];
    h->chunks[i] = NULL;
    if (!c) /* memory ran out before it */
        return;
    if (i < h->pinned && !--c->pins)
        s->stats.ram_pinned -= c->bytes;
    c->wants--;
    leat_sched_loose(s, c);
    leat_sched_settle(s, c);
}

static uint32_t price(const struct leat_sched *s)
{
    return s->lanes_n ? s->lanes_n : 1; /* its next use is computed for each of them */
}

void leat_sched_release(struct leat_sched *s, struct leat_sched_chunk **chunks, uint32_t due, uint32_t pinned,
                        bool whole)
{
    if (!chunks)
        return;
    struct held *h = held_of(chunks);
    h->due = due;
    h->pinned = pinned > h->pinned ? pinned : h->pinned;
    h->whole = whole;
    for (uint32_t left = AT_ONCE; !h->listed && h->at < h->due && left >= price(s); left -= price(s))
        let_go(s, h, h->at++);
    if (!h->listed && h->at < h->due) {
        h->listed = true;
        h->next = s->releasing;
        s->releasing = h;
        s->more = true;
    }
    if (!h->listed && h->whole)
        free(h);
}

/* A lane that has ended: what was fetched ahead for it. True: that is all. */
static bool forget_ahead(struct leat_sched_lane *l, uint32_t most)
{
    for (; l->ahead && most; most--) {
        struct leat_sched_chunk *c = l->ahead;
        leat_sched_unahead(c);
        leat_sched_loose(l->sched, c);
    }
    return !l->ahead;
}

void leat_sched_lane_forget(struct leat_sched_lane *l)
{
    struct leat_sched *s = l->sched;
    if (l->ending || forget_ahead(l, AT_ONCE / price(s)))
        return;
    l->ending = true;
    l->set->ending++;
    l->ending_next = s->ending;
    s->ending = l;
    s->more = true;
}

void leat_sched_release_some(struct leat_sched *s)
{
    while (s->releasing) {
        struct held *h = s->releasing;
        while (h->at < h->due && leat_sched_work(s, price(s)))
            let_go(s, h, h->at++);
        if (h->at < h->due)
            return;
        s->releasing = h->next;
        h->listed = false;
        if (h->whole)
            free(h);
    }
    while (s->ending) {
        struct leat_sched_lane *l = s->ending;
        while (leat_sched_work(s, price(s)) && !forget_ahead(l, 1))
            ;
        if (l->ahead)
            return;
        s->ending = l->ending_next;
        l->ending = false;
        l->set->ending--;
        leat_sched_lane_settle(l);
    }
}
