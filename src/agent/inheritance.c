#include "agent/inheritance.h"

#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPUS_MAX       8192 /* more than any kernel is built for */
#define POLICY_DEFAULT 0    /* of set_mempolicy(2) and of ioprio_set(2), whose headers few systems have */
#define IOPRIO_PROCESS 1
#define OOM_SCORE      "/proc/self/oom_score_adj"

/* The kernel takes those of them that the cgroup has. */
static void take_cpus(void)
{
    cpu_set_t *all = CPU_ALLOC(CPUS_MAX);
    if (!all)
        return;
    memset(all, 0xff, CPU_ALLOC_SIZE(CPUS_MAX));
    sched_setaffinity(0, CPU_ALLOC_SIZE(CPUS_MAX), all);
    CPU_FREE(all);
    syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0);
}

static void take_priority(void)
{
    const struct sched_param ordinary = {0};
    sched_setscheduler(0, SCHED_OTHER, &ordinary);
    setpriority(PRIO_PROCESS, 0, 0);
    syscall(SYS_ioprio_set, IOPRIO_PROCESS, 0, POLICY_DEFAULT);
}

/* A rank that is spared when memory runs out does not mean its agent, which can be started again. */
static void take_oom_score(void)
{
    char text[16] = "";
    int fd = open(OOM_SCORE, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, text, sizeof text - 1) > 0 && text[0] == '-') {
        ssize_t ignored = pwrite(fd, "0", 1, 0);
        (void)ignored;
    }
    close(fd);
}

static void take_limits(void)
{
    static const int limits[] = {RLIMIT_NOFILE, RLIMIT_AS,    RLIMIT_DATA,    RLIMIT_RSS,
                                 RLIMIT_CPU,    RLIMIT_FSIZE, RLIMIT_MEMLOCK, RLIMIT_NPROC};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit l;
        if (getrlimit((__rlimit_resource_t)limits[i], &l) < 0 || l.rlim_cur == l.rlim_max)
            continue;
        l.rlim_cur = l.rlim_max;
        setrlimit((__rlimit_resource_t)limits[i], &l);
    }
}

void leat_inheritance_shed(void)
{
    take_cpus();
    take_priority();
    take_oom_score();
    take_limits();
    umask(077);
}
