#include "serve/index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "serve/names.h"
#include "serve/walk.h"

#define BYTES_MAX    ((size_t)512 << 20) /* of folders kept: some ten million names */
#define LARGE_FOLDER 10000               /* entries: reading fewer takes milliseconds */
#define BUCKETS      16384
#define ESCAPED_DIR  LEAT_SERVE_RESERVED "/keys"

/* File systems stamp with a clock that ticks every few milliseconds: a folder changed twice within a tick shows one
 * time. What was read less than this after the folder's time cannot be trusted to be all. */
#define TICK_NS (50 * (int64_t)LEAT_MS)

struct folder {
    struct folder *chain; /* same hash bucket */
    struct folder *newer; /* by last use */
    struct folder *older;
    struct leat_serve_names names;
    int64_t modified_ns;
    int64_t read_wall_ns;
    uint64_t read_ns;
    uint64_t cost_ns;
    uint64_t page; /* last page that looked at the modification time */
    ino_t inode;
    bool changed_by_us;
    size_t path_n;
    char path[]; /* "" or "a/b/" */
};

struct level {
    struct folder *folder;
    size_t i;
};

struct leat_serve_index {
    int bucket_fd;
    struct folder *table[BUCKETS];
    struct folder *newest;
    struct folder *oldest;
    size_t bytes;

    struct leat_serve_names escaped; /* the keys themselves */
    int64_t escaped_modified_ns;
    bool escaped_stale;

    uint64_t page;
    bool fresh;
    size_t folders_from;
    struct level *level;
    size_t depth;
    size_t depth_cap;
    size_t escaped_i;
    struct leat_buf key; /* the key handed out */
    bool have;           /* key holds the next plain one */
    bool spent;          /* and it has been handed out */
};

struct leat_serve_index *leat_serve_index_open(int bucket_fd)
{
    struct leat_serve_index *ix = calloc(1, sizeof *ix);
    if (!ix)
        return NULL;
    ix->bucket_fd = bucket_fd;
    ix->escaped_stale = true;
    leat_buf_init(&ix->key, LEAT_SERVE_KEY_MAX);
    return ix;
}

static struct folder **slot_of(struct leat_serve_index *ix, const char *path, size_t n)
{
    struct folder **p = &ix->table[leat_xxh3(path, n) % BUCKETS];
    while (*p && ((*p)->path_n != n || memcmp((*p)->path, path, n) != 0))
        p = &(*p)->chain;
    return p;
}

static void unlink_used(struct leat_serve_index *ix, struct folder *f)
{
    if (f->newer)
        f->newer->older = f->older;
    else
        ix->newest = f->older;
    if (f->older)
        f->older->newer = f->newer;
    else
        ix->oldest = f->newer;
}

static void link_newest(struct leat_serve_index *ix, struct folder *f)
{
    f->newer = NULL;
    f->older = ix->newest;
    if (ix->newest)
        ix->newest->newer = f;
    else
        ix->oldest = f;
    ix->newest = f;
}

static size_t cost(const struct folder *f)
{
    return sizeof *f + f->path_n + leat_serve_names_bytes(&f->names);
}

static void forget(struct leat_serve_index *ix, struct folder *f)
{
    struct folder **slot = slot_of(ix, f->path, f->path_n);
    *slot = f->chain;
    unlink_used(ix, f);
    ix->bytes -= cost(f);
    leat_serve_names_free(&f->names);
    free(f);
}

void leat_serve_index_close(struct leat_serve_index *ix)
{
    if (!ix)
        return;
    while (ix->oldest)
        forget(ix, ix->oldest);
    leat_serve_names_free(&ix->escaped);
    leat_buf_free(&ix->key);
    free(ix->level);
    free(ix);
}

static int64_t wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * (int64_t)LEAT_S + t.tv_nsec;
}

static int64_t modified_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * (int64_t)LEAT_S + st->st_mtim.tv_nsec;
}

enum kind { KIND_FILE, KIND_FOLDER, KIND_OTHER };

static enum kind kind_of(int dir, const struct dirent *d)
{
    struct stat st;
    if (d->d_type == DT_REG)
        return KIND_FILE;
    if (d->d_type == DT_DIR)
        return KIND_FOLDER;
    if (d->d_type != DT_UNKNOWN || fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return KIND_OTHER;
    return S_ISREG(st.st_mode) ? KIND_FILE : S_ISDIR(st.st_mode) ? KIND_FOLDER : KIND_OTHER;
}

static bool skipped(const char *name, bool top)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (top && strcmp(name, LEAT_SERVE_RESERVED) == 0);
}

static leat_status read_names(int dir_fd, const char *path, struct leat_serve_names *out, struct leat_error *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        int e = errno;
        if (fd >= 0)
            close(fd);
        return leat_fail_errno(err, e, "cannot read the folder '%s'", path);
    }
    leat_status rc = LEAT_OK;
    for (;;) {
        errno = 0;
        const struct dirent *d = readdir(dir);
        if (!d) {
            if (errno)
                rc = leat_fail_errno(err, errno, "cannot read the folder '%s'", path);
            break;
        }
        if (skipped(d->d_name, !*path))
            continue;
        enum kind kind = kind_of(fd, d);
        if (kind != KIND_OTHER && !leat_serve_names_append(out, d->d_name, strlen(d->d_name), kind == KIND_FOLDER)) {
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the names in the folder '%s'", path);
            break;
        }
    }
    closedir(dir);
    if (rc == LEAT_OK)
        leat_serve_names_sort(out);
    return rc;
}

/* True when what was read of the folder is (still) all there is. */
static bool still_true(const struct leat_serve_index *ix, const struct folder *f, const struct stat *st)
{
    bool same = f->inode == st->st_ino && f->modified_ns == modified_ns(st) && !f->changed_by_us &&
                f->read_wall_ns - f->modified_ns > TICK_NS;
    if (same)
        return true;
    /* A listing in progress need not read a large folder again for every page. */
    uint64_t age = leat_now_ns() - f->read_ns;
    return !ix->fresh && f->inode == st->st_ino && f->names.n > LARGE_FOLDER &&
           age < (10 * f->cost_ns > LEAT_S ? 10 * f->cost_ns : LEAT_S);
}

static leat_status read_folder(struct leat_serve_index *ix, struct folder *f, int fd, const struct stat *st,
                               struct leat_error *err)
{
    struct leat_serve_names names = {0};
    uint64_t before = leat_now_ns();
    int64_t wall = wall_ns();
    leat_status rc = read_names(fd, f->path, &names, err);
    if (rc != LEAT_OK) {
        leat_serve_names_free(&names);
        return rc;
    }
    ix->bytes -= cost(f);
    leat_serve_names_free(&f->names);
    f->names = names;
    ix->bytes += cost(f);
    f->read_ns = leat_now_ns();
    f->cost_ns = f->read_ns - before;
    f->read_wall_ns = wall;
    f->modified_ns = modified_ns(st);
    f->inode = st->st_ino;
    f->changed_by_us = false;
    return LEAT_OK;
}

static struct folder *folder_new(struct leat_serve_index *ix, const char *path, size_t n)
{
    struct folder *f = calloc(1, sizeof *f + n + 1);
    if (!f)
        return NULL;
    memcpy(f->path, path, n);
    f->path_n = n;
    *slot_of(ix, path, n) = f;
    link_newest(ix, f);
    ix->bytes += cost(f);
    return f;
}

/* There is no such folder, as opposed to: it cannot be opened. */
static bool is_gone(int e)
{
    return e == ENOENT || e == ENOTDIR;
}

/* The folder as it is now; *out is NULL when it does not exist. */
static leat_status get_folder(struct leat_serve_index *ix, const char *path, size_t n, struct folder **out,
                              struct leat_error *err)
{
    struct stat st;
    struct folder *f = *slot_of(ix, path, n);
    if (f && f->page == ix->page) {
        *out = f;
        return LEAT_OK;
    }
    int fd = leat_serve_walk(ix->bucket_fd, path, false);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int e = fd < 0 ? -fd : errno;
        leat_serve_walk_end(ix->bucket_fd, fd);
        if (f)
            forget(ix, f);
        *out = NULL;
        return is_gone(e) ? LEAT_OK : leat_fail_errno(err, e, "cannot open the folder '%s'", path);
    }
    leat_status rc = LEAT_OK;
    if (!f) {
        f = folder_new(ix, path, n);
        if (!f)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the folder '%s'", path);
    } else {
        unlink_used(ix, f);
        link_newest(ix, f);
    }
    if (f && !still_true(ix, f, &st))
        rc = read_folder(ix, f, fd, &st, err);
    leat_serve_walk_end(ix->bucket_fd, fd);
    if (rc != LEAT_OK) {
        if (f)
            forget(ix, f);
        return rc;
    }
    f->page = ix->page;
    *out = f;
    return LEAT_OK;
}

/* Every folder on the path that is kept gets the name that lies in it ("b/" or "c"). */
void leat_serve_index_added(struct leat_serve_index *ix, const char *path, bool escaped)
{
    if (escaped) {
        ix->escaped_stale = true;
        return;
    }
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        n += p[n] == '/';
        struct folder *f = *slot_of(ix, path, (size_t)(p - path));
        if (f) {
            ix->bytes -= cost(f);
            f->changed_by_us = true;
            bool ok = leat_serve_names_insert(&f->names, p, n);
            ix->bytes += cost(f);
            if (!ok)
                forget(ix, f); /* it will be read again */
        }
        p += n;
    }
}

void leat_serve_index_removed(struct leat_serve_index *ix, const char *path, bool escaped)
{
    if (escaped) {
        ix->escaped_stale = true;
        return;
    }
    size_t n = strlen(path);
    size_t leaf = n;
    while (leaf > 0 && (leaf == n || path[leaf - 1] != '/'))
        leaf--;
    struct folder *f = *slot_of(ix, path, leaf);
    if (f) {
        f->changed_by_us = true;
        leat_serve_names_erase(&f->names, path + leaf, n - leaf);
    }
}

/* Reads the keys in the reserved folder. Files there that are no escaped key are none of ours. */
static leat_status read_escaped(struct leat_serve_index *ix, int dir, struct leat_buf *path, struct leat_error *err)
{
    struct leat_serve_names here = {0};
    struct leat_buf key;
    leat_buf_init(&key, LEAT_SERVE_KEY_MAX);
    leat_status rc = read_names(dir, LEAT_SERVE_RESERVED, &here, err);
    size_t before = path->len;
    for (size_t i = 0; rc == LEAT_OK && i < here.n; i++) {
        const char *name = here.text + here.entry[i].at;
        size_t n = here.entry[i].n;
        if (path->len + n > 8 * LEAT_SERVE_KEY_MAX)
            continue;
        leat_buf_add(path, name, n);
        if (name[n - 1] == '/') {
            int sub = leat_serve_walk(dir, path->data + before, false);
            if (sub >= 0) {
                rc = read_escaped(ix, sub, path, err);
                close(sub);
            } else if (!is_gone(-sub)) {
                rc = leat_fail_errno(err, -sub, "cannot open a folder of escaped keys");
            }
        } else {
            leat_buf_clear(&key);
            if (leat_serve_key_unescape(path->data, &key) &&
                !leat_serve_names_append(&ix->escaped, key.data, key.len, false))
                rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the escaped keys");
        }
        path->len = before;
        path->data[before] = '\0';
    }
    leat_buf_free(&key);
    leat_serve_names_free(&here);
    return rc;
}

static leat_status refresh_escaped(struct leat_serve_index *ix, struct leat_error *err)
{
    struct stat st;
    struct leat_buf path;
    int dir = leat_serve_walk(ix->bucket_fd, ESCAPED_DIR, false);
    leat_status rc = LEAT_OK;
    if (dir < 0 || fstat(dir, &st) != 0) {
        leat_serve_names_free(&ix->escaped);
        ix->escaped_stale = true;
        if (dir < 0 && !is_gone(-dir))
            rc = leat_fail_errno(err, -dir, "cannot open the folder of escaped keys");
        goto done;
    }
    if (!ix->escaped_stale && ix->escaped_modified_ns == modified_ns(&st))
        goto done;
    leat_serve_names_free(&ix->escaped);
    leat_buf_init(&path, 16 * LEAT_SERVE_KEY_MAX);
    ix->escaped_modified_ns = modified_ns(&st);
    ix->escaped_stale = wall_ns() - ix->escaped_modified_ns < TICK_NS;
    rc = read_escaped(ix, dir, &path, err);
    ix->escaped_stale |= rc != LEAT_OK;
    leat_buf_free(&path);
    leat_serve_names_sort(&ix->escaped);
done:
    if (dir >= 0)
        close(dir);
    return rc;
}

void leat_serve_index_begin(struct leat_serve_index *ix, bool fresh, size_t folders_from)
{
    ix->page++;
    ix->fresh = fresh;
    ix->folders_from = folders_from;
    ix->depth = 0;
    ix->have = ix->spent = false;
}

void leat_serve_index_end(struct leat_serve_index *ix)
{
    ix->depth = 0;
    while (ix->bytes > BYTES_MAX && ix->oldest != ix->newest)
        forget(ix, ix->oldest);
}

static leat_status push(struct leat_serve_index *ix, const char *path, size_t n, bool *there, struct leat_error *err)
{
    struct folder *f;
    *there = false;
    leat_status rc = get_folder(ix, path, n, &f, err);
    if (rc != LEAT_OK || !f)
        return rc;
    if (ix->depth == ix->depth_cap) {
        size_t cap = ix->depth_cap ? ix->depth_cap * 2 : 16;
        struct level *level = realloc(ix->level, cap * sizeof *level);
        if (!level)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory to list %zu folders deep", cap);
        ix->level = level;
        ix->depth_cap = cap;
    }
    ix->level[ix->depth++] = (struct level){f, 0};
    *there = true;
    return LEAT_OK;
}

/* Puts the folder's path and the entry's name into key; false when that is longer than a key may be. */
static bool set_key(struct leat_serve_index *ix, const struct level *l)
{
    const struct leat_serve_names *s = &l->folder->names;
    leat_buf_clear(&ix->key);
    leat_buf_add(&ix->key, l->folder->path, l->folder->path_n);
    return leat_buf_add(&ix->key, s->text + s->entry[l->i].at, s->entry[l->i].n);
}

static leat_status find_file(int base, const char *path, int depth, bool *found, struct leat_error *err);

/* A file in the folder itself or, failing that, in those below it. */
static leat_status find_file_in(DIR *dir, int depth, bool *found, struct leat_error *err)
{
    const struct dirent *d;
    leat_status rc = LEAT_OK;
    while (!*found && (d = readdir(dir)))
        *found = kind_of(dirfd(dir), d) == KIND_FILE;
    if (*found || depth >= LEAT_SERVE_KEY_MAX / 2)
        return LEAT_OK;
    rewinddir(dir);
    while (rc == LEAT_OK && !*found && (d = readdir(dir))) {
        if (kind_of(dirfd(dir), d) == KIND_FOLDER && !skipped(d->d_name, false))
            rc = find_file(dirfd(dir), d->d_name, depth + 1, found, err);
    }
    return rc;
}

/* Whether there is a file anywhere below. Looks no further than the first one: a folder that is only to be named
 * need not be read; one that may not be is named all the same. */
static leat_status find_file(int base, const char *path, int depth, bool *found, struct leat_error *err)
{
    int at = leat_serve_walk(base, path, false);
    int fd = at >= 0 ? openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int e = at < 0 ? -at : errno;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    leat_status rc = LEAT_OK;
    *found = false;
    if (dir)
        rc = find_file_in(dir, depth, found, err);
    else if (fd < 0 && e == EACCES)
        *found = true;
    else if (fd >= 0 || !is_gone(e))
        rc = leat_fail_errno(err, fd >= 0 ? ENOMEM : e, "cannot open the folder '%s'", path);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    leat_serve_walk_end(base, at);
    return rc;
}

/* On to the next plain key, from the position in the stack. */
static leat_status advance(struct leat_serve_index *ix, struct leat_error *err)
{
    ix->have = ix->spent = false;
    while (ix->depth) {
        struct level *l = &ix->level[ix->depth - 1];
        if (l->i >= l->folder->names.n) {
            ix->depth--;
            if (ix->depth)
                ix->level[ix->depth - 1].i++;
            continue;
        }
        if (!set_key(ix, l)) {
            l->i++;
            continue;
        }
        if (ix->key.data[ix->key.len - 1] != '/') {
            l->i++;
            ix->have = true;
            return LEAT_OK;
        }
        if (ix->key.len > ix->folders_from) {
            l->i++;
            leat_status rc = find_file(ix->bucket_fd, ix->key.data, 0, &ix->have, err);
            if (rc != LEAT_OK || ix->have)
                return rc;
            continue;
        }
        bool there;
        leat_status rc = push(ix, ix->key.data, ix->key.len, &there, err);
        if (rc != LEAT_OK)
            return rc;
        if (!there)
            ix->level[ix->depth - 1].i++;
    }
    return LEAT_OK;
}

leat_status leat_serve_index_seek(struct leat_serve_index *ix, struct leat_serve_key at, struct leat_error *err)
{
    bool there;
    size_t done = 0; /* bytes of `at` that are the path of the folder on top */
    if (ix->fresh || ix->escaped_stale) {
        leat_status rc = refresh_escaped(ix, err);
        if (rc != LEAT_OK)
            return rc;
    }
    ix->escaped_i = leat_serve_names_find(&ix->escaped, at.data, at.n);
    ix->depth = 0;
    leat_status rc = push(ix, "", 0, &there, err);
    while (rc == LEAT_OK && there) {
        struct level *l = &ix->level[ix->depth - 1];
        const char *rest = at.data + done;
        const char *slash = memchr(rest, '/', at.n - done);
        size_t n = slash ? (size_t)(slash - rest) + 1 : at.n - done;
        l->i = leat_serve_names_find(&l->folder->names, rest, n);
        if (!slash || !leat_serve_names_is(&l->folder->names, l->i, rest, n))
            break;
        done += n;
        char path[LEAT_SERVE_KEY_MAX + 2];
        if (done > LEAT_SERVE_KEY_MAX)
            break;
        memcpy(path, at.data, done);
        path[done] = '\0';
        rc = push(ix, path, done, &there, err);
        if (rc == LEAT_OK && !there)
            ix->level[ix->depth - 1].i++;
    }
    return rc == LEAT_OK ? advance(ix, err) : rc;
}

leat_status leat_serve_index_next(struct leat_serve_index *ix, struct leat_serve_key *key, bool *more,
                                  struct leat_error *err)
{
    const struct leat_serve_names *e = &ix->escaped;
    if (ix->spent) {
        leat_status rc = advance(ix, err);
        if (rc != LEAT_OK)
            return rc;
    }
    struct leat_serve_key plain = {ix->key.data, ix->key.len};
    struct leat_serve_key escaped = {0};
    if (ix->escaped_i < e->n)
        escaped = (struct leat_serve_key){e->text + e->entry[ix->escaped_i].at, e->entry[ix->escaped_i].n};
    *more = ix->have || escaped.data;
    if (!*more)
        return LEAT_OK;
    int c = !ix->have ? 1 : !escaped.data ? -1 : leat_serve_compare(plain, escaped);
    if (c >= 0)
        ix->escaped_i++;
    *key = c > 0 ? escaped : plain;
    ix->spent = c <= 0;
    return LEAT_OK;
}
