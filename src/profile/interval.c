#include "profile/interval.h"

#include <math.h>

#include "plan/stats.h"

struct leat_report_time leat_interval_of(const double *values, size_t n)
{
    struct leat_report_time t = {NAN, NAN, NAN};
    double squares = 0;
    if (!n)
        return t;
    t.mean = leat_plan_mean(values, n);
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - t.mean) * (values[i] - t.mean);
    if (n < 3)
        return t;
    /* Hill's expansion is rough for 2 degrees: the exact value there. */
    double quantile = n == 3 ? 4.302653 : leat_plan_t_quantile(0.975, (double)(n - 1));
    double half = quantile * sqrt(squares / (double)(n - 1) / (double)n);
    t.low = t.mean - half;
    t.high = t.mean + half;
    return t;
}
