/* Preloaded into an agent, counts the bytes that its event loop moves, shares and gives back, and those that all other
 * threads do: what is large must not be done on the loop, where every loader waits for it.
 *
 * $LEAT_TEST_LOOP_WATCH names a file of int64_t, shared with the test, four for the loop and four for the others: bytes
 * copied by calls for a kibibyte or more, freed in blocks of 64 KiB or more, unmapped, and made shared. */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { COPIED, FREED, UNMAPPED, SHARED, KINDS };

static _Atomic int64_t *control; /* 2 * KINDS of them */
static pthread_t loop;
static _Atomic bool loop_known;
static void *(*real_memcpy)(void *, const void *, size_t);
static int (*real_name)(pthread_t, const char *);

extern void __libc_free(void *p);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("LEAT_TEST_LOOP_WATCH");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    real_memcpy = (void *(*)(void *, const void *, size_t))dlsym(RTLD_NEXT, "memcpy");
    real_name = (int (*)(pthread_t, const char *))dlsym(RTLD_NEXT, "pthread_setname_np");
    if (fd < 0)
        return;
    void *map = mmap(NULL, 2 * KINDS * sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    control = map == MAP_FAILED ? NULL : map;
}

static void count(int kind, size_t bytes)
{
    if (!control || !loop_known)
        return;
    atomic_fetch_add(&control[kind + (pthread_equal(pthread_self(), loop) ? 0 : KINDS)], (int64_t)bytes);
}

EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
    if (strcmp(name, "leat-agent") == 0) {
        loop = thread;
        loop_known = true;
    }
    return real_name(thread, name);
}

EXPORT void *memcpy(void *to, const void *from, size_t n)
{
    if (n >= 1024)
        count(COPIED, n);
    if (real_memcpy)
        return real_memcpy(to, from, n);
    volatile char *t = to;
    for (size_t i = 0; i < n; i++)
        t[i] = ((const char *)from)[i];
    return to;
}

EXPORT void free(void *p)
{
    size_t n = p && loop_known ? malloc_usable_size(p) : 0;
    if (n >= 65536)
        count(FREED, n);
    __libc_free(p);
}

EXPORT int munmap(void *at, size_t n)
{
    count(UNMAPPED, n);
    return (int)syscall(SYS_munmap, at, n);
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t n)
{
    count(SHARED, (size_t)n);
    return (int)syscall(SYS_fallocate, fd, mode, offset, n);
}
