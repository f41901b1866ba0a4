/* Traces: counts of machines, what a start and a loss cost, tables of several zones. */
#include "plan/trace.h"

#include <math.h>

#include "plan/traces.h"
#include "unit.h"

static struct leat_plan_trace parse(const char *data)
{
    char text[400];
    struct leat_plan_trace t;
    struct leat_error err;
    snprintf(text, sizeof text, "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [%s]}", data);
    assert_ok(leat_plan_trace_parse("t.json", text, strlen(text), &t, &err), err);
    return t;
}

static struct leat_plan_replayed replay(const struct leat_plan_trace *t, const struct leat_plan_replay *job)
{
    const struct leat_plan_market m = {.count = 1, .zone = {{t, 1.0 / 3600}}};
    struct leat_plan_replayed r;
    leat_plan_replay(&m, 0, LEAT_PLAN_TRANSIENT, job, &r);
    return r;
}

TEST(a_trace_of_counts_has_room_for_that_many)
{
    struct leat_plan_trace t = parse("4, 2, 0, 8");
    assert_true(t.counts && leat_plan_trace_up(&t, 0, 4) && !leat_plan_trace_up(&t, 1, 4) &&
                leat_plan_trace_up(&t, 1, 2) && leat_plan_trace_up(&t, 7, 8));
    leat_plan_trace_free(&t);
    t = parse("1, 1, 0, 1"); /* yes or no: said of the cluster, whatever its size */
    assert_true(!t.counts && leat_plan_trace_up(&t, 0, 16) && !leat_plan_trace_up(&t, 2, 1));
    leat_plan_trace_free(&t);
}

TEST(a_first_start_costs_the_start_alone)
{
    struct leat_plan_trace t = parse("1, 1, 1, 1, 1, 1, 1, 1");
    const struct leat_plan_replay job = {.work_s = 3000,
                                         .deadline_s = HUGE_VAL,
                                         .start_s = 100,
                                         .changeover_s = 150,
                                         .piece_s = 1000,
                                         .usd_per_s = 1,
                                         .machines = 2};
    struct leat_plan_replayed r = replay(&t, &job);
    assert_true(fabs(r.time_s - 3100) < 1e-9 && r.revocations == 0 && r.lost_s == 0 && r.orders == 1);
    /* Nothing is ever lost in it: as if one loss came at the end, not half of the job at every start. */
    assert_true(leat_plan_trace_mtbf_s(&t, 2) == 4800);
    leat_plan_trace_free(&t);
}

TEST(a_loss_costs_the_work_since_the_last_checkpoint)
{
    struct leat_plan_trace t = parse("1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1");
    const struct leat_plan_replay job = {.work_s = 3000,
                                         .deadline_s = HUGE_VAL,
                                         .start_s = 100,
                                         .changeover_s = 150,
                                         .piece_s = 1000,
                                         .usd_per_s = 1,
                                         .machines = 2};
    struct leat_plan_replayed r = replay(&t, &job);
    /* 1,700 s done at the loss, 1,000 of them saved; then 150 s to restore and 2,000 to do, from 2,400 s on. */
    assert_true(r.revocations == 1 && fabs(r.lost_s - 700) < 1e-9 && r.orders == 2);
    assert_true(fabs(r.time_s - (2400 + 150 + 2000)) < 1e-9);
    assert_true(fabs(r.transient_s - (1800 + 2150)) < 1e-9);
    leat_plan_trace_free(&t);
}

/* The mean would hold half a piece back; the worst tick loses a whole one. */
TEST(the_guard_holds_for_the_worst_loss)
{
    const struct leat_plan_replay job = {
        .work_s = 36000, .deadline_s = 50000, .changeover_s = 300, .piece_s = 3600, .usd_per_s = 1, .machines = 1};
    struct leat_plan_sight s = {.done_s = 3599, .now = LEAT_PLAN_USE_TRANSIENT, .available = true, .tick_s = 600};
    s.elapsed_s = 50000 - (36000 - 3599) - (300 + 3600); /* slack for a whole piece and a changeover */
    assert_int_equal(leat_plan_choose(LEAT_PLAN_UNIFORM, &job, &s), LEAT_PLAN_USE_TRANSIENT);
    s.elapsed_s += 1800; /* for half of one */
    assert_int_equal(leat_plan_choose(LEAT_PLAN_UNIFORM, &job, &s), LEAT_PLAN_USE_ON_DEMAND);
}

/* Two types by turns: what each does in a tick is its own, and so is its price; the better bargain is taken first. */
TEST(types_work_at_their_own_speeds_and_prices)
{
    struct leat_plan_trace slow = parse("1, 1, 1, 1, 1, 1, 1, 1");
    struct leat_plan_trace fast = parse("1, 0, 0, 0, 0, 0, 0, 0");
    const struct leat_plan_replay job = {.work_s = 2000, .deadline_s = HUGE_VAL, .usd_per_s = 1, .machines = 1};
    struct leat_plan_market m = {.count = 2};
    struct leat_plan_replayed r;
    m.zone[0].trace = &slow;
    m.zone[0].usd_per_s = 0.2;
    m.zone[0].speed = 0.5;
    m.zone[1].trace = &fast;
    m.zone[1].usd_per_s = 0.6;
    m.zone[1].speed = 3;
    leat_plan_replay(&m, 0, LEAT_PLAN_TRANSIENT, &job, &r);
    /* 600 s at three times the speed do 1,800 s of the work; the other 200 s take 400 at half of it. */
    assert_true(fabs(r.time_s - 1000) < 1e-9 && fabs(r.usd - (600 * 0.6 + 400 * 0.2)) < 1e-9);
    assert_true(r.revocations == 1 && r.orders == 2);
    leat_plan_trace_free(&slow);
    leat_plan_trace_free(&fast);
}

/* Slow machines fall behind while they work: the guard leaves them earlier than such that are as fast as on demand. */
TEST(the_guard_knows_how_slow_machines_are)
{
    const struct leat_plan_replay job = {
        .work_s = 36000, .deadline_s = 50000, .changeover_s = 300, .usd_per_s = 1, .machines = 1};
    struct leat_plan_sight s = {.now = LEAT_PLAN_USE_TRANSIENT, .available = true, .tick_s = 600, .speed = 1};
    s.elapsed_s = 14000 - 300; /* slack for a changeover alone */
    assert_int_equal(leat_plan_choose(LEAT_PLAN_UNIFORM, &job, &s), LEAT_PLAN_USE_TRANSIENT);
    s.speed = 0.5;
    assert_int_equal(leat_plan_choose(LEAT_PLAN_UNIFORM, &job, &s), LEAT_PLAN_USE_ON_DEMAND);
}

#define HEADER "accelerator,region,zone,file\n"

TEST(tables_that_answer_twice_are_refused)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {HEADER "A,us,a,x\nA,us,a,y\n", "t.csv line 3: A in us, a was given before, on line 2"},
        {"accelerator,region,file\nA,us,x\nA,us,y\n", "t.csv line 3: A in us was given before"},
        {HEADER "A,us,,x\nA,us,a,y\n", "one trace for all of us beside those of its zones"},
        {HEADER "A,*,a,x\n", "t.csv line 2: a zone needs its region"},
        {HEADER "A,us,a,\n", "t.csv line 2: file is missing"},
        {"accelerator,region,file,colour\nA,us,x,red\n", "column 'colour' is not known"},
        {HEADER, "0 traces"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct leat_plan_traces t;
        struct leat_error err;
        assert_fails(leat_plan_traces_index("t.csv", wrong[i].text, strlen(wrong[i].text), &t, &err), err, LEAT_INVALID,
                     wrong[i].says);
    }
}

TEST(an_exact_region_wins_over_any_and_zones_are_kept)
{
    static const char table[] = HEADER "A,us,a,x\nA,us,b,y\nA,*,,z\nA,us,c,w\n";
    static const char ticks[] = "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [1, 0]}";
    static const char other[] = "{\"metadata\": {\"gap_seconds\": 300}, \"data\": [1, 0]}";
    struct leat_plan_zone zones[] = {{"a", 1.0, 2}, {"b", 2.0, 3}};
    const struct leat_plan_catalog catalog = {.zone = zones};
    struct leat_plan_offer o = {.accelerator = "A", .region = "us", .usd_per_hour = {3, 1}, .zone_count = 2};
    const struct leat_plan_text files[] = {{"x", ticks, sizeof ticks - 1},
                                           {"y", ticks, sizeof ticks - 1},
                                           {"z", other, sizeof other - 1},
                                           {"w", ticks, sizeof ticks - 1}};
    struct leat_plan_traces t;
    struct leat_plan_market m = {0};
    struct leat_error err;
    const char *name = NULL;
    assert_ok(leat_plan_traces_index("t.csv", table, strlen(table), &t, &err), err);
    assert_fails(leat_plan_traces_read(&t, files, 3, &err), err, LEAT_INVALID, "4 traces are named, but 3 are given");
    assert_ok(leat_plan_traces_read(&t, files, 4, &err), err);
    leat_plan_traces_market(&t, &catalog, &o, 2, 1, &m, &name);
    assert_int_equal(m.count, 2); /* this type is not sold in zone c */
    assert_string_equal(name, "x");
    assert_true(m.zone[1].usd_per_s == 4.0 / 3600);
    snprintf(o.region, sizeof o.region, "eu");
    m.count = 0;
    leat_plan_traces_market(&t, &catalog, &o, 2, 1, &m, &name);
    assert_true(m.count == 1 && m.zone[0].trace == &t.row[2].trace);
    leat_plan_traces_free(&t);
    assert_ok(leat_plan_traces_index("t.csv", table, strlen(table), &t, &err), err);
    const struct leat_plan_text mixed[] = {files[0], files[2], files[2], files[0]};
    assert_fails(leat_plan_traces_read(&t, mixed, 4, &err), err, LEAT_INVALID, "ticks of 600 and 300 s");
    leat_plan_traces_free(&t);
}
