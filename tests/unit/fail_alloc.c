#include "fail_alloc.h"

#include <errno.h>
#include <stdatomic.h>

#include "unit.h"

static _Thread_local struct {
    bool on;
    bool and_later;
    bool failed;
    bool paused;
    long left; /* allocations until the one that fails */
} plan;

static struct {
    atomic_bool on;
    atomic_bool and_later;
    atomic_bool failed;
    atomic_long left;
} everywhere;

void fail_alloc_anywhere_at(long n, bool and_later)
{
    everywhere.and_later = and_later;
    everywhere.failed = false;
    everywhere.left = n;
    everywhere.on = true;
}

void fail_alloc_at(long n, bool and_later)
{
    plan.on = true;
    plan.and_later = and_later;
    plan.failed = false;
    plan.left = n;
}

void fail_alloc_pause(bool on)
{
    plan.paused = on;
}

bool fail_alloc_stop(void)
{
    bool failed = plan.failed || everywhere.failed;
    plan.on = plan.failed = false;
    everywhere.on = everywhere.failed = false;
    return failed;
}

static bool fails_everywhere(void)
{
    if (!everywhere.on)
        return false;
    long left = atomic_fetch_sub(&everywhere.left, 1);
    bool now = left == 0 || (left < 0 && everywhere.and_later);
    if (now) {
        everywhere.failed = true;
        errno = ENOMEM;
    }
    return now;
}

static bool fails(void)
{
    if (plan.paused)
        return false;
    if (!plan.on)
        return fails_everywhere();
    bool now = plan.left == 0 || (plan.left < 0 && plan.and_later);
    plan.left--;
    if (now) {
        plan.failed = true;
        errno = ENOMEM;
    }
    return now;
}

#define WRAP(type, name, parameters, arguments)                                                                        \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        return fails() ? NULL : __real_##name arguments;                                                               \
    }

WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(void *, reallocarray, (void *p, size_t n, size_t size), (p, n, size))
WRAP(char *, strdup, (const char *s), (s))
WRAP(void *, aligned_alloc, (size_t alignment, size_t n), (alignment, n))

int __real_posix_memalign(void **out, size_t alignment, size_t n);
int __wrap_posix_memalign(void **out, size_t alignment, size_t n);
int __wrap_posix_memalign(void **out, size_t alignment, size_t n)
{
    return fails() ? ENOMEM : __real_posix_memalign(out, alignment, n);
}

static bool run_once(leat_status (*scenario)(void *, struct leat_error *), void *user, long n, bool and_later)
{
    struct leat_error err = {.status = LEAT_OK};
    fail_alloc_at(n, and_later);
    leat_status rc = scenario(user, &err);
    bool failed = fail_alloc_stop();
    if (failed && rc != LEAT_NO_MEMORY)
        fail_msg("allocation %ld failed and the answer is '%s': %s", n, leat_status_name(rc), err.text);
    if (!failed && rc != LEAT_OK)
        fail_msg("without a failed allocation the answer is '%s': %s", leat_status_name(rc), err.text);
    if (failed && (err.status != LEAT_NO_MEMORY || !*err.text))
        fail_msg("allocation %ld failed and the error record says '%s'", n, err.text);
    return failed;
}

long fail_alloc_each(leat_status (*scenario)(void *user, struct leat_error *err), void *user)
{
    long n = 0;
    while (run_once(scenario, user, n, false)) {
        run_once(scenario, user, n, true);
        n++;
    }
    return n;
}
