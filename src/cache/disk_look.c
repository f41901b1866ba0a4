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

#define AHEAD_BYTES (64 << 10) /* the table of a thousand chunks */
#define STALE_S     3600       /* an unfinished file of that age is nobody's */

/* Hold mu. Puts a segment's chunks into the index. Those that are there already are removed when they are ours. */
static void index_chunks(struct leat_disk *d, struct leat_segment *s)
{
    d->stats.damaged += s->ours ? s->torn : 0; /* of another's it may be half written */
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
    if (rc == LEAT_CORRUPT)
        leat_segment_discard(folder, file);
    pthread_mutex_lock(&d->mu);
    d->stats.damaged += rc == LEAT_CORRUPT;
    leat_disk_say(d, err, rc == LEAT_CORRUPT ? "removed" : "left alone");
    pthread_mutex_unlock(&d->mu);
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

/* Asks for the beginnings of all segments at once, so that the disk has them ready when they are read one by one. */
static void read_ahead(int folder, DIR *dir)
{
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        int fd = leat_segment_is_name(entry->d_name)
                     ? openat(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                     : -1;
        if (fd < 0)
            continue;
        posix_fadvise(fd, 0, AHEAD_BYTES, POSIX_FADV_WILLNEED);
        close(fd);
    }
    rewinddir(dir);
}

leat_status leat_disk_scan(struct leat_disk *d, struct leat_error *err)
{
    DIR *dir = NULL;
    struct dirent *entry;
    size_t chunks = 0;
    leat_status rc = open_list(d->folder, &dir, err);
    if (rc != LEAT_OK)
        return rc;
    read_ahead(d->folder, dir);
    while (rc == LEAT_OK && (entry = readdir(dir))) {
        struct leat_segment *s;
        if (!leat_segment_is_name(entry->d_name)) {
            remove_unfinished(d->folder, entry->d_name);
            continue;
        }
        rc = load(d, d->folder, entry->d_name, &s, err);
        if (rc != LEAT_OK || !s)
            continue;
        if (!leat_disk_keep_segment(d, s)) {
            leat_segment_close(s);
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
            continue;
        }
        chunks += s->live;
        if (s->ours)
            leat_segment_reserve(s, s->taken_bytes); /* its last owner may have reserved more */
        else
            d->foreign += leat_segment_reserved(s->fd);
    }
    closedir(dir);
    if (rc == LEAT_OK && !leat_disk_index_reserve(&d->index, chunks)) /* once: growing means moving all */
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    for (size_t i = 0; rc == LEAT_OK && i < d->segments_n; i++)
        index_chunks(d, d->segments[i]);
    return rc == LEAT_OK ? settle_budget(d, err) : rc;
}

/* --- looking again --- */

struct found {
    uint8_t name[32];
    uint64_t bytes;
};

/* Hold mu. Puts what a look has read of a segment in the place of what was known of it (`old`, or NULL). Chunks that
 * the caller has not heard of are returned, or not kept when it does not want to hear. NULL: none, or no memory. */
static struct found *absorb(struct leat_disk *d, struct leat_segment *fresh, struct leat_segment *old, size_t *n)
{
    bool *known = calloc(fresh->slots_n ? fresh->slots_n : 1, sizeof *known);
    struct found *news = calloc(fresh->live ? fresh->live : 1, sizeof *news);
    *n = 0;
    if (!known || !news || !leat_disk_index_reserve(&d->index, fresh->live) || !leat_disk_keep_segment(d, fresh)) {
        leat_segment_close(fresh);
        free(known);
        free(news);
        return NULL;
    }
    for (uint32_t i = 0; i < fresh->slots_n; i++)
        known[i] = fresh->slots[i].state == LEAT_SLOT_LIVE &&
                   leat_disk_index_find(&d->index, fresh->slots[i].name).segment != NULL;
    if (old)
        leat_disk_drop_segment(d, old);
    for (uint32_t i = 0; i < fresh->slots_n; i++) {
        struct leat_segment_slot *e = &fresh->slots[i];
        if (e->state != LEAT_SLOT_LIVE || known[i])
            continue;
        if (d->found) {
            memcpy(news[*n].name, e->name, sizeof e->name);
            news[(*n)++].bytes = e->bytes;
            continue;
        }
        leat_segment_set_dead(fresh, i);
        if (fresh->ours)
            leat_disk_bury(fresh, i);
    }
    index_chunks(d, fresh);
    free(known);
    return news;
}

/* Hold mu. */
static struct leat_segment *by_file(const struct leat_disk *d, const char *file)
{
    for (size_t i = 0; i < d->segments_n; i++) {
        if (strcmp(d->segments[i]->file, file) == 0)
            return d->segments[i];
    }
    return NULL;
}

void leat_disk_reserve(struct leat_disk *d, const struct leat_segment *s)
{
    pthread_mutex_lock(&d->reserving);
    pthread_mutex_lock(&d->mu);
    uint64_t bytes = s->taken_bytes;
    pthread_mutex_unlock(&d->mu);
    leat_segment_reserve(s, bytes);
    pthread_mutex_unlock(&d->reserving);
}

/* What a file takes, unless it is a segment of ours. False: that is not known now. */
static bool foreign_file(struct leat_disk *d, const char *file, uint64_t *bytes)
{
    pthread_mutex_lock(&d->mu);
    struct leat_segment *known = by_file(d, file);
    bool ours = known && known->ours;
    if (known && !ours)
        known->users++;
    pthread_mutex_unlock(&d->mu);
    *bytes = 0;
    if (ours)
        return true;
    int fd = known ? known->fd : openat(d->folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno != EMFILE && errno != ENFILE && errno != ENOMEM; /* else it is gone, or nobody's segment */
    *bytes = leat_segment_reserved(fd);
    if (!known) {
        close(fd);
        return true;
    }
    pthread_mutex_lock(&d->mu);
    leat_disk_leave(d, known);
    pthread_mutex_unlock(&d->mu);
    return true;
}

bool leat_disk_foreign(struct leat_disk *d, uint64_t *bytes)
{
    DIR *dir = NULL;
    struct dirent *entry;
    uint64_t sum = 0;
    bool known = open_list(d->folder, &dir, NULL) == LEAT_OK;
    while (known && (entry = readdir(dir))) {
        uint64_t n = 0;
        known = !leat_segment_is_name(entry->d_name) || foreign_file(d, entry->d_name, &n);
        sum += n;
    }
    if (dir)
        closedir(dir);
    *bytes = sum;
    return known;
}

/* A segment that is not ours, known or new: has it changed, has its owner ended? */
static void look_at_file(struct leat_disk *d, const char *file)
{
    struct leat_segment *fresh;
    struct leat_error err;
    struct found *news = NULL;
    size_t n = 0;
    if (load(d, d->folder, file, &fresh, &err) != LEAT_OK || !fresh)
        return;
    pthread_mutex_lock(&d->mu);
    struct leat_segment *old = by_file(d, file);
    bool same = old && (old->ours || (!fresh->ours && old->modified_ns == fresh->modified_ns));
    if (same || d->making) /* one that a worker is making looks like somebody else's */
        leat_segment_close(fresh);
    else
        news = absorb(d, fresh, old, &n);
    struct leat_segment *inherited = by_file(d, file);
    if (inherited && inherited != old && inherited->ours) {
        inherited->users++;
        pthread_mutex_unlock(&d->mu);
        leat_disk_reserve(d, inherited); /* its last owner may have reserved more */
        pthread_mutex_lock(&d->mu);
        leat_disk_leave(d, inherited);
    }
    if (n && leat_disk_calls(d)) {
        pthread_mutex_unlock(&d->mu);
        for (size_t i = 0; i < n; i++)
            d->found(d->user, news[i].name, news[i].bytes);
        pthread_mutex_lock(&d->mu);
        leat_disk_called(d);
    }
    pthread_mutex_unlock(&d->mu);
    free(news);
}

static void look_at_files(struct leat_disk *d)
{
    DIR *dir = NULL;
    struct dirent *entry;
    if (open_list(d->folder, &dir, NULL) != LEAT_OK)
        return;
    while ((entry = readdir(dir))) {
        if (!leat_segment_is_name(entry->d_name))
            continue;
        pthread_mutex_lock(&d->mu);
        const struct leat_segment *known = by_file(d, entry->d_name);
        bool ours = known && known->ours;
        pthread_mutex_unlock(&d->mu);
        if (!ours)
            look_at_file(d, entry->d_name);
    }
    closedir(dir);
}

/* The next segment from *i on, held; NULL at the end. Segments come and go meanwhile: one may be missed until the next
 * look. */
static struct leat_segment *next_segment(struct leat_disk *d, size_t *i)
{
    pthread_mutex_lock(&d->mu);
    struct leat_segment *s = *i < d->segments_n ? d->segments[(*i)++] : NULL;
    if (s)
        s->users++;
    pthread_mutex_unlock(&d->mu);
    return s;
}

static void drop_file(struct leat_disk *d, struct leat_segment *s)
{
    unlinkat(d->folder, s->file, 0);
    leat_disk_drop_segment(d, s);
}

/* Files that somebody has removed, files that nothing is in any more; what others take. */
static void look_at_segments(struct leat_disk *d, uint64_t *ours, uint64_t *others)
{
    struct leat_segment *s;
    bool empty_one = false; /* one may stay: it is filled next */
    *ours = *others = 0;
    for (size_t i = 0; (s = next_segment(d, &i));) {
        struct stat st = {0};
        bool lost = fstat(s->fd, &st) == 0 && st.st_nlink == 0;
        if (s->ours)
            *ours += (uint64_t)st.st_blocks * 512;
        else if (!lost)
            *others += leat_segment_reserved(s->fd);
        pthread_mutex_lock(&d->mu);
        bool empty = s->ours && s->extents.taken == 0 && s->users == 1;
        if (lost) {
            struct leat_error err;
            leat_fail(&err, LEAT_NOT_FOUND, "the file '%s' has been removed", s->file);
            if (s->ours)
                leat_disk_say(d, &err, "what it held is fetched again");
            leat_disk_drop_segment(d, s);
            i--;
        } else if (empty && (empty_one || s->spoilt)) {
            drop_file(d, s);
            i--;
        }
        empty_one = empty_one || empty;
        leat_disk_leave(d, s);
        pthread_mutex_unlock(&d->mu);
    }
}

/* Hold mu. Where the file system makes no holes, removed chunks leave their space behind; so that the budget holds, the
 * segment that is least worth goes as a whole. */
static void drop_emptiest(struct leat_disk *d)
{
    struct leat_segment *worst = NULL;
    for (size_t i = 0; i < d->segments_n; i++) {
        struct leat_segment *s = d->segments[i];
        if (s->ours && s->users == 0 && (!worst || s->live_bytes < worst->live_bytes))
            worst = s;
    }
    if (worst)
        drop_file(d, worst);
}

/* Hold mu. What all segments may take: the budget, and not what is left for others of the file system. */
static void look_at_space(struct leat_disk *d, const struct leat_disk_folder_space *space, uint64_t ours,
                          uint64_t others)
{
    uint64_t have = d->used + others;
    uint64_t limit;
    if (space->free >= space->reserve)
        limit = have + (space->free - space->reserve);
    else
        limit = have > space->reserve - space->free ? have - (space->reserve - space->free) : 0;
    if (limit > d->budget)
        limit = d->budget;
    d->foreign = others;
    if (limit < d->limit || leat_now_ns() >= d->full_until_ns)
        d->limit = limit;
    if (d->no_punch && ours + others > d->limit)
        drop_emptiest(d);
}

/* The folder was removed or replaced: begins again in a new one. */
static leat_status look_at_folder(struct leat_disk *d, struct leat_error *err)
{
    struct stat st;
    int fd = -1;
    if (stat(d->dir, &st) == 0 && st.st_dev == d->device && st.st_ino == d->inode)
        return LEAT_OK;
    leat_status rc = leat_disk_folder_open(d->dir, true, &fd, err);
    pthread_mutex_lock(&d->mu);
    while (d->segments_n)
        leat_disk_drop_segment(d, d->segments[0]);
    struct leat_error lost;
    leat_fail(&lost, LEAT_NOT_FOUND, "the folder was removed");
    leat_disk_say(d, &lost, rc == LEAT_OK ? "made again, and empty" : "going on without it");
    if (rc == LEAT_OK && fstat(fd, &st) == 0) {
        dup2(fd, d->folder); /* workers may be about to use the number */
        fcntl(d->folder, F_SETFD, FD_CLOEXEC);
        close(fd);
        d->device = st.st_dev;
        d->inode = st.st_ino;
    }
    pthread_mutex_unlock(&d->mu);
    return rc;
}

void leat_disk_look(struct leat_disk *d)
{
    struct leat_disk_folder_space space;
    struct leat_error err;
    uint64_t ours;
    uint64_t others;
    leat_status rc = look_at_folder(d, &err);
    if (rc == LEAT_OK)
        rc = leat_disk_folder_space(d->folder, &space, &err);
    if (rc != LEAT_OK) {
        pthread_mutex_lock(&d->mu);
        d->writing.err = err;
        d->writing.until_ns = leat_after(2 * LEAT_S); /* until the look after the next */
        leat_disk_say(d, &err, "nothing is stored");
        pthread_mutex_unlock(&d->mu);
        return;
    }
    look_at_files(d);
    look_at_segments(d, &ours, &others);
    pthread_mutex_lock(&d->mu);
    look_at_space(d, &space, ours, others);
    pthread_mutex_unlock(&d->mu);
    leat_disk_tell_budget(d);
}
