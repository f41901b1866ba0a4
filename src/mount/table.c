#include "mount/table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM_LEAST ((uint64_t)64 << 10)

static const char *folder(void)
{
    const char *given = getenv("TMPDIR");
    return given && *given ? given : "/var/tmp";
}

static int make_file(void)
{
    char path[4096];
    int fd = open(folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        int n = snprintf(path, sizeof path, "%s/leat-XXXXXX", folder());
        fd = n > 0 && (size_t)n < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
        if (fd >= 0)
            unlink(path);
    }
    return fd;
}

static leat_status grow(struct leat_table *t, uint64_t least, struct leat_error *err)
{
    uint64_t room = t->room ? 2 * t->room : ROOM_LEAST;
    while (room < least)
        room *= 2;
    int fd = t->room ? t->fd : make_file();
    if (fd < 0)
        return leat_fail_errno(err, errno, "cannot make a temporary file in %s (TMPDIR says where)", folder());
    int failed = posix_fallocate(fd, 0, (off_t)room);
    void *data = MAP_FAILED;
    if (!failed) {
        data = t->room ? mremap(t->data, t->room, room, MREMAP_MAYMOVE)
                       : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        failed = data == MAP_FAILED ? errno : 0;
    }
    if (failed) {
        if (!t->room)
            close(fd);
        return leat_fail_errno(
            err, failed, "no room for %" PRIu64 " bytes of a temporary file in %s (TMPDIR says where)", room, folder());
    }
    t->fd = fd;
    t->data = data;
    t->room = room;
    return LEAT_OK;
}

leat_status leat_table_add(struct leat_table *t, uint64_t n, void **out, struct leat_error *err)
{
    if (n > (uint64_t)1 << 46 || t->used > (uint64_t)1 << 46)
        return leat_fail(err, LEAT_LIMIT, "a table of %" PRIu64 " bytes is too large", t->used + n);
    if (t->used + n > t->room) {
        leat_status rc = grow(t, t->used + n, err);
        if (rc != LEAT_OK)
            return rc;
    }
    *out = (char *)t->data + t->used;
    t->used += n;
    return LEAT_OK;
}

void leat_table_close(struct leat_table *t)
{
    if (t->room) {
        munmap(t->data, t->room);
        close(t->fd);
    }
    *t = (struct leat_table){0};
}
