#include "serve/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/walk.h"

struct leat_serve_folder {
    int fd;
    char *path;
    bool read_only;
    pthread_mutex_t mu;
    struct leat_serve_bucket *buckets; /* under mu */
};

leat_status leat_serve_folder_open(const char *dir, bool read_only, struct leat_serve_folder **out,
                                   struct leat_error *err)
{
    leat_status rc;
    struct leat_serve_folder *f = calloc(1, sizeof *f);
    if (!f)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to serve '%s'", dir);
    pthread_mutex_init(&f->mu, NULL);
    f->read_only = read_only;
    f->path = strdup(dir);
    f->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!f->path || f->fd < 0) {
        rc = f->path ? leat_fail_errno(err, errno, "cannot serve '%s'", dir)
                     : leat_fail(err, LEAT_NO_MEMORY, "no memory to serve '%s'", dir);
        goto fail;
    }
    if (!read_only && faccessat(f->fd, ".", W_OK, 0) != 0) {
        rc = leat_fail_errno(err, errno, "cannot write to '%s', so serve it with --read-only", dir);
        goto fail;
    }
    *out = f;
    return LEAT_OK;
fail:
    leat_serve_folder_close(f);
    return rc;
}

static void bucket_free(struct leat_serve_bucket *b)
{
    if (!b->folder->read_only) {
        /* Leave nothing of ours where nothing is kept. */
        static const char *const empty[] = {"tmp", "keys", "uploads", ""};
        int fd = leat_serve_walk(b->fd, LEAT_SERVE_RESERVED, false);
        for (size_t i = 0; fd >= 0 && i < sizeof empty / sizeof *empty; i++) {
            if (*empty[i])
                unlinkat(fd, empty[i], AT_REMOVEDIR);
            else
                unlinkat(b->fd, LEAT_SERVE_RESERVED, AT_REMOVEDIR);
        }
        if (fd >= 0)
            close(fd);
    }
    leat_serve_index_close(b->index);
    if (b->fd >= 0)
        close(b->fd);
    pthread_mutex_destroy(&b->mu);
    free(b->name);
    free(b);
}

void leat_serve_folder_close(struct leat_serve_folder *f)
{
    if (!f)
        return;
    while (f->buckets) {
        struct leat_serve_bucket *b = f->buckets;
        f->buckets = b->next;
        bucket_free(b);
    }
    if (f->fd >= 0)
        close(f->fd);
    pthread_mutex_destroy(&f->mu);
    free(f->path);
    free(f);
}

static bool name_valid(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > 255 || *name == '.')
        return false;
    for (const char *p = name; *p; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!plain && *p != '-' && *p != '.' && *p != '_')
            return false;
    }
    return true;
}

/* A writer holds a lock on its temporary file as long as it lives: those without one were left by a server
 * that was killed. */
static void remove_leftovers(int bucket_fd)
{
    int path = leat_serve_walk(bucket_fd, LEAT_SERVE_RESERVED "/tmp", false);
    int fd = path >= 0 ? openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *d;
    while (dir && (d = readdir(dir))) {
        int file = openat(fd, d->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file >= 0 && d->d_name[0] != '.' && flock(file, LOCK_EX | LOCK_NB) == 0)
            unlinkat(fd, d->d_name, 0);
        if (file >= 0)
            close(file);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    if (path >= 0)
        close(path);
}

static struct leat_serve_bucket *bucket_new(struct leat_serve_folder *f, const char *name, int fd, ino_t inode)
{
    struct leat_serve_bucket *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    pthread_mutex_init(&b->mu, NULL);
    b->fd = fd;
    b->folder = f;
    b->inode = inode;
    b->name = strdup(name);
    b->index = leat_serve_index_open(fd);
    if (!b->name || !b->index) {
        b->fd = -1;
        bucket_free(b);
        return NULL;
    }
    if (!f->read_only)
        remove_leftovers(fd);
    return b;
}

/* Takes a bucket out of the list; freed now, or by its last user. */
static void forget(struct leat_serve_folder *f, struct leat_serve_bucket *b)
{
    struct leat_serve_bucket **p = &f->buckets;
    while (*p != b)
        p = &(*p)->next;
    *p = b->next;
    if (b->users == 0)
        bucket_free(b);
    else
        b->inode = 0; /* not listed any more */
}

static leat_status get_locked(struct leat_serve_folder *f, const char *name, struct leat_serve_bucket **out,
                              struct leat_error *err)
{
    struct stat st;
    struct leat_serve_bucket *b = f->buckets;
    while (b && strcmp(b->name, name) != 0)
        b = b->next;
    /* A bucket may itself be a link to a folder elsewhere: the one that made it wanted it served. */
    int rc = name_valid(name) ? fstatat(f->fd, name, &st, 0) : -1;
    if (b && (rc != 0 || st.st_ino != b->inode)) {
        forget(f, b);
        b = NULL;
    }
    if (rc != 0 || !S_ISDIR(st.st_mode))
        return leat_fail(err, LEAT_NOT_FOUND, "there is no bucket '%s' in '%s'", name, f->path);
    if (!b) {
        int fd = openat(f->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return leat_fail_errno(err, errno, "cannot open the bucket '%s'", name);
        b = bucket_new(f, name, fd, st.st_ino);
        if (!b) {
            close(fd);
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the bucket '%s'", name);
        }
        b->next = f->buckets;
        f->buckets = b;
    }
    b->users++;
    *out = b;
    return LEAT_OK;
}

leat_status leat_serve_bucket_get(struct leat_serve_folder *f, const char *name, struct leat_serve_bucket **out,
                                  struct leat_error *err)
{
    pthread_mutex_lock(&f->mu);
    leat_status rc = get_locked(f, name, out, err);
    pthread_mutex_unlock(&f->mu);
    return rc;
}

void leat_serve_bucket_release(struct leat_serve_bucket *b)
{
    if (!b)
        return;
    struct leat_serve_folder *f = b->folder;
    pthread_mutex_lock(&f->mu);
    if (--b->users == 0 && b->inode == 0)
        bucket_free(b);
    pthread_mutex_unlock(&f->mu);
}
