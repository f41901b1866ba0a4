#include "base/limits.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"

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

/* The smallest value of a file of cgroup v2 on the way from this process's group up to the root that it can see. In a
 * container its own group usually is that root; under systemd or Slurm it is some levels below. 0: no limit. */
static uint64_t least_in_groups(const char *file, uint64_t (*value)(const char *line))
{
    char group[2048];
    char path[2200];
    char line[64];
    uint64_t least = 0;
    if (!read_line("/proc/self/cgroup", "0::/", group, sizeof group))
        return 0; /* version 1, which is on its way out, has its limits elsewhere */
    for (size_t n = strlen(group); n >= 3; n--) {
        if (group[n] && group[n] != '/')
            continue;
        snprintf(path, sizeof path, "/sys/fs/cgroup%.*s/%s", (int)(n - 3), group + 3, file);
        uint64_t v = read_line(path, "", line, sizeof line) ? value(line) : 0;
        if (v && (!least || v < least))
            least = v;
    }
    return least;
}

unsigned leat_cpu_quota(const char *cpu_max)
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

static uint64_t quota_value(const char *line)
{
    return leat_cpu_quota(line);
}

static uint64_t memory_value(const char *line)
{
    uint64_t bytes;
    return leat_parse_u64(line, "memory.max", &bytes, NULL) == LEAT_OK ? bytes : 0; /* "max": none */
}

uint64_t leat_memory_limit(void)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t allowed = least_in_groups("memory.max", memory_value);
    return allowed && allowed < all ? allowed : all;
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
    unsigned quota = (unsigned)least_in_groups("cpu.max", quota_value);
    return quota && quota < n ? quota : n;
}
