/* Files: the key is the path. Blocking calls on a few threads, results posted to the store's loop. What is written
 * appears under its name whole or not at all. */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"

#define THREADS      8u /* enough to keep an NVMe drive's queue filled with large reads */
#define READ_AT_ONCE (1u << 20)
#define LOCK_WAIT    (10 * LEAT_S)

struct file_store {
    struct leat_backend backend; /* first member */
    struct leat_store *store;
    struct leat_pool *pool;
};

void leat_file_etag(const struct stat *st, char out[LEAT_ETAG_MAX])
{
    snprintf(out, LEAT_ETAG_MAX, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", (uint64_t)st->st_ino, (uint64_t)st->st_size,
             (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec);
}

static void set_object(struct leat_object *object, const struct stat *st)
{
    object->size = (uint64_t)st->st_size;
    object->modified_s = (int64_t)st->st_mtim.tv_sec;
    object->changed_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
    leat_file_etag(st, object->etag);
}

static leat_status fail_errno(struct leat_store_op *op, int os_error)
{
    op->status = leat_status_from_errno(os_error);
    char text[128];
    leat_fail(&op->own->err, op->status, "%s", strerror_r(os_error, text, sizeof text));
    op->own->err.os_error = os_error;
    return op->status;
}

/* An object is a regular file. */
static leat_status check_object(struct leat_store_op *op, const struct stat *st)
{
    if (S_ISDIR(st->st_mode))
        return op->status = leat_fail(&op->own->err, LEAT_NOT_FOUND, "it is a folder");
    if (!S_ISREG(st->st_mode))
        return op->status = leat_fail(&op->own->err, LEAT_INVALID, "it is not a regular file");
    set_object(&op->own->object, st);
    if (op->if_match && strcmp(op->if_match, op->own->object.etag) != 0)
        return op->status = leat_fail(&op->own->err, LEAT_CHANGED, "the file has changed: its tag was %s and is %s",
                                      op->if_match, op->own->object.etag);
    return LEAT_OK;
}

static void do_stat(struct leat_store_op *op)
{
    struct stat st;
    if (stat(op->key, &st) < 0)
        fail_errno(op, errno);
    else
        check_object(op, &st);
}

static void read_range(struct leat_store_op *op, int fd)
{
    struct stat st;
    while (op->got < op->length && !__atomic_load_n(&op->own->cancelled, __ATOMIC_RELAXED)) {
        uint64_t left = op->length - op->got;
        size_t n = left < READ_AT_ONCE ? (size_t)left : READ_AT_ONCE;
        ssize_t got = pread(fd, (char *)op->into + op->got, n, (off_t)(op->offset + op->got));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            fail_errno(op, errno);
            return;
        }
        if (got == 0)
            break;
        op->got += (uint64_t)got;
    }
    /* What was read before and after somebody wrote to it does not belong together. */
    if (fstat(fd, &st) < 0) {
        fail_errno(op, errno);
        return;
    }
    char etag[LEAT_ETAG_MAX];
    memcpy(etag, op->own->object.etag, sizeof etag);
    set_object(&op->own->object, &st);
    if (strcmp(etag, op->own->object.etag) != 0) {
        op->status = leat_fail(&op->own->err, LEAT_CHANGED, "the file was written to while it was read");
    } else if (op->got < op->length && !op->short_ok) {
        op->too_short = true;
        op->status = leat_fail(&op->own->err, LEAT_INVALID,
                               "the file has %" PRIu64 " bytes, asked for were %" PRIu64 " from byte %" PRIu64,
                               op->own->object.size, op->length, op->offset);
    }
}

static void do_get(struct leat_store_op *op)
{
    struct stat st;
    int fd = open(op->key, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe must not hold us up */
    if (fd < 0) {
        fail_errno(op, errno);
        return;
    }
    if (fstat(fd, &st) < 0)
        fail_errno(op, errno);
    else if (check_object(op, &st) == LEAT_OK)
        read_range(op, fd);
    close(fd);
}

/* Makes the folders above `path`, which is changed and put back. */
static int make_parents(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        int rc = mkdir(path, 0777);
        int e = errno;
        *p = '/';
        if (rc < 0 && e != EEXIST)
            return e;
    }
    return 0;
}

/* Where the file of a key is written: at the key itself, or where a link there leads, so that links stay links. What
 * is there must be a regular file: rename() would replace a device or a pipe as readily. The caller frees it; NULL
 * with op's error set. */
static char *target_path(struct leat_store_op *op)
{
    const char *slash = strrchr(op->key, '/');
    const char *name = slash ? slash + 1 : op->key;
    struct stat st;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        op->status = leat_fail(&op->own->err, LEAT_INVALID, "it is the name of a folder, not of a file");
        return NULL;
    }
    bool link = lstat(op->key, &st) == 0 && S_ISLNK(st.st_mode);
    if (stat(op->key, &st) == 0 && !S_ISREG(st.st_mode)) {
        op->status = leat_fail(&op->own->err, LEAT_INVALID, "%s is in its place and is not replaced",
                               S_ISDIR(st.st_mode) ? "a folder" : "something that is not a regular file");
        return NULL;
    }
    char *path = link ? realpath(op->key, NULL) : strdup(op->key);
    if (!path && link && errno != ENOMEM)
        op->status = leat_fail(&op->own->err, LEAT_INVALID, "it is a link that leads nowhere");
    else if (!path)
        op->status = leat_fail(&op->own->err, LEAT_NO_MEMORY, "no memory for a path");
    return path;
}

/* "folder/" + the temporary's name; the caller frees it. NULL with op's error set. */
static char *temporary_path(struct leat_store_op *op, const char *target, const char *id)
{
    const char *slash = strrchr(target, '/');
    int folder_n = slash ? (int)(slash + 1 - target) : 0;
    struct leat_buf path;
    leat_buf_init(&path, 16 << 10);
    leat_buf_printf(&path, "%.*s%s%s", folder_n, target, LEAT_FILE_TEMPORARY, id);
    char *taken = leat_buf_take(&path);
    if (!taken)
        op->status = leat_fail(&op->own->err, LEAT_NO_MEMORY, "no memory for a path");
    return taken;
}

/* Who may do what with the file that is to be replaced: its successor is for the same people. 0: there is none. */
static mode_t mode_of(const char *target)
{
    struct stat st;
    return stat(target, &st) == 0 ? st.st_mode & 0777 : 0;
}

static mode_t mode_for(const char *target)
{
    mode_t mode = mode_of(target);
    return mode ? mode | S_IWUSR : 0666; /* its parts are written by and by */
}

static bool make_id(struct leat_store_op *op, char *id, size_t id_size)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random) {
        fail_errno(op, errno);
        return false;
    }
    snprintf(id, id_size, "%ld-%016" PRIx64, (long)getpid(), random);
    return true;
}

/* Creates the temporary; the descriptor, or -1 with op's error set. */
static int create_temporary(struct leat_store_op *op, char *path, mode_t mode)
{
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
    if (fd < 0 && errno == ENOENT) {
        int e = make_parents(path);
        fd = e ? -1 : open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
        if (e)
            errno = e;
    }
    if (fd < 0)
        fail_errno(op, errno);
    return fd;
}

/* A file in the folder of `path` that has no name yet: of a process that is killed nothing is left. The descriptor,
 * or -1 where the file system knows no such thing or it could not be given a name later. */
static int create_unnamed(char *path, mode_t mode)
{
    char *slash = strrchr(path, '/');
    if (access("/proc/self/fd", X_OK) < 0)
        return -1;
    if (!slash || slash == path)
        return open(slash ? "/" : ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    *slash = '\0';
    int fd = open(path, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    *slash = '/';
    if (fd >= 0 || errno != ENOENT || make_parents(path) != 0)
        return fd;
    *slash = '\0';
    fd = open(path, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    *slash = '/';
    return fd;
}

static bool give_name(int fd, const char *path)
{
    char self[40];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

static bool write_all(struct leat_store_op *op, int fd, uint64_t offset)
{
    size_t done = 0;
    while (done < op->data_n) {
        ssize_t n = pwrite(fd, (const char *)op->data + done, op->data_n - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            fail_errno(op, errno);
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

/* What must be before the file gets its name: after a power cut that must not lead to half a file, nor ever to one
 * that more people may read than the one it replaces. */
static bool settle(struct leat_store_op *op, int fd, const char *target)
{
    mode_t mode = mode_of(target);
    if (mode)
        fchmod(fd, mode); /* past the umask; where it cannot be, what it was created with must do */
    if (fsync(fd) == 0 || errno == EINVAL || errno == EROFS)
        return true;
    fail_errno(op, errno);
    return false;
}

/* Takes the lock on the folder that all who replace a file on a condition take. The descriptor, or -1 with op's error
 * set. It is held for a moment only; a process that was stopped in that moment must not hold up the others for ever. */
static int lock_folder(struct leat_store_op *op, const char *target)
{
    const char *slash = strrchr(target, '/');
    char *folder = slash ? leat_bytes_text(target, slash == target ? 1 : (size_t)(slash - target)) : strdup(".");
    if (!folder) {
        op->status = leat_fail(&op->own->err, LEAT_NO_MEMORY, "no memory for a path");
        return -1;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (fd < 0) {
        fail_errno(op, errno);
        return -1;
    }
    uint64_t deadline = leat_after(LOCK_WAIT);
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if ((errno == EWOULDBLOCK || errno == EINTR) && leat_left(deadline)) {
            leat_sleep_until(leat_after(LEAT_MS));
            continue;
        }
        if (errno == EWOULDBLOCK || errno == EINTR)
            op->status = leat_fail(&op->own->err, LEAT_BUSY, "someone else holds the lock on its folder");
        else
            op->status = leat_fail(&op->own->err, LEAT_UNSUPPORTED, "this file system cannot lock a folder");
        close(fd);
        return -1;
    }
    return fd;
}

/* Replaces the file if it is still the one that the caller has seen. */
static void replace_seen(struct leat_store_op *op, const char *temporary, const char *target)
{
    struct stat st;
    char etag[LEAT_ETAG_MAX];
    int lock = lock_folder(op, target);
    if (lock < 0)
        return;
    if (stat(target, &st) < 0) {
        fail_errno(op, errno);
        if (op->own->err.os_error == ENOENT)
            op->status = leat_fail(&op->own->err, LEAT_CHANGED, "the file to be replaced is gone");
    } else {
        leat_file_etag(&st, etag);
        if (strcmp(etag, op->if_match) != 0)
            op->status = leat_fail(&op->own->err, LEAT_CHANGED, "the file has changed: its tag was %s and is %s",
                                   op->if_match, etag);
        else if (rename(temporary, target) < 0)
            fail_errno(op, errno);
    }
    close(lock);
}

/* For file systems that know neither hard links nor RENAME_NOREPLACE, as many in user space. */
static void rename_locked(struct leat_store_op *op, const char *temporary, const char *target)
{
    struct stat st;
    int lock = lock_folder(op, target);
    if (lock < 0)
        return;
    if (lstat(target, &st) == 0)
        fail_errno(op, EEXIST);
    else if (errno != ENOENT || rename(temporary, target) < 0)
        fail_errno(op, errno);
    close(lock);
}

/* Gives the file a name that nothing has yet. link() has always done that; vfat, exFAT and many file systems in user
 * space have no hard links. */
static void rename_new(struct leat_store_op *op, const char *temporary, const char *target)
{
    if (link(temporary, target) == 0)
        unlink(temporary);
    else if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
        fail_errno(op, errno);
    else if (renameat2(AT_FDCWD, temporary, AT_FDCWD, target, RENAME_NOREPLACE) == 0)
        return;
    else if (errno == EEXIST)
        fail_errno(op, EEXIST);
    else
        rename_locked(op, temporary, target);
}

static void rename_temporary(struct leat_store_op *op, int fd, const char *temporary, const char *target)
{
    struct stat st;
    if (op->if_match)
        replace_seen(op, temporary, target);
    else if (op->create_only)
        rename_new(op, temporary, target);
    else if (rename(temporary, target) < 0)
        fail_errno(op, errno);
    if (op->status == LEAT_OK && fstat(fd, &st) == 0)
        set_object(&op->own->object, &st);
}

/* False: not possible here, and nothing has happened. */
static bool put_unnamed(struct leat_store_op *op, char *temporary, const char *target)
{
    struct stat st;
    bool possible = true;
    int fd = create_unnamed(temporary, mode_for(target));
    if (fd < 0)
        return false;
    if (write_all(op, fd, 0) && settle(op, fd, target)) {
        if (!op->if_match && give_name(fd, target)) {
            if (fstat(fd, &st) == 0)
                set_object(&op->own->object, &st);
        } else if (!op->if_match && errno == EEXIST && op->create_only) {
            fail_errno(op, EEXIST);
        } else {
            possible = (op->if_match || errno == EEXIST) && give_name(fd, temporary);
            if (possible)
                rename_temporary(op, fd, temporary, target);
        }
    }
    close(fd);
    return possible;
}

static void put_named(struct leat_store_op *op, char *temporary, const char *target)
{
    int fd = create_temporary(op, temporary, mode_for(target));
    if (fd < 0)
        return;
    if (write_all(op, fd, 0) && settle(op, fd, target))
        rename_temporary(op, fd, temporary, target);
    close(fd);
}

static void do_put(struct leat_store_op *op)
{
    char id[64];
    char *target = target_path(op);
    char *path = target && make_id(op, id, sizeof id) ? temporary_path(op, target, id) : NULL;
    if (path && !put_unnamed(op, path, target))
        put_named(op, path, target);
    if (path && op->status != LEAT_OK)
        unlink(path);
    free(path);
    free(target);
}

static void do_delete(struct leat_store_op *op)
{
    if (unlink(op->key) == 0 || errno == ENOENT || errno == ENOTDIR)
        return;
    if (errno == EISDIR || errno == EPERM) {
        struct stat st;
        if (lstat(op->key, &st) == 0 && S_ISDIR(st.st_mode)) {
            if (rmdir(op->key) < 0 && errno != ENOENT)
                fail_errno(op, errno);
            return;
        }
        errno = EPERM;
    }
    fail_errno(op, errno);
}

/* Writes a part into the temporary, or gives the temporary its name. */
static void write_upload(struct leat_store_op *op, const char *path, const char *target)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        fail_errno(op, errno);
        return;
    }
    if (op->verb == LEAT_STORE_UPLOAD_FINISH) {
        if (settle(op, fd, target))
            rename_temporary(op, fd, path, target);
    } else if (write_all(op, fd, op->offset)) {
        /* On disk before it is reported: a journal may count on it after a power cut. */
        if (fdatasync(fd) < 0 && errno != EINVAL)
            fail_errno(op, errno);
        else
            snprintf(op->own->object.etag, sizeof op->own->object.etag, "\"%u\"", op->part);
    }
    close(fd);
}

static void begin_upload(struct leat_store_op *op, const char *target)
{
    char id[64];
    char *path = make_id(op, id, sizeof id) ? temporary_path(op, target, id) : NULL;
    int fd = path ? create_temporary(op, path, mode_for(target)) : -1;
    if (fd >= 0) {
        memcpy(op->upload_id, id, sizeof id);
        close(fd);
    }
    free(path);
}

/* Whether a part is still there as it was written. Not: the file was cut, or written to by somebody else. */
static bool part_is_whole(struct leat_store_op *op, int fd, const struct leat_store_part *part, uint64_t offset,
                          char *buffer)
{
    uint32_t crc = 0;
    uint64_t done = 0;
    while (done < part->size && !__atomic_load_n(&op->own->cancelled, __ATOMIC_RELAXED)) {
        uint64_t left = part->size - done;
        ssize_t n = pread(fd, buffer, left < READ_AT_ONCE ? (size_t)left : READ_AT_ONCE, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        crc = leat_crc32c(crc, buffer, (size_t)n);
        done += (uint64_t)n;
    }
    return !part->summed || crc == part->crc32c;
}

static void check_upload(struct leat_store_op *op, const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        fail_errno(op, errno);
        return;
    }
    char *buffer = malloc(READ_AT_ONCE);
    if (!buffer)
        op->status = leat_fail(&op->own->err, LEAT_NO_MEMORY, "no memory for a list of parts");
    for (uint32_t i = 0; op->status == LEAT_OK && i < op->parts_n; i++) {
        if (op->parts[i].etag[0] && !part_is_whole(op, fd, &op->parts[i], i * op->length, buffer))
            op->status = leat_fail(&op->own->err, LEAT_CHANGED, "part %u is not there as it was written", i + 1);
    }
    free(buffer);
    close(fd);
}

static void do_upload(struct leat_store_op *op)
{
    char *target = target_path(op);
    char *path = target && op->upload ? temporary_path(op, target, op->upload) : NULL;
    if (target && op->verb == LEAT_STORE_UPLOAD_OPEN)
        begin_upload(op, target);
    else if (path && op->verb == LEAT_STORE_UPLOAD_ABORT)
        unlink(path);
    else if (path && op->verb == LEAT_STORE_UPLOAD_STAT)
        check_upload(op, path);
    else if (path)
        write_upload(op, path, target);
    free(path);
    free(target);
}

static void report(struct leat_task *task)
{
    struct leat_store_op *op = leat_store_op_of(task);
    if (op->status == LEAT_OK && op->got)
        leat_store_received(op, (size_t)op->got);
    if (op->status == LEAT_OK && op->data_n)
        leat_store_sent(op, op->data_n);
    leat_store_attempted(op);
}

static void perform(struct leat_task *task)
{
    struct leat_store_op *op = leat_store_op_of(task);
    switch (op->verb) {
    case LEAT_STORE_STAT:
        do_stat(op);
        break;
    case LEAT_STORE_GET:
        do_get(op);
        break;
    case LEAT_STORE_PUT:
        do_put(op);
        break;
    case LEAT_STORE_DELETE:
        do_delete(op);
        break;
    case LEAT_STORE_UPLOAD_OPEN:
    case LEAT_STORE_UPLOAD_STAT:
    case LEAT_STORE_UPLOAD_PART:
    case LEAT_STORE_UPLOAD_FINISH:
    case LEAT_STORE_UPLOAD_ABORT:
        do_upload(op);
        break;
    case LEAT_STORE_LIST: /* folders are walked on the caller's thread */
        op->status = leat_fail(&op->own->err, LEAT_INTERNAL, "a folder has no pages");
        break;
    }
    op->own->task.run = report;
    leat_loop_post(leat_store_loop(op->own->store), &op->own->task);
}

static void perform_here(struct leat_store_op *op)
{
    op->status = LEAT_OK;
    if (op->verb == LEAT_STORE_STAT)
        do_stat(op);
    else
        do_get(op);
}

static void start(struct leat_backend *backend, struct leat_store_op *op)
{
    op->own->task.run = perform;
    op->got = 0;
    leat_pool_add(((struct file_store *)backend)->pool, &op->own->task);
}

/* Blocking calls cannot be called back; a read looks at `cancelled` between its pieces. */
static void cancel(struct leat_backend *backend, struct leat_store_op *op)
{
    (void)backend;
    (void)op;
}

static void close_file(struct leat_backend *backend)
{
    struct file_store *f = (struct file_store *)backend;
    if (!f)
        return;
    leat_pool_close(f->pool);
    free(f);
}

static const struct leat_backend_ops ops = {
    .start = start, .cancel = cancel, .close = close_file, .perform = perform_here, .list_open = leat_file_list_open};

leat_status leat_file_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                           struct leat_error *err)
{
    (void)url;
    struct file_store *f = calloc(1, sizeof *f);
    if (!f)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
    f->backend.ops = &ops;
    f->backend.parallel = 2 * THREADS;
    f->store = store;
    leat_status rc = leat_pool_open("leat-file", THREADS, &f->pool, err);
    if (rc != LEAT_OK) {
        close_file(&f->backend);
        return rc;
    }
    *out = &f->backend;
    return LEAT_OK;
}
