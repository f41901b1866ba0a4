#include "plan/lifetime.h"

#include <math.h>

#include "base/random.h"
#include "unit.h"

static struct leat_plan_lifetime make(double first_hour, double day, bool ends)
{
    const double age[] = {0, 3600, 86400};
    const double probability[] = {0, first_hour, day};
    struct leat_plan_lifetime l;
    struct leat_error err;
    assert_ok(leat_plan_lifetime_set(age, probability, 3, ends, "test", &l, &err), err);
    return l;
}

TEST(draws_follow_the_distribution)
{
    for (int ends = 0; ends < 2; ends++) {
        struct leat_plan_lifetime l = make(0.2, 0.5, ends);
        struct leat_rng rng = leat_rng(leat_key("test", 0, 0, NULL, 0), 0);
        double sum = 0;
        unsigned hour = 0;
        unsigned day = 0;
        for (int i = 0; i < 100000; i++) {
            double u = leat_rng_unit(&rng);
            double t = leat_plan_lifetime_draw(&l, u);
            hour += t < 3600;
            day += t < 86400;
            sum += t;
            if (t < 86400)
                assert_true(fabs(leat_plan_lifetime_cdf(&l, t) - u) < 1e-9);
        }
        assert_in_range(hour, 19500, 20500);
        assert_in_range(day, 49500, 50500);
        assert_true(fabs(sum / 100000 / l.mean_s - 1) < 0.01);
    }
}

TEST(renewals_are_those_that_simulated_places_have)
{
    for (int ends = 0; ends < 2; ends++) {
        struct leat_plan_lifetime l = make(0.3, 0.6, ends);
        const double at[] = {1800, 7200, 12 * 3600, 30 * 3600, 100 * 3600, 500 * 3600};
        double seen[6] = {0};
        for (uint64_t run = 0; run < 40000; run++) {
            struct leat_rng rng = leat_rng(leat_key("test", 1, 0, NULL, 0), run);
            double t = leat_plan_lifetime_draw(&l, leat_rng_unit(&rng));
            while (t < at[5]) {
                for (size_t k = 0; k < 6; k++)
                    seen[k] += t < at[k];
                t += leat_plan_lifetime_draw(&l, leat_rng_unit(&rng));
            }
        }
        for (size_t k = 0; k < 6; k++)
            assert_true(fabs(leat_plan_lifetime_renewals(&l, at[k]) / (seen[k] / 40000) - 1) < 0.02);
    }
}

TEST(the_hazard_is_a_bathtub)
{
    struct leat_plan_lifetime l = make(0.3, 0.6, true);
    assert_true(leat_plan_lifetime_hazard(&l, 600) > 5 * leat_plan_lifetime_hazard(&l, 36000));
    assert_true(leat_plan_lifetime_hazard(&l, 80000) > leat_plan_lifetime_hazard(&l, 5000));
    assert_true(isinf(leat_plan_lifetime_hazard(&l, 86400)));
    l = make(0.3, 0.6, false);
    assert_true(l.tail_rate > 0 && leat_plan_lifetime_hazard(&l, 1e6) == l.tail_rate);
}

TEST(lying_distributions_are_refused)
{
    static const struct {
        double age[4];
        double probability[4];
        size_t count;
        const char *says;
    } lies[] = {
        {{0, 1}, {0, 1}, 0, "at least two points"},
        {{0}, {0}, 1, "at least two points"},
        {{1, 2}, {0, 1}, 2, "age 0 with probability 0"},
        {{0, 2}, {0.1, 1}, 2, "age 0 with probability 0"},
        {{0, 3600, 7200}, {0, 0.5, 0.4}, 3, "point 3: the probability falls"},
        {{0, 3600, 3600}, {0, 0.5, 0.6}, 3, "point 3: the point is not older"},
        {{0, 3600, 7200}, {0, 0.5, 1.2}, 3, "point 3: an age or a probability that is not valid"},
        {{0, 3600, 7200}, {0, -0.5, 1}, 3, "point 2: an age or a probability that is not valid"},
        {{0, 3600, 7200}, {0, NAN, 1}, 3, "point 2: an age or a probability that is not valid"},
        {{0, NAN, 7200}, {0, 0.5, 1}, 3, "point 2: an age or a probability that is not valid"},
        {{0, 3600, 7200}, {0, 0.5, 0.5}, 3, "nothing is known about machines older than 2 h"},
        {{0, 3600}, {0, 0}, 2, "nothing is known"},
    };
    for (size_t i = 0; i < COUNT(lies); i++) {
        struct leat_plan_lifetime l;
        struct leat_error err;
        assert_fails(leat_plan_lifetime_set(lies[i].age, lies[i].probability, lies[i].count, false, "x.csv", &l, &err),
                     err, LEAT_INVALID, lies[i].says);
    }
}
