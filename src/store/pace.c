#include "store/pace.h"

#include "base/clock.h"

/* Climbing: long enough for a new connection's first bytes at 100 ms of latency, short enough to reach hundreds of
 * connections within two seconds. Holding and probing compare smaller differences and so look longer: with a handful
 * of connections that began together, the rate of a quarter of a second depends on where in an object they are. */
#define CLIMB_NS (250 * LEAT_MS)
#define HOLD_NS  (2 * LEAT_S)
#define PROBE_NS (500 * LEAT_MS)

#define CUT_EVERY  LEAT_S
#define CEILING_NS (30 * LEAT_S)

/* Gains smaller than this are noise, or not worth the connections. */
#define CLIMB_GAIN 1.15
#define PROBE_GAIN 1.05

/* Of the last n answers, this many throttled ones are a burst. At 5 % of strays that is one false alarm in about ten
 * thousand of them. */
#define WINDOW   64u
#define BURST(n) (4 + (n) / 8)

static void begin(struct leat_pace *p, enum leat_pace_phase phase, uint64_t now_ns)
{
    static const uint64_t length_ns[] = {
        [LEAT_PACE_CLIMB] = CLIMB_NS, [LEAT_PACE_HOLD] = HOLD_NS, [LEAT_PACE_PROBE] = PROBE_NS};
    p->phase = phase;
    p->since_ns = now_ns;
    p->until_ns = now_ns + length_ns[phase];
    p->bytes = 0;
    p->starved = false;
}

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

bool leat_pace_is_burst(uint32_t throttled, uint32_t n)
{
    return throttled >= BURST(n);
}

void leat_pace_cut(struct leat_pace *p, uint32_t in_flight, uint64_t now_ns)
{
    p->last_cut_ns = now_ns;
    p->ceiling = in_flight;
    p->ceiling_until_ns = now_ns + CEILING_NS;
    p->limit = p->before = clamp(p, in_flight / 2);
    p->outcomes = p->outcomes_n = 0;
    begin(p, LEAT_PACE_HOLD, now_ns);
    p->until_ns = now_ns + CUT_EVERY;
}

void leat_pace_answered(struct leat_pace *p, bool throttled, uint64_t now_ns)
{
    /* For a second after a cut, answers are about what was in flight before it. */
    if (p->fixed || (p->last_cut_ns && now_ns - p->last_cut_ns < CUT_EVERY))
        return;
    p->outcomes = p->outcomes << 1 | throttled;
    if (p->outcomes_n < WINDOW)
        p->outcomes_n++;
    if (throttled && leat_pace_is_burst((uint32_t)__builtin_popcountll(p->outcomes), p->outcomes_n))
        leat_pace_cut(p, p->limit, now_ns);
}

void leat_pace_hurry(struct leat_pace *p, uint32_t requests, uint64_t now_ns)
{
    if (p->fixed || p->last_cut_ns || requests <= p->limit)
        return;
    p->limit = p->before = clamp(p, requests);
    p->rate = 0;
    begin(p, LEAT_PACE_CLIMB, now_ns);
}

uint32_t leat_pace_together(uint64_t length)
{
    uint64_t n = length >= 16u << 10 ? ((uint64_t)LEAT_PACE_HURRY << 20) / length : 0;
    n = n < LEAT_PACE_HURRY_SMALL ? n : LEAT_PACE_HURRY_SMALL;
    return n > LEAT_PACE_HURRY ? (uint32_t)n : LEAT_PACE_HURRY;
}

static void climb(struct leat_pace *p, double rate, uint64_t now_ns)
{
    uint32_t next = p->limit * 2;
    if (now_ns < p->ceiling_until_ns && next >= p->ceiling)
        next = p->limit + p->limit / 8 + 1;
    p->before = p->limit;
    p->rate = rate;
    p->limit = clamp(p, next);
    begin(p, LEAT_PACE_CLIMB, now_ns);
}

/* One interval of full use has passed at the present limit. */
static void decide(struct leat_pace *p, double rate, uint64_t now_ns)
{
    switch (p->phase) {
    case LEAT_PACE_CLIMB:
        if (rate > p->rate * CLIMB_GAIN && p->limit < p->max)
            climb(p, rate, now_ns);
        else /* The last doubling gained nothing much: its connections are kept, as reserve for slow ones. */
            begin(p, LEAT_PACE_HOLD, now_ns);
        return;
    case LEAT_PACE_HOLD:
        p->before = p->limit;
        p->rate = rate;
        p->limit = clamp(p, p->limit + p->limit / 4 + 1);
        begin(p, LEAT_PACE_PROBE, now_ns);
        return;
    case LEAT_PACE_PROBE:
        if (rate > p->rate * CLIMB_GAIN) {
            climb(p, rate, now_ns); /* the other side has room again */
            return;
        }
        if (rate < p->rate * PROBE_GAIN)
            p->limit = p->before;
        begin(p, LEAT_PACE_HOLD, now_ns);
        return;
    }
}

uint32_t leat_pace_update(struct leat_pace *p, bool waiting, uint64_t now_ns)
{
    if (p->fixed)
        return p->limit;
    if (p->since_ns == 0)
        begin(p, LEAT_PACE_CLIMB, now_ns);
    if (!waiting)
        p->starved = true;
    if (now_ns < p->until_ns)
        return p->limit;
    /* Throughput says something about the limit only when the limit was what held it down. */
    if (p->starved || !p->bytes)
        begin(p, p->phase, now_ns);
    else
        decide(p, (double)p->bytes * 1e9 / (double)(now_ns - p->since_ns), now_ns);
    return p->limit;
}
