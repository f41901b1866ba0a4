#include "profile/frontier.h"

#include <string.h>

struct leat_frontier leat_frontier_of(const struct leat_step *ranks, size_t n)
{
    struct leat_frontier f = {0};
    double before = 0;
    double first = -1;
    double second = -1;
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
            first = own;
            f.straggler = (unsigned)r;
        } else if (own > second) {
            second = own;
        }
    }
    f.late_s = n > 1 ? first - second : 0;
    return f;
}
