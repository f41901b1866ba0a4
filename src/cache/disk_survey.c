#include "cache/disk_survey.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/disk_folder.h"
#include "cache/segment.h"

static bool in_use(int fd)
{
    bool used = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    if (!used)
        flock(fd, LOCK_UN);
    return used;
}

/* Calls `each` for every private file of this user that is called as segments are. */
static leat_status each_file(const char *dir, bool unfinished,
                             void (*each)(void *user, int folder, const char *file, int fd, const struct stat *st),
                             void *user, struct leat_error *err)
{
    int folder;
    leat_status rc = leat_disk_folder_open(dir, false, &folder, err);
    if (rc != LEAT_OK)
        return rc;
    DIR *list = fdopendir(folder);
    if (!list) {
        rc = leat_fail_errno(err, errno, "cannot list the cache folder '%s'", dir);
        close(folder);
        return rc;
    }
    struct dirent *entry;
    while ((entry = readdir(list))) {
        struct stat st;
        bool fresh = strlen(entry->d_name) == 20 && strcmp(entry->d_name + 16, ".new") == 0;
        if (!leat_segment_is_name(entry->d_name) && !(fresh && unfinished))
            continue;
        int fd = openat(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
            each(user, folder, entry->d_name, fd, &st);
        close(fd);
    }
    closedir(list);
    return LEAT_OK;
}

struct survey {
    void (*each)(void *user, const struct leat_disk_segment_info *info);
    void *user;
};

static void describe(void *user, int folder, const char *file, int fd, const struct stat *st)
{
    struct survey *survey = user;
    struct leat_segment *s = NULL;
    struct leat_disk_segment_info info = {
        .file = file, .allocated = (uint64_t)st->st_blocks * 512, .changed_s = st->st_mtime, .in_use = in_use(fd)};
    if (leat_segment_open(folder, file, &s, NULL) == LEAT_OK && leat_segment_scan(s, NULL) == LEAT_OK) {
        info.chunks = s->live;
        for (uint32_t i = 0; i < s->slots_n; i++)
            info.bytes += s->slots[i].state == LEAT_SLOT_LIVE ? s->slots[i].bytes : 0;
        info.made_s = s->made_s;
        info.owner = info.in_use ? s->owner : 0;
    } else {
        info.damaged = true;
    }
    leat_segment_close(s);
    survey->each(survey->user, &info);
}

leat_status leat_disk_survey(const char *dir, void (*each)(void *user, const struct leat_disk_segment_info *info),
                             void *user, struct leat_error *err)
{
    struct survey survey = {.each = each, .user = user};
    return each_file(dir, false, describe, &survey, err);
}

struct clearing {
    bool force;
    struct leat_disk_cleared done;
    int os_error;
};

static void clear_one(void *user, int folder, const char *file, int fd, const struct stat *st)
{
    struct clearing *c = user;
    uint64_t bytes = (uint64_t)st->st_blocks * 512;
    /* The lock is kept until the file is gone: nobody takes it over in between. */
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK && !c->force) {
        c->done.kept++;
        c->done.kept_bytes += bytes;
    } else if (unlinkat(folder, file, 0) == 0) {
        c->done.removed++;
        c->done.freed += bytes;
    } else if (errno != ENOENT) {
        c->os_error = errno;
    }
}

leat_status leat_disk_clear(const char *dir, bool force, struct leat_disk_cleared *out, struct leat_error *err)
{
    struct clearing c = {.force = force};
    leat_status rc = each_file(dir, true, clear_one, &c, err);
    if (rc == LEAT_OK && c.os_error)
        rc = leat_fail_errno(err, c.os_error, "cannot remove segments from '%s'", dir);
    if (rc == LEAT_OK)
        *out = c.done;
    return rc;
}
