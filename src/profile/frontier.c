#include "profile/frontier.h"

#include <string.h>

/* The first beginning of a step; 0 where it is not known how they lie, or ranks are further apart than a step is long
 * and do not wait for each other at all. */
static uint64_t first_start(const struct leat_step *ranks, size_t n)
{
    uint64_t first = ranks[0].start_ns;
    uint64_t last = first;
    uint64_t shortest = leat_step_ns(&ranks[0]);
    for (size_t r = 1; r < n; r++) {
        uint64_t ns = leat_step_ns(&ranks[r]);
        first = ranks[r].start_ns < first ? ranks[r].start_ns : first;
        last = ranks[r].start_ns > last ? ranks[r].start_ns : last;
        shortest = ns < shortest ? ns : shortest;
    }
    return last - first < shortest ? first : 0;
}

struct leat_frontier leat_frontier_of(const struct leat_step *ranks, size_t n, bool one_clock)
{
    struct leat_frontier f = {0};
    uint64_t origin = one_clock ? first_start(ranks, n) : 0;
    double began = 0; /* the last of them, after the first */
    double first = -1;
    double second = -1;
    double first_wait = 0;
    double second_wait = 0;
    for (size_t r = 0; r < n && origin; r++) {
        double after = (double)(ranks[r].start_ns - origin) / 1e9;
        began = after > began ? after : began;
    }
    double before = began;
    for (size_t stage = 0; stage < LEAT_STEP_STAGES; stage++) {
        double most = -1;
        for (size_t r = 0; r < n; r++) {
            uint64_t sum = origin ? ranks[r].start_ns - origin : 0;
            for (size_t k = 0; k <= stage; k++)
                sum += ranks[r].ns[k];
            if ((double)sum / 1e9 > most) {
                most = (double)sum / 1e9;
                f.rank[stage] = (unsigned)r;
            }
        }
        f.s[stage] = most - before;
        before = most;
    }
    f.step_s = before - began;
    for (size_t r = 0; r < n; r++) {
        double own = origin ? (double)(ranks[r].start_ns - origin) / 1e9 : 0;
        for (size_t k = 0; k < LEAT_STEP_COMM; k++)
            own += (double)ranks[r].ns[k] / 1e9;
        if (own > first) {
            second = first;
            second_wait = first_wait;
            first = own;
            first_wait = (double)ranks[r].ns[LEAT_STEP_WAIT] / 1e9;
            f.straggler = (unsigned)r;
        } else if (own > second) {
            second = own;
            second_wait = (double)ranks[r].ns[LEAT_STEP_WAIT] / 1e9;
        }
    }
    f.late_s = n > 1 ? first - second : 0;
    f.late_wait_s = n > 1 && first_wait > second_wait ? first_wait - second_wait : 0;
    if (f.late_wait_s > f.late_s)
        f.late_wait_s = f.late_s;
    return f;
}

double leat_frontier_late(double late_s, double late_wait_s, unsigned workers, double pace_s, double next_pace_s)
{
    double slower_s = pace_s > next_pace_s ? pace_s - next_pace_s : 0;
    if (!workers || late_wait_s < slower_s)
        return late_s;
    return late_s - late_wait_s + slower_s;
}

bool leat_frontier_often(double late_of, size_t ranks)
{
    double fair = ranks > 1 ? 1.0 / (double)ranks : 1;
    return ranks > 1 && late_of > fair + (1 - fair) / 2;
}
