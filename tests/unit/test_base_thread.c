#include "base/limits.h"
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit_place.h"

struct seen {
    char name[16];
    sigset_t mask;
};

static void *look(void *arg)
{
    struct seen *seen = arg;
    for (int i = 0; i < 60000 && !seen->name[0]; i++) { /* the name is given from outside, just after the start */
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

TEST(threads_are_named_and_leave_signals_to_the_main_one)
{
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

TEST(a_wait_ends_at_the_signal_or_at_the_deadline)
{
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

TEST(cpus_are_those_this_process_may_use)
{
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

/* A tree of groups: root, root/job, root/job/step. Each gets a cpu.max, or none where it is NULL. */
static unsigned quota_of(const char *groups, const char *root, const char *job, const char *step)
{
    const char *texts[] = {root, job, step};
    static const char *const files[] = {"cpu.max", "job/cpu.max", "job/step/cpu.max"};
    place_open();
    assert_int_equal(mkdir(place_path("job"), 0700), 0);
    assert_int_equal(mkdir(place_path("job/step"), 0700), 0);
    for (int i = 0; i < 3; i++) {
        if (texts[i])
            write_text(place_path(files[i]), texts[i]);
    }
    write_text(place_path("groups"), groups);
    unsigned cpus = leat_cgroup_cpus(place_path("groups"), unit_place);
    place_close();
    return cpus;
}

TEST(the_smallest_quota_on_the_way_up_counts)
{
    static const char below[] = "0::/job/step\n";
    assert_int_equal(quota_of(below, NULL, "400000 100000\n", "max 100000\n"), 4);
    assert_int_equal(quota_of(below, NULL, "400000 100000\n", "200000 100000\n"), 2);
    assert_int_equal(quota_of(below, NULL, "200000 100000\n", "400000 100000\n"), 2);
    assert_int_equal(quota_of(below, "100000 100000\n", "200000 100000\n", NULL), 1);
    assert_int_equal(quota_of(below, NULL, NULL, NULL), 0);
    assert_int_equal(quota_of("0::/\n", "300000 100000\n", "100000 100000\n", NULL), 3); /* a container */
    assert_int_equal(quota_of("3:cpu:/x\n0::/job\n", NULL, "200000 100000\n", NULL), 2); /* both versions */
    assert_int_equal(quota_of("3:cpu:/job\n", "100000 100000\n", "200000 100000\n", NULL), 0);
    assert_int_equal(quota_of("", "100000 100000\n", NULL, NULL), 0);
    assert_int_equal(leat_cgroup_cpus("/nonexistent", "/tmp"), 0);
}

/* Two groups, the inner one with the smaller limit: its numbers count. */
TEST_IN_PLACE(memory_in_use_is_that_of_the_group_with_the_least)
{
    assert_int_equal(mkdir(place_path("job"), 0700), 0);
    write_text(place_path("memory.max"), "max\n");
    write_text(place_path("memory.current"), "9000\n");
    write_text(place_path("job/memory.max"), "5000\n");
    write_text(place_path("job/memory.current"), "4000\n");
    write_text(place_path("job/memory.stat"), "anon 1\ninactive_anon 7\ninactive_file 1500\nactive_file 3\n");
    write_text(place_path("groups"), "0::/job\n");
    assert_int_equal(leat_cgroup_memory_used(place_path("groups"), unit_place), 2500);
    write_text(place_path("job/memory.max"), "max\n");
    assert_int_equal(leat_cgroup_memory_used(place_path("groups"), unit_place), 0);
    assert_int_equal(leat_cgroup_memory_used("/nonexistent", unit_place), 0);
}

TEST(quotas_round_up_to_whole_cpus)
{
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
        assert_int_equal(quota_of("0::/\n", rows[i].line, NULL, NULL), rows[i].cpus);
}
