#include "serve/object.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "serve/walk.h"

#define ATTRIBUTE     "user.leat.object"
#define ATTRIBUTE_MAX 4096
#define KEYS_DIR      LEAT_SERVE_RESERVED "/keys/"
#define TMP_DIR       LEAT_SERVE_RESERVED "/tmp"
#define PATH_BYTES    4096
#define TRIES         100 /* a folder removed by somebody else between making and using it */

/* The key's path among ordinary files; false when it cannot have one. */
static bool plain_path(struct leat_serve_key key, char out[LEAT_SERVE_KEY_MAX + 1])
{
    if (key.n > LEAT_SERVE_KEY_MAX || !leat_serve_key_plain(key))
        return false;
    memcpy(out, key.data, key.n);
    out[key.n] = '\0';
    return true;
}

static bool escaped_path(struct leat_serve_key key, char out[PATH_BYTES])
{
    struct leat_buf path;
    leat_buf_init(&path, PATH_BYTES - 1);
    leat_buf_str(&path, KEYS_DIR);
    bool ok = leat_serve_key_escape(key, &path);
    if (ok)
        memcpy(out, path.data, path.len + 1);
    leat_buf_free(&path);
    return ok;
}

/* Without O_NONBLOCK, opening a named pipe would wait for its writer. */
static int open_leaf(int dir, const char *leaf, struct stat *st)
{
    int fd = openat(dir, leaf, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)) {
        close(fd);
        return -ENOENT;
    }
    return fd;
}

static int open_file(int base, const char *path, struct stat *st)
{
    const char *leaf;
    int dir = leat_serve_walk_parent(base, path, false, &leaf);
    if (dir < 0)
        return dir;
    int fd = open_leaf(dir, leaf, st);
    leat_serve_walk_end(base, dir);
    return fd;
}

/* There is no file, as opposed to: it cannot be opened. */
static bool is_absent(int e)
{
    return e == ENOENT || e == ENOTDIR || e == EISDIR || e == ELOOP || e == ENXIO || e == ENAMETOOLONG;
}

static int64_t modified_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * (int64_t)LEAT_S + st->st_mtim.tv_nsec;
}

/* The attribute is "1 SIZE MODIFIED_NS ETAG\n" and header lines. Size and time tell whether it still speaks of this
 * content: a file that was changed behind the server's back has another tag. */
static bool read_attribute(int fd, struct leat_serve_object *o)
{
    char text[ATTRIBUTE_MAX + 1];
    ssize_t n = fgetxattr(fd, ATTRIBUTE, text, ATTRIBUTE_MAX);
    uint64_t size;
    int64_t modified;
    char etag[LEAT_SERVE_ETAG];
    int used = 0;
    if (n <= 0)
        return false;
    text[n] = '\0';
    if (sscanf(text, "1 %" SCNu64 " %" SCNd64 " %71[0-9a-zA-Z-]%n", &size, &modified, etag, &used) != 3 || !used ||
        text[used] != '\n' || size != o->size || modified != o->modified_ns)
        return false;
    memcpy(o->etag, etag, sizeof etag);
    return leat_buf_str(&o->headers, text + used + 1);
}

static void describe(int fd, const struct stat *st, struct leat_serve_object *o)
{
    o->fd = fd;
    o->size = (uint64_t)st->st_size;
    o->modified_ns = modified_ns(st);
    leat_buf_init(&o->headers, ATTRIBUTE_MAX);
    /* The dashes keep clients from taking it for an MD5. */
    if (!read_attribute(fd, o))
        snprintf(o->etag, sizeof o->etag, "%" PRIx64 "-%" PRIx64 "-%" PRIx64, (uint64_t)st->st_ino,
                 (uint64_t)o->modified_ns, o->size);
}

leat_status leat_serve_object_open(struct leat_serve_bucket *b, struct leat_serve_key key,
                                   struct leat_serve_object *out, struct leat_error *err)
{
    char plain[LEAT_SERVE_KEY_MAX + 1];
    char escaped[PATH_BYTES];
    struct stat st = {0};
    int fd = plain_path(key, plain) ? open_file(b->fd, plain, &st) : -ENOENT;
    if (fd < 0 && is_absent(-fd) && escaped_path(key, escaped))
        fd = open_file(b->fd, escaped, &st);
    if (fd < 0 && is_absent(-fd))
        return leat_fail(err, LEAT_NOT_FOUND, "there is no such object");
    if (fd < 0)
        return leat_fail_errno(err, -fd, "cannot open the object");
    describe(fd, &st, out);
    return LEAT_OK;
}

leat_status leat_serve_object_look(struct leat_serve_lookup *l, struct leat_serve_key key,
                                   struct leat_serve_object *out, struct leat_error *err)
{
    const char *slash = memrchr(key.data, '/', key.n);
    size_t n = slash ? (size_t)(slash - key.data) + 1 : 0;
    char leaf[256];
    struct stat st = {0};
    if (!leat_serve_key_plain(key) || n > LEAT_SERVE_KEY_MAX)
        return leat_serve_object_open(l->bucket, key, out, err);
    if (l->dir < 0 || n != l->path_n || memcmp(key.data, l->path, n) != 0) {
        leat_serve_lookup_end(l);
        memcpy(l->path, key.data, n);
        l->path[n] = '\0';
        l->path_n = n;
        l->dir = leat_serve_walk(l->bucket->fd, l->path, false);
    }
    memcpy(leaf, key.data + n, key.n - n);
    leaf[key.n - n] = '\0';
    int fd = l->dir >= 0 ? open_leaf(l->dir, leaf, &st) : -1;
    /* What may not be read is there all the same. */
    bool closed = fd == -EACCES && fstatat(l->dir, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    if (fd < 0 && !closed)
        return leat_serve_object_open(l->bucket, key, out, err);
    describe(closed ? -1 : fd, &st, out);
    return LEAT_OK;
}

void leat_serve_lookup_end(struct leat_serve_lookup *l)
{
    leat_serve_walk_end(l->bucket->fd, l->dir);
    l->dir = -1;
}

void leat_serve_object_close(struct leat_serve_object *o)
{
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
    leat_buf_free(&o->headers);
}

/* 0, or an errno. */
static int remove_file(struct leat_serve_bucket *b, const char *path, bool escaped)
{
    const char *leaf;
    struct stat st;
    char folder[PATH_BYTES];
    int dir = leat_serve_walk_parent(b->fd, path, false, &leaf);
    if (dir < 0)
        return -dir;
    int e = 0;
    if (fstatat(dir, leaf, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        e = ENOENT;
    else if (unlinkat(dir, leaf, 0) != 0)
        e = errno;
    leat_serve_walk_end(b->fd, dir);
    if (e)
        return e;
    leat_serve_index_removed(b->index, path, escaped);
    size_t left = leat_serve_walk_prune(b->fd, path);
    /* Every removed folder: "a/b/" then "a/". */
    snprintf(folder, sizeof folder, "%s", path);
    for (size_t n = strlen(folder); n > left; n--) {
        if (folder[n - 1] == '/' && n > left) {
            folder[n] = '\0';
            leat_serve_index_removed(b->index, folder, escaped);
        }
    }
    return 0;
}

bool leat_serve_condition_holds(const struct leat_serve_condition *c, const struct leat_serve_object *o)
{
    return !c->absent && (!c->match || leat_serve_etag_listed(c->match, o->etag)) &&
           (!c->version || c->version == o->modified_ns);
}

/* Hold the bucket's lock. */
static leat_status check(struct leat_serve_bucket *b, struct leat_serve_key key, const struct leat_serve_condition *c,
                         struct leat_error *err)
{
    struct leat_serve_object o = {.fd = -1};
    if (!c || (!c->absent && !c->present && !c->match && !c->version))
        return LEAT_OK;
    leat_status rc = leat_serve_object_open(b, key, &o, err);
    if (rc == LEAT_NOT_FOUND && c->absent)
        return LEAT_OK;
    if (rc == LEAT_NOT_FOUND && c->version)
        return leat_fail(err, LEAT_CHANGED, "the object is gone");
    if (rc != LEAT_OK)
        return rc;
    if (c->absent)
        rc = leat_fail(err, LEAT_EXISTS, "the object is there already");
    else if (!leat_serve_condition_holds(c, &o))
        rc = leat_fail(err, LEAT_CHANGED, "the object is another one");
    leat_serve_object_close(&o);
    return rc;
}

leat_status leat_serve_object_remove(struct leat_serve_bucket *b, struct leat_serve_key key,
                                     const struct leat_serve_condition *condition, struct leat_error *err)
{
    char plain[LEAT_SERVE_KEY_MAX + 1];
    char escaped[PATH_BYTES];
    int e = 0;
    pthread_mutex_lock(&b->mu);
    leat_status rc = check(b, key, condition, err);
    /* The escaped file first: as long as the plain one is there it is the one that is read. */
    if (rc == LEAT_OK && escaped_path(key, escaped))
        e = remove_file(b, escaped, true);
    if (rc == LEAT_OK && (e == 0 || is_absent(e)) && plain_path(key, plain))
        e = remove_file(b, plain, false);
    pthread_mutex_unlock(&b->mu);
    if (rc != LEAT_OK || e == 0 || is_absent(e))
        return rc;
    return leat_fail_errno(err, e, "cannot remove the object");
}

leat_status leat_serve_writer_open(struct leat_serve_bucket *b, struct leat_serve_writer *out, struct leat_error *err)
{
    uint8_t random[16];
    struct leat_serve_writer w = {.bucket = b, .fd = -1};
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return leat_fail_errno(err, errno, "no random numbers for a temporary name");
    leat_hex(random, sizeof random, w.name);
    for (int i = 0; i < TRIES; i++) {
        w.dir = leat_serve_walk(b->fd, TMP_DIR, true);
        if (w.dir < 0)
            return leat_fail_errno(err, -w.dir, "cannot make the folder '%s' in the bucket '%s'", TMP_DIR, b->name);
        w.fd = openat(w.dir, w.name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w.fd >= 0)
            break;
        int e = errno;
        close(w.dir);
        if (e != ENOENT)
            return leat_fail_errno(err, e, "cannot write in the bucket '%s'", b->name);
    }
    if (w.fd < 0)
        return leat_fail(err, LEAT_BUSY, "the folder '%s' of the bucket '%s' does not stay", TMP_DIR, b->name);
    flock(w.fd, LOCK_EX); /* tells other servers on this folder that somebody still writes it */
    *out = w;
    return LEAT_OK;
}

leat_status leat_serve_writer_add(struct leat_serve_writer *w, const void *data, size_t n, struct leat_error *err)
{
    const char *p = data;
    w->size += n;
    while (n) {
        ssize_t done = write(w->fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return leat_fail_errno(err, errno, "cannot write in the bucket '%s'", w->bucket->name);
        p += done;
        n -= (size_t)done;
    }
    return LEAT_OK;
}

/* Copies by hand what the kernel will not. */
static ssize_t copy_block(int from, off_t *in, int to, off_t *out, size_t n)
{
    char block[65536];
    ssize_t done = pread(from, block, n < sizeof block ? n : sizeof block, *in);
    if (done > 0)
        done = pwrite(to, block, (size_t)done, *out);
    if (done > 0) {
        *in += done;
        *out += done;
    }
    return done;
}

leat_status leat_serve_writer_copy(struct leat_serve_writer *to, int from, uint64_t n, struct leat_error *err)
{
    off_t in = 0;
    off_t out = (off_t)to->size;
    bool by_hand = false;
    while (n) {
        size_t step = n < (1u << 30) ? (size_t)n : 1u << 30;
        ssize_t done =
            by_hand ? copy_block(from, &in, to->fd, &out, step) : copy_file_range(from, &in, to->fd, &out, step, 0);
        if (done < 0 && !by_hand && errno != ENOSPC && errno != EDQUOT && errno != EIO) {
            by_hand = true; /* not on this file system */
            continue;
        }
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return leat_fail_errno(err, errno, "cannot copy in the bucket '%s'", to->bucket->name);
        if (done == 0)
            return leat_fail(err, LEAT_CORRUPT, "a file became shorter while it was copied");
        n -= (uint64_t)done;
    }
    to->size = (uint64_t)out;
    lseek(to->fd, out, SEEK_SET);
    return LEAT_OK;
}

void leat_serve_writer_close(struct leat_serve_writer *w)
{
    if (!w->bucket || w->fd < 0)
        return;
    if (*w->name)
        unlinkat(w->dir, w->name, 0);
    close(w->fd);
    close(w->dir);
    w->fd = -1;
}

bool leat_serve_etag_listed(const char *list, const char *etag)
{
    size_t n = strlen(etag);
    for (const char *p = list; *p;) {
        p += strspn(p, " \t,");
        if (strncmp(p, "W/", 2) == 0)
            p += 2;
        size_t len = *p == '"' ? strcspn(p + 1, "\"") : strcspn(p, " \t,");
        const char *tag = *p == '"' ? p + 1 : p;
        if ((len == n && memcmp(tag, etag, n) == 0) || (len == 1 && *tag == '*'))
            return true;
        p = tag + len;
        p += *p == '"';
    }
    return false;
}

static void write_attribute(struct leat_serve_writer *w, const char *headers, const char *etag)
{
    struct stat st;
    struct leat_buf text;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    leat_buf_init(&text, ATTRIBUTE_MAX);
    /* The kernel's own stamp is some milliseconds coarse: two versions could have the same. */
    clock_gettime(CLOCK_REALTIME, &times[1]);
    futimens(w->fd, times);
    if (fstat(w->fd, &st) == 0)
        leat_buf_printf(&text, "1 %" PRIu64 " %" PRId64 " %s\n%s", (uint64_t)st.st_size, modified_ns(&st), etag,
                        headers);
    /* Where the file system keeps no attributes the object has a derived tag and no headers of its own. */
    if (!text.failed)
        fsetxattr(w->fd, ATTRIBUTE, text.data, text.len, 0);
    leat_buf_free(&text);
}

/* Renames the temporary file to the path. 0, or an errno. */
static int place(struct leat_serve_writer *w, const char *path, bool escaped)
{
    struct leat_serve_bucket *b = w->bucket;
    for (int i = 0; i < TRIES; i++) {
        const char *leaf;
        int dir = leat_serve_walk_parent(b->fd, path, true, &leaf);
        if (dir == -ENOENT)
            continue;
        if (dir < 0)
            return -dir;
        int e = renameat(w->dir, w->name, dir, leaf) == 0 ? 0 : errno;
        if (e == EISDIR && unlinkat(dir, leaf, AT_REMOVEDIR) == 0) {
            char gone[PATH_BYTES];
            snprintf(gone, sizeof gone, "%s/", path);
            leat_serve_index_removed(b->index, gone, escaped);
            e = ENOENT; /* an empty folder was in the way: again */
        }
        leat_serve_walk_end(b->fd, dir);
        if (e == 0) {
            leat_serve_index_added(b->index, path, escaped);
            return 0;
        }
        if (e != ENOENT)
            return e;
    }
    return EBUSY;
}

/* A folder where the file should be, or a file where a folder should be. */
static bool is_blocked(int e)
{
    return e == EISDIR || e == ENOTDIR || e == EEXIST || e == ENOTEMPTY || e == ELOOP;
}

leat_status leat_serve_writer_commit(struct leat_serve_writer *w, struct leat_serve_key key,
                                     const struct leat_serve_condition *condition, const char *headers,
                                     char etag[LEAT_SERVE_ETAG], struct leat_error *err)
{
    char plain[LEAT_SERVE_KEY_MAX + 1];
    char escaped[PATH_BYTES];
    struct leat_serve_bucket *b = w->bucket;
    int e = EISDIR;
    bool is_plain = plain_path(key, plain);
    if (key.n == 0 || !escaped_path(key, escaped))
        return leat_fail(err, LEAT_INVALID, "no key, or one that is too long");
    write_attribute(w, headers, etag);
    pthread_mutex_lock(&b->mu);
    leat_status rc = check(b, key, condition, err);
    if (rc != LEAT_OK)
        goto done;
    if (is_plain)
        e = place(w, plain, false);
    if (e == 0)
        remove_file(b, escaped, true);
    else if (is_blocked(e))
        e = place(w, escaped, true);
    if (e) {
        rc = leat_fail_errno(err, e, "cannot put the object in its place");
        goto done;
    }
    *w->name = '\0'; /* nothing to drop any more */
    struct leat_serve_object now = {.fd = -1};
    struct stat st;
    if (fstat(w->fd, &st) == 0) {
        describe(w->fd, &st, &now);
        memcpy(etag, now.etag, sizeof now.etag);
        w->modified_ns = now.modified_ns;
        leat_buf_free(&now.headers);
    }
done:
    pthread_mutex_unlock(&b->mu);
    return rc;
}
