#include <errno.h>

#include "base/clock.h"
#include "store/retry.h"
#include "unit.h"

#define START (1000 * LEAT_S)

TEST(only_what_can_pass_is_tried_again)
{
    for (int status = 0; status < LEAT_STATUS_COUNT; status++) {
        bool passing = status == LEAT_NETWORK || status == LEAT_SERVER || status == LEAT_THROTTLED ||
                       status == LEAT_TIMEOUT || status == LEAT_CORRUPT;
        assert_int_equal(leat_retry_useful((leat_status)status, 0), passing);
    }
    assert_true(leat_retry_useful(LEAT_LIMIT, EMFILE));
    assert_true(leat_retry_useful(LEAT_LIMIT, ENFILE));
    assert_false(leat_retry_useful(LEAT_DENIED, EACCES));
}

TEST(delay_is_spread_from_nothing_to_a_bound_that_doubles)
{
    uint64_t before = 0;
    for (uint32_t attempt = 2; attempt < 40; attempt++) {
        assert_int_equal(leat_retry_delay(LEAT_NETWORK, attempt, 0, 0), 0);
        uint64_t most = leat_retry_delay(LEAT_NETWORK, attempt, 0, .999999);
        uint64_t half = leat_retry_delay(LEAT_NETWORK, attempt, 0, .5);
        assert_in_range(half, most / 2 - LEAT_MS, most / 2 + LEAT_MS);
        assert_true(most >= before);
        if (before && most < 19 * LEAT_S)
            assert_in_range(most, 2 * before - LEAT_MS, 2 * before + LEAT_MS);
        assert_true(most <= 20 * LEAT_S);
        before = most;
    }
    assert_true(before > 19 * LEAT_S);
}

TEST(refusal_waits_longer_than_a_broken_connection)
{
    assert_true(leat_retry_delay(LEAT_THROTTLED, 2, 0, .5) > leat_retry_delay(LEAT_NETWORK, 2, 0, .5));
}

TEST(server_is_given_the_time_it_asks_for_within_reason)
{
    assert_int_equal(leat_retry_delay(LEAT_THROTTLED, 2, 5 * LEAT_S, .1), 5 * LEAT_S);
    assert_int_equal(leat_retry_delay(LEAT_THROTTLED, 2, 3600 * LEAT_S, .1), 20 * LEAT_S);
    assert_true(leat_retry_delay(LEAT_THROTTLED, 9, LEAT_S, .9) > LEAT_S);
}

/* Retries that start within `ns`, when `chance` out of 100 requests fail and `per_s` requests are made. */
static uint64_t retries_within(struct leat_retry_budget *b, uint64_t ns, unsigned per_s, unsigned chance)
{
    uint64_t retries = 0;
    for (uint64_t i = 0; i < ns / LEAT_S * per_s; i++) {
        uint64_t now = START + i * (LEAT_S / per_s);
        if (i % 100 >= chance)
            leat_retry_earn(b);
        else if (leat_retry_take(b, now) == 0) /* else it waits, and asks again */
            retries++;
    }
    return retries;
}

TEST(few_failures_are_retried_at_once)
{
    struct leat_retry_budget b = leat_retry_budget(START);
    for (int i = 0; i < 10000; i++) {
        if (i % 20 == 0)
            assert_int_equal(leat_retry_take(&b, START + (uint64_t)i * LEAT_MS), 0);
        else
            leat_retry_earn(&b);
    }
}

TEST(server_in_trouble_is_not_stormed)
{
    struct leat_retry_budget b = leat_retry_budget(START);
    uint64_t retries = retries_within(&b, 60 * LEAT_S, 100, 100);
    assert_in_range(retries, 64, 64 + 60 * 10 + 1); /* what was saved up, then ten a second: a tenth of what came */
}

TEST(saved_up_retries_are_bounded)
{
    struct leat_retry_budget b = leat_retry_budget(START);
    for (int i = 0; i < 100000; i++)
        leat_retry_earn(&b);
    unsigned at_once = 0;
    while (at_once < 1000 && leat_retry_take(&b, START + 3600 * LEAT_S) == 0)
        at_once++;
    assert_int_equal(at_once, 64);
}
