#include "serve/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMPONENT_MAX 255
#define PATH_BYTES    4096

static int enter(int dir, const char *name, bool make)
{
    int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir, name, flags);
    if (fd >= 0 || errno != ENOENT || !make)
        return fd >= 0 ? fd : -errno;
    if (mkdirat(dir, name, 0777) != 0 && errno != EEXIST)
        return -errno;
    fd = openat(dir, name, flags);
    return fd >= 0 ? fd : -errno;
}

void leat_serve_walk_end(int base, int fd)
{
    if (fd >= 0 && fd != base)
        close(fd);
}

int leat_serve_walk(int base, const char *path, bool make)
{
    int fd = base;
    while (*path) {
        char name[COMPONENT_MAX + 1];
        size_t n = strcspn(path, "/");
        if (n > COMPONENT_MAX) {
            leat_serve_walk_end(base, fd);
            return -ENAMETOOLONG;
        }
        memcpy(name, path, n);
        name[n] = '\0';
        path += path[n] ? n + 1 : n;
        int next = enter(fd, name, make);
        leat_serve_walk_end(base, fd);
        if (next < 0)
            return next;
        fd = next;
    }
    return fd;
}

int leat_serve_walk_parent(int base, const char *path, bool make, const char **leaf)
{
    char parent[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof parent)
        return -ENAMETOOLONG;
    memcpy(parent, path, n);
    parent[n] = '\0';
    *leaf = slash ? slash + 1 : path;
    return leat_serve_walk(base, parent, make);
}

unsigned long leat_serve_walk_prune(int base, const char *path)
{
    char folder[PATH_BYTES];
    size_t n = strlen(path);
    if (n >= sizeof folder)
        return n;
    memcpy(folder, path, n + 1);
    for (;;) {
        char *slash = strrchr(folder, '/');
        if (!slash)
            return 0;
        *slash = '\0';
        const char *leaf;
        int parent = leat_serve_walk_parent(base, folder, false, &leaf);
        if (parent < 0)
            return strlen(folder) + 1;
        int rc = unlinkat(parent, leaf, AT_REMOVEDIR);
        leat_serve_walk_end(base, parent);
        if (rc != 0)
            return strlen(folder) + 1;
    }
}
