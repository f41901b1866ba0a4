/* Chunks fetched before a batch wants them: as far as the line needs it, and farther where that costs nothing.
 *
 * Next use keeps what is needed first. So an epoch begins with chunks that are there, and those that are not lie at its
 * end: if they were only fetched when their time comes, the line would rest in the first part of every epoch and be
 * waited for in the second, up to 1.7 times as long as need be. What a cache saves is the chunks that it carries over
 * the end of an epoch; before that end it may just as well hold chunks of this epoch that came early. So a line that
 * has nothing else to do goes on to the end of the epoch, as long as only chunks of the next one have to go. It does so
 * only once memory is full, so that a training that is broken off early has not fetched its whole dataset; only without
 * a disk, where early chunks would push those of this epoch to and fro between the two; and only while
 * all lanes go by one clock, else they do not agree on where an epoch ends. */
#include "order/order.h"
#include "sched/inside.h"

#define DEPTH_FIRST (512ull << 20) /* until the line is known: half a second of a fast one */
#define DEPTH_LEAST (64ull << 20)  /* rides out a pause of the bucket's; a sixteenth of a small memory */
#define LOOK        1u             /* work of a step: a chunk that may be there already, once for each lane … */
#define FETCH       8u             /* … and one that is sent for beside that */

/* A quarter of what is not promised to anybody, shared by the sets that are read: the depth of a line that is full all
 * the time cannot be told from the length of our own queue. */
static uint64_t share(const struct leat_sched *s)
{
    uint64_t spare = s->opts.ram > s->stats.promised ? (s->opts.ram - s->stats.promised) / 4 : 0;
    uint64_t readers = 0;
    for (const struct leat_sched_set *set = s->sets; set; set = set->next)
        readers += set->lanes != NULL;
    return readers ? spare / readers : spare;
}

uint64_t leat_sched_depth(const struct leat_sched_set *set)
{
    uint64_t most = share(set->sched);
    uint64_t depth = leat_sched_line_depth(&set->line);
    uint64_t least = set->sched->opts.ram / 16 < DEPTH_LEAST ? set->sched->opts.ram / 16 : DEPTH_LEAST;
    least = least > 4ull * set->largest ? least : 4ull * set->largest;
    if (depth == UINT64_MAX)
        depth = DEPTH_FIRST;
    depth = depth > least ? depth : least;
    return depth < most ? depth : most;
}

/* What is on its way, for batches that are planned too, and what is there before its time. */
static uint64_t covered(const struct leat_sched_set *set)
{
    return set->coming_bytes + set->ahead_bytes;
}

/* The streams of a mixture end at different times: there is none for it. */
static uint64_t epoch_end(const struct leat_sched_lane *l)
{
    return l->view.streams_n == 1 ? l->streams[0].before + leat_order_stages(l->streams[0].now) : 0;
}

/* Whether the chunk that is next may be fetched though enough is ahead. */
static bool reaches(const struct leat_sched_lane *l, uint64_t depth)
{
    const struct leat_sched *s = l->sched;
    uint64_t spare = s->opts.ram > s->stats.promised ? s->opts.ram - s->stats.promised : 0;
    return s->opts.policy == LEAT_SCHED_NEXT_USE && !s->opts.disk && leat_sched_agreed(l) &&
           l->pending_stage < epoch_end(l) && l->set->coming_bytes < depth / 2 && l->set->far_bytes < spare / 4 * 3 &&
           s->stats.ram_used + s->opts.ram / 8 > s->opts.ram;
}

/* Sends for one chunk. False: not now. */
static bool fetch_one(struct leat_sched_lane *l, uint32_t number, uint64_t stage, bool far)
{
    struct leat_sched *s = l->sched;
    struct leat_sched_chunk *c = leat_sched_touch(l->set, number);
    if (!c)
        return false;
    if (c->state != LEAT_SCHED_ABSENT || c->failed || c->wants) {
        if (c->leaving) { /* it is needed sooner than it seemed */
            leat_sched_keep(s, c);
            leat_sched_loose(s, c);
        }
        return true;
    }
    struct leat_sched_call call = {.lane = l, .stage = stage, .ranges = 1};
    call.key = s->opts.policy == LEAT_SCHED_NEXT_USE ? leat_sched_use(s, c, false) : leat_sched_lane_key(l, stage);
    if (far)
        call.key = leat_sched_lane_key(l, epoch_end(l));
    if (!leat_sched_bring(c, &call)) {
        leat_sched_settle(s, c);
        return false;
    }
    leat_sched_work(s, FETCH);
    c->ahead = true;
    c->far = far;
    c->ahead_lane = l;
    c->ahead_prev = NULL;
    c->ahead_next = l->ahead;
    if (l->ahead)
        l->ahead->ahead_prev = c;
    l->ahead = c;
    if (far)
        l->set->far_bytes += c->bytes;
    leat_sched_say(s, "fetch chunk %u %s from %s: %llu of %llu MiB are ahead", number, far ? "far ahead" : "ahead",
                   c->from_disk ? "disk" : "the bucket", (unsigned long long)covered(l->set) >> 20,
                   (unsigned long long)leat_sched_depth(l->set) >> 20);
    return true;
}

void leat_sched_lane_ahead(struct leat_sched_lane *l)
{
    const struct leat_sched_ops *ops = l->sched->opts.ops;
    uint64_t depth = leat_sched_depth(l->set);
    while (leat_sched_work(l->sched, LOOK * l->sched->lanes_n)) {
        if (!l->pending)
            l->pending = ops->ahead(l->sched->opts.user, l, &l->pending_number, &l->pending_stage);
        if (!l->pending)
            return;
        if (l->pending_number == LEAT_ORDER_NONE) {
            l->pending = false;
            continue;
        }
        bool far = covered(l->set) + l->set->far_bytes >= depth; /* whatever was fetched far ahead lies before it */
        if (far && !reaches(l, depth))
            return;
        if (!fetch_one(l, l->pending_number, l->pending_stage, far))
            return;
        l->pending = false;
    }
}
