#include "sched/line.h"

#include "unit.h"

#define MS 1000000ull

/* A line that carries `rate` bytes a second with `delay` on top, kept full by `flight` chunks of `bytes` under way. */
static uint64_t carry(struct leat_sched_line *line, uint64_t from_ns, uint64_t rate, uint64_t delay_ns, uint64_t bytes,
                      unsigned flight, unsigned chunks)
{
    uint64_t began[64] = {0};
    uint64_t chunk_ns = bytes * 1000000000ull / rate;
    uint64_t free_ns = from_ns;
    uint64_t now = from_ns;
    for (unsigned i = 0; i < flight; i++)
        began[i] = from_ns;
    for (unsigned i = 0; i < chunks; i++) {
        uint64_t b = began[i % flight];
        free_ns = (free_ns > b ? free_ns : b) + chunk_ns;
        now = free_ns + delay_ns;
        leat_sched_line_arrived(line, b, now, bytes);
        began[i % flight] = now;
    }
    return now;
}

static void assert_between(uint64_t depth, double low, double high)
{
    if ((double)depth < low || (double)depth > high)
        fail_msg("%llu is not between %.0f and %.0f", (unsigned long long)depth, low, high);
}

TEST(nothing_is_said_until_enough_was_seen)
{
    struct leat_sched_line line = {0};
    assert_true(leat_sched_line_depth(&line) == UINT64_MAX);
    uint64_t now = carry(&line, 1000 * MS, 1000000000, 20 * MS, 8000000, 1, 15);
    assert_true(leat_sched_line_depth(&line) == UINT64_MAX);
    carry(&line, now, 1000000000, 20 * MS, 8000000, 1, 20);
    assert_true(leat_sched_line_depth(&line) != UINT64_MAX);
}

TEST(the_depth_is_a_few_times_rate_by_delay)
{
    const uint64_t rates[] = {100000000, 1000000000, 10000000000};
    const uint64_t delays[] = {1 * MS, 20 * MS, 200 * MS};
    for (size_t r = 0; r < COUNT(rates); r++) {
        for (size_t d = 0; d < COUNT(delays); d++) {
            struct leat_sched_line line = {0};
            const uint64_t bytes = 1000000;
            double delay_s = (double)(delays[d] + bytes * 1000000000ull / rates[r]) / 1e9;
            carry(&line, 1000 * MS, rates[r], delays[d], bytes, 64, 20000);
            /* What 64 chunks carry at most, and the delay of the first of them. */
            double carried = 64 * (double)bytes / delay_s;
            carried = carried < (double)rates[r] ? carried : (double)rates[r];
            assert_between(leat_sched_line_depth(&line), 2.5 * carried * delay_s, 3.6 * carried * delay_s);
        }
    }
}

TEST(a_queue_of_our_own_does_not_feed_the_estimate)
{
    struct leat_sched_line line = {0};
    uint64_t now = carry(&line, 1000 * MS, 1000000000, 20 * MS, 8000000, 4, 200);
    uint64_t before = leat_sched_line_depth(&line);
    for (unsigned i = 0; i < 20; i++) /* half a minute with sixteen times what it takes in the queue */
        now = carry(&line, now, 1000000000, 20 * MS, 8000000, 64, 200);
    assert_between(leat_sched_line_depth(&line), 0.9 * (double)before, 1.5 * (double)before);
}

TEST(a_slower_line_is_noticed_within_seconds)
{
    struct leat_sched_line line = {0};
    uint64_t now = carry(&line, 1000 * MS, 1000000000, 20 * MS, 1000000, 64, 5000);
    uint64_t before = leat_sched_line_depth(&line);
    uint64_t later = carry(&line, now, 100000000, 20 * MS, 1000000, 4, 1500); /* a training that asks for less */
    assert_true(later - now < 20000 * MS);
    assert_between(leat_sched_line_depth(&line), 0, 0.3 * (double)before);
}

TEST(a_line_that_became_longer_is_believed_when_its_rate_has_fallen)
{
    struct leat_sched_line line = {0};
    uint64_t now = carry(&line, 1000 * MS, 1000000000, 5 * MS, 1000000, 16, 5000);
    double rate = 16 * 1000000 / 0.301;
    carry(&line, now, 1000000000, 300 * MS, 1000000, 16, 2000); /* another region; 16 chunks carry far less */
    assert_between(leat_sched_line_depth(&line), 2.5 * rate * 0.301, 4 * rate * 0.301);
}

TEST(a_clock_that_stands_still_does_no_harm)
{
    struct leat_sched_line line = {0};
    for (unsigned i = 0; i < 100; i++)
        leat_sched_line_arrived(&line, 0, 0, UINT32_MAX);
    assert_true(leat_sched_line_depth(&line) == UINT64_MAX); /* no time, no rate */
    for (unsigned i = 0; i < 100; i++)
        leat_sched_line_arrived(&line, 1, UINT64_MAX / 2 + i, UINT64_MAX / 1000);
    assert_true(leat_sched_line_depth(&line) < 1000000); /* a rate of nothing in an age */
}
