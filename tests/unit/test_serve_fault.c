#include "base/clock.h"
#include "serve/fault.h"
#include "serve/pace.h"
#include "unit.h"

TEST(faults_are_read_as_written)
{
    struct leat_serve_faults f;
    assert_int_equal(leat_serve_faults_parse(NULL, &f, NULL), LEAT_OK);
    assert_int_equal(f.n, 0);
    assert_int_equal(leat_serve_faults_parse("", &f, NULL), LEAT_OK);
    assert_int_equal(leat_serve_faults_parse("503=0.25,ignore-range=1e-1,429=0", &f, NULL), LEAT_OK);
    assert_int_equal(f.n, 3);
    assert_int_equal(f.fault[0].kind, LEAT_SERVE_FAULT_STATUS);
    assert_int_equal(f.fault[0].status, 503);
    assert_true(f.fault[0].chance == 0.25);
    assert_string_equal(f.fault[1].name, "ignore-range");
    assert_int_equal(f.fault[1].kind, LEAT_SERVE_FAULT_IGNORE_RANGE);
}

TEST(each_kind_has_its_chance_and_no_request_two)
{
    struct leat_serve_faults f;
    unsigned count[3] = {0};
    const unsigned n = 100000;
    assert_int_equal(leat_serve_faults_parse("503=0.1,reset=0.02,stall=0.005", &f, NULL), LEAT_OK);
    for (uint64_t i = 1; i <= n; i++) {
        const struct leat_serve_fault *hit = leat_serve_faults_draw(&f, 7, i);
        if (hit)
            count[hit - f.fault]++;
        assert_ptr_equal(hit, leat_serve_faults_draw(&f, 7, i));
    }
    /* five standard deviations */
    assert_in_range(count[0], 10000 - 475, 10000 + 475);
    assert_in_range(count[1], 2000 - 222, 2000 + 222);
    assert_in_range(count[2], 500 - 112, 500 + 112);
}

TEST(a_chance_of_one_is_certain_and_of_nought_impossible)
{
    struct leat_serve_faults f;
    assert_int_equal(leat_serve_faults_parse("500=0,reset=1,stall=0", &f, NULL), LEAT_OK);
    for (uint64_t i = 1; i <= 1000; i++)
        assert_ptr_equal(leat_serve_faults_draw(&f, i, i), &f.fault[1]);
}

TEST(places_stay_inside)
{
    uint64_t seen = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t at = leat_serve_faults_place(1, i, 0, 8);
        assert_in_range(at, 0, 7);
        seen |= (uint64_t)1 << at;
        assert_int_equal(leat_serve_faults_place(1, i, 0, 1), 0);
    }
    assert_int_equal(seen, 0xff);
}

TEST(the_line_is_booked_one_after_the_other)
{
    struct leat_serve_pace p;
    leat_serve_pace_init(&p, 1); /* so slow that it is always booked for longer than this test takes */
    uint64_t begin = leat_now_ns();
    uint64_t last = begin;
    for (int i = 1; i <= 100; i++) {
        uint64_t end = leat_serve_pace_take(&p, 1000);
        assert_true(end >= begin + (uint64_t)i * 1000 * LEAT_S);
        assert_true(end == last + 1000 * LEAT_S || i == 1);
        last = end;
    }
    leat_serve_pace_destroy(&p);
    leat_serve_pace_init(&p, 0);
    assert_true(leat_serve_pace_take(&p, 1 << 30) <= leat_now_ns());
    leat_serve_pace_destroy(&p);
}

TEST(what_one_line_has_booked_leaves_another_as_it_was)
{
    struct leat_serve_pace one, other;
    leat_serve_pace_init(&one, 1);
    leat_serve_pace_init(&other, 1);
    uint64_t last = leat_serve_pace_take(&other, 1000);
    for (int i = 0; i < 100; i++)
        leat_serve_pace_take(&one, 1000);
    assert_int_equal(leat_serve_pace_take(&other, 1000), last + 1000 * LEAT_S);
    leat_serve_pace_destroy(&one);
    leat_serve_pace_destroy(&other);
}

TEST(slices_fit_the_slower_rate)
{
    assert_int_equal(leat_serve_pace_slice(400000000, 25000000), 125000);
    assert_int_equal(leat_serve_pace_slice(25000000, 400000000), 125000);
    assert_int_equal(leat_serve_pace_slice(0, 25000000), 125000);
    assert_int_equal(leat_serve_pace_slice(0, 0), 256 << 10);
    assert_int_equal(leat_serve_pace_slice(1, 0), 4 << 10);
}
