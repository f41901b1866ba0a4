#include "sim/cluster.h"

#include <math.h>

#include "plan_figures.h"
#include "unit.h"

#define RUNS  10000
#define DRAWS 2000

static struct leat_plan_lifetime life(const struct figure_life *f)
{
    const double age[] = {0, 3600, 86400};
    const double probability[] = {0, f->day * f->first_hour, f->day};
    struct leat_plan_lifetime l;
    struct leat_error err;
    assert_ok(leat_plan_lifetime_set(age, probability, 3, true, "test", &l, &err), err);
    return l;
}

static void draw(const struct leat_plan_run *run, uint64_t seed, size_t count, double *time_s, double *usd)
{
    struct leat_plan_luck *luck = NULL;
    struct leat_error err;
    assert_ok(leat_plan_luck_new(seed, count, &luck, &err), err);
    assert_ok(leat_plan_run_draw(run, luck, time_s, usd, &err), err);
    leat_plan_luck_free(luck);
}

struct compared {
    double formula_time; /* over simulation */
    double formula_usd;
    double held_time; /* share of simulated runs in the interval */
    double held_usd;
};

static struct compared compare(const struct leat_plan_run *run, unsigned runs)
{
    static double time[DRAWS];
    static double usd[DRAWS];
    struct leat_plan_expected e;
    struct leat_sim_result r;
    struct compared c = {0};
    double sum[2] = {0};
    leat_plan_run_expect(run, &e);
    draw(run, 1, DRAWS, time, usd);
    leat_plan_sort(time, DRAWS);
    leat_plan_sort(usd, DRAWS);
    for (unsigned i = 0; i < runs; i++) {
        leat_sim_cluster(run, LEAT_SIM_EVEN, 7, i, &r);
        sum[0] += r.time_s / runs;
        sum[1] += r.usd / runs;
        c.held_time +=
            r.time_s >= leat_plan_quantile(time, DRAWS, 0.05) && r.time_s <= leat_plan_quantile(time, DRAWS, 0.95);
        c.held_usd += r.usd >= leat_plan_quantile(usd, DRAWS, 0.05) && r.usd <= leat_plan_quantile(usd, DRAWS, 0.95);
    }
    c.formula_time = e.time_s / sum[0];
    c.formula_usd = e.usd / sum[1];
    c.held_time /= runs;
    c.held_usd /= runs;
    return c;
}

static struct leat_plan_run cluster(const struct leat_plan_lifetime *l, double *speed, unsigned machines, bool anchor,
                                    double hours)
{
    for (unsigned i = 0; i <= machines; i++)
        speed[i] = pow(i, 0.95);
    struct leat_plan_run run = {
        .work = hours * 3600 * speed[machines],
        .anchors = anchor,
        .transients = machines - anchor,
        .speed = speed,
        .speed_spread = 0.05,
        .rollback = !anchor,
        .checkpoint_s = 20,
        .interval_s = 1800,
        .start_s = 86,
        .start_spread = 0.1,
        .replace_s = 170,
        .regroup_s = anchor ? 20 : 0,
        .lifetime = l,
        .usd_per_s = 0.001 * machines,
        .usd_fixed = 0.5,
        .usd_per_revocation = 0.01,
    };
    if (!anchor)
        run.interval_s = leat_plan_run_interval_s(&run);
    return run;
}

TEST(formulas_and_intervals_agree_with_simulated_runs)
{
    static const double hours[] = {2, 12, 50};
    static const unsigned machines[] = {1, 4, 16};
    for (size_t f = 0; f < FIGURE_LIVES; f += 3) {
        struct leat_plan_lifetime l = life(&figure_lives[f]);
        for (size_t h = 0; h < COUNT(hours); h++) {
            for (size_t m = 0; m < COUNT(machines); m++) {
                for (int anchor = 0; anchor <= (machines[m] > 1); anchor++) {
                    double speed[17];
                    struct leat_plan_run run = cluster(&l, speed, machines[m], anchor, hours[h]);
                    struct compared c = compare(&run, RUNS / 10);
                    if (fabs(c.formula_time - 1) > 0.02 || fabs(c.formula_usd - 1) > 0.02)
                        fail_msg("%s %s, %u machines, %g h: formula/simulation %.4f time, %.4f usd",
                                 figure_lives[f].gpu, figure_lives[f].region, machines[m], hours[h], c.formula_time,
                                 c.formula_usd);
                }
            }
        }
    }
}

TEST(nine_of_ten_of_ten_thousand_runs_fall_into_the_interval)
{
    struct leat_plan_lifetime l = life(&figure_lives[3]);
    for (int anchor = 0; anchor < 2; anchor++) {
        double speed[9];
        struct leat_plan_run run = cluster(&l, speed, 8, anchor, 10);
        struct compared c = compare(&run, RUNS);
        assert_true(c.held_time > 0.85 && c.held_time < 0.95);
        assert_true(c.held_usd > 0.85 && c.held_usd < 0.95);
        assert_true(fabs(c.formula_time - 1) < 0.02 && fabs(c.formula_usd - 1) < 0.02);
    }
}

/* Written in the background: work stops for two seconds, but what is lost reaches back to the last one that was done.
 */
TEST(background_checkpoints_agree_with_simulated_runs)
{
    struct leat_plan_lifetime l = life(&figure_lives[3]);
    for (double lag = 60; lag <= 240; lag *= 2) {
        double speed[9];
        struct leat_plan_run run = cluster(&l, speed, 8, false, 10);
        run.checkpoint_s = 2;
        run.lag_s = lag;
        run.interval_s = fmax(leat_plan_run_interval_s(&run), lag);
        struct compared c = compare(&run, RUNS / 2);
        if (fabs(c.formula_time - 1) > 0.01 || c.held_time < 0.85 || c.held_time > 0.95)
            fail_msg("lag %g s: formula/simulation %.4f, held %.3f", lag, c.formula_time, c.held_time);
    }
}

TEST(machines_that_stay_take_what_the_sum_says)
{
    const double speed[] = {0, 1, 2};
    const struct leat_plan_run run = {.work = 7200,
                                      .anchors = 2,
                                      .speed = speed,
                                      .checkpoint_s = 10,
                                      .interval_s = 600,
                                      .start_s = 70,
                                      .usd_per_s = 2};
    struct leat_plan_expected e;
    struct leat_sim_result r;
    double time;
    double usd;
    leat_plan_run_expect(&run, &e);
    draw(&run, 1, 1, &time, &usd);
    leat_sim_cluster(&run, LEAT_SIM_EVEN, 1, 0, &r);
    assert_true(fabs(e.time_s - 3730) < 1e-6 && fabs(time - 3730) < 1e-6 && fabs(r.time_s - 3730) < 1e-6);
    assert_true(fabs(e.usd - 7460) < 1e-6 && fabs(usd - 7460) < 1e-6 && fabs(r.usd - 7460) < 1e-6);
    assert_int_equal(r.checkpoints, 6);
    assert_int_equal(r.revocations, 0);
    assert_true(fabs(r.machine_s[0] - 2 * 3730) < 1e-6 && r.machine_s[1] == 0);
}

TEST(the_same_seed_gives_the_same_run)
{
    struct leat_plan_lifetime l = life(&figure_lives[0]);
    double speed[5];
    struct leat_plan_run run = cluster(&l, speed, 4, false, 12);
    struct leat_sim_result a;
    struct leat_sim_result b;
    double t[2][50];
    double u[2][50];
    leat_sim_cluster(&run, LEAT_SIM_EVEN, 3, 17, &a);
    leat_sim_cluster(&run, LEAT_SIM_EVEN, 3, 17, &b);
    assert_memory_equal(&a.time_s, &b.time_s, sizeof a.time_s);
    leat_sim_cluster(&run, LEAT_SIM_EVEN, 4, 17, &b);
    assert_true(a.time_s != b.time_s);
    draw(&run, 9, 50, t[0], u[0]);
    draw(&run, 9, 50, t[1], u[1]);
    assert_memory_equal(t[0], t[1], sizeof t[0]);
}

TEST(every_second_of_every_machine_is_paid)
{
    struct leat_plan_lifetime l = life(&figure_lives[11]);
    double speed[9];
    struct leat_plan_run run = cluster(&l, speed, 8, true, 30);
    for (uint64_t i = 0; i < 50; i++) {
        struct leat_sim_result r;
        leat_sim_cluster(&run, LEAT_SIM_EVEN, 1, i, &r);
        assert_true(fabs(r.machine_s[0] - r.time_s) < 1e-3);
        assert_true(fabs(r.machine_s[1] / (7 * r.time_s) - 1) < 1e-9);
    }
}

static double mean_time(const struct leat_plan_run *run, enum leat_sim_interval interval)
{
    double sum = 0;
    for (unsigned i = 0; i < 2000; i++) {
        struct leat_sim_result r;
        leat_sim_cluster(run, interval, 11, i, &r);
        sum += r.time_s / 2000;
    }
    return sum;
}

TEST(intervals_by_hazard_are_no_slower_than_even_ones)
{
    struct leat_plan_lifetime l = life(&figure_lives[11]);
    double speed[9];
    struct leat_plan_run run = cluster(&l, speed, 8, false, 8);
    run.checkpoint_s = 120; /* dear ones: where the interval matters */
    run.interval_s = leat_plan_run_interval_s(&run);
    assert_true(mean_time(&run, LEAT_SIM_BY_HAZARD) < 1.005 * mean_time(&run, LEAT_SIM_EVEN));
}

TEST(the_chosen_interval_is_near_the_best)
{
    struct leat_plan_lifetime l = life(&figure_lives[0]);
    double speed[9];
    struct leat_plan_run run = cluster(&l, speed, 8, false, 12);
    double chosen = run.interval_s;
    double time = mean_time(&run, LEAT_SIM_EVEN);
    for (double factor = 0.25; factor <= 4; factor *= 2) {
        run.interval_s = chosen * factor;
        assert_true(time < 1.01 * mean_time(&run, LEAT_SIM_EVEN));
    }
}

TEST(a_hopeless_cluster_ends)
{
    const double age[] = {0, 60};
    const double probability[] = {0, 1};
    struct leat_plan_lifetime l;
    struct leat_error err;
    double speed[5];
    double t[50];
    double u[50];
    struct leat_plan_expected e;
    struct leat_sim_result r;
    assert_ok(leat_plan_lifetime_set(age, probability, 2, true, "test", &l, &err), err);
    struct leat_plan_run run = cluster(&l, speed, 4, false, 1);
    run.interval_s = HUGE_VAL;
    run.speed_spread = run.start_spread = 0;
    leat_plan_run_expect(&run, &e);
    draw(&run, 1, 50, t, u);
    leat_sim_cluster(&run, LEAT_SIM_EVEN, 1, 0, &r);
    double end = LEAT_PLAN_PATIENCE * (run.start_s + 3600 + run.checkpoint_s);
    assert_true(e.time_s == end && t[0] == end && t[49] == end && r.time_s == end);
}
