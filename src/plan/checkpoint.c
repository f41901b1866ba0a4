#include "plan/checkpoint.h"

#include <math.h>

double leat_plan_daly_s(double cost_s, double mtbf_s)
{
    if (!(mtbf_s < HUGE_VAL))
        return HUGE_VAL;
    if (cost_s >= 2 * mtbf_s)
        return mtbf_s;
    double root = sqrt(cost_s / (2 * mtbf_s));
    return sqrt(2 * cost_s * mtbf_s) * (1 + root / 3 + cost_s / (18 * mtbf_s)) - cost_s;
}

double leat_plan_hazard_interval_s(double cost_s, const struct leat_plan_lifetime *lifetime, const double *ages_s,
                                   size_t machines)
{
    double interval = cost_s;
    /* The mean hazard over an interval depends on the interval: a few rounds settle it. */
    for (int round = 0; round < 8; round++) {
        double hazard = 0; /* of losing any machine, a second */
        for (size_t i = 0; i < machines; i++) {
            double alive = 1 - leat_plan_lifetime_cdf(lifetime, ages_s[i]);
            double later = 1 - leat_plan_lifetime_cdf(lifetime, ages_s[i] + interval);
            if (alive > 0)
                hazard += later > 0 ? log(alive / later) / interval : 1 / interval;
        }
        if (!(hazard > 0))
            return HUGE_VAL;
        interval = fmax(cost_s, leat_plan_daly_s(cost_s, 1 / hazard));
    }
    return interval;
}
