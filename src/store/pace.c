#include "store/pace.h"

#include "base/clock.h"

/* Long enough for a new connection's first bytes at 100 ms of latency, short enough to reach hundreds of
 * connections within two seconds. */
#define INTERVAL_NS (250 * LEAT_MS)
#define HOLD_NS     (2 * LEAT_S)
#define CUT_EVERY   LEAT_S

/* Gains smaller than this are noise, or not worth the connections. */
#define CLIMB_GAIN 1.15
#define PROBE_GAIN 1.05

/* Of the last 32 answers: fewer throttled ones than this are strays. */
#define STRAYS_PERCENT 12u

struct leat_pace leat_pace(uint32_t fixed)
{
    struct leat_pace p = {.limit = fixed ? fixed : LEAT_PACE_START, .max = LEAT_PACE_MAX, .fixed = fixed != 0};
    p.before = p.limit;
    return p;
}

void leat_pace_received(struct leat_pace *p, uint64_t bytes)
{
    p->bytes += bytes;
}

static uint32_t clamp(const struct leat_pace *p, uint32_t limit)
{
    return limit < 1 ? 1 : limit > p->max ? p->max : limit;
}

static void begin_interval(struct leat_pace *p, uint64_t now_ns)
{
    p->since_ns = now_ns;
    p->bytes = 0;
    p->starved = false;
}

void leat_pace_answered(struct leat_pace *p, bool throttled, uint64_t now_ns)
{
    p->outcomes = p->outcomes << 1 | throttled;
    if (p->outcomes_n < 32)
        p->outcomes_n++;
    if (!throttled || p->fixed || now_ns - p->last_cut_ns < CUT_EVERY)
        return;
    uint32_t count = (uint32_t)__builtin_popcount(p->outcomes);
    if (count * 100 <= p->outcomes_n * STRAYS_PERCENT)
        return;
    p->last_cut_ns = now_ns;
    p->limit = p->before = clamp(p, p->limit / 2);
    p->phase = LEAT_PACE_HOLD;
    p->hold_until_ns = now_ns + CUT_EVERY;
    p->outcomes = p->outcomes_n = 0; /* the next cut is for what happens at the new rate */
    begin_interval(p, now_ns);
}

/* One interval of full use has passed at the present limit. */
static void decide(struct leat_pace *p, double rate, uint64_t now_ns)
{
    switch (p->phase) {
    case LEAT_PACE_CLIMB:
        if (rate > p->rate * CLIMB_GAIN && p->limit < p->max) {
            p->before = p->limit;
            p->rate = rate;
            p->limit = clamp(p, p->limit * 2);
            return;
        }
        /* The last doubling gained nothing much: its connections are kept, as reserve for slow ones. */
        p->phase = LEAT_PACE_HOLD;
        p->hold_until_ns = now_ns + HOLD_NS;
        p->rate = rate > p->rate ? rate : p->rate;
        return;
    case LEAT_PACE_HOLD:
        if (now_ns < p->hold_until_ns)
            return;
        p->before = p->limit;
        p->rate = rate;
        p->limit = clamp(p, p->limit + p->limit / 4 + 1);
        p->phase = LEAT_PACE_PROBE;
        return;
    case LEAT_PACE_PROBE:
        if (rate > p->rate * CLIMB_GAIN) {
            p->phase = LEAT_PACE_CLIMB; /* the other side has room again */
            p->before = p->limit;
            p->rate = rate;
            p->limit = clamp(p, p->limit * 2);
            return;
        }
        if (rate < p->rate * PROBE_GAIN)
            p->limit = p->before;
        p->phase = LEAT_PACE_HOLD;
        p->hold_until_ns = now_ns + HOLD_NS;
        return;
    }
}

uint32_t leat_pace_update(struct leat_pace *p, bool waiting, uint64_t now_ns)
{
    if (p->fixed)
        return p->limit;
    if (!waiting)
        p->starved = true;
    if (p->since_ns == 0) {
        begin_interval(p, now_ns);
        return p->limit;
    }
    uint64_t passed = now_ns - p->since_ns;
    if (passed < INTERVAL_NS)
        return p->limit;
    /* Throughput says something about the limit only when the limit was what held it down. */
    if (!p->starved && p->bytes)
        decide(p, (double)p->bytes * 1e9 / (double)passed, now_ns);
    begin_interval(p, now_ns);
    return p->limit;
}
