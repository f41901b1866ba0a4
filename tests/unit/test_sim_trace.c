#include "sim/trace.h"

#include <math.h>

#include "unit.h"

#define GAP_S 600
#define TICKS (14 * 144) /* two weeks */

static const struct leat_sim_weather weathers[] = {
    {12 * 3600, 1 * 3600, 0.3},                                               /* nearly always available */
    {6 * 3600, 2 * 3600, 0.4},  {3 * 3600, 3 * 3600, 0.4}, {3600, 1800, 0.2}, /* restless */
    {2 * 3600, 6 * 3600, 0.3},
};

static struct leat_plan_trace make(const struct leat_sim_weather *w, uint64_t seed)
{
    struct leat_plan_trace t;
    struct leat_error err;
    assert_ok(leat_sim_trace(w, GAP_S, TICKS, seed, &t, &err), err);
    return t;
}

static struct leat_plan_replay job_of(double hours, double deadline_h)
{
    return (struct leat_plan_replay){.work_s = hours * 3600,
                                     .deadline_s = deadline_h * 3600,
                                     .start_s = 180,
                                     .changeover_s = 180,
                                     .usd_per_s = 1.0 / 3600,
                                     .machines = 1};
}

static struct leat_plan_market one_zone(const struct leat_plan_trace *t)
{
    return (struct leat_plan_market){.count = 1, .zone = {{t, 0.3 / 3600}}};
}

TEST(made_traces_have_the_shares_asked_for)
{
    for (size_t w = 0; w < COUNT(weathers); w++) {
        double up = 0;
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct leat_plan_trace t = make(&weathers[w], seed);
            for (size_t i = 0; i < t.count; i++)
                up += t.free[i];
            leat_plan_trace_free(&t);
        }
        double share = weathers[w].up_mean_s / (weathers[w].up_mean_s + weathers[w].down_mean_s);
        assert_true(fabs(up / (40.0 * TICKS) - share) < 0.05);
    }
}

TEST(uniform_progress_keeps_every_deadline_that_on_demand_keeps)
{
    static const double deadlines[] = {24.2, 26, 30, 48};
    for (size_t w = 0; w < COUNT(weathers); w++) {
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct leat_plan_trace t = make(&weathers[w], seed);
            const struct leat_plan_market m = one_zone(&t);
            for (size_t d = 0; d < COUNT(deadlines); d++) {
                struct leat_plan_replay job = job_of(24, deadlines[d]);
                job.piece_s = d % 2 ? 1200 : 0; /* what a loss costs is in the guard */
                for (size_t start = 0; start < t.count; start += 13) {
                    struct leat_plan_replayed r;
                    struct leat_plan_replayed demand;
                    leat_plan_replay(&m, start, LEAT_PLAN_ON_DEMAND, &job, &demand);
                    leat_plan_replay(&m, start, LEAT_PLAN_UNIFORM, &job, &r);
                    assert_true(demand.kept);
                    assert_true(r.kept);
                }
            }
            leat_plan_trace_free(&t);
        }
    }
}

/* Independent zones: where one has none, another may. */
TEST(several_zones_cost_less_than_the_best_of_them)
{
    static const struct leat_sim_weather weather = {3 * 3600, 3 * 3600, 0.4};
    struct leat_plan_trace t[5];
    struct leat_plan_market all = {.count = 5};
    double together = 0;
    double alone[5] = {0};
    struct leat_plan_replay job = job_of(24, 36);
    job.piece_s = 1200;
    for (size_t z = 0; z < 5; z++) {
        t[z] = make(&weather, 100 + z);
        all.zone[z].trace = &t[z];
        all.zone[z].usd_per_s = (0.3 + 0.01 * (double)z) / 3600;
    }
    for (size_t start = 0; start < TICKS; start += 7) {
        struct leat_plan_replayed r;
        leat_plan_replay(&all, start, LEAT_PLAN_UNIFORM, &job, &r);
        assert_true(r.kept);
        together += r.usd;
        for (size_t z = 0; z < 5; z++) {
            const struct leat_plan_market one = {.count = 1, .zone = {{&t[z], all.zone[z].usd_per_s}}};
            leat_plan_replay(&one, start, LEAT_PLAN_UNIFORM, &job, &r);
            assert_true(r.kept);
            alone[z] += r.usd;
        }
    }
    for (size_t z = 0; z < 5; z++) {
        assert_true(together < 0.9 * alone[z]);
        leat_plan_trace_free(&t[z]);
    }
}

TEST(uniform_progress_costs_little_more_than_foresight)
{
    double uniform = 0;
    double demand = 0;
    double known = 0;
    for (size_t w = 0; w < COUNT(weathers); w++) {
        for (uint64_t seed = 0; seed < 2; seed++) {
            struct leat_plan_trace t = make(&weathers[w], seed);
            const struct leat_plan_market m = one_zone(&t);
            const struct leat_plan_replay job = job_of(12, 18);
            for (size_t start = 0; start < t.count; start += 211) {
                struct leat_plan_replayed r;
                struct leat_error err;
                double best;
                assert_ok(leat_sim_clairvoyant(&m, start, &job, &best, &err), err);
                leat_plan_replay(&m, start, LEAT_PLAN_UNIFORM, &job, &r);
                assert_true(best <= r.usd * (1 + 1e-3)); /* nobody beats foresight */
                uniform += r.usd;
                known += best;
                leat_plan_replay(&m, start, LEAT_PLAN_ON_DEMAND, &job, &r);
                assert_true(best <= r.usd * (1 + 1e-3));
                demand += r.usd;
            }
            leat_plan_trace_free(&t);
        }
    }
    assert_true(uniform < 1.25 * known);
    assert_true(demand > 1.5 * known);
}

TEST(always_to_be_had_costs_the_transient_price)
{
    uint16_t up[100];
    struct leat_error err;
    double best;
    for (size_t i = 0; i < 100; i++)
        up[i] = 1;
    const struct leat_plan_trace t = {.gap_s = GAP_S, .count = 100, .free = up};
    const struct leat_plan_market m = one_zone(&t);
    const struct leat_plan_replay job = job_of(10, 15);
    struct leat_plan_replayed r;
    leat_plan_replay(&m, 0, LEAT_PLAN_UNIFORM, &job, &r);
    assert_true(fabs(r.time_s - (36000 + 180)) < 1e-6 && r.revocations == 0 && r.on_demand_s == 0);
    assert_true(fabs(r.usd - 0.3 * (10 + 0.05)) < 1e-9);
    assert_ok(leat_sim_clairvoyant(&m, 0, &job, &best, &err), err);
    assert_true(fabs(best - r.usd) < 1e-9);
}

TEST(never_to_be_had_costs_the_on_demand_price)
{
    uint16_t up[100] = {0};
    struct leat_error err;
    double best;
    const struct leat_plan_trace t = {.gap_s = GAP_S, .count = 100, .free = up};
    const struct leat_plan_market m = one_zone(&t);
    const struct leat_plan_replay job = job_of(10, 12);
    struct leat_plan_replayed r;
    leat_plan_replay(&m, 0, LEAT_PLAN_UNIFORM, &job, &r);
    assert_true(r.kept && r.transient_s == 0);
    assert_ok(leat_sim_clairvoyant(&m, 0, &job, &best, &err), err);
    assert_true(fabs(best - 10.05) < 1e-9 && r.usd >= best - 1e-9);
    leat_plan_replay(&m, 0, LEAT_PLAN_TRANSIENT, &job, &r);
    assert_true(isinf(r.time_s) && !r.kept && r.usd == 0);
    const struct leat_plan_replay late = job_of(10, 9);
    assert_ok(leat_sim_clairvoyant(&m, 0, &late, &best, &err), err);
    assert_true(isinf(best));
}

TEST(a_trace_is_read_from_its_published_form)
{
    static const char good[] = "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [1, 0, 1, 1]}";
    struct leat_plan_trace t;
    struct leat_error err;
    assert_ok(leat_plan_trace_parse("t.json", good, strlen(good), &t, &err), err);
    assert_int_equal(t.count, 4);
    assert_true(t.gap_s == 600 && t.free[0] && !t.free[1] && t.free[3] && !t.counts);
    assert_true(leat_plan_trace_mtbf_s(&t, 1) == 1800);
    leat_plan_trace_free(&t);
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"", "t.json line 1"},
        {"{\n\"metadata\": {,\n", "t.json line 2"},
        {"[]", "gap_seconds"},
        {"{\"metadata\": {\"gap_seconds\": 0}, \"data\": [1]}", "gap_seconds"},
        {"{\"metadata\": {\"gap_seconds\": \"600\"}, \"data\": [1]}", "gap_seconds"},
        {"{\"metadata\": {\"gap_seconds\": 600}}", "'data' must be"},
        {"{\"metadata\": {\"gap_seconds\": 600}, \"data\": []}", "not empty"},
        {"{\"metadata\": {\"gap_seconds\": 600}, \"data\": [1, 0, 2.5]}", "tick 3"},
        {"{\"metadata\": {\"gap_seconds\": 600}, \"data\": [1, -1]}", "tick 2"},
        {"{\"metadata\": {\"gap_seconds\": 600}, \"data\": [1, null]}", "tick 2"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_fails(leat_plan_trace_parse("t.json", wrong[i].text, strlen(wrong[i].text), &t, &err), err, LEAT_INVALID,
                     wrong[i].says);
}
