/* Preloaded by tests/py: the wall clock as the file $STEP_CLOCK says, in seconds from the true one. The monotonic
 * clock stays as it is. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static long step_s(void)
{
    const char *path = getenv("STEP_CLOCK");
    FILE *f = path ? fopen(path, "re") : NULL;
    long step = 0;
    if (f && fscanf(f, "%ld", &step) != 1)
        step = 0;
    if (f)
        fclose(f);
    return step;
}

PUBLIC int clock_gettime(clockid_t id, struct timespec *out)
{
    long rc = syscall(SYS_clock_gettime, id, out);
    if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        out->tv_sec += step_s();
    return (int)rc;
}

PUBLIC time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

PUBLIC int gettimeofday(struct timeval *out, void *zone)
{
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    out->tv_sec = t.tv_sec;
    out->tv_usec = t.tv_nsec / 1000;
    return 0;
}
