#include "base/limits.h"
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit.h"

struct seen {
    char name[16];
    sigset_t mask;
};

static void *look(void *arg)
{
    struct seen *seen = arg;
    for (int i = 0; i < 2000 && !seen->name[0]; i++) { /* the name is given from outside, just after the start */
        char name[16];
        pthread_getname_np(pthread_self(), name, sizeof name);
        if (strncmp(name, "fetch", 5) == 0)
            memcpy(seen->name, name, sizeof name);
        else
            usleep(1000);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
    return seen;
}

static void threads_are_named_and_leave_signals_to_the_main_one(void **state)
{
    (void)state;
    struct leat_error err;
    struct seen seen = {0};
    pthread_t thread;
    void *result;
    sigset_t before;
    sigset_t after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_ok(leat_thread_start(&thread, "fetch-and-a-long-name", look, &seen, &err), err);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &seen);
    assert_string_equal(seen.name, "fetch-and-a-lon");
    assert_true(sigismember(&seen.mask, SIGINT));
    assert_true(sigismember(&seen.mask, SIGTERM));
    assert_true(sigismember(&seen.mask, SIGPIPE));
    assert_true(sigismember(&seen.mask, SIGUSR1));
    assert_false(sigismember(&seen.mask, SIGSEGV)); /* a fault must reach its handler */
    assert_false(sigismember(&seen.mask, SIGABRT));
    for (int s = 1; s < 32; s++)
        assert_int_equal(sigismember(&before, s), sigismember(&after, s));
}

struct gate {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool open;
};

static void *open_gate(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->mu);
    gate->open = true;
    pthread_cond_signal(&gate->cond);
    pthread_mutex_unlock(&gate->mu);
    return NULL;
}

static void a_wait_ends_at_the_signal_or_at_the_deadline(void **state)
{
    (void)state;
    struct gate gate = {.mu = PTHREAD_MUTEX_INITIALIZER};
    struct leat_error err;
    leat_cond_init(&gate.cond);
    pthread_mutex_lock(&gate.mu);
    uint64_t start = leat_now_ns();
    while (leat_cond_wait(&gate.cond, &gate.mu, start + 30 * LEAT_MS))
        continue; /* woken without a reason */
    assert_true(leat_now_ns() - start >= 30 * LEAT_MS);
    assert_false(leat_cond_wait(&gate.cond, &gate.mu, 0)); /* long past */
    for (int never = 0; never < 2; never++) {
        pthread_t thread;
        gate.open = false;
        assert_ok(leat_thread_start(&thread, "opener", open_gate, &gate, &err), err);
        while (!gate.open)
            assert_true(leat_cond_wait(&gate.cond, &gate.mu, never ? LEAT_NEVER : leat_after(60 * LEAT_S)));
        pthread_mutex_unlock(&gate.mu);
        pthread_join(thread, NULL);
        pthread_mutex_lock(&gate.mu);
    }
    pthread_mutex_unlock(&gate.mu);
    pthread_cond_destroy(&gate.cond);
}

static void cpus_are_those_this_process_may_use(void **state)
{
    (void)state;
    unsigned all = leat_cpu_count();
    assert_true(all >= 1);
    cpu_set_t before;
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_true(all <= (unsigned)CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(leat_cpu_count(), 1);
    sched_setaffinity(0, sizeof before, &before);
    assert_int_equal(leat_cpu_count(), all);
}

static void cgroup_quotas_round_up_to_whole_cpus(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        unsigned cpus;
    } rows[] = {
        {"max 100000", 0},
        {"100000 100000", 1},
        {"50000 100000", 1},
        {"250000 100000", 3},
        {"1600000 100000", 16},
        {"100000 0", 0},
        {"0 100000", 0},
        {"", 0},
        {"max", 0},
        {"100000", 0},
        {"-1 100000", 0},
        {"100000 100000 x", 0},
        {"18446744073709551615 1", 0xffffffff},
        {"00000000000000000000000000000000000000001 1", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(leat_cpu_quota(rows[i].line), rows[i].cpus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_are_named_and_leave_signals_to_the_main_one),
        cmocka_unit_test(a_wait_ends_at_the_signal_or_at_the_deadline),
        cmocka_unit_test(cpus_are_those_this_process_may_use),
        cmocka_unit_test(cgroup_quotas_round_up_to_whole_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
