#include "sched/line.h"

#define PERIOD_NS 500000000ull
#define GAIN      3u
#define ENOUGH    16u /* arrivals before an estimate is believed */

static uint64_t greatest_rate(const struct leat_sched_line *l)
{
    uint64_t rate = 0;
    for (uint32_t i = 0; i < LEAT_SCHED_LINE_TIMES; i++)
        rate = l->rate[i] > rate ? l->rate[i] : rate;
    return rate;
}

static uint64_t shortest_delay(const struct leat_sched_line *l)
{
    uint64_t delay = 0;
    for (uint32_t i = 0; i < LEAT_SCHED_LINE_TIMES; i++) {
        if (l->delay[i] && (!delay || l->delay[i] < delay))
            delay = l->delay[i];
    }
    return delay;
}

static void turn(struct leat_sched_line *l, uint64_t now_ns)
{
    uint64_t passed = now_ns - l->began_ns;
    l->rate[l->at] = (uint64_t)((double)l->bytes * 1e9 / (double)passed);
    uint64_t rate = greatest_rate(l);
    if (rate > l->best)
        l->best = rate;
    if (rate < l->best / 2) {
        l->best = rate;
        l->anew = LEAT_SCHED_LINE_TIMES; /* until no time from before is left among them */
    }
    if (l->anew) {
        l->anew--;
        l->least = shortest_delay(l);
    }
    l->at = (l->at + 1) % LEAT_SCHED_LINE_TIMES;
    l->rate[l->at] = 0;
    l->delay[l->at] = 0;
    l->bytes = 0;
    l->began_ns = now_ns;
}

void leat_sched_line_arrived(struct leat_sched_line *l, uint64_t began_ns, uint64_t now_ns, uint64_t bytes)
{
    uint64_t delay = now_ns > began_ns ? now_ns - began_ns : 1;
    if (!l->began_ns)
        l->began_ns = began_ns ? began_ns : 1;
    l->bytes += bytes;
    if (!l->delay[l->at] || delay < l->delay[l->at])
        l->delay[l->at] = delay;
    if (!l->least || delay < l->least)
        l->least = delay;
    l->arrivals += l->arrivals < ENOUGH;
    if (now_ns >= l->began_ns + PERIOD_NS)
        turn(l, now_ns);
}

uint64_t leat_sched_line_depth(const struct leat_sched_line *l)
{
    if (l->arrivals < ENOUGH)
        return UINT64_MAX;
    uint64_t rate = greatest_rate(l);
    if (!rate)
        return UINT64_MAX;
    double depth = (double)rate * (double)l->least / 1e9 * GAIN;
    return depth < 1e18 ? (uint64_t)depth : UINT64_MAX;
}
