#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

leat_status leat_thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg, struct leat_error *err)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int rc = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return leat_fail_errno(err, rc, "cannot start the thread '%s'", name);
    char shown[16];
    snprintf(shown, sizeof shown, "%s", name);
    pthread_setname_np(*out, shown);
    return LEAT_OK;
}

void leat_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

bool leat_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    if (deadline_ns == LEAT_NEVER) {
        pthread_cond_wait(cond, mutex);
        return true;
    }
    struct timespec t = leat_timespec(deadline_ns);
    return pthread_cond_timedwait(cond, mutex, &t) != ETIMEDOUT;
}

/* cgroup v2's "quota period" in microseconds, of the group this process sees as its root. */
static unsigned cgroup_cpus(void)
{
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    unsigned long long quota;
    unsigned long long period;
    unsigned n = 0;
    if (!f)
        return 0;
    if (fscanf(f, "%llu %llu", &quota, &period) == 2 && period)
        n = (unsigned)((quota + period - 1) / period);
    fclose(f);
    return n;
}

unsigned leat_cpu_count(void)
{
    cpu_set_t set;
    unsigned n = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = (unsigned)CPU_COUNT(&set);
    if (n == 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than cpu_set_t holds */
        n = online > 0 ? (unsigned)online : 1;
    }
    unsigned quota = cgroup_cpus();
    return quota && quota < n ? quota : n;
}
