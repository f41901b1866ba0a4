#include "unit.h"

#include <math.h>

#include "base/buf.h"
#include "profile/interval.h"
#include "profile/verdict.h"
#include "profile/whatif.h"

/* Four workers need 400 ms for a batch, half of it fetching; the rank computes for 50 ms. */
static void fill(struct leat_report *r, unsigned gpus)
{
    *r = (struct leat_report){.runs = 1};
    r->run[0] = (struct leat_report_run){.gpus = gpus,
                                         .nodes = 1,
                                         .workers = 4,
                                         .cores = 8,
                                         .steps = 100,
                                         .batch = 32,
                                         .step_s = {0.1, 0.099, 0.101},
                                         .fetch_s = 0.2,
                                         .prepare_s = 0.2,
                                         .prepare_cpu_s = 0.2};
    r->run[0].part_s[LEAT_REPORT_FETCH] = 0.05;
    r->run[0].part_s[LEAT_REPORT_FORWARD] = 0.05;
}

static void assert_step(const struct leat_report *r, struct leat_whatif what, double step_s,
                        enum leat_report_part limit)
{
    struct leat_whatif_answer a;
    struct leat_error err;
    assert_ok(leat_whatif_ask(r, &what, &a, &err), err);
    if (fabs(a.step_s.mean - step_s) > 1e-9 || a.limit != limit)
        fail_msg("a step takes %.4f s, not %.4f, limited by %d", a.step_s.mean, step_s, (int)a.limit);
    assert_true(a.step_s.low < step_s && a.step_s.high > step_s);
    assert_true(fabs(a.speed - 0.1 / step_s) < 1e-9);
}

static void the_slowest_stage_sets_the_pace(void **state)
{
    (void)state;
    static struct leat_report r;
    fill(&r, 1);
    assert_step(&r, (struct leat_whatif){0}, 0.1, LEAT_REPORT_PREPARE);
    assert_step(&r, (struct leat_whatif){.cached = 0.5}, 0.075, LEAT_REPORT_PREPARE);
    assert_step(&r, (struct leat_whatif){.cached = 1}, 0.05, LEAT_REPORT_FORWARD);
    assert_step(&r, (struct leat_whatif){.storage_speed = 2}, 0.075, LEAT_REPORT_PREPARE);
    assert_step(&r, (struct leat_whatif){.workers = 8}, 0.05, LEAT_REPORT_FORWARD);
    /* Sixteen workers, but two cores for 200 ms of preparing. */
    assert_step(&r, (struct leat_whatif){.workers = 16, .cores = 2}, 0.1, LEAT_REPORT_PREPARE);
    assert_step(&r, (struct leat_whatif){.gpu_speed = 2}, 0.1, LEAT_REPORT_PREPARE);
    assert_step(&r, (struct leat_whatif){.gpu_speed = 2, .cached = 1, .workers = 8}, 0.025, LEAT_REPORT_FORWARD);
    assert_int_equal(leat_whatif_workers(&r), 8);
    r.run[0].workers = 0; /* then the rank does it all, one after the other */
    r.run[0].step_s = (struct leat_report_time){0.45, NAN, NAN};
    struct leat_whatif_answer a;
    struct leat_error err;
    assert_ok(leat_whatif_ask(&r, &(struct leat_whatif){.cached = 1}, &a, &err), err);
    assert_true(fabs(a.step_s.mean - 0.25) < 1e-9);
}

static void more_ranks_exchange_more(void **state)
{
    (void)state;
    static struct leat_report r;
    struct leat_whatif_answer a;
    struct leat_error err;
    fill(&r, 2);
    r.run[0].part_s[LEAT_REPORT_COMMUNICATION] = 0.02;
    r.run[0].step_s = (struct leat_report_time){0.12, 0.119, 0.121};
    assert_ok(leat_whatif_ask(&r, &(struct leat_whatif){.gpus = 4, .cores = 64, .workers = 8}, &a, &err), err);
    assert_true(fabs(a.step_s.mean - 0.08) < 1e-9); /* 50 ms, and 20 ms · (3/4)/(1/2) */
    fill(&r, 1);
    assert_fails(leat_whatif_ask(&r, &(struct leat_whatif){.gpus = 4}, &a, &err), err, LEAT_UNSUPPORTED, "one rank");
}

static void too_little_data_is_said(void **state)
{
    (void)state;
    static struct leat_report r;
    struct leat_whatif_answer a;
    struct leat_error err;
    struct leat_buf b;
    fill(&r, 1);
    r.run[0].fetch_s = NAN;
    assert_fails(leat_whatif_ask(&r, &(struct leat_whatif){0}, &a, &err), err, LEAT_UNSUPPORTED, "not enough data");
    assert_int_equal(leat_whatif_workers(&r), 0);
    fill(&r, 1);
    r.run[0].steps = 19;
    assert_fails(leat_whatif_ask(&r, &(struct leat_whatif){0}, &a, &err), err, LEAT_UNSUPPORTED, "not enough data");
    assert_int_equal(leat_verdict_cause(&r), LEAT_REPORT_PARTS);
    leat_buf_init(&b, 10000);
    leat_verdict(&r, &b);
    assert_non_null(strstr(b.data, "not enough data: 19 training steps"));
    leat_buf_clear(&b);
    r.run[0].steps = 20;
    leat_verdict(&r, &b);
    assert_non_null(strstr(b.data, "fetch: 50.0 % of the step"));
    leat_buf_free(&b);
}

static void an_interval_needs_three_values(void **state)
{
    (void)state;
    const double v[] = {1, 2, 3, 4};
    assert_true(isnan(leat_interval_of(v, 0).mean));
    assert_true(leat_interval_of(v, 2).mean == 1.5 && isnan(leat_interval_of(v, 2).low));
    struct leat_report_time t = leat_interval_of(v, 3); /* 2 ± 4.3027 · 1/√3 */
    assert_true(fabs(t.high - 4.4841) < 1e-3 && fabs(t.low + 0.4841) < 1e-3);
    t = leat_interval_of(v, 4); /* 2.5 ± 3.1824 · 1.29099/2 */
    assert_true(fabs(t.high - 4.5543) < 5e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slowest_stage_sets_the_pace),
        cmocka_unit_test(more_ranks_exchange_more),
        cmocka_unit_test(too_little_data_is_said),
        cmocka_unit_test(an_interval_needs_three_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
