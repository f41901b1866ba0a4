#include "fail_io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"

#define PAGE   4096
#define SECTOR 512

static struct {
    atomic_int os_error;
    atomic_long good;
    _Atomic uint64_t least;
    atomic_bool hang;
    atomic_uint hanging;
    _Atomic uint64_t delay_ns;
} plan[FAIL_IO_CALLS];

static _Atomic uint64_t free_space = UINT64_MAX;

void fail_io(enum fail_io_call call, int os_error, long good, uint64_t least)
{
    plan[call].good = good;
    plan[call].least = least;
    plan[call].os_error = os_error;
}

void fail_io_hang(enum fail_io_call call, bool hang)
{
    plan[call].hang = hang;
}

unsigned fail_io_hanging(enum fail_io_call call)
{
    return plan[call].hanging;
}

void fail_io_delay(enum fail_io_call call, uint64_t ns)
{
    plan[call].delay_ns = ns;
}

void fail_io_free_space(uint64_t bytes)
{
    free_space = bytes;
}

void fail_io_reset(void)
{
    for (int i = 0; i < FAIL_IO_CALLS; i++) {
        fail_io((enum fail_io_call)i, 0, 0, 0);
        fail_io_hang((enum fail_io_call)i, false);
        fail_io_delay((enum fail_io_call)i, 0);
    }
    fail_io_free_space(UINT64_MAX);
}

static bool fails(enum fail_io_call call, uint64_t bytes)
{
    if (bytes >= plan[call].least) {
        plan[call].hanging++;
        if (plan[call].delay_ns)
            leat_sleep_until(leat_after(plan[call].delay_ns));
        while (plan[call].hang)
            leat_sleep_until(leat_after(LEAT_MS));
        plan[call].hanging--;
    }
    int e = plan[call].os_error;
    if (!e || bytes < plan[call].least || atomic_fetch_sub(&plan[call].good, 1) > 0)
        return false;
    errno = e;
    return true;
}

/* --- power --- */

struct page {
    int fd; /* a descriptor of our own: the file may be closed before the power goes */
    dev_t device;
    ino_t inode;
    off_t at;
    uint8_t before[PAGE];
};

static struct {
    pthread_mutex_t mu;
    bool on;
    struct page *pages;
    size_t n;
    size_t cap;
} power = {.mu = PTHREAD_MUTEX_INITIALIZER};

ssize_t __real_pread64(int fd, void *data, size_t n, off_t at);
ssize_t __real_pwrite64(int fd, const void *data, size_t n, off_t at);
int __real_fallocate64(int fd, int mode, off_t at, off_t n);
int __real_fstatvfs64(int fd, struct statvfs *out);
int __real_openat64(int folder, const char *file, int flags, ...);
int __real_link(const char *from, const char *to);
int __real_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags);
int __real_renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags);
int __real_flock(int fd, int operation);

/* Hold mu. */
static void note_page(int fd, const struct stat *st, off_t at)
{
    int own = -1;
    for (size_t i = 0; i < power.n; i++) {
        const struct page *p = &power.pages[i];
        if (p->device != st->st_dev || p->inode != st->st_ino)
            continue;
        own = p->fd;
        if (p->at == at)
            return; /* what was there when the power came is noted already */
    }
    if (power.n == power.cap) {
        power.cap = power.cap ? 2 * power.cap : 256;
        power.pages = realloc(power.pages, power.cap * sizeof *power.pages);
        if (!power.pages)
            abort();
    }
    if (own < 0) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        own = open(path, O_RDWR | O_CLOEXEC);
        if (own < 0)
            abort();
    }
    struct page *p = &power.pages[power.n++];
    *p = (struct page){.fd = own, .device = st->st_dev, .inode = st->st_ino, .at = at};
    if (__real_pread64(own, p->before, PAGE, at) < 0)
        abort();
}

static void note(int fd, off_t at, off_t n)
{
    struct stat st;
    pthread_mutex_lock(&power.mu);
    if (power.on && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        for (off_t page = at / PAGE * PAGE; page < at + n; page += PAGE)
            note_page(fd, &st, page);
    }
    pthread_mutex_unlock(&power.mu);
}

void fail_io_power_on(void)
{
    pthread_mutex_lock(&power.mu);
    power.on = true;
    pthread_mutex_unlock(&power.mu);
}

static void put_back(const struct page *p, struct leat_rng *r)
{
    uint64_t what = leat_rng_below(r, 4); /* 0, 1: it had reached the disk */
    for (int sector = 0; sector < PAGE / SECTOR && what >= 2; sector++) {
        bool torn = what == 3 && leat_rng_below(r, 2);
        if (!torn && __real_pwrite64(p->fd, p->before + SECTOR * sector, SECTOR, p->at + SECTOR * sector) != SECTOR)
            abort();
    }
}

void fail_io_power_cut(uint64_t seed)
{
    struct leat_rng r = leat_rng(seed, 1);
    pthread_mutex_lock(&power.mu);
    for (size_t i = 0; i < power.n; i++)
        put_back(&power.pages[i], &r);
    for (size_t i = 0; i < power.n; i++) {
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first = first && power.pages[k].fd != power.pages[i].fd;
        if (first)
            close(power.pages[i].fd);
    }
    free(power.pages);
    power.pages = NULL;
    power.n = power.cap = 0;
    power.on = false;
    pthread_mutex_unlock(&power.mu);
}

/* --- the calls --- */

ssize_t __wrap_pread64(int fd, void *data, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *data, size_t n, off_t at)
{
    return fails(FAIL_IO_READ, n) ? -1 : __real_pread64(fd, data, n, at);
}

ssize_t __wrap_pwrite64(int fd, const void *data, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t n, off_t at)
{
    if (fails(FAIL_IO_WRITE, n))
        return -1;
    note(fd, at, (off_t)n);
    return __real_pwrite64(fd, data, n, at);
}

int __wrap_fallocate64(int fd, int mode, off_t at, off_t n);
int __wrap_fallocate64(int fd, int mode, off_t at, off_t n)
{
    if (fails(FAIL_IO_PUNCH, (uint64_t)n))
        return -1;
    note(fd, at, n);
    return __real_fallocate64(fd, mode, at, n);
}

int __wrap_openat64(int folder, const char *file, int flags, ...);
int __wrap_openat64(int folder, const char *file, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    if ((flags & O_DIRECT) && fails(FAIL_IO_DIRECT, UINT64_MAX))
        return -1;
    return (flags & O_CREAT) && fails(FAIL_IO_MAKE, UINT64_MAX) ? -1 : __real_openat64(folder, file, flags, mode);
}

int __wrap_fstatvfs64(int fd, struct statvfs *out);
int __wrap_fstatvfs64(int fd, struct statvfs *out)
{
    int rc = __real_fstatvfs64(fd, out);
    if (rc == 0 && free_space != UINT64_MAX)
        out->f_bavail = free_space / out->f_frsize;
    return rc;
}

int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to)
{
    return fails(FAIL_IO_LINK, 0) ? -1 : __real_link(from, to);
}

int __wrap_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags);
int __wrap_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    return fails(FAIL_IO_LINK, 0) ? -1 : __real_linkat(from_folder, from, to_folder, to, flags);
}

int __wrap_renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags);
int __wrap_renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return fails(FAIL_IO_RENAME_NEW, 0) ? -1 : __real_renameat2(from_folder, from, to_folder, to, flags);
}

int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    return fails(FAIL_IO_LOCK, 0) ? -1 : __real_flock(fd, operation);
}
