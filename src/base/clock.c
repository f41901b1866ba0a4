#include "base/clock.h"

#include <errno.h>

uint64_t leat_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * LEAT_S + (uint64_t)t.tv_nsec;
}

uint64_t leat_thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * LEAT_S + (uint64_t)t.tv_nsec;
}

int64_t leat_wall_s(void)
{
    return (int64_t)time(NULL);
}

uint64_t leat_after(uint64_t ns)
{
    uint64_t now = leat_now_ns();
    return ns > LEAT_NEVER - now ? LEAT_NEVER : now + ns;
}

uint64_t leat_left(uint64_t deadline_ns)
{
    if (deadline_ns == LEAT_NEVER)
        return LEAT_NEVER;
    uint64_t now = leat_now_ns();
    return deadline_ns > now ? deadline_ns - now : 0;
}

struct timespec leat_timespec(uint64_t at_ns)
{
    /* Far enough for "never" without overflowing a 32-bit time_t. */
    const uint64_t last_s = 0x7fffffff;
    uint64_t s = at_ns / LEAT_S;
    struct timespec t = {.tv_sec = (time_t)(s > last_s ? last_s : s), .tv_nsec = (long)(at_ns % LEAT_S)};
    return t;
}

void leat_sleep_until(uint64_t deadline_ns)
{
    struct timespec t = leat_timespec(deadline_ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        continue;
}
