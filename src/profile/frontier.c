#include "profile/frontier.h"

#include <string.h>

struct leat_frontier leat_frontier_of(const struct leat_step *ranks, size_t n)
{
    struct leat_frontier f = {0};
    double before = 0;
    double first = -1;
    double second = -1;
    double first_wait = 0;
    double second_wait = 0;
    for (size_t stage = 0; stage < LEAT_STEP_STAGES; stage++) {
        double most = -1;
        for (size_t r = 0; r < n; r++) {
            uint64_t sum = 0;
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
    f.step_s = before;
    for (size_t r = 0; r < n; r++) {
        double own = 0;
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
