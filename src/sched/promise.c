/* What lanes are promised: sched.h says why. A lane's own share (`least`) holds from its opening to its end; a loan
 * (`more`) as long as a batch uses it, and at most until another lane opens. The sum of both never exceeds the budget.
 */
#include "sched/inside.h"

uint64_t leat_sched_promise_limit(const struct leat_sched_lane *l)
{
    return l->promise.least + l->promise.more;
}

static void lend(struct leat_sched_lane *l, uint64_t more)
{
    struct leat_sched_stats *stats = &l->sched->stats;
    stats->promised += more - l->promise.more;
    stats->lent += more - l->promise.more;
    l->promise.more = more;
}

static void take_back_all(struct leat_sched *s)
{
    for (struct leat_sched_set *set = s->sets; set; set = set->next) {
        for (struct leat_sched_lane *l = set->lanes; l; l = l->next)
            lend(l, 0);
    }
}

void leat_sched_promise_shrink(struct leat_sched_lane *l)
{
    uint64_t most = l->promise.least;
    for (const struct leat_sched_batch *b = l->first; b; b = b->next)
        most = b->group_bytes > most ? b->group_bytes : most;
    if (most < leat_sched_promise_limit(l))
        lend(l, most - l->promise.least);
}

static bool is_sibling(const struct leat_sched_lane *l, uint64_t group)
{
    return group && l->promise.group == group && !l->ended;
}

/* The share of a lane among n of a group. A chunk is fetched as a whole. */
static uint64_t share(const struct leat_sched_lane_opts *o, uint64_t needed, uint32_t n)
{
    uint64_t each = o->group ? o->together / n : needed;
    each = each < needed ? each : needed;
    return each > o->set->largest ? each : o->set->largest;
}

static uint32_t count_siblings(const struct leat_sched_lane_opts *o)
{
    uint32_t n = 0;
    for (const struct leat_sched_lane *l = o->set->lanes; l; l = l->next)
        n += is_sibling(l, o->group);
    return n;
}

uint64_t leat_sched_promised_with(const struct leat_sched *s, const struct leat_sched_lane_opts *o)
{
    uint32_t n = 1 + count_siblings(o);
    uint64_t sum = s->stats.promised - s->stats.lent + share(o, o->needed, n);
    for (const struct leat_sched_lane *l = o->set->lanes; l; l = l->next) {
        if (is_sibling(l, o->group))
            sum += share(o, l->promise.needed, n) - l->promise.least;
    }
    return sum;
}

void leat_sched_promise_make(struct leat_sched_lane *l, const struct leat_sched_lane_opts *o)
{
    struct leat_sched *s = l->sched;
    uint32_t n = 1 + count_siblings(o);
    for (struct leat_sched_lane *other = o->set->lanes; other; other = other->next) {
        if (!is_sibling(other, o->group))
            continue;
        uint64_t before = leat_sched_promise_limit(other);
        uint64_t least = share(o, other->promise.needed, n);
        s->stats.promised += least - other->promise.least;
        other->promise.least = least;
        lend(other, before > least ? before - least : 0);
    }
    l->promise = (struct leat_sched_promise){.needed = o->needed, .group = o->group, .least = share(o, o->needed, n)};
    s->stats.promised += l->promise.least;
    if (s->stats.promised > s->opts.ram)
        take_back_all(s);
}

void leat_sched_promise_end(struct leat_sched_lane *l)
{
    lend(l, 0);
    l->sched->stats.promised -= l->promise.least;
    l->promise.least = 0;
}

void leat_sched_promise_borrow(struct leat_sched_lane *l, uint64_t bytes)
{
    struct leat_sched *s = l->sched;
    uint64_t limit = leat_sched_promise_limit(l);
    if (bytes > limit && s->stats.promised - limit + bytes <= s->opts.ram)
        lend(l, bytes - l->promise.least);
}
