#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"

leat_status leat_thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg, struct leat_error *err)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    /* A fault is the thread's own: blocked, it would kill the process past every handler and sanitizer. */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
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

/* The first line of a small file that begins so, without its line break; false when there is none. */
static bool read_line(const char *path, const char *start, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    bool got = false;
    if (!f)
        return false;
    while (!got && fgets(out, (int)size, f))
        got = strncmp(out, start, strlen(start)) == 0;
    fclose(f);
    if (got)
        out[strcspn(out, "\n")] = '\0';
    return got;
}

/* CPUs that "QUOTA PERIOD" or "max PERIOD" allows, rounded up; 0: no limit. */
static unsigned parse_cpu_max(const char *cpu_max)
{
    char quota[32];
    size_t n = strcspn(cpu_max, " ");
    uint64_t q;
    uint64_t period;
    if (!cpu_max[n] || n >= sizeof quota)
        return 0;
    memcpy(quota, cpu_max, n);
    quota[n] = '\0';
    if (leat_parse_u64(quota, "quota", &q, NULL) != LEAT_OK ||
        leat_parse_u64(cpu_max + n, "period", &period, NULL) != LEAT_OK || !q || !period)
        return 0;
    uint64_t cpus = q / period + (q % period != 0);
    return cpus < UINT_MAX ? (unsigned)cpus : UINT_MAX;
}

unsigned leat_cgroup_cpus(const char *groups, const char *mount)
{
    char group[2048];
    char path[4096];
    char line[64];
    unsigned least = 0;
    if (!read_line(groups, "0::/", group, sizeof group))
        return 0; /* version 1, which is on its way out, has its quotas elsewhere */
    for (size_t n = strlen(group); n >= 3; n--) {
        if (group[n] && group[n] != '/')
            continue;
        snprintf(path, sizeof path, "%s%.*s/cpu.max", mount, (int)(n - 3), group + 3);
        unsigned cpus = read_line(path, "", line, sizeof line) ? parse_cpu_max(line) : 0;
        if (cpus && (!least || cpus < least))
            least = cpus;
    }
    return least;
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
    unsigned quota = leat_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota && quota < n ? quota : n;
}
