/* What this process may use of the machine: affinity and cgroups considered. */
#ifndef LEAT_BASE_LIMITS_H
#define LEAT_BASE_LIMITS_H

#include <stdint.h>

unsigned leat_cpu_count(void); /* at least 1 */

/* The smallest limit of cgroup version 2 on the way from a process's group up to the root that it can see: whole CPUs
 * (rounded up), bytes; 0: none. (In a container the group usually is that root; under systemd or Slurm it is some
 * levels below.) `groups` is /proc/PID/cgroup, `mount` where the groups are. */
unsigned leat_cgroup_cpus(const char *groups, const char *mount);
uint64_t leat_cgroup_memory(const char *groups, const char *mount);

/* What the processes of the group with the smallest limit of memory use, less the files in memory that the kernel would
 * drop first; 0: no group has a limit, or it is not known. */
uint64_t leat_cgroup_memory_used(const char *groups, const char *mount);

/* Bytes of memory: the machine's, or the smallest limit of the cgroups this process is in. */
uint64_t leat_memory_limit(void);

/* How much of that is available now without pushing anything out, as far as the kernel says. */
uint64_t leat_memory_available(void);

#endif
