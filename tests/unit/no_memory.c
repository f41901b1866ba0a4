/* Preloaded into a program, makes its allocations fail when told to: those of all threads and libraries, and the
 * mappings and shared memory behind rings and chunks.
 *
 * $LEAT_TEST_NO_MEMORY names a file of four int64_t, shared with the test: how many allocations there were, the number
 * of the first to fail, how many from there on, and how many have failed. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static struct {
    _Atomic int64_t seen;
    _Atomic int64_t from;
    _Atomic int64_t count;
    _Atomic int64_t failed;
} * control;

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void (*free)(void *);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*memfd_create)(const char *, unsigned);
    int (*fallocate)(int, int, off_t, off_t);
} real;

/* What is asked for while the real functions are being looked up; never given back. */
static _Alignas(16) char early[256 << 10];
static size_t early_used;

static void *take_early(size_t n)
{
    size_t at = (early_used + 15) & ~(size_t)15;
    if (n > sizeof early - at)
        abort();
    early_used = at + n;
    return early + at;
}

static bool is_early(const void *p)
{
    return (const char *)p >= early && (const char *)p < early + sizeof early;
}

/* Where libcurl is: version 7.88 divides by zero when a table of its own finds no memory, so its allocations succeed.
 */
static struct {
    uintptr_t first, behind;
} spared;

static int look_for_curl(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    (void)user;
    if (!strstr(info->dlpi_name, "libcurl"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > spared.behind)
            spared.behind = end;
    }
    spared.first = info->dlpi_addr;
    return 1;
}

static void *find(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f)
        abort();
    return f;
}

__attribute__((constructor)) static void begin(void)
{
    if (real.free)
        return;
    real.malloc = (void *(*)(size_t))find("malloc");
    real.calloc = (void *(*)(size_t, size_t))find("calloc");
    real.realloc = (void *(*)(void *, size_t))find("realloc");
    real.aligned_alloc = (void *(*)(size_t, size_t))find("aligned_alloc");
    real.posix_memalign = (int (*)(void **, size_t, size_t))find("posix_memalign");
    real.mmap = (void *(*)(void *, size_t, int, int, int, off_t))find("mmap");
    real.memfd_create = (int (*)(const char *, unsigned))find("memfd_create");
    real.fallocate = (int (*)(int, int, off_t, off_t))find("fallocate");
    real.free = (void (*)(void *))find("free");
    dl_iterate_phdr(look_for_curl, NULL);
    const char *path = getenv("LEAT_TEST_NO_MEMORY");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = real.mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    control = map == MAP_FAILED ? NULL : map;
}

/* The first few allocations of a thread succeed: they are those of a sanitizer that makes itself known to it, and that
 * ends the process when it finds no memory. */
#define YOUNG 4
static _Thread_local unsigned allocations __attribute__((tls_model("initial-exec")));

static bool fails(const void *caller)
{
    if (!control || ((uintptr_t)caller >= spared.first && (uintptr_t)caller < spared.behind))
        return false;
    if (allocations < YOUNG) {
        allocations++;
        return false;
    }
    int64_t behind = atomic_fetch_add(&control->seen, 1) - control->from;
    if (behind < 0 || behind >= control->count)
        return false;
    atomic_fetch_add(&control->failed, 1);
    errno = ENOMEM;
    return true;
}

#define FAILS fails(__builtin_return_address(0))

EXPORT void *malloc(size_t n)
{
    if (!real.free)
        return take_early(n);
    return FAILS ? NULL : real.malloc(n);
}

EXPORT void *calloc(size_t n, size_t size)
{
    if (!real.free)
        return take_early(n * size); /* is zero: it is used once */
    return FAILS ? NULL : real.calloc(n, size);
}

EXPORT void *realloc(void *p, size_t n)
{
    if (!real.free || is_early(p)) {
        void *to = real.free ? real.malloc(n) : take_early(n);
        size_t most = p ? (size_t)(early + sizeof early - (char *)p) : 0;
        if (to && p)
            memcpy(to, p, n < most ? n : most);
        return to;
    }
    return FAILS ? NULL : real.realloc(p, n);
}

EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return FAILS ? NULL : real.realloc(p, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t n)
{
    return FAILS ? NULL : real.aligned_alloc(alignment, n);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t n)
{
    return FAILS ? ENOMEM : real.posix_memalign(out, alignment, n);
}

EXPORT void free(void *p)
{
    if (real.free && !is_early(p))
        real.free(p);
}

EXPORT void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (!real.mmap)
        begin();
    return FAILS ? MAP_FAILED : real.mmap(at, n, protection, flags, fd, offset);
}

EXPORT int memfd_create(const char *name, unsigned flags)
{
    return FAILS ? -1 : real.memfd_create(name, flags);
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t n)
{
    return FAILS ? -1 : real.fallocate(fd, mode, offset, n);
}
