/* Chunks fetched before a batch wants them. */
#include "sched/inside.h"

#define DEPTH_FIRST (512ull << 20) /* until the line is known: half a second of a fast one */
#define DEPTH_LEAST (64ull << 20)  /* rides out a pause of the bucket's; a sixteenth of a small memory */
#define LOOKS       512u           /* chunks looked at in one step: most are there already in a warm cache */

/* Half of what is not promised to anybody, shared by the sets that are read. */
static uint64_t share(const struct leat_sched *s)
{
    uint64_t spare = s->opts.ram > s->stats.promised ? (s->opts.ram - s->stats.promised) / 2 : 0;
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

/* Sends for one chunk. False: not now. */
static bool fetch_one(struct leat_sched_lane *l)
{
    struct leat_sched *s = l->sched;
    struct leat_sched_chunk *c = leat_sched_touch(l->set, l->pending_number);
    if (!c)
        return false;
    if (c->state != LEAT_SCHED_ABSENT || c->failed || c->wants) {
        if (c->leaving) { /* it is needed sooner than it seemed */
            leat_sched_keep(s, c);
            leat_sched_loose(s, c);
        }
        return true;
    }
    struct leat_sched_call call = {.lane = l, .stage = l->pending_stage, .ranges = 1};
    call.key =
        s->opts.policy == LEAT_SCHED_NEXT_USE ? leat_sched_use(s, c, false) : leat_sched_lane_key(l, l->pending_stage);
    if (!leat_sched_bring(c, &call)) {
        leat_sched_settle(s, c);
        return false;
    }
    c->ahead = true;
    c->ahead_lane = l;
    c->ahead_prev = NULL;
    c->ahead_next = l->ahead;
    if (l->ahead)
        l->ahead->ahead_prev = c;
    l->ahead = c;
    leat_sched_say(s, "fetch chunk %u ahead from %s: %llu of %llu MiB are ahead", l->pending_number,
                   c->from_disk ? "disk" : "the bucket", (unsigned long long)covered(l->set) >> 20,
                   (unsigned long long)leat_sched_depth(l->set) >> 20);
    return true;
}

void leat_sched_lane_ahead(struct leat_sched_lane *l)
{
    const struct leat_sched_ops *ops = l->sched->opts.ops;
    uint64_t depth = leat_sched_depth(l->set);
    for (unsigned i = 0; i < LOOKS && covered(l->set) < depth; i++) {
        if (!l->pending)
            l->pending = ops->ahead(l->sched->opts.user, l, &l->pending_number, &l->pending_stage);
        if (!l->pending || !fetch_one(l))
            return;
        l->pending = false;
    }
    if (covered(l->set) < depth)
        l->sched->again_ns = l->sched->now_ns + 1; /* there is more to look at */
}
