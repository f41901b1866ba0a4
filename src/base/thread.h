/* Threads with names, and waits on the monotonic clock. */
#ifndef LEAT_BASE_THREAD_H
#define LEAT_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Starts a joinable thread with signals blocked, so that they reach the main thread only (faults excepted).
 * The name is shown by ps and gdb; 15 bytes of it count. */
leat_status leat_thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg,
                              struct leat_error *err);

/* A condition variable on the monotonic clock. */
void leat_cond_init(pthread_cond_t *cond);

/* Waits until signalled or until the deadline (LEAT_NEVER: no deadline); false when the deadline passed. */
bool leat_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline_ns);

/* The smallest CPU quota of cgroup version 2 on the way from a process's group up to the root that it can see, rounded
 * up to whole CPUs; 0: none. (In a container the group usually is that root; under systemd or Slurm it is some levels
 * below.) `groups` is /proc/PID/cgroup, `mount` where the groups are. */
unsigned leat_cgroup_cpus(const char *groups, const char *mount);

unsigned leat_cpu_count(void); /* this process may use: affinity and cgroup quota considered; at least 1 */

#endif
