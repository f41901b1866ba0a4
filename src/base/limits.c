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

/* The smallest value of a file on the way from a process's group up to the root that it can see; 0: no limit. */
static uint64_t least_in_groups(const char *groups, const char *mount, const char *file,
                                uint64_t (*value)(const char *))
{
    char group[2048];
    char path[4096];
    char line[64];
    uint64_t least = 0;
    if (!read_line(groups, "0::/", group, sizeof group))
        return 0; /* version 1, which is on its way out, has its limits elsewhere */
    for (size_t n = strlen(group); n >= 3; n--) {
        if (group[n] && group[n] != '/')
            continue;
        snprintf(path, sizeof path, "%s%.*s/%s", mount, (int)(n - 3), group + 3, file);
        uint64_t v = read_line(path, "", line, sizeof line) ? value(line) : 0;
        if (v && (!least || v < least))
            least = v;
    }
    return least;
}

/* CPUs that "QUOTA PERIOD" or "max PERIOD" allows, rounded up; 0: no limit. */
static uint64_t parse_cpu_max(const char *cpu_max)
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
    return cpus < UINT_MAX ? cpus : UINT_MAX;
}

static uint64_t parse_memory_max(const char *line)
{
    uint64_t bytes;
    return leat_parse_u64(line, "memory.max", &bytes, NULL) == LEAT_OK ? bytes : 0; /* "max": none */
}

unsigned leat_cgroup_cpus(const char *groups, const char *mount)
{
    return (unsigned)least_in_groups(groups, mount, "cpu.max", parse_cpu_max);
}

uint64_t leat_cgroup_memory(const char *groups, const char *mount)
{
    return least_in_groups(groups, mount, "memory.max", parse_memory_max);
}

/* The number after "NAME " in a file; 0: there is none. */
static uint64_t read_number(const char *folder, const char *file, const char *name)
{
    char path[4096];
    char line[128];
    uint64_t value;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    bool got =
        read_line(path, name, line, sizeof line) && leat_parse_u64(line + strlen(name), file, &value, NULL) == LEAT_OK;
    return got ? value : 0;
}

uint64_t leat_cgroup_memory_used(const char *groups, const char *mount)
{
    char group[2048];
    char folder[4096 - 64];
    uint64_t least = leat_cgroup_memory(groups, mount);
    if (!least || !read_line(groups, "0::/", group, sizeof group))
        return 0;
    for (size_t n = strlen(group); n >= 3; n--) {
        if (group[n] && group[n] != '/')
            continue;
        snprintf(folder, sizeof folder, "%s%.*s", mount, (int)(n - 3), group + 3);
        if (read_number(folder, "memory.max", "") != least)
            continue;
        uint64_t used = read_number(folder, "memory.current", "");
        uint64_t files = read_number(folder, "memory.stat", "inactive_file ");
        return used > files ? used - files : 0;
    }
    return 0;
}

uint64_t leat_memory_limit(void)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t allowed = leat_cgroup_memory("/proc/self/cgroup", "/sys/fs/cgroup");
    return allowed && allowed < all ? allowed : all;
}

uint64_t leat_memory_available(void)
{
    char line[128];
    uint64_t kilobytes;
    uint64_t limit = leat_memory_limit();
    const char *name = "MemAvailable:";
    if (!read_line("/proc/meminfo", name, line, sizeof line))
        return limit;
    char *number = line + strlen(name);
    number += strspn(number, " ");
    number[strspn(number, "0123456789")] = '\0';
    if (leat_parse_u64(number, name, &kilobytes, NULL) != LEAT_OK)
        return limit;
    return kilobytes < limit / 1024 ? kilobytes * 1024 : limit;
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
