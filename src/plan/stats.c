#include "plan/stats.h"

#include <math.h>

/* Shell's sort: qsort's calls through a pointer were a fifth of the time of a plan. */
void leat_plan_sort(double *v, size_t n)
{
    size_t gap = 1;
    while (gap < n / 3)
        gap = gap * 9 / 4 + 1; /* 1, 3, 7, 16, 37, … */
    for (;;) {
        for (size_t i = gap; i < n; i++) {
            double x = v[i];
            size_t j = i;
            for (; j >= gap && v[j - gap] > x; j -= gap)
                v[j] = v[j - gap];
            v[j] = x;
        }
        if (gap == 1)
            return;
        gap = gap * 4 / 9 ? gap * 4 / 9 : 1;
    }
}

double leat_plan_quantile(const double *sorted, size_t n, double q)
{
    double at = q * (double)(n + 1) - 1;
    if (at <= 0)
        return sorted[0];
    if (at >= (double)(n - 1))
        return sorted[n - 1];
    size_t i = (size_t)at;
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

double leat_plan_mean(const double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return sum / (double)n;
}

/* Acklam's rational approximation: good to 1.2e-9 of the value, far beyond what it is used for. */
double leat_plan_normal_quantile(double q)
{
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                               1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                               6.680131188771972e+01, -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                               -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00};
    if (q < 0.02425 || q > 1 - 0.02425) {
        double r = sqrt(-2 * log(q < 0.5 ? q : 1 - q));
        double x = (((((c[0] * r + c[1]) * r + c[2]) * r + c[3]) * r + c[4]) * r + c[5]) /
                   ((((d[0] * r + d[1]) * r + d[2]) * r + d[3]) * r + 1);
        return q < 0.5 ? x : -x;
    }
    double r = q - 0.5;
    double s = r * r;
    return (((((a[0] * s + a[1]) * s + a[2]) * s + a[3]) * s + a[4]) * s + a[5]) * r /
           (((((b[0] * s + b[1]) * s + b[2]) * s + b[3]) * s + b[4]) * s + 1);
}

double leat_plan_normal(struct leat_rng *rng)
{
    double u = leat_rng_unit(rng) + 0x1p-54; /* never 0 */
    return leat_plan_normal_quantile(u);
}

double leat_plan_t_quantile(double q, double freedom)
{
    double z = leat_plan_normal_quantile(q);
    double z2 = z * z;
    double g1 = z * (z2 + 1) / 4;
    double g2 = z * ((5 * z2 + 16) * z2 + 3) / 96;
    double g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
    double g4 = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
    return z + (g1 + (g2 + (g3 + g4 / freedom) / freedom) / freedom) / freedom;
}
