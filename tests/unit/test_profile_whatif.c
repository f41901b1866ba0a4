#include "unit.h"

#include <math.h>

#include "base/buf.h"
#include "profile/interval.h"
#include "profile/queue.h"
#include "profile/verdict.h"
#include "profile/whatif.h"

/* Four workers need 400 ms for a batch, half of it fetching; the rank computes for 50 ms. */
static void fill(struct leat_report *r, unsigned gpus)
{
    *r = (struct leat_report){.runs = 1};
    leat_report_run_init(&r->run[0]);
    r->run[0].gpus = gpus;
    r->run[0].nodes = 1;
    r->run[0].workers = 4;
    r->run[0].cores = 8;
    r->run[0].steps = 100;
    r->run[0].batch = 32;
    r->run[0].step_s = (struct leat_report_time){0.1, 0.099, 0.101};
    r->run[0].fetch_s = 0.2;
    r->run[0].prepare_s = 0.2;
    r->run[0].prepare_cpu_s = 0.2;
    r->run[0].read_bytes = 32e5;
    memset(r->run[0].part_s, 0, sizeof r->run[0].part_s);
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

/* Whatever a run measured, and whatever kept its cores busy: a question that changes nothing changes nothing. */
TEST(the_model_says_of_the_measured_run_what_was_measured)
{
    static struct leat_report r;
    static const double shares[] = {0.001, 0.1, 0.4, 0.8};
    static const double busy[] = {NAN, 0.1, 1, 1.9, 2, 2.2}; /* of 2 cores: a measurement may be off */
    for (unsigned i = 0; i < 4 * 4 * 6 * 4 * 2 * 2; i++) {
        unsigned workers = i & 3 ? 1U << (i & 3) : 0;
        double wait = shares[i >> 2 & 3];
        double batch = workers ? shares[i >> 4 & 3] : wait / 2; /* without workers it is what is waited for */
        bool cached = i >> 6 & 1;
        bool device = i >> 7 & 1;
        fill(&r, 1 + i / 7 % 2);
        struct leat_report_run *run = &r.run[0];
        run->workers = workers;
        run->cores = 2;
        run->cores_used = busy[i >> 8];
        run->device = device;
        run->fetch_s = cached && workers ? 0 : 0.1 * batch;
        run->prepare_s = 0.1 * batch;
        run->prepare_cpu_s = 0.05 * batch;
        run->part_s[LEAT_REPORT_FETCH] = 0.1 * wait;
        run->part_s[LEAT_REPORT_FORWARD] = 0.1 * (1 - wait);
        struct leat_whatif_answer a;
        struct leat_error err;
        assert_ok(leat_whatif_ask(&r, &(struct leat_whatif){0}, &a, &err), err);
        if (fabs(a.step_s.mean - 0.1) > 5e-4 || fabs(a.speed - 1) > 5e-3)
            fail_msg("case %u: %u workers, waits %.3f, %.3f for a batch, %.1f cores: %.4f s", i, workers, wait, batch,
                     run->cores_used, a.step_s.mean);
    }
}

TEST(the_slowest_stage_sets_the_pace)
{
    static struct leat_report r;
    fill(&r, 1);
    assert_step(&r, (struct leat_whatif){0}, 0.1, LEAT_REPORT_PREPARE);
    assert_step(&r, (struct leat_whatif){.cache = true, .cached = 0.5}, 0.075, LEAT_REPORT_PREPARE);
    assert_step(&r, (struct leat_whatif){.cache = true, .cached = 1}, 0.051, LEAT_REPORT_FORWARD);
    assert_step(&r, (struct leat_whatif){.storage_speed = 2}, 0.075, LEAT_REPORT_PREPARE);
    assert_step(&r, (struct leat_whatif){.workers = 8}, 0.051, LEAT_REPORT_FORWARD);
    assert_step(&r, (struct leat_whatif){.gpu_speed = 2}, 0.1, LEAT_REPORT_PREPARE);
    assert_step(&r, (struct leat_whatif){.gpu_speed = 2, .cache = true, .cached = 1, .workers = 8}, 0.026,
                LEAT_REPORT_FORWARD);
    assert_int_equal(leat_whatif_workers(&r), 8);
    assert_true(fabs(leat_whatif_cores(&r).mean - 0.2 / 0.051) < 1e-9); /* 200 ms of a core every 51 ms */
    r.run[0].workers = 0; /* then the rank does it all, one after the other */
    r.run[0].step_s = (struct leat_report_time){0.45, NAN, NAN};
    struct leat_whatif_answer a;
    struct leat_error err;
    assert_ok(leat_whatif_ask(&r, &(struct leat_whatif){.cache = true, .cached = 1}, &a, &err), err);
    assert_true(fabs(a.step_s.mean - 0.25) < 1e-9);
}

TEST(workers_share_cores_and_the_line)
{
    static struct leat_report r;
    struct leat_whatif_answer a;
    struct leat_error err;
    fill(&r, 1);
    /* Sixteen workers for 200 ms of preparing on two cores: these are never idle. */
    assert_ok(leat_whatif_ask(&r, &(struct leat_whatif){.workers = 16, .cores = 2}, &a, &err), err);
    assert_true(a.step_s.mean > 0.1 && a.step_s.mean < 0.101 && a.limit == LEAT_REPORT_PREPARE);
    /* 32 samples of 1 MB at 200 MB/s: 160 ms of the line for each batch. */
    struct leat_whatif slow = {.bandwidth = 200e6, .sample_bytes = 1e6};
    assert_ok(leat_whatif_ask(&r, &slow, &a, &err), err);
    assert_true(a.step_s.mean > 0.16 && a.step_s.mean < 0.185 && a.limit == LEAT_REPORT_FETCH);
    slow.cache = true;
    slow.cached = 0.75;
    assert_ok(leat_whatif_ask(&r, &slow, &a, &err), err);
    assert_true(a.step_s.mean > 0.05 && a.step_s.mean < 0.075);
    slow.sample_bytes = 0;
    r.run[0].read_bytes = NAN;
    assert_fails(leat_whatif_ask(&r, &slow, &a, &err), err, LEAT_UNSUPPORTED, "give --sample-bytes");
    r.run[0].read_bytes = 32e6;
    assert_ok(leat_whatif_ask(&r, &slow, &a, &err), err);
}

/* Exact by hand: two workers that wait and compute for a second each, on one core. */
TEST(a_rank_waits_for_the_cores_that_its_workers_are_on)
{
    static struct leat_report r;
    struct leat_whatif_answer a;
    struct leat_error err;
    /* Two workers prepare for 16 ms and fetch for 160; the rank sleeps for 10 ms and is on a core for 3. */
    fill(&r, 1);
    r.run[0].workers = 2;
    r.run[0].cores = 2;
    r.run[0].step_s = (struct leat_report_time){0.088, 0.0875, 0.0885};
    r.run[0].fetch_s = 0.16;
    r.run[0].prepare_s = r.run[0].prepare_cpu_s = 0.016;
    r.run[0].part_s[LEAT_REPORT_FETCH] = 0.075;
    r.run[0].part_s[LEAT_REPORT_FORWARD] = 0.013;
    r.run[0].cores_used = (0.016 + 0.003) / 0.088;
    struct leat_whatif all = {.cache = true, .cached = 1};
    assert_ok(leat_whatif_ask(&r, &all, &a, &err), err);
    assert_true(a.step_s.mean > 0.014 && a.step_s.mean < 0.0165 && a.limit == LEAT_REPORT_FORWARD);
    /* On one core both workers are always there, and a rank has a third of it. */
    all.cores = 1;
    assert_ok(leat_whatif_ask(&r, &all, &a, &err), err);
    assert_true(a.step_s.mean > 0.0195 && a.step_s.mean < 0.0205 && a.limit == LEAT_REPORT_FORWARD);
    assert_true(a.step_s.low < 0.016 && a.step_s.high > 0.024);
    /* What taking over a batch costs was seen, where one was ready. */
    r.run[0].handover_s = 0.003;
    assert_ok(leat_whatif_ask(&r, &all, &a, &err), err);
    assert_true(a.step_s.mean > 0.0215 && a.step_s.mean < 0.0225);
    /* Without workers nobody is in its way. */
    r.run[0].workers = 0;
    r.run[0].step_s = (struct leat_report_time){0.189, NAN, NAN};
    r.run[0].cores_used = (0.016 + 0.003) / 0.189;
    assert_ok(leat_whatif_ask(&r, &all, &a, &err), err);
    assert_true(fabs(a.step_s.mean - 0.029) < 1e-3);
}

TEST(queues_are_solved_exactly)
{
    struct leat_queue q = {.workers = 2, .alone_s = 1, .core_s = 1, .cores = 1};
    assert_true(fabs(leat_queue_ask(&q).batches_per_s - 0.8) < 1e-12);
    q = (struct leat_queue){.workers = 4, .alone_s = 1, .core_s = 1, .cores = 2};
    assert_true(fabs(leat_queue_ask(&q).batches_per_s - 1.7) < 0.001); /* by a simulation */
    q = (struct leat_queue){.workers = 3, .alone_s = 1, .core_s = 1, .cores = 3};
    assert_true(fabs(leat_queue_ask(&q).batches_per_s - 1.5) < 1e-12);
    q = (struct leat_queue){.workers = 3, .alone_s = 0, .core_s = 0, .line_s = 2, .cores = 1};
    assert_true(fabs(leat_queue_ask(&q).batches_per_s - 0.5) < 1e-12);
    q = (struct leat_queue){.workers = 100000, .alone_s = 1, .core_s = 1, .cores = 64};
    assert_true(fabs(leat_queue_ask(&q).batches_per_s - 64) < 1e-9);
    q = (struct leat_queue){.workers = 8, .cores = 1};
    assert_true(isinf(leat_queue_ask(&q).batches_per_s));
}

TEST(limits_come_one_after_the_other)
{
    static struct leat_report r;
    struct leat_whatif_answer a[4];
    fill(&r, 1);
    r.run[0].fetch_s = 0.6; /* 800 ms of four workers: 200 ms a step */
    r.run[0].step_s = (struct leat_report_time){0.2, 0.199, 0.201};
    r.run[0].part_s[LEAT_REPORT_FETCH] = 0.15;
    r.run[0].part_s[LEAT_REPORT_FORWARD] = 0.04;
    r.run[0].part_s[LEAT_REPORT_OTHER] = 0.005;
    assert_int_equal(leat_whatif_limits(&r, &(struct leat_whatif){0}, a, 4), 3);
    assert_int_equal(a[0].limit, LEAT_REPORT_FETCH);
    assert_int_equal(a[1].limit, LEAT_REPORT_PREPARE);
    assert_int_equal(a[2].limit, LEAT_REPORT_FORWARD);
    assert_true(fabs(a[1].step_s.mean - 0.05) < 1e-9 && fabs(a[2].step_s.mean - 0.046) < 1e-9);
}

TEST(more_ranks_exchange_more)
{
    static struct leat_report r;
    struct leat_whatif_answer a;
    struct leat_error err;
    fill(&r, 2);
    r.run[0].part_s[LEAT_REPORT_COMMUNICATION] = 0.02;
    r.run[0].step_s = (struct leat_report_time){0.12, 0.119, 0.121};
    assert_ok(leat_whatif_ask(&r, &(struct leat_whatif){.gpus = 4, .cores = 64, .workers = 8}, &a, &err), err);
    assert_true(fabs(a.step_s.mean - 0.081) < 1e-9); /* 50 ms, 20 ms · (3/4)/(1/2), and 1 ms to take a batch over */
    assert_true(fabs(a.speed - 2 * 0.12 / 0.081) < 1e-9); /* of twice as many */
    fill(&r, 1);
    assert_fails(leat_whatif_ask(&r, &(struct leat_whatif){.gpus = 4}, &a, &err), err, LEAT_UNSUPPORTED, "one rank");
}

TEST(a_network_that_nobody_has_seen_has_to_be_told)
{
    static struct leat_report r;
    struct leat_whatif_answer a;
    struct leat_error err;
    struct leat_whatif what = {.nodes = 4, .workers = 32, .cores = 64};
    fill(&r, 1);
    assert_fails(leat_whatif_ask(&r, &what, &a, &err), err, LEAT_UNSUPPORTED, "say --network");
    what.network = 1e9;
    assert_fails(leat_whatif_ask(&r, &what, &a, &err), err, LEAT_UNSUPPORTED, "DistributedDataParallel");
    r.run[0].gradient_bytes = 20e6; /* 30 ms of a ring of four, as the backward pass */
    r.run[0].part_s[LEAT_REPORT_FORWARD] = 0.02;
    r.run[0].part_s[LEAT_REPORT_BACKWARD] = 0.03;
    assert_ok(leat_whatif_ask(&r, &what, &a, &err), err);
    assert_true(a.step_s.low < 0.05 && a.step_s.high > 0.08); /* hidden, or not */
    assert_true(a.speed > 4 * 0.1 / 0.08 && a.speed < 4 * 0.1 / 0.05);
}

TEST(too_little_data_is_said)
{
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

/* Torch's DataLoader hands a small batch over in 0.3 to 6 ms. A run without workers does not say in which. */
TEST(what_handing_a_batch_over_costs_is_not_taken_for_nothing)
{
    static const struct {
        double fetch_s;
        double compute_s;
        unsigned workers; /* of the measured run */
        struct leat_whatif what;
        double truth_s; /* where it takes 5.5 ms; 0: no answer */
    } row[] = {
        {0.0011, 0.0004, 0, {.workers = 1}, 0},
        {0.0011, 0.0004, 0, {.workers = 8}, 0},
        {0.002, 0.015, 0, {.workers = 1}, 0.0205},
        {0.020, 0.030, 0, {.workers = 1}, 0.0355},
        {0.016, 0.001, 4, {.cache = true, .cached = 1}, 0},
        {0.040, 0.015, 2, {.cache = true, .cached = 1}, 0.0205},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        static struct leat_report r;
        struct leat_whatif_answer a;
        struct leat_error err;
        fill(&r, 1);
        struct leat_report_run *run = &r.run[0];
        double step_s = row[i].workers ? fmax(row[i].fetch_s / row[i].workers, row[i].compute_s + 0.0055)
                                       : row[i].fetch_s + row[i].compute_s;
        run->workers = row[i].workers;
        run->step_s = (struct leat_report_time){step_s, 0.99 * step_s, 1.01 * step_s};
        run->fetch_s = row[i].fetch_s;
        run->prepare_s = run->prepare_cpu_s = 1e-5;
        run->part_s[LEAT_REPORT_FETCH] = step_s - row[i].compute_s;
        run->part_s[LEAT_REPORT_FORWARD] = row[i].compute_s;
        if (!(row[i].truth_s > 0)) {
            assert_fails(leat_whatif_ask(&r, &row[i].what, &a, &err), err, LEAT_UNSUPPORTED,
                         "workers hand a batch over in 0.2 to");
            continue;
        }
        assert_ok(leat_whatif_ask(&r, &row[i].what, &a, &err), err);
        assert_true(a.step_s.low < row[i].truth_s && a.step_s.high > row[i].truth_s);
    }
}

TEST(waiting_that_is_not_seen_to_be_reading_may_be_anything)
{
    static struct leat_report r;
    struct leat_whatif_answer a;
    struct leat_whatif_costs costs;
    struct leat_error err;
    struct leat_whatif half = {.cache = true, .cached = 0.5};
    const struct leat_whatif twice = {.storage_speed = 2};
    fill(&r, 1);
    r.run[0].read_bytes = NAN;
    assert_false(leat_whatif_reads(&r));
    assert_fails(leat_whatif_ask(&r, &half, &a, &err), err, LEAT_UNSUPPORTED, "nothing was seen to be read");
    assert_fails(leat_whatif_ask(&r, &twice, &a, &err), err, LEAT_UNSUPPORTED, "nothing was seen to be read");
    assert_fails(leat_whatif_costs(&r, &(struct leat_whatif){0}, &costs, &err), err, LEAT_UNSUPPORTED,
                 "--sample-bytes");
    half.sample_bytes = 1e5;
    assert_ok(leat_whatif_ask(&r, &half, &a, &err), err);
    /* Batches that were fetched again took as long: there is nothing that a cache saves. */
    half.sample_bytes = 0;
    r.run[1] = r.run[0];
    r.run[1].mode = LEAT_REPORT_CACHED;
    r.runs = 2;
    for (int i = 0; i < 3; i++) {
        r.run[1].fetch_s = r.run[0].fetch_s * (0.99 + 0.01 * i);
        assert_ok(leat_whatif_ask(&r, &half, &a, &err), err);
        assert_true(a.step_s.mean > 0.098);
    }
}

TEST(no_more_workers_are_advised_than_there_are_cores_for)
{
    static struct leat_report r;
    struct leat_buf b;
    fill(&r, 1);
    r.run[0].cores = 2;
    r.run[0].workers = 0;
    r.run[0].fetch_s = 0.8;
    r.run[0].prepare_s = r.run[0].prepare_cpu_s = 0.1;
    r.run[0].step_s = (struct leat_report_time){0.91, 0.9, 0.92};
    r.run[0].part_s[LEAT_REPORT_FETCH] = 0.8;
    r.run[0].part_s[LEAT_REPORT_PREPARE] = 0.1;
    r.run[0].part_s[LEAT_REPORT_FORWARD] = 0.01;
    assert_true(leat_whatif_workers(&r) > 80);
    assert_int_equal(leat_whatif_usable_workers(&r), 2);
    leat_buf_init(&b, 10000);
    leat_verdict(&r, &b);
    assert_non_null(strstr(b.data, "num_workers=2 would read ahead"));
    assert_non_null(strstr(b.data, "more than the 2 cores here"));
    assert_non_null(strstr(b.data, "with 2 workers of each rank"));
    leat_buf_free(&b);
    r.run[0].cores = 16;
    r.run[0].gpus = 4;
    assert_int_equal(leat_whatif_usable_workers(&r), 4);
}

/* Workers on all cores: passes of the observed run last longer than those with batches from memory. */
TEST(what_workers_take_from_the_gpus_thread_is_the_datas)
{
    static struct leat_report r;
    struct leat_buf b;
    fill(&r, 1);
    r.run[0].device = true;
    r.run[0].part_s[LEAT_REPORT_FETCH] = 0;
    r.run[0].part_s[LEAT_REPORT_PREPARE] = 0.03;
    r.run[0].part_s[LEAT_REPORT_FORWARD] = 0.07;
    r.run[1] = r.run[0];
    r.runs = 2;
    r.run[1].mode = LEAT_REPORT_SYNTHETIC;
    r.run[1].step_s = (struct leat_report_time){0.05, NAN, NAN};
    r.run[1].part_s[LEAT_REPORT_PREPARE] = 0;
    r.run[1].part_s[LEAT_REPORT_FORWARD] = 0.05;
    leat_buf_init(&b, 10000);
    leat_verdict(&r, &b);
    assert_non_null(strstr(b.data, "prepare: 50.0 % of the step"));
    assert_non_null(strstr(b.data, "the rest of the step 50 ms: 8 workers of each rank would keep up"));
    assert_step(&r, (struct leat_whatif){.cache = true, .cached = 1, .workers = 8}, 0.051, LEAT_REPORT_FORWARD);
    r.run[1].steps = 19; /* too few to go by */
    leat_buf_clear(&b);
    leat_verdict(&r, &b);
    assert_non_null(strstr(b.data, "prepare: 30.0 % of the step"));
    leat_buf_free(&b);
}

TEST(an_interval_needs_three_values)
{
    const double v[] = {1, 2, 3, 4};
    assert_true(isnan(leat_interval_of(v, 0).mean));
    assert_true(leat_interval_of(v, 2).mean == 1.5 && isnan(leat_interval_of(v, 2).low));
    struct leat_report_time t = leat_interval_of(v, 3); /* 2 ± 4.3027 · 1/√3 */
    assert_true(fabs(t.high - 4.4841) < 1e-3 && fabs(t.low + 0.4841) < 1e-3);
    t = leat_interval_of(v, 4); /* 2.5 ± 3.1824 · 1.29099/2 */
    assert_true(fabs(t.high - 4.5543) < 5e-3);
}
