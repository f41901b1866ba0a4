#include "plan/stats.h"

#include <math.h>

#include "unit.h"

TEST(sorting_sorts)
{
    static double v[5000];
    struct leat_rng rng = leat_rng(leat_key("test", 0, 0, NULL, 0), 0);
    for (size_t n = 0; n < 5000; n = n < 20 ? n + 1 : n * 3) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += v[i] = floor(leat_rng_unit(&rng) * 1000);
        leat_plan_sort(v, n);
        for (size_t i = 1; i < n; i++)
            assert_true(v[i - 1] <= v[i]);
        for (size_t i = 0; i < n; i++)
            sum -= v[i];
        assert_true(sum == 0);
    }
}

TEST(quantiles_hold_the_next_draw_as_often_as_they_say)
{
    struct leat_rng rng = leat_rng(leat_key("test", 1, 0, NULL, 0), 0);
    unsigned held = 0;
    for (int run = 0; run < 20000; run++) {
        double v[39];
        for (size_t i = 0; i < 39; i++)
            v[i] = leat_rng_unit(&rng);
        leat_plan_sort(v, 39);
        double next = leat_rng_unit(&rng);
        held += next >= leat_plan_quantile(v, 39, 0.05) && next <= leat_plan_quantile(v, 39, 0.95);
    }
    assert_in_range(held, 17800, 18200);
    const double one[] = {7};
    assert_true(leat_plan_quantile(one, 1, 0.05) == 7 && leat_plan_quantile(one, 1, 0.95) == 7);
}

TEST(the_normal_quantile_inverts_the_distribution)
{
    for (double q = 1e-9; q < 1; q = q < 0.01 ? q * 3 : q + 0.01) {
        double x = leat_plan_normal_quantile(q);
        assert_true(fabs(0.5 * erfc(-x / sqrt(2)) / q - 1) < 1e-7);
    }
    assert_true(leat_plan_normal_quantile(0.5) == 0);
    assert_true(fabs(leat_plan_normal_quantile(0.95) - 1.6448536) < 1e-6);
}

TEST(students_quantiles_are_those_of_the_tables)
{
    assert_true(fabs(leat_plan_t_quantile(0.95, 5) - 2.0150) < 1e-3);
    assert_true(fabs(leat_plan_t_quantile(0.95, 12) - 1.7823) < 1e-3);
    assert_true(fabs(leat_plan_t_quantile(0.975, 30) - 2.0423) < 1e-3);
}
