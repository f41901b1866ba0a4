/* The batches of one loader, from plan to publication: sched.h says how a batch goes and why nobody waits for ever. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/inside.h"

#define TAKE  1u /* work of a step: a chunk of a batch … */
#define FETCH 8u /* … and one that is sent for beside that */
#define PLANS_BEYOND                                                                                                   \
    2u /* batches planned beyond the slots that are free: they hold chunks, and the order looks farther */

void leat_sched_lane_settle(struct leat_sched_lane *l)
{
    if (!l->closing || l->preparing || l->ending)
        return;
    free(l->streams);
    free(l);
}

/* Wants and pins */

static void want(struct leat_sched_lane *l, struct leat_sched_batch *b, uint32_t number, struct leat_sched_chunk *c)
{
    struct leat_sched *s = l->sched;
    uint64_t epoch = leat_sched_stream_of(l, number)->before + 1;
    if (c->epoch != epoch) {
        c->epoch = epoch;
        if (c->state == LEAT_SCHED_READY && !c->ahead) {
            s->stats.ram_bytes += c->bytes;
            s->stats.ram_chunks++;
            l->set->sources.ram_bytes += c->bytes;
            l->set->sources.ram_chunks++;
        }
    }
    uint64_t key = leat_sched_lane_key(l, b->stage);
    c->want_key = c->wants++ && c->want_key < key ? c->want_key : key;
    c->touched = ++s->counts;
    leat_sched_unahead(c);
    leat_sched_loose(s, c);
}

static void let_go(struct leat_sched_batch *b)
{
    uint32_t pinned = b->group + b->pins;
    b->pins = 0;
    leat_sched_release(b->lane->sched, b->held, b->chunks_n, pinned, true);
    b->held = NULL;
}

static void unpin(struct leat_sched_batch *b)
{
    struct leat_sched *s = b->lane->sched;
    for (uint32_t i = 0; i < b->pins; i++) {
        struct leat_sched_chunk *c = b->held[b->group + i];
        if (--c->pins)
            continue;
        s->stats.ram_pinned -= c->bytes;
        leat_sched_loose(s, c);
    }
    b->pins = 0;
}

static void pin_one(struct leat_sched_batch *b, struct leat_sched_chunk *c)
{
    struct leat_sched *s = b->lane->sched;
    if (!c->pins++) {
        s->stats.ram_pinned += c->bytes;
        leat_sched_keep(s, c);
    }
    b->pins++;
}

/* Planning */

/* The next group of its chunks: all the rest, if that is within the promise. One chunk always is. */
static void next_group(struct leat_sched_batch *b)
{
    b->group = b->group_end;
    b->group_bytes = 0;
    while (b->group_end < b->chunks_n) {
        uint64_t bytes = b->held[b->group_end]->bytes;
        if (b->group_bytes + bytes > leat_sched_promise_limit(b->lane) && b->group_end > b->group)
            break;
        b->group_bytes += bytes;
        b->group_end++;
    }
}

static void say_groups(const struct leat_sched_batch *b)
{
    if (b->group_end < b->chunks_n)
        leat_sched_say(b->lane->sched,
                       "batch %" PRIu64 " comes in groups: its %u chunks are more than the promised %" PRIu64 " bytes",
                       b->number, b->chunks_n, leat_sched_promise_limit(b->lane));
}

/* A smaller group, when the lane has had to return what it had borrowed for this one. */
static void regroup(struct leat_sched_batch *b)
{
    if (b->group_bytes <= leat_sched_promise_limit(b->lane))
        return;
    unpin(b);
    b->lane->sched->stats.split += b->group == 0 && b->group_end == b->chunks_n;
    b->group_end = b->group;
    next_group(b);
    say_groups(b);
}

static uint64_t bytes_of(const struct leat_sched_batch *b)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->chunks_n; i++)
        bytes += b->held[i]->bytes;
    return bytes;
}

static void begin_taking(struct leat_sched_lane *l, struct leat_sched_batch *b)
{
    b->lane = l;
    b->next = NULL;
    b->held = leat_sched_hold(b->chunks_n);
    b->state = LEAT_SCHED_PLANNED;
    b->group = b->group_end = b->pins = 0;
    b->group_bytes = 0;
    b->has_slot = false;
    b->first_ns = b->here_ns = 0;
    if (l->last)
        l->last->next = b;
    else
        l->first = b;
    l->last = b;
    l->planned++;
    b->number = l->numbers++;
    l->taking = b;
    l->taken = 0;
}

/* Looks up the chunks of the batch that was planned last: as many as a step may. False: no memory. */
static bool take(struct leat_sched_lane *l)
{
    struct leat_sched *s = l->sched;
    struct leat_sched_batch *b = l->taking;
    if (!b->held)
        return false;
    for (; l->taken < b->chunks_n; l->taken++) {
        uint32_t number = b->chunks[l->taken];
        if (!leat_sched_work(s, TAKE))
            return true;
        struct leat_sched_chunk *c = leat_sched_touch(l->set, number);
        if (!c)
            return false;
        b->held[l->taken] = c;
        want(l, b, number, c);
    }
    l->taking = NULL;
    leat_sched_promise_borrow(l, bytes_of(b));
    next_group(b);
    s->stats.split += b->group_end < b->chunks_n;
    say_groups(b);
    return true;
}

/* One at a time: a large batch takes milliseconds to plan, and others' batches wait behind it. */
static void plan(struct leat_sched_lane *l)
{
    struct leat_sched *s = l->sched;
    bool again = false;
    while (!l->ended && (l->taking || l->planned < l->slots - l->out + PLANS_BEYOND)) {
        if (!l->taking && again) {
            s->again_ns = s->now_ns + 1;
            return;
        }
        if (!l->taking) {
            struct leat_sched_batch *b = s->opts.ops->plan(s->opts.user, l);
            if (!b)
                return;
            begin_taking(l, b);
            again = true;
        }
        if (!take(l)) {
            l->taking->state = LEAT_SCHED_DONE;
            s->opts.ops->fail(s->opts.user, l->taking, NULL); /* no memory */
            leat_sched_lane_end(l);
            return;
        }
        if (l->taking)
            return; /* the rest in the next step */
    }
}

/* Pinning and fetching */

static uint32_t count(const struct leat_sched_batch *b, int state)
{
    uint32_t n = 0;
    for (uint32_t i = b->group; i < b->group_end; i++)
        n += (int)b->held[i]->state == state;
    return n;
}

bool leat_sched_lane_hurries(const struct leat_sched_lane *l)
{
    const struct leat_sched_batch *b = l->first;
    return !l->published && !l->ended && b && b->state == LEAT_SCHED_PINNED &&
           count(b, LEAT_SCHED_COMING) > (b->group_end - b->group) / 2;
}

/* Somebody is sure to wait for the very first batch, and nothing was sent for in advance: the chunks that lack come in
 * several ranges each when they are few, for a connection alone may be far slower than the line. */
static uint32_t ranges(const struct leat_sched_batch *b, const struct leat_sched_chunk *c, uint32_t absent)
{
    uint64_t most = c->bytes / LEAT_SCHED_RANGE_MIN;
    uint32_t n = b->lane->published || !absent ? 1 : LEAT_SCHED_RANGES / absent;
    n = n < most ? n : (uint32_t)most;
    return n ? n : 1;
}

static bool someone_yields(struct leat_sched *s, const struct leat_sched_batch *asking)
{
    for (struct leat_sched_set *set = s->sets; set; set = set->next) {
        for (struct leat_sched_lane *l = set->lanes; l; l = l->next) {
            if (leat_sched_lane_yield(l, asking))
                return true;
        }
    }
    return false;
}

bool leat_sched_lane_yield(struct leat_sched_lane *l, const struct leat_sched_batch *asking)
{
    struct leat_sched_batch *last = NULL;
    for (struct leat_sched_batch *b = l->first; b; b = b->next) {
        bool may = b != l->first || b->group_bytes > leat_sched_promise_limit(l);
        if (may && b != asking && b->pins && b->state < LEAT_SCHED_PREPARING)
            last = b;
    }
    if (!last)
        return false;
    leat_sched_say(l->sched, "batch %" PRIu64 " gives up its chunks: another lane's first batch needs the room",
                   last->number);
    unpin(last);
    last->state = LEAT_SCHED_PLANNED;
    return true;
}

static bool bring(struct leat_sched_batch *b, struct leat_sched_chunk *c, bool first, uint32_t absent)
{
    struct leat_sched *s = b->lane->sched;
    bool urgent = first && !b->lane->published;
    struct leat_sched_call call = {.lane = b->lane,
                                   .stage = b->stage,
                                   .key = leat_sched_lane_key(b->lane, b->stage),
                                   .urgent = first,
                                   .ranges = ranges(b, c, urgent ? absent : 0)};
    for (;;) {
        if (leat_sched_bring(c, &call)) {
            leat_sched_say(s, "fetch %02x%02x from %s for batch %" PRIu64 "%s", c->name[0], c->name[1],
                           c->from_disk ? "disk" : "the bucket", b->number, first ? ", which comes next" : "");
            return true;
        }
        if (!first || s->again_ns > s->now_ns || s->releasing)
            return false;
        if (!someone_yields(s, b)) {
            s->short_now = s->short_next = true;
            return false;
        }
    }
}

/* Pins what is not pinned yet. False: no room for one of them. */
static bool pin(struct leat_sched_batch *b, bool first)
{
    uint32_t absent = count(b, LEAT_SCHED_ABSENT);
    while (b->group + b->pins < b->group_end) {
        struct leat_sched_chunk *c = b->held[b->group + b->pins];
        if (!leat_sched_work(b->lane->sched, c->state == LEAT_SCHED_ABSENT ? TAKE + FETCH : TAKE))
            return false; /* the rest in the next step */
        pin_one(b, c);    /* first, so that its own eviction is not what makes room for it */
        if (c->state != LEAT_SCHED_ABSENT || c->failed || bring(b, c, first, absent))
            continue;
        b->pins--;
        if (!--c->pins) {
            b->lane->sched->stats.ram_pinned -= c->bytes;
            leat_sched_loose(b->lane->sched, c);
        }
        return false;
    }
    return true;
}

/* Whether all chunks of the group are there. Those whose fetch failed are sent for again: after a pause, and at once
 * when the batch has become the first since or another dataset was asked for it. *bad: one that cannot be fetched. */
static bool all_here(struct leat_sched_batch *b, bool first, struct leat_sched_chunk **bad)
{
    struct leat_sched *s = b->lane->sched;
    bool here = true;
    if (!b->lacks && b->troubles == s->troubles) { /* all are there or coming, as before */
        while (b->seen < b->group_end && b->held[b->seen]->state == LEAT_SCHED_READY)
            b->seen++;
        return b->seen == b->group_end;
    }
    b->seen = b->group;
    b->lacks = false;
    b->troubles = s->troubles;
    for (uint32_t i = b->group; i < b->group_end; i++) {
        struct leat_sched_chunk *c = b->held[i];
        if (c->state == LEAT_SCHED_READY)
            continue;
        here = false;
        if (c->state == LEAT_SCHED_COMING)
            continue;
        if (c->failed && first && c->began_ns >= b->first_ns && c->source == b->lane->set) {
            *bad = c;
            return false;
        }
        bool due = (!c->failed || first || s->now_ns >= c->retry_ns) && leat_sched_work(s, FETCH);
        b->lacks = !(due && bring(b, c, first, 0)) || b->lacks;
    }
    return here;
}

/* Slots */

static uint32_t free_slots(const struct leat_sched_lane *l)
{
    return (uint32_t)__builtin_popcountll(l->slots_free);
}

static void take_slot(struct leat_sched_batch *b)
{
    b->slot = (uint32_t)__builtin_ctzll(b->lane->slots_free);
    b->lane->slots_free &= b->lane->slots_free - 1;
    b->has_slot = true;
}

/* When the rank will ask for it, if it goes on as it did. */
static uint64_t due(const struct leat_sched_lane *l, const struct leat_sched_batch *b)
{
    uint64_t before = b->number - l->freed; /* batches it has to give back before */
    uint64_t from = l->freed_ns ? l->freed_ns : l->sched->now_ns;
    return from + before * (l->step_ns ? l->step_ns : 1);
}

void leat_sched_slot_free(struct leat_sched_lane *l, uint32_t slot, uint64_t now_ns)
{
    struct leat_sched *s = l->sched;
    s->now_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
    if (slot >= l->slots || l->slots_free >> slot & 1)
        return; /* a rank that gives back what it does not have harms nobody else */
    l->slots_free |= 1ull << slot;
    l->freed++;
    l->out--;
    if (l->freed_ns && now_ns > l->freed_ns) {
        uint64_t step = now_ns - l->freed_ns;
        l->step_ns = l->step_ns ? (7 * l->step_ns + step) / 8 : step;
    }
    l->freed_ns = now_ns;
    leat_sched_lane_anchor(l);
}

/* Steps */

static void begin(struct leat_sched_batch *b)
{
    struct leat_sched_lane *l = b->lane;
    struct leat_sched *s = l->sched;
    if (!b->chunks_n) {
        b->state = LEAT_SCHED_DONE;
        return;
    }
    b->state = LEAT_SCHED_PREPARING;
    b->due_ns = due(l, b);
    l->preparing++;
    leat_sched_say(s, "prepare batch %" PRIu64 " in slot %u, chunks %u to %u of %u", b->number, b->slot, b->group,
                   b->group_end, b->chunks_n);
    s->opts.ops->prepare(s->opts.user, b);
}

/* What the batch has waited for longest. */
static enum leat_sched_from last_came_from(const struct leat_sched_batch *b)
{
    const struct leat_sched_chunk *last = NULL;
    for (uint32_t i = b->group; i < b->group_end; i++) {
        if (!last || b->held[i]->came > last->came)
            last = b->held[i];
    }
    return last ? last->came_from : LEAT_SCHED_FROM_BUCKET;
}

/* Takes one batch as far as it goes now. False: the lane has ended. */
static bool advance(struct leat_sched_batch *b, bool first, bool may_take_slot)
{
    struct leat_sched_chunk *bad = NULL;
    struct leat_sched *s = b->lane->sched;
    if (first && !b->first_ns)
        b->first_ns = s->now_ns;
    if (b->state == LEAT_SCHED_PLANNED)
        regroup(b);
    if (b->state == LEAT_SCHED_PLANNED && pin(b, first)) {
        b->state = LEAT_SCHED_PINNED;
        b->lacks = true; /* until they have been looked at */
    }
    if (b->state == LEAT_SCHED_PINNED && all_here(b, first, &bad)) {
        b->state = LEAT_SCHED_HERE;
        b->here_ns = s->now_ns;
        b->here_from = last_came_from(b);
    }
    if (bad) {
        leat_sched_say(s,
                       "batch %" PRIu64 " fails: %02x%02x could not be fetched, though it was tried since the batch "
                       "is next",
                       b->number, bad->name[0], bad->name[1]);
        s->opts.ops->fail(s->opts.user, b, bad);
        leat_sched_lane_end(b->lane);
        return false;
    }
    if (b->state != LEAT_SCHED_HERE || (!b->has_slot && !may_take_slot))
        return true;
    if (!b->has_slot)
        take_slot(b);
    begin(b);
    return true;
}

/* Every batch, in order. A batch may overtake an earlier one as long as enough slots stay free for all before it:
 * the rank takes them in order, and would wait for ever for one that finds no slot. */
static void advance_all(struct leat_sched_lane *l)
{
    uint32_t before = 0; /* earlier batches that still need a slot */
    for (struct leat_sched_batch *b = l->first; b && b != l->taking; b = b->next) {
        if (!advance(b, b == l->first, free_slots(l) > before))
            return;
        before += !b->has_slot;
        if (b->state == LEAT_SCHED_PLANNED || leat_sched_lane_hurries(l))
            return; /* those after it must not take its room, nor its share of the line */
    }
}

static void take_out_first(struct leat_sched_lane *l)
{
    struct leat_sched_batch *b = l->first;
    l->first = b->next;
    if (!l->first)
        l->last = NULL;
    l->planned--;
    let_go(b);
    leat_sched_promise_shrink(l);
}

static bool publish(struct leat_sched_lane *l)
{
    struct leat_sched *s = l->sched;
    if (l->ended || !l->first || l->first->state != LEAT_SCHED_DONE)
        return false;
    struct leat_sched_batch *b = l->first;
    take_out_first(l);
    l->published++;
    l->out++;
    if (!s->opts.ops->publish(s->opts.user, b))
        leat_sched_lane_end(l);
    return true;
}

void leat_sched_lane_step(struct leat_sched_lane *l)
{
    do {
        if (l->ended)
            return;
        plan(l);
        if (!l->ended)
            advance_all(l);
    } while (publish(l));
}

void leat_sched_prepared(struct leat_sched_batch *b)
{
    struct leat_sched_lane *l = b->lane;
    l->preparing--;
    /* An earlier batch may need the room to be published before this one. */
    leat_sched_release(l->sched, b->held, b->group_end, b->group_end, false);
    b->pins = 0;
    if (l->ended)
        let_go(b);
    if (l->closing) {
        leat_sched_lane_settle(l);
        return;
    }
    if (b->group_end == b->chunks_n || l->ended) {
        b->state = LEAT_SCHED_DONE;
        b->group_bytes = 0;
        return;
    }
    next_group(b);
    b->here_ns = 0;
    b->state = LEAT_SCHED_PLANNED;
}

/* Lanes */

static void list(struct leat_sched_lane *l)
{
    struct leat_sched_lane **p = &l->set->lanes;
    while (*p)
        p = &(*p)->next;
    *p = l;
}

leat_status leat_sched_lane_open(struct leat_sched *s, const struct leat_sched_lane_opts *o, uint64_t now_ns,
                                 struct leat_sched_lane **out, struct leat_error *err)
{
    uint64_t others = s->stats.promised - s->stats.lent;
    uint64_t all = leat_sched_promised_with(s, o);
    if (all > s->opts.ram) {
        leat_sched_say(s, "refuse a lane: %" PRIu64 " bytes needed, %" PRIu64 " of %" PRIu64 " promised to others",
                       all - others, others, s->opts.ram);
        return leat_fail(err, LEAT_LIMIT,
                         "one batch needs %" PRIu64 " bytes, other loaders need %" PRIu64 " of %" PRIu64, all - others,
                         others, s->opts.ram);
    }
    struct leat_sched_lane *l = calloc(1, sizeof *l);
    if (!l)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
    s->now_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
    l->sched = s;
    l->set = o->set;
    l->slots = o->slots < LEAT_SCHED_SLOTS_MAX ? o->slots : LEAT_SCHED_SLOTS_MAX;
    l->streams = calloc(o->view.streams_n, sizeof *l->streams);
    if (!l->streams) {
        free(l);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
    }
    leat_sched_lane_view(l, &o->view);
    l->stage_first = l->view.stage;
    l->user = o->user;
    l->patient = o->patient;
    leat_sched_promise_make(l, o);
    if (leat_sched_lane_window(l) > s->opts.ram)
        leat_sched_say(s,
                       "the order's window takes about %" PRIu64 " bytes of %" PRIu64
                       ": chunks will be fetched again and again",
                       leat_sched_lane_window(l), s->opts.ram);
    leat_sched_lane_anchor(l);
    list(l);
    *out = l;
    return LEAT_OK;
}

uint64_t leat_sched_lane_window(const struct leat_sched_lane *l)
{
    uint64_t live = 0;
    for (uint32_t i = 0; i < l->view.streams_n; i++) {
        uint32_t chunks = leat_order_chunks(l->streams[i].now);
        uint32_t window = leat_order_window(l->streams[i].now);
        live += window < chunks ? window : chunks;
    }
    return l->set->chunks ? l->set->bytes / l->set->chunks * live : 0;
}

void leat_sched_lane_ready(struct leat_sched_lane *l)
{
    l->slots_free = l->slots == 64 ? ~0ull : (1ull << l->slots) - 1;
}

void leat_sched_lane_view(struct leat_sched_lane *l, const struct leat_sched_view *view)
{
    if (l->view.streams && view->streams[0].before != l->streams[0].before)
        l->before_last = l->streams[0].before;
    memcpy(l->streams, view->streams, view->streams_n * sizeof *l->streams);
    l->view = *view;
    l->view.streams = l->streams;
}

uint64_t leat_sched_lane_here_ns(const struct leat_sched_lane *l)
{
    return l->first ? l->first->here_ns : 0;
}

void *leat_sched_lane_user(const struct leat_sched_lane *l)
{
    return l->user;
}

void leat_sched_lane_end(struct leat_sched_lane *l)
{
    if (l->ended)
        return;
    l->ended = true;
    leat_sched_promise_end(l);
    leat_sched_say(l->sched, "a lane ends after %" PRIu64 " batches: what it alone needed may go", l->published);
    for (struct leat_sched_batch *b = l->first; b; b = b->next) {
        if (b->state != LEAT_SCHED_PREPARING)
            let_go(b);
    }
    l->taking = NULL;
    leat_sched_lane_forget(l);
}

void leat_sched_lane_close(struct leat_sched_lane *l, void (*dropped)(void *user, struct leat_sched_batch *batch))
{
    if (!l)
        return;
    struct leat_sched *s = l->sched;
    leat_sched_lane_end(l);
    l->closing = true;
    struct leat_sched_lane **p = &l->set->lanes;
    while (*p != l)
        p = &(*p)->next;
    *p = l->next;
    while (l->first) {
        struct leat_sched_batch *b = l->first;
        l->first = b->next;
        if (b->state == LEAT_SCHED_PREPARING)
            continue; /* leat_sched_prepared() follows */
        if (dropped)
            dropped(s->opts.user, b);
    }
    leat_sched_lane_settle(l);
}

/* The first chunk that is not there. */
static void explain_chunk(const struct leat_sched_batch *b, const char *of, char *out, size_t n)
{
    uint32_t all = b->group_end - b->group;
    uint32_t lack = all - count(b, LEAT_SCHED_READY);
    for (uint32_t i = b->group; i < b->group_end; i++) {
        const struct leat_sched_chunk *c = b->held[i];
        if (c->state == LEAT_SCHED_READY)
            continue;
        int k = snprintf(out, n, "chunk %u of %.150s%s", b->chunks[i], of, c->from_disk ? ", from disk" : "");
        if (lack > 1 && k > 0 && (size_t)k < n)
            snprintf(out + k, n - (size_t)k, " (and %u more of the %u of a batch)", lack - 1, all);
        return;
    }
    snprintf(out, n, "chunks of %.150s", of);
}

void leat_sched_lane_explain(const struct leat_sched_lane *l, const char *of, char *out, size_t n)
{
    const struct leat_sched_batch *b = l->first;
    if (l->ended)
        snprintf(out, n, "%s", "");
    else if (!b || b == l->taking)
        snprintf(out, n, "a batch to be planned");
    else if (b->state == LEAT_SCHED_PLANNED)
        snprintf(out, n, "room in the cache for %u chunks of a batch", b->group_end - b->group);
    else if (b->state == LEAT_SCHED_PINNED)
        explain_chunk(b, of, out, n);
    else if (b->state == LEAT_SCHED_HERE)
        snprintf(out, n, "a free slot: the rank holds all of them");
    else
        snprintf(out, n, "a batch that is being prepared");
}
