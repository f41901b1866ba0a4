/* When a chunk is needed next.
 *
 * For one lane this is arithmetic on its orders, in stages. Lanes differ in speed, so stages are put on a common clock:
 * stage n of a lane is at offset + n·weight. The two are set from the pace at which the lane gives slots back, and set
 * again only when the lane is far from where its clock says and there are others to compare with: as long as they stay,
 * the key of a chunk stays the same from one use to the next, and a heap of keys stays in order. */
#include <string.h>

#include "order/policy.h"
#include "sched/inside.h"

#define WEIGHT_FIRST 1000000ull /* ns a stage, until the pace is known */

static const char *const names[] = {"next-use", "lru", "fifo", "minio", "none"};

const char *leat_sched_policy_name(enum leat_sched_policy policy)
{
    return names[policy];
}

bool leat_sched_policy_parse(const char *text, enum leat_sched_policy *out)
{
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum leat_sched_policy)i;
            return true;
        }
    }
    return false;
}

const struct leat_sched_stream *leat_sched_stream_of(const struct leat_sched_lane *l, uint32_t chunk)
{
    uint32_t i = l->view.streams_n - 1;
    while (i && l->streams[i].first > chunk)
        i--;
    return &l->streams[i];
}

uint64_t leat_sched_lane_stage(const struct leat_sched_stream *s, uint64_t stage)
{
    double at = s->origin + (double)stage * s->pace;
    if (s->pace == 0)
        return stage;
    return at > 0 ? (uint64_t)at : 0;
}

uint64_t leat_sched_lane_span(const struct leat_sched_lane *l)
{
    uint64_t span = 0;
    for (uint32_t i = 0; i < l->view.streams_n; i++) {
        uint64_t stages = leat_order_stages(l->streams[i].now);
        stages = l->streams[i].pace == 0 ? stages : (uint64_t)((double)stages * l->streams[i].pace);
        span = stages > span ? stages : span;
    }
    return span;
}

uint64_t leat_sched_lane_key(const struct leat_sched_lane *l, uint64_t stage)
{
    uint64_t far = stage * l->weight;
    return l->weight && far / l->weight != stage ? LEAT_SCHED_NEVER - 1 : l->offset + far;
}

/* Lanes of one dataset at the same place in it, as the ranks of a job are: they share a clock. */
static bool in_step(const struct leat_sched_lane *a, const struct leat_sched_lane *b)
{
    uint64_t x = a->view.stage;
    uint64_t y = b->view.stage;
    return a->set == b->set && (x > y ? x - y : y - x) <= leat_sched_lane_span(a) / 8;
}

static bool same_clock(const struct leat_sched_lane *a, const struct leat_sched_lane *b)
{
    return a->offset == b->offset && a->weight == b->weight;
}

/* Whether every other lane goes by the same clock, and rightly so: then it need not be the right one. */
bool leat_sched_agreed(const struct leat_sched_lane *l)
{
    for (const struct leat_sched_set *set = l->sched->sets; set; set = set->next) {
        for (const struct leat_sched_lane *o = set->lanes; o; o = o->next) {
            if (o != l && !o->ended && !(in_step(l, o) && same_clock(l, o)))
                return false;
        }
    }
    return true;
}

/* Takes over the clock of a lane that it is in step with. */
static bool join(struct leat_sched_lane *l)
{
    for (const struct leat_sched_lane *o = l->set->lanes; o; o = o->next) {
        if (o == l || o->ended || !in_step(l, o) || same_clock(l, o))
            continue;
        l->offset = o->offset;
        l->weight = o->weight;
        return true;
    }
    return false;
}

void leat_sched_lane_anchor(struct leat_sched_lane *l)
{
    const struct leat_sched *s = l->sched;
    uint64_t stage = l->view.stage;
    uint64_t passed = stage > l->stage_first ? stage - l->stage_first : 0;
    uint64_t weight =
        l->step_ns && passed ? (uint64_t)((double)l->step_ns * (double)l->numbers / (double)passed) : l->weight;
    weight = weight ? weight : 1;
    if (l->weight) {
        uint64_t says = leat_sched_lane_key(l, stage);
        uint64_t off = says > s->now_ns ? says - s->now_ns : s->now_ns - says;
        bool near =
            weight <= 2 * l->weight && l->weight <= 2 * weight && off / l->weight <= leat_sched_lane_span(l) / 4;
        if (near || leat_sched_agreed(l) || join(l))
            return;
    } else if (join(l)) {
        return;
    } else {
        weight = WEIGHT_FIRST;
    }
    l->weight = weight;
    l->offset = s->now_ns > stage * weight ? s->now_ns - stage * weight : 0;
}

static bool owned(const struct leat_sched_lane *l, uint32_t number)
{
    const struct leat_sched_view *v = &l->view;
    return !v->node_of_slot || v->node_of_slot[leat_order_slot_of(number, l->set->chunks)] == v->node;
}

/* In stages from the beginning of the lane. A chunk that belongs to another node is read here as long as its samples
 * come, and most likely never again. */
static uint64_t lane_use(const struct leat_sched_lane *l, uint32_t number, bool after)
{
    const struct leat_sched_stream *v = leat_sched_stream_of(l, number);
    uint32_t own = number - v->first;
    uint64_t use = leat_order_next_use(v->now, v->coming, v->stage, own);
    if (use == LEAT_ORDER_NEVER)
        return LEAT_SCHED_NEVER;
    if (!owned(l, number) && use > v->stage)
        return LEAT_SCHED_NEVER;
    if (after) {
        uint64_t first;
        uint64_t last;
        if (use >= leat_order_stages(v->now) || !v->coming || !leat_order_uses(v->coming, own, &first, &last))
            return LEAT_SCHED_NEVER;
        use = leat_order_stages(v->now) + first;
    }
    return leat_sched_lane_stage(v, v->before + use);
}

static uint64_t next_use(const struct leat_sched_chunk *c, bool after)
{
    uint64_t best = LEAT_SCHED_NEVER;
    for (const struct leat_sched_ref *r = &c->ref; r && r->set; r = r->next) {
        for (const struct leat_sched_lane *l = r->set->lanes; l; l = l->next) {
            if (l->ended)
                continue;
            uint64_t use = lane_use(l, r->number, after);
            uint64_t key = use == LEAT_SCHED_NEVER ? use : leat_sched_lane_key(l, use);
            best = key < best ? key : best;
        }
    }
    return best;
}

/* Whether some lane is in the middle of it: samples of it have come, and more will. */
static bool live(const struct leat_sched_chunk *c)
{
    for (const struct leat_sched_ref *r = &c->ref; r && r->set; r = r->next) {
        for (const struct leat_sched_lane *l = r->set->lanes; l; l = l->next) {
            const struct leat_sched_stream *v = leat_sched_stream_of(l, r->number);
            uint64_t first;
            uint64_t last;
            if (!l->ended && leat_order_uses(v->now, r->number - v->first, &first, &last) && first <= v->stage &&
                last >= v->stage)
                return true;
        }
    }
    return false;
}

uint64_t leat_sched_use(const struct leat_sched *s, const struct leat_sched_chunk *c, bool after)
{
    if (c->wants && !after)
        return c->want_key;
    switch (s->opts.policy) {
    case LEAT_SCHED_LRU:
        return LEAT_SCHED_NEVER - 1 - c->touched;
    case LEAT_SCHED_FIFO:
        return LEAT_SCHED_NEVER - 1 - c->came;
    case LEAT_SCHED_MINIO:
        return c->fixed || c->ahead || live(c) ? 0 : LEAT_SCHED_NEVER;
    case LEAT_SCHED_NONE:
        return c->ahead || live(c) ? 0 : LEAT_SCHED_NEVER;
    default:
        return next_use(c, after);
    }
}
