#include "agent/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <unistd.h>

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* Whether this is the file that has the lock's name. */
static bool named(const struct leat_names *n, int fd)
{
    struct stat mine;
    struct stat there;
    return fstat(fd, &mine) == 0 && stat(n->paths.lock, &there) == 0 && same(&mine, &there);
}

/* The lock's file goes with its agent, so a lock is only good on the file that still has the name. */
leat_status leat_names_lock(struct leat_names *n, struct leat_error *err)
{
    for (;;) {
        int fd = open(n->paths.lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return leat_fail_errno(err, errno, "cannot open '%s'", n->paths.lock);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            int e = errno;
            close(fd);
            if (e == EWOULDBLOCK)
                return leat_fail(err, LEAT_BUSY, "another agent holds '%s'", n->paths.lock);
            return leat_fail_errno(err, e, "cannot lock '%s'", n->paths.lock);
        }
        if (named(n, fd)) {
            if (n->lock_fd >= 0)
                close(n->lock_fd); /* of a file without a name */
            n->lock_fd = fd;
            return LEAT_OK;
        }
        close(fd);
    }
}

leat_status leat_names_listen(struct leat_names *n, int *fd, struct leat_error *err)
{
    leat_status rc = leat_wire_listen(&n->paths, fd, err);
    if (rc == LEAT_OK && lstat(n->paths.socket, &n->socket) < 0)
        n->socket = (struct stat){0}; /* gone already: seen at the next look */
    return rc;
}

/* What is written to a log without a name, nobody reads. */
static void keep_log(const struct leat_names *n)
{
    struct stat log;
    if (fstat(STDERR_FILENO, &log) < 0 || !S_ISREG(log.st_mode) || log.st_nlink)
        return;
    int fd = open(n->paths.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    dup2(fd, STDERR_FILENO);
    close(fd);
}

leat_status leat_names_keep(struct leat_names *n, int *fd, struct leat_error *err)
{
    struct stat there;
    *fd = -1;
    if (named(n, n->lock_fd)) {
        keep_log(n);
        if (lstat(n->paths.socket, &there) == 0 && same(&there, &n->socket))
            return LEAT_OK;
    } else {
        mkdir(n->paths.folder, 0700); /* where it is missing and cannot be made, the lock cannot either */
        leat_status rc = leat_names_lock(n, err);
        if (rc != LEAT_OK)
            return rc;
        keep_log(n);
    }
    leat_status rc = leat_names_listen(n, fd, err);
    return rc == LEAT_OK ? leat_fail(err, LEAT_NOT_FOUND, "'%s' had been removed", n->paths.socket) : rc;
}

void leat_names_hide(struct leat_names *n)
{
    struct stat there;
    if (n->lock_fd >= 0 && named(n, n->lock_fd) && lstat(n->paths.socket, &there) == 0 && same(&there, &n->socket))
        unlink(n->paths.socket);
}

void leat_names_drop(struct leat_names *n)
{
    struct stat log;
    if (n->lock_fd < 0)
        return;
    leat_names_hide(n);
    if (named(n, n->lock_fd)) {
        if (stat(n->paths.log, &log) == 0 && log.st_size == 0)
            unlink(n->paths.log);
        unlink(n->paths.lock); /* while it is locked: see leat_names_lock() */
    }
    close(n->lock_fd);
    n->lock_fd = -1;
}
