/* What this process may use of the machine: affinity and cgroups considered. */
#ifndef LEAT_BASE_LIMITS_H
#define LEAT_BASE_LIMITS_H

#include <stdint.h>

unsigned leat_cpu_count(void); /* at least 1 */

/* CPUs that a line of cgroup v2's cpu.max ("QUOTA PERIOD" or "max PERIOD") allows, rounded up; 0: no limit. */
unsigned leat_cpu_quota(const char *cpu_max);

/* Bytes of memory: the machine's, or the smallest limit of the cgroups this process is in. */
uint64_t leat_memory_limit(void);

#endif
