#include "base/clock.h"
#include "base/random.h"
#include "store/hedge.h"
#include "unit.h"

#define SIZE (8ull << 20)

TEST(nothing_is_late_before_enough_was_seen)
{
    struct leat_hedge h = {0};
    for (unsigned i = 0; i < 31; i++) {
        assert_int_equal(leat_hedge_begin(&h, SIZE), 0);
        leat_hedge_took(&h, SIZE, 30 * LEAT_MS);
    }
    leat_hedge_took(&h, SIZE, 30 * LEAT_MS);
    assert_int_equal(leat_hedge_begin(&h, SIZE), 60 * LEAT_MS);
    assert_int_equal(leat_hedge_begin(&h, 1000), 0); /* of other sizes nothing is known */
}

TEST(one_slow_answer_in_a_hundred_does_not_change_what_is_late)
{
    struct leat_hedge h = {0};
    for (unsigned i = 0; i < 1000; i++) {
        leat_hedge_begin(&h, SIZE);
        leat_hedge_took(&h, SIZE, i % 100 == 99 ? LEAT_S : 30 * LEAT_MS);
    }
    assert_int_equal(leat_hedge_begin(&h, SIZE), 60 * LEAT_MS);
}

TEST(a_store_that_is_slow_as_a_whole_is_not_late)
{
    struct leat_hedge h = {0};
    for (unsigned i = 0; i < 1000; i++) {
        leat_hedge_begin(&h, SIZE);
        leat_hedge_took(&h, SIZE, i < 500 ? 30 * LEAT_MS : LEAT_S);
    }
    assert_int_equal(leat_hedge_begin(&h, SIZE), 2 * LEAT_S);
}

/* However many are late, and in whatever order sizes come. */
TEST(second_requests_stay_within_two_percent)
{
    struct leat_rng rng = leat_rng(7, 0);
    struct leat_hedge h = {0};
    uint64_t requests = 0;
    uint64_t bytes = 0;
    uint64_t extra = 0;
    uint64_t extra_bytes = 0;
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t length = 1 + leat_rng_u32(&rng) % (32u << 20);
        leat_hedge_begin(&h, length);
        requests++;
        bytes += length;
        if (i > 50000 && leat_hedge_take(&h, length)) {
            extra++;
            extra_bytes += length;
        }
        assert_true(extra * 50 <= requests);
        assert_true(extra_bytes * 50 <= bytes);
    }
    assert_true(extra > 900);
}

TEST(what_was_saved_is_not_spent_at_once)
{
    struct leat_hedge h = {0};
    unsigned sent = 0;
    for (unsigned i = 0; i < 1000000; i++)
        leat_hedge_begin(&h, SIZE);
    while (leat_hedge_take(&h, SIZE))
        sent++;
    assert_in_range(sent, 16, 32);
}
