/* The folder of a disk cache as it is found: at the opening, and looked at again now and then. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cache/disk_impl.h"

#define STALE_S 3600 /* an unfinished file of that age is nobody's */

/* Hold mu. Puts a segment's chunks into the index. Those that are there already are removed when they are ours. */
static void index_chunks(struct leat_disk *d, struct leat_segment *s)
{
    d->stats.damaged += s->torn;
    for (uint32_t i = 0; i < s->slots_n; i++) {
        struct leat_segment_slot *e = &s->slots[i];
        if (e->state != LEAT_SLOT_LIVE)
            continue;
        bool twice = leat_disk_index_find(&d->index, e->name).segment != NULL;
        if (!twice) {
            leat_disk_index_add(&d->index, (struct leat_disk_place){s, i});
            *(s->ours ? &d->used : &d->shared) += leat_segment_footprint(e->bytes);
            continue;
        }
        leat_segment_set_dead(s, i);
        if (s->ours)
            leat_disk_bury(s, i);
    }
}

static uint64_t allocated(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* Opens a segment and reads its table. Damaged ones are removed, others' files left alone: *out is NULL then. */
static leat_status load(struct leat_disk *d, int folder, const char *file, struct leat_segment **out,
                        struct leat_error *err)
{
    struct leat_segment *s = NULL;
    leat_status rc = leat_segment_open(folder, file, &s, err);
    *out = NULL;
    if (rc == LEAT_OK) {
        leat_segment_claim(s);
        rc = leat_segment_scan(s, err);
    }
    if (rc == LEAT_OK) {
        *out = s;
        return LEAT_OK;
    }
    leat_segment_close(s);
    if (rc == LEAT_NO_MEMORY || rc == LEAT_LIMIT)
        return rc;
    if (rc == LEAT_NOT_FOUND)
        return LEAT_OK; /* removed meanwhile */
    if (rc == LEAT_CORRUPT) {
        d->stats.damaged++;
        leat_segment_discard(folder, file);
    }
    leat_disk_say(d, err, rc == LEAT_CORRUPT ? "removed" : "left alone");
    return LEAT_OK;
}

static void remove_unfinished(int folder, const char *file)
{
    struct stat st;
    size_t n = strlen(file);
    if (n == 20 && strcmp(file + 16, ".new") == 0 && fstatat(folder, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(st.st_mode) && st.st_mtime + STALE_S < leat_wall_s())
        leat_segment_discard(folder, file);
}

static leat_status open_list(int folder, DIR **out, struct leat_error *err)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int e = errno;
        if (fd >= 0)
            close(fd);
        return leat_fail_errno(err, e, "cannot list the cache folder");
    }
    *out = dir;
    return LEAT_OK;
}

static leat_status settle_budget(struct leat_disk *d, struct leat_error *err)
{
    struct leat_disk_folder_space space;
    leat_status rc = leat_disk_folder_space(d->folder, &space, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t have = d->used + d->foreign;
    uint64_t room = space.free > space.reserve ? space.free - space.reserve : 0;
    if (d->budget == 0)
        d->budget = (have + room) / 2 > LEAT_DISK_BUDGET_MIN ? (have + room) / 2 : LEAT_DISK_BUDGET_MIN;
    d->limit = d->budget;
    if (d->limit > have + room)
        d->limit = have + room;
    bool changed;
    leat_disk_report(d, &changed);
    return LEAT_OK;
}

leat_status leat_disk_scan(struct leat_disk *d, struct leat_error *err)
{
    DIR *dir = NULL;
    struct dirent *entry;
    leat_status rc = open_list(d->folder, &dir, err);
    if (rc != LEAT_OK)
        return rc;
    while (rc == LEAT_OK && (entry = readdir(dir))) {
        struct leat_segment *s;
        if (!leat_segment_is_name(entry->d_name)) {
            remove_unfinished(d->folder, entry->d_name);
            continue;
        }
        rc = load(d, d->folder, entry->d_name, &s, err);
        if (rc != LEAT_OK || !s)
            continue;
        if (!leat_disk_index_reserve(&d->index, s->live) || !leat_disk_keep_segment(d, s)) {
            leat_segment_close(s);
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
            continue;
        }
        index_chunks(d, s);
        if (!s->ours)
            d->foreign += allocated(s->fd);
    }
    closedir(dir);
    return rc == LEAT_OK ? settle_budget(d, err) : rc;
}

void leat_disk_look(struct leat_disk *d)
{
    (void)d;
}
