/* leat doctor: the machine's cores, memory, limits and GPU. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/parse.h"
#include "cli/doctor.h"
#include "leat/leat.h"
#include "net/http.h"
#include "prep/kernels.h"

#define FILES_MIN    512u /* 256 connections, cache segments, sockets */
#define MEMORY_MIN   (1ull << 30)
#define SHM_MIN      (1ull << 30)
#define DRIVER_MIN   525 /* what CUDA 12, hence today's torch, asks for */
#define FAR_FROM_ALL 10  /* a tenth of the memory free is little */

void leat_doctor_version(struct leat_doctor *d, struct leat_findings *f)
{
    struct utsname u = {0};
    char library[100];
    (void)d;
    uname(&u);
    leat_findings_say(f, LEAT_HEALTH_OK, "version", "", "leat %s, %s, %s %s, %s", leat_version(),
                      leat_http_library(library, sizeof library), u.sysname, u.release, u.machine);
}

void leat_doctor_cores(struct leat_doctor *d, struct leat_findings *f)
{
    unsigned usable = leat_cpu_count();
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned quota = leat_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    const char *level = leat_kernels()->name;
    char few[80] = "";
    (void)d;
    if ((long)usable < online)
        snprintf(few, sizeof few, " of %ld (%s)", online, quota == usable ? "a limit of the cgroup" : "affinity");
    bool slow = strcmp(level, "scalar") == 0;
    leat_findings_say(f, slow ? LEAT_HEALTH_NOTE : LEAT_HEALTH_OK, "cores",
                      slow ? "Pictures are decoded two to three times faster on a processor with AVX2" : "",
                      "%u%s, decoding with %s", usable, few,
                      slow                           ? "plain code: this processor has no AVX2"
                      : strcmp(level, "avx512") == 0 ? "AVX-512"
                                                     : "AVX2");
    leat_findings_number(f, "cores", usable);
}

static void shared_memory(struct leat_findings *f)
{
    struct statvfs v;
    char size[LEAT_FORMAT_SIZE];
    int fd = memfd_create("leat-doctor", MFD_CLOEXEC);
    bool works = fd >= 0 && ftruncate(fd, 1 << 20) == 0 && fallocate(fd, 0, 0, 1 << 20) == 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (!works) {
        leat_findings_say(f, LEAT_HEALTH_BAD, "shared memory",
                          "Batches travel in it: allow memfd_create in the container's seccomp profile, and lift "
                          "'ulimit -f'",
                          "memfd_create does not work: %s", strerror(why));
        return;
    }
    if (statvfs("/dev/shm", &v) < 0) {
        leat_findings_say(f, LEAT_HEALTH_OK, "shared memory", "",
                          "memfd works; there is no /dev/shm, and Leat needs none");
        return;
    }
    uint64_t bytes = (uint64_t)v.f_blocks * v.f_frsize;
    bool small = bytes < SHM_MIN;
    leat_findings_say(f, small ? LEAT_HEALTH_NOTE : LEAT_HEALTH_OK, "shared memory",
                      small ? "Leat does not use it, but worker processes of a DataLoader do: --shm-size in Docker"
                            : "",
                      "memfd works, /dev/shm has %s", leat_format_size(bytes, size));
    leat_findings_number(f, "dev_shm_bytes", (double)bytes);
}

void leat_doctor_memory(struct leat_doctor *d, struct leat_findings *f)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t limit = leat_memory_limit();
    uint64_t available = leat_memory_available();
    uint64_t used = leat_cgroup_memory_used("/proc/self/cgroup", "/sys/fs/cgroup");
    char limit_text[LEAT_FORMAT_SIZE];
    char available_text[LEAT_FORMAT_SIZE];
    char preset[LEAT_FORMAT_SIZE];
    (void)d;
    if (used && limit > used && limit - used < available)
        available = limit - used;
    bool tight = available < MEMORY_MIN || available < limit / FAR_FROM_ALL;
    leat_findings_say(f, tight ? LEAT_HEALTH_NOTE : LEAT_HEALTH_OK, "memory",
                      tight ? "Give the job more, or less to the cache: ram= of the loader, or LEAT_RAM" : "",
                      "%s%s, %s of it free; an agent that is not told takes %s for chunks",
                      leat_format_size(limit, limit_text), limit < all ? " (a limit of the cgroup)" : "",
                      leat_format_size(available, available_text), leat_format_size(limit / 4, preset));
    leat_findings_number(f, "limit_bytes", (double)limit);
    leat_findings_number(f, "free_bytes", (double)available);
    shared_memory(f);
}

static const char *limit_text(rlim_t value, bool bytes, char out[LEAT_FORMAT_SIZE])
{
    if (value == RLIM_INFINITY)
        snprintf(out, LEAT_FORMAT_SIZE, "no limit");
    else if (bytes)
        leat_format_size(value, out);
    else
        snprintf(out, LEAT_FORMAT_SIZE, "%llu", (unsigned long long)value);
    return out;
}

void leat_doctor_limits(struct leat_doctor *d, struct leat_findings *f)
{
    struct rlimit files = {0};
    struct rlimit locked = {0};
    struct rlimit space = {0};
    char soft[LEAT_FORMAT_SIZE];
    char hard[LEAT_FORMAT_SIZE];
    char memlock[LEAT_FORMAT_SIZE];
    (void)d;
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_MEMLOCK, &locked);
    getrlimit(RLIMIT_AS, &space);
    bool few = files.rlim_max < FILES_MIN;
    leat_findings_say(f, few ? LEAT_HEALTH_BAD : LEAT_HEALTH_OK, "limits",
                      few ? "The agent opens some hundred files and connections: raise the hard limit (ulimit -Hn)"
                          : "",
                      "open files %s, at most %s; locked memory %s", limit_text(files.rlim_cur, false, soft),
                      limit_text(files.rlim_max, false, hard), limit_text(locked.rlim_cur, true, memlock));
    leat_findings_number(f, "open_files_max", files.rlim_max == RLIM_INFINITY ? -1 : (double)files.rlim_max);
    if (space.rlim_cur != RLIM_INFINITY)
        leat_findings_say(f, LEAT_HEALTH_NOTE, "address space",
                          "Lift 'ulimit -v': caches and rings are mapped, and CUDA needs far more than there is memory",
                          "limited to %s", limit_text(space.rlim_cur, true, soft));
}

void leat_doctor_uring(struct leat_doctor *d, struct leat_findings *f)
{
    struct io_uring_params params = {0};
    long fd = syscall(SYS_io_uring_setup, 1, &params);
    int why = errno;
    (void)d;
    if (fd >= 0)
        close((int)fd);
    leat_findings_say(f, LEAT_HEALTH_OK, "io_uring", "", "%s%s; Leat works without it",
                      fd >= 0 ? "allowed" : "not allowed: ", fd >= 0 ? "" : strerror(why));
}

/* The value of "NAME: …" in a small file; false: there is none. */
static bool read_value(const char *path, const char *name, char *out, size_t size)
{
    char line[300];
    bool got = false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!got && fgets(line, sizeof line, file))
        got = strncmp(line, name, strlen(name)) == 0;
    fclose(file);
    if (!got)
        return false;
    const char *value = line + strlen(name);
    value += strspn(value, ": \t");
    snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
    return true;
}

/* "NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue …": the number, "" when there is none. */
static void driver_number(const char *text, char *out, size_t size)
{
    const char *at = strpbrk(text, "0123456789");
    out[0] = '\0';
    while (at) {
        size_t n = strspn(at, "0123456789.");
        if (n > 4 && at[3] == '.' && at > text && at[-1] == ' ') {
            snprintf(out, size, "%.*s", (int)n, at);
            return;
        }
        at = strpbrk(at + n, "0123456789");
    }
}

/* GPUs that the driver knows, and the first one's name. */
static unsigned count_gpus(char *model, size_t size)
{
    static const char folder[] = "/proc/driver/nvidia/gpus";
    unsigned n = 0;
    DIR *dir = opendir(folder);
    const struct dirent *e;
    while (dir && (e = readdir(dir))) {
        char path[400];
        char name[100];
        snprintf(path, sizeof path, "%s/%.200s/information", folder, e->d_name);
        if (e->d_name[0] == '.' || !read_value(path, "Model", name, sizeof name))
            continue;
        if (n++ == 0)
            snprintf(model, size, "%s", name);
    }
    if (dir)
        closedir(dir);
    return n;
}

/* Devices that this process may open; *there counts those it sees at all. */
static unsigned count_devices(unsigned *there)
{
    unsigned open_n = 0;
    *there = 0;
    for (unsigned i = 0; i < 32; i++) {
        char path[40];
        snprintf(path, sizeof path, "/dev/nvidia%u", i);
        *there += access(path, F_OK) == 0;
        open_n += access(path, R_OK | W_OK) == 0;
    }
    return open_n;
}

void leat_doctor_gpu(struct leat_doctor *d, struct leat_findings *f)
{
    char model[100] = "";
    char version[300] = "";
    char driver[40] = "";
    unsigned there;
    uint64_t major = 0;
    (void)d;
    unsigned known = count_gpus(model, sizeof model);
    unsigned usable = count_devices(&there);
    if (read_value("/proc/driver/nvidia/version", "NVRM version", version, sizeof version))
        driver_number(version, driver, sizeof driver);
    if (!known && !there) {
        leat_findings_say(f, LEAT_HEALTH_OK, "gpu", "", "no NVIDIA GPU seen; batches stay in the memory of the CPU");
        return;
    }
    char number[8];
    snprintf(number, sizeof number, "%.*s", (int)strcspn(driver, "."), driver);
    if (leat_parse_u64(number, "driver", &major, NULL) != LEAT_OK)
        major = 0;
    if (!usable)
        leat_findings_say(f, LEAT_HEALTH_BAD, "gpu",
                          there
                              ? "Let this user read and write /dev/nvidia*"
                              : "Start the container with its GPUs (--gpus all), or make the devices: nvidia-modprobe",
                          "%u × %s, driver %s, but this process may not use %s", known, model, driver,
                          there ? "/dev/nvidia*" : "any: there is no /dev/nvidia0");
    else if (major && major < DRIVER_MIN)
        leat_findings_say(f, LEAT_HEALTH_NOTE, "gpu", "Update it: torch for CUDA 12 needs 525 or later",
                          "%u × %s, driver %s, which is old", usable, *model ? model : "NVIDIA GPU", driver);
    else
        leat_findings_say(f, LEAT_HEALTH_OK, "gpu", "", "%u × %s, driver %s", usable, *model ? model : "NVIDIA GPU",
                          *driver ? driver : "not said");
    leat_findings_number(f, "gpus", usable);
}
