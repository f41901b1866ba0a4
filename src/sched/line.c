#include "sched/line.h"

#define PERIOD_NS 500000000ull
#define GAIN      3u
#define ENOUGH    16u /* arrivals before an estimate is believed */

static void turn(struct leat_sched_line *l, uint64_t now_ns)
{
    uint64_t passed = now_ns - l->began_ns;
    l->rate[l->at] = (uint64_t)((double)l->bytes * 1e9 / (double)passed);
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
    l->arrivals += l->arrivals < ENOUGH;
    if (now_ns >= l->began_ns + PERIOD_NS)
        turn(l, now_ns);
}

uint64_t leat_sched_line_depth(const struct leat_sched_line *l)
{
    uint64_t rate = 0;
    uint64_t delay = 0;
    if (l->arrivals < ENOUGH)
        return UINT64_MAX;
    for (uint32_t i = 0; i < LEAT_SCHED_LINE_TIMES; i++) {
        rate = l->rate[i] > rate ? l->rate[i] : rate;
        if (l->delay[i] && (!delay || l->delay[i] < delay))
            delay = l->delay[i];
    }
    if (!rate || !delay)
        return UINT64_MAX;
    double depth = (double)rate * (double)delay / 1e9 * GAIN;
    return depth < 1e18 ? (uint64_t)depth : UINT64_MAX;
}
