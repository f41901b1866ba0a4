#include "base/clock.h"

#include <signal.h>
#include <sys/time.h>

#include "unit.h"

TEST(the_clock_goes_forward)
{
    uint64_t before = leat_now_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = leat_now_ns();
        assert_true(now >= before);
        before = now;
    }
    assert_true(leat_wall_s() > 1700000000);
}

TEST(deadlines_saturate_at_never)
{
    uint64_t before = leat_now_ns();
    uint64_t soon = leat_after(3600 * LEAT_S);
    uint64_t half = leat_after(LEAT_NEVER / 2);
    uint64_t now = leat_now_ns();
    assert_in_range(soon, before + 3600 * LEAT_S, now + 3600 * LEAT_S);
    assert_in_range(half, LEAT_NEVER / 2 + before, LEAT_NEVER / 2 + now);
    assert_true(leat_after(LEAT_NEVER) == LEAT_NEVER);
    assert_true(leat_after(LEAT_NEVER - 1) == LEAT_NEVER);
    assert_true(leat_left(LEAT_NEVER) == LEAT_NEVER);
    assert_int_equal(leat_left(0), 0);
    assert_int_equal(leat_left(now), 0);
    uint64_t left = leat_left(soon);
    assert_true(left > 0 && left <= 3600 * LEAT_S);
}

TEST(times_become_timespecs)
{
    struct timespec t = leat_timespec(1234567890123);
    assert_int_equal(t.tv_sec, 1234);
    assert_int_equal(t.tv_nsec, 567890123);
    t = leat_timespec(LEAT_NEVER);
    assert_true(t.tv_sec > 60L * 365 * 86400);
    assert_true(t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
}

static void on_alarm(int number)
{
    (void)number;
}

/* Signals arrive all the time while it sleeps; it sleeps on. */
TEST(a_sleep_lasts_until_its_deadline)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {.it_interval = {.tv_usec = 2000}, .it_value = {.tv_usec = 2000}};
    struct itimerval off = {0};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    uint64_t deadline = leat_after(30 * LEAT_MS);
    leat_sleep_until(deadline);
    assert_true(leat_now_ns() >= deadline);
    setitimer(ITIMER_REAL, &off, NULL);
    leat_sleep_until(0); /* long past: it returns */
    leat_sleep_until(deadline);
}
