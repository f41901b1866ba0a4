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
    if (rc == EAGAIN)
        return leat_fail(err, LEAT_LIMIT, "cannot start the thread '%s': no memory, or too many of them", name);
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
