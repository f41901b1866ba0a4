#include "sim/wire.h"

#include <math.h>

#include "base/clock.h"
#include "sim/belt.h"
#include "sim/cores.h"
#include "unit.h"

static int things[64];

/* Runs until the next thing comes; when is it? */
static void *next_thing(struct leat_sim_wire *w, uint64_t *at_ns)
{
    for (;;) {
        *at_ns = leat_sim_wire_next_ns(w);
        if (*at_ns == UINT64_MAX)
            return NULL;
        void *thing = leat_sim_wire_run(w, *at_ns);
        if (thing)
            return thing;
    }
}

static void expect(struct leat_sim_wire *w, int thing, double at_s)
{
    uint64_t at_ns;
    void *came = next_thing(w, &at_ns);
    assert_non_null(came);
    assert_int_equal((int *)came - things, thing);
    if (fabs((double)at_ns / 1e9 - at_s) > 1e-5)
        fail_msg("thing %d came at %.6f s, not at %.6f", thing, (double)at_ns / 1e9, at_s);
}

TEST(requests_share_the_line_after_the_latency)
{
    struct leat_sim_wire w = leat_sim_wire(1e6, 0, LEAT_S / 2, 8);
    assert_true(leat_sim_wire_add(&w, &things[0], 1000000, 1, false, LEAT_S));
    assert_true(leat_sim_wire_add(&w, &things[1], 500000, 1, false, LEAT_S));
    expect(&w, 1, 1 + 0.5 + 1); /* half a line each */
    expect(&w, 0, 1 + 0.5 + 1.5);
    uint64_t at;
    assert_null(next_thing(&w, &at));
    assert_int_equal(w.requests, 2);
    leat_sim_wire_free(&w);
}

TEST(one_that_comes_later_slows_down_who_is_there)
{
    struct leat_sim_wire w = leat_sim_wire(1e6, 0, 0, 8);
    assert_true(leat_sim_wire_add(&w, &things[0], 1000000, 1, false, LEAT_S));
    assert_null(leat_sim_wire_run(&w, LEAT_S));
    assert_true(leat_sim_wire_add(&w, &things[1], 1000000, 1, false, LEAT_S + LEAT_S / 2));
    expect(&w, 0, 1 + 0.5 + 1);
    expect(&w, 1, 1 + 2);
    leat_sim_wire_free(&w);
}

TEST(a_connection_has_its_own_limit)
{
    struct leat_sim_wire w = leat_sim_wire(1e6, 2e5, 0, 8);
    assert_true(leat_sim_wire_add(&w, &things[0], 200000, 1, false, LEAT_S));
    expect(&w, 0, 2);
    /* In four ranges it is four times as fast, and comes as a whole. */
    assert_true(leat_sim_wire_add(&w, &things[1], 200000, 4, false, 2 * LEAT_S));
    expect(&w, 1, 2.25);
    assert_int_equal(w.requests, 5);
    leat_sim_wire_free(&w);
}

TEST(urgent_requests_start_first)
{
    struct leat_sim_wire w = leat_sim_wire(1e6, 0, LEAT_S, 1);
    for (int i = 0; i < 3; i++)
        assert_true(leat_sim_wire_add(&w, &things[i], 1000000, 1, false, LEAT_S));
    assert_true(leat_sim_wire_add(&w, &things[3], 1000000, 1, true, LEAT_S));
    assert_true(leat_sim_wire_add(&w, &things[4], 1000000, 1, true, LEAT_S));
    expect(&w, 0, 3); /* it was on its way already */
    expect(&w, 3, 5);
    expect(&w, 4, 7);
    expect(&w, 1, 9);
    expect(&w, 2, 11);
    leat_sim_wire_free(&w);
}

/* A megabyte a connection and second: eight requests in flight carry 8 MB/s, and the store's controller finds that more
 * carry more. */
TEST(more_requests_are_in_flight_as_long_as_they_help)
{
    struct leat_sim_wire w = leat_sim_wire(64e6, 1e6, 50 * LEAT_MS, 0);
    uint64_t at = LEAT_S;
    unsigned came = 0;
    for (unsigned i = 0; i < 4000; i++)
        assert_true(leat_sim_wire_add(&w, &things[i % 64], 100000, 1, false, LEAT_S));
    assert_int_equal(w.waiting.n + w.flowing.n, LEAT_PACE_START);
    uint64_t half = 0;
    uint64_t end = 0;
    while (next_thing(&w, &at)) {
        came++;
        half = came == 2000 ? at : half;
        end = at;
    }
    assert_int_equal(came, 4000);
    double second = 2000 * 100000 / ((double)(end - half) / 1e9); /* bytes a second, of the second half */
    if (second < 0.85 * 64e6 || second > 64e6)
        fail_msg("%.1f MB/s of 64", second / 1e6);
    leat_sim_wire_free(&w);
}

TEST(a_full_line_carries_its_rate_whatever_is_asked)
{
    struct leat_sim_wire w = leat_sim_wire(1e7, 0, 20 * LEAT_MS, 16);
    uint64_t bytes = 0;
    uint64_t at = 0;
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t size = 1000 + i * 7919 % 100000;
        assert_true(leat_sim_wire_add(&w, &things[i % 64], size, 1 + i % 3, i % 5 == 0, LEAT_S));
        bytes += size;
    }
    uint64_t end = 0;
    while (next_thing(&w, &at))
        end = at;
    double least = 1 + 0.02 + (double)bytes / 1e7;
    assert_true((double)end / 1e9 >= least - 1e-3 && (double)end / 1e9 < 1.02 * least);
    leat_sim_wire_free(&w);
}

TEST(a_share_of_the_bucket_counts_from_then_on)
{
    struct leat_sim_wire w = leat_sim_wire(1e6, 0, 0, 8);
    assert_true(leat_sim_wire_add(&w, &things[0], 1000000, 1, false, LEAT_S));
    assert_null(leat_sim_wire_run(&w, LEAT_S));
    leat_sim_wire_share(&w, 1e5, LEAT_S + LEAT_S / 2);
    expect(&w, 0, 1 + 0.5 + 5);
    leat_sim_wire_free(&w);
}

TEST(an_idle_line_gives_what_it_has_saved_to_the_first)
{
    struct leat_sim_wire w = leat_sim_wire(1e6, 0, 0, 8);
    w.burst_ns = LEAT_S;
    assert_true(leat_sim_wire_add(&w, &things[0], 800000, 1, false, 9 * LEAT_S));
    assert_true(leat_sim_wire_add(&w, &things[1], 800000, 1, false, 9 * LEAT_S));
    expect(&w, 0, 9);
    expect(&w, 1, 9.6);
    assert_true(leat_sim_wire_add(&w, &things[2], 1000000, 1, false, 9 * LEAT_S + 800 * LEAT_MS));
    expect(&w, 2, 10.6); /* it was idle for a fifth of a second */
    leat_sim_wire_free(&w);
}

TEST(requests_differ_in_speed_and_the_line_is_full_all_the_same)
{
    struct leat_sim_wire w = leat_sim_wire(1e7, 0, 0, 16);
    uint64_t at;
    uint64_t end = 0;
    unsigned together = 0;
    w.jitter = 0.2;
    for (unsigned i = 0; i < 1600; i++)
        assert_true(leat_sim_wire_add(&w, &things[i % 64], 100000, 1, false, LEAT_S));
    while (next_thing(&w, &at)) {
        together += at - end < LEAT_MS / 10;
        end = at;
    }
    double took = (double)end / 1e9 - 1;
    assert_true(took > 0.98 * 16 && took < 1.02 * 16);
    assert_true(together < 200);
    leat_sim_wire_free(&w);
}

TEST(what_is_under_way_is_freed)
{
    struct leat_sim_wire w = leat_sim_wire(1e6, 0, LEAT_MS, 2);
    for (int i = 0; i < 5; i++)
        assert_true(leat_sim_wire_add(&w, &things[i], 1000000, 3, false, LEAT_S));
    leat_sim_wire_run(&w, LEAT_S + LEAT_MS);
    leat_sim_wire_free(&w); /* a leak is the sanitizer's to tell */
    assert_int_equal(w.queued.n + w.waiting.n + w.flowing.n, 0);
}

TEST(a_belt_keeps_order_and_rate)
{
    struct leat_sim_belt b = {.rate = 1000};
    assert_int_equal(leat_sim_belt_next_ns(&b), UINT64_MAX);
    assert_true(leat_sim_belt_add(&b, &things[0], 500, LEAT_S));
    assert_true(leat_sim_belt_add(&b, &things[1], 1000, LEAT_S));
    assert_int_equal(leat_sim_belt_next_ns(&b), LEAT_S + LEAT_S / 2);
    assert_null(leat_sim_belt_take(&b, LEAT_S));
    assert_ptr_equal(leat_sim_belt_take(&b, LEAT_S + LEAT_S / 2), &things[0]);
    assert_int_equal(leat_sim_belt_next_ns(&b), 2 * LEAT_S + LEAT_S / 2);
    assert_ptr_equal(leat_sim_belt_take(&b, 9 * LEAT_S), &things[1]);
    assert_true(leat_sim_belt_add(&b, &things[2], 1000, 9 * LEAT_S)); /* an idle belt saves nothing up */
    assert_int_equal(leat_sim_belt_next_ns(&b), 10 * LEAT_S);
    leat_sim_belt_free(&b);
}

TEST(cores_work_at_once_and_one_after_the_other)
{
    struct leat_sim_cores c;
    struct leat_error err;
    assert_ok(leat_sim_cores_open(2, 4, &c, &err), err);
    assert_int_equal(leat_sim_cores_give(&c, 8, LEAT_S), 2 * LEAT_S); /* four samples each */
    assert_int_equal(leat_sim_cores_give(&c, 4, LEAT_S), 3 * LEAT_S); /* after them, on one core */
    assert_int_equal(leat_sim_cores_give(&c, 4, LEAT_S), 3 * LEAT_S); /* on the other */
    assert_int_equal(leat_sim_cores_give(&c, 1, 9 * LEAT_S), 9 * LEAT_S + LEAT_S / 4);
    leat_sim_cores_close(&c);
    assert_ok(leat_sim_cores_open(1, 0, &c, &err), err);
    assert_int_equal(leat_sim_cores_give(&c, 1000, LEAT_S), LEAT_S); /* in no time */
    leat_sim_cores_close(&c);
}
