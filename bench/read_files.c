/* Reads files of a folder on several threads, each the next one of a list, as workers of a loader do, and prints bytes
 * and seconds.
 *
 * read_files FOLDER THREADS < names, each followed by a NUL */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define AT_ONCE     (128u << 10) /* as cat */
#define THREADS_MAX 64

struct job {
    int folder;
    char **names;
    size_t n;
    _Atomic size_t next;
    _Atomic uint64_t bytes;
    _Atomic int failed;
};

static void *work(void *arg)
{
    struct job *j = arg;
    char *data = malloc(AT_ONCE);
    size_t i;
    while (data && (i = atomic_fetch_add(&j->next, 1)) < j->n) {
        int fd = openat(j->folder, j->names[i], O_RDONLY | O_CLOEXEC);
        ssize_t n = fd;
        while (n >= 0 && (n = read(fd, data, AT_ONCE)) > 0)
            atomic_fetch_add(&j->bytes, (uint64_t)n);
        if (n < 0) {
            perror(j->names[i]);
            atomic_store(&j->failed, 1);
        }
        if (fd >= 0)
            close(fd);
    }
    free(data);
    return NULL;
}

int main(int argc, char **argv)
{
    struct job j = {.folder = argc == 3 ? open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC) : -1};
    long threads = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    pthread_t ids[THREADS_MAX];
    char *name = NULL;
    size_t room = 0;
    size_t cap = 0;
    if (j.folder < 0 || threads < 1 || threads > THREADS_MAX)
        return 2;
    while (getdelim(&name, &room, '\0', stdin) > 0) {
        if (j.n == cap) {
            cap = cap ? 2 * cap : 1024;
            j.names = realloc(j.names, cap * sizeof *j.names);
        }
        if (!j.names || !(j.names[j.n++] = strdup(name)))
            return 1;
    }
    uint64_t begun = leat_now_ns();
    for (long i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, work, &j) != 0)
            return 1;
    }
    for (long i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    printf("%" PRIu64 " %.6f\n", atomic_load(&j.bytes), (double)(leat_now_ns() - begun) / 1e9);
    return atomic_load(&j.failed);
}
