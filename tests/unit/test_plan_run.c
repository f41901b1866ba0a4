#include "plan/run.h"

#include <math.h>

#include "unit.h"

#define DRAWS 20000

static void draw(const struct leat_plan_run *run, uint64_t seed, size_t count, double *time_s, double *usd)
{
    struct leat_plan_luck *luck = NULL;
    struct leat_error err;
    assert_ok(leat_plan_luck_new(seed, count, &luck, &err), err);
    assert_ok(leat_plan_run_draw(run, luck, time_s, usd, &err), err);
    leat_plan_luck_free(luck);
}

static double drawn_mean(const struct leat_plan_run *run)
{
    static double time[DRAWS];
    static double usd[DRAWS];
    draw(run, 5, DRAWS, time, usd);
    return leat_plan_mean(time, DRAWS);
}

/* Three in ten go in the first hour, whatever the length of the table that says so. */
TEST(a_first_hour_counts_in_a_table_of_any_length)
{
    static const double lengths_h[] = {24, 168, 720, 8760};
    for (size_t i = 0; i < 4 * COUNT(lengths_h); i++) {
        const double age[] = {0, 3600, 3600 * lengths_h[i / 4]};
        const double probability[] = {0, 0.3, 0.7};
        double speed[9];
        struct leat_plan_lifetime l;
        struct leat_error err;
        struct leat_plan_expected e;
        unsigned machines = i % 2 ? 8 : 1;
        assert_ok(leat_plan_lifetime_set(age, probability, 3, i / 2 % 2, "t", &l, &err), err);
        for (unsigned n = 0; n <= machines; n++)
            speed[n] = n;
        struct leat_plan_run run = {.work = 12 * 3600 * machines,
                                    .transients = machines,
                                    .speed = speed,
                                    .rollback = true,
                                    .checkpoint_s = 30,
                                    .start_s = 86,
                                    .replace_s = 170,
                                    .lifetime = &l};
        run.interval_s = leat_plan_run_interval_s(&run);
        leat_plan_run_expect(&run, &e);
        double drawn = drawn_mean(&run);
        if (fabs(e.time_s / drawn - 1) > 0.005)
            fail_msg("%g h, %u machines: %.3f h, drawn %.3f h", lengths_h[i / 4], machines, e.time_s / 3600,
                     drawn / 3600);
    }
}

/* Steps, plateaus and a hundredfold range of stretches: the expected losses are those of simulated places. */
TEST(renewals_follow_any_table)
{
    static const double age_h[] = {0, 0.2, 1, 5, 24, 24.1, 200, 2000};
    static const double probability[] = {0, 0.15, 0.2, 0.2, 0.25, 0.5, 0.6, 0.9};
    static const double at_h[] = {0.1, 1, 6, 24.05, 30, 50, 300, 5000};
    for (int ends = 0; ends < 2; ends++) {
        double age[COUNT(age_h)];
        double seen[COUNT(at_h)] = {0};
        struct leat_plan_lifetime l;
        struct leat_error err;
        for (size_t i = 0; i < COUNT(age_h); i++)
            age[i] = 3600 * age_h[i];
        assert_ok(leat_plan_lifetime_set(age, probability, COUNT(age_h), ends, "t", &l, &err), err);
        for (uint64_t run = 0; run < 100000; run++) {
            struct leat_rng rng = leat_rng(leat_key("test", 2, 0, NULL, 0), run);
            double t = 0;
            while ((t += leat_plan_lifetime_draw(&l, leat_rng_unit(&rng))) < 3600 * at_h[COUNT(at_h) - 1]) {
                for (size_t k = 0; k < COUNT(at_h); k++)
                    seen[k] += t < 3600 * at_h[k];
            }
        }
        for (size_t k = 0; k < COUNT(at_h); k++) {
            double expected = leat_plan_lifetime_renewals(&l, 3600 * at_h[k]);
            double noise = 3.5 / sqrt(seen[k]);
            if (fabs(expected / (seen[k] / 100000) - 1) > 0.002 + noise)
                fail_msg("%g h: %g, simulated %g", at_h[k], expected, seen[k] / 100000);
        }
    }
}

static struct leat_plan_run quiet_run(const double *speed, unsigned machines)
{
    return (struct leat_plan_run){.work = 3600 * speed[machines],
                                  .anchors = machines,
                                  .speed = speed,
                                  .interval_s = HUGE_VAL,
                                  .start_s = 100,
                                  .usd_per_s = 1};
}

TEST(a_cluster_starts_with_its_slowest_machine)
{
    double speed[33];
    double before = 0;
    for (unsigned n = 0; n <= 32; n++)
        speed[n] = n;
    for (unsigned n = 1; n <= 32; n *= 2) {
        struct leat_plan_run run = quiet_run(speed, n);
        struct leat_plan_expected e;
        run.start_spread = 0.3;
        leat_plan_run_expect(&run, &e);
        assert_true(e.start_s > before);
        assert_true(fabs(drawn_mean(&run) / e.time_s - 1) < 0.002);
        before = e.start_s;
    }
    assert_true(before > 170); /* the slowest of 32, when one takes 100 s */
}

/* Billed by the hour, an hour and two minutes are two hours; nothing costs less than the minimum. */
TEST(machines_are_paid_for_in_whole_steps)
{
    const double speed[] = {0, 1};
    double time[100];
    double usd[100];
    struct leat_plan_run run = quiet_run(speed, 1);
    run.bill_increment_s = 3600;
    draw(&run, 1, 100, time, usd);
    assert_true(fabs(time[0] - 3700) < 1e-9 && fabs(usd[0] - 7200) < 1e-9);
    run.bill_increment_s = 1;
    run.bill_minimum_s = 5000;
    draw(&run, 1, 100, time, usd);
    assert_true(fabs(usd[0] - 5000) < 1e-9);
}
