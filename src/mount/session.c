#include "mount/session.h"

#include "mount/folder.h"

#ifdef LEAT_FUSE_SONAME
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/library.h"
#include "base/log.h"
#include "base/thread.h"
#include "mount/path.h"

#define THREADS_MAX 64u
#define POLL        (100 * LEAT_MS)
#define FOR_EVER    1e9     /* seconds: nothing in a version ever changes */
#define BLOCK       4096u   /* of statfs */
#define WAKE        SIGUSR2 /* gets a thread out of its wait for a request */

#define CALLS(X)                                                                                                       \
    X(fuse_add_direntry)                                                                                               \
    X(fuse_add_direntry_plus)                                                                                          \
    X(fuse_opt_add_arg)                                                                                                \
    X(fuse_opt_free_args)                                                                                              \
    X(fuse_reply_attr)                                                                                                 \
    X(fuse_reply_buf)                                                                                                  \
    X(fuse_reply_entry)                                                                                                \
    X(fuse_reply_err)                                                                                                  \
    X(fuse_reply_none)                                                                                                 \
    X(fuse_reply_open)                                                                                                 \
    X(fuse_reply_statfs)                                                                                               \
    X(fuse_req_userdata)                                                                                               \
    X(fuse_session_destroy)                                                                                            \
    X(fuse_session_exit)                                                                                               \
    X(fuse_session_exited)                                                                                             \
    X(fuse_session_mount)                                                                                              \
    X(fuse_session_new)                                                                                                \
    X(fuse_session_process_buf)                                                                                        \
    X(fuse_session_receive_buf)                                                                                        \
    X(fuse_session_unmount)                                                                                            \
    X(fuse_set_log_func)

#define X(f) __typeof__(&(f)) f; /* NOLINT(bugprone-macro-parentheses) */
static struct {
    CALLS(X)
} fuse;
#undef X
#define X(f) #f,
static const char *const names[] = {CALLS(X) NULL};
#undef X

static struct leat_library library = {
    .soname = LEAT_FUSE_SONAME,
    .package = "libfuse3-3",
    .names = names,
    .calls = (leat_library_call *)(void *)&fuse,
};

struct leat_session {
    struct leat_session_opts opts; /* constant after the opening, as the next three */
    struct leat_files *files;
    const struct leat_tree *tree;
    struct fuse_session *fuse;
    bool mounted;
    bool no_open; /* the kernel can do without being asked at each opening; set before other requests come */
    uid_t uid;
    gid_t gid;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    struct {              /* hold mutex */
        unsigned running; /* threads */
    } locked;
};

static struct leat_session *session_of(fuse_req_t req)
{
    return fuse.fuse_req_userdata(req);
}

/* Answers */

static struct stat describe(const struct leat_session *s, uint64_t ino)
{
    bool folder = leat_tree_is_folder(s->tree, ino);
    uint64_t bytes = folder ? 0 : leat_tree_file(s->tree, ino).bytes;
    struct timespec time = {.tv_sec = leat_files_time(s->files)};
    return (struct stat){
        .st_ino = ino,
        .st_mode = folder ? S_IFDIR | 0555 : S_IFREG | 0444,
        .st_nlink = folder ? 2 + leat_tree_subfolders(s->tree, ino) : 1,
        .st_uid = s->uid,
        .st_gid = s->gid,
        .st_size = (off_t)bytes,
        .st_blocks = (blkcnt_t)((bytes + 511) / 512),
        .st_blksize = 128 << 10,
        .st_atim = time,
        .st_mtim = time,
        .st_ctim = time,
    };
}

static struct fuse_entry_param entry_of(const struct leat_session *s, uint64_t ino)
{
    return (struct fuse_entry_param){
        .ino = ino, .attr = describe(s, ino), .attr_timeout = FOR_EVER, .entry_timeout = FOR_EVER};
}

static void on_init(void *user, struct fuse_conn_info *conn)
{
    struct leat_session *s = user;
    s->no_open = conn->capable & FUSE_CAP_NO_OPEN_SUPPORT;
    conn->max_background = 64; /* the usual 12 would hold back who waits for chunks from a bucket */
    conn->congestion_threshold = 48;
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    const struct leat_session *s = session_of(req);
    size_t n = strlen(name);
    if (n > LEAT_PATH_NAME_MAX) {
        fuse.fuse_reply_err(req, ENAMETOOLONG);
        return;
    }
    bool folder = leat_tree_has(s->tree, parent) && leat_tree_is_folder(s->tree, parent);
    uint64_t ino = folder ? leat_tree_find(s->tree, parent, name, n) : 0;
    struct fuse_entry_param e = {.entry_timeout = FOR_EVER}; /* number 0: that there is none may be remembered too */
    if (ino)
        e = entry_of(s, ino);
    fuse.fuse_reply_entry(req, &e);
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    const struct leat_session *s = session_of(req);
    (void)fi;
    if (!leat_tree_has(s->tree, ino)) {
        fuse.fuse_reply_err(req, ENOENT);
        return;
    }
    struct stat st = describe(s, ino);
    fuse.fuse_reply_attr(req, &st, FOR_EVER);
}

/* ENOSYS says: do not ask again, keep what was read. */
static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    if (session_of(req)->no_open) {
        fuse.fuse_reply_err(req, ENOSYS);
        return;
    }
    fi->keep_cache = 1;
    fuse.fuse_reply_open(req, fi);
}

static void on_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    fi->cache_readdir = 1;
    fi->keep_cache = 1;
    fuse.fuse_reply_open(req, fi);
}

/* Of the errors that programs tell apart. */
static int number_of(leat_status status)
{
    return status == LEAT_CHANGED ? ESTALE : status == LEAT_NO_MEMORY ? ENOMEM : EIO;
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t n, off_t at, struct fuse_file_info *fi)
{
    const struct leat_session *s = session_of(req);
    struct leat_files_part part;
    struct leat_error err;
    (void)fi;
    if (!leat_tree_has(s->tree, ino) || leat_tree_is_folder(s->tree, ino) || at < 0) {
        fuse.fuse_reply_err(req, EINVAL);
        return;
    }
    leat_status rc = leat_files_read(s->files, ino, (uint64_t)at, n, &part, &err);
    if (rc != LEAT_OK) {
        fuse.fuse_reply_err(req, number_of(rc));
        return;
    }
    fuse.fuse_reply_buf(req, part.data, part.n);
    leat_files_give(s->files, &part);
}

/* A folder's entries are ".", "..", and its children by name; an entry's place among them is the offset of the next,
 * which means the same whenever and by whomever it is asked for. 0: it does not fit any more. */
static size_t add_entry(fuse_req_t req, fuse_ino_t ino, uint64_t place, bool plus, char *out, size_t room)
{
    const struct leat_session *s = session_of(req);
    char name[LEAT_PATH_NAME_MAX + 1];
    size_t n;
    uint64_t of = place == 0   ? ino
                  : place == 1 ? leat_tree_parent(s->tree, ino)
                               : leat_tree_child(s->tree, ino, place - 2);
    const char *from = place == 0 ? "." : place == 1 ? ".." : leat_tree_name(s->tree, of, &n);
    n = place < 2 ? place + 1 : n;
    memcpy(name, from, n);
    name[n] = '\0';
    struct fuse_entry_param e = entry_of(s, of);
    if (!plus)
        return fuse.fuse_add_direntry(req, out, room, name, &e.attr, (off_t)place + 1);
    if (place < 2)
        e.ino = 0; /* not to be looked up */
    return fuse.fuse_add_direntry_plus(req, out, room, name, &e, (off_t)place + 1);
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t room, off_t from, bool plus)
{
    const struct leat_session *s = session_of(req);
    if (!leat_tree_has(s->tree, ino) || !leat_tree_is_folder(s->tree, ino) || from < 0) {
        fuse.fuse_reply_err(req, ENOTDIR);
        return;
    }
    char *out = malloc(room);
    if (!out) {
        fuse.fuse_reply_err(req, ENOMEM);
        return;
    }
    uint64_t end = leat_tree_children(s->tree, ino) + 2;
    size_t used = 0;
    for (uint64_t place = (uint64_t)from; place < end; place++) {
        size_t n = add_entry(req, ino, place, plus, out + used, room - used);
        if (n > room - used)
            break;
        used += n;
    }
    fuse.fuse_reply_buf(req, out, used);
    free(out);
}

static void on_readdir(fuse_req_t req, fuse_ino_t ino, size_t room, off_t from, struct fuse_file_info *fi)
{
    (void)fi;
    list(req, ino, room, from, false);
}

static void on_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t room, off_t from, struct fuse_file_info *fi)
{
    (void)fi;
    list(req, ino, room, from, true);
}

static void on_statfs(fuse_req_t req, fuse_ino_t ino)
{
    const struct leat_session *s = session_of(req);
    struct statvfs v = {
        .f_bsize = BLOCK,
        .f_frsize = BLOCK,
        .f_blocks = (leat_files_bytes(s->files) + BLOCK - 1) / BLOCK,
        .f_files = leat_tree_files(s->tree) + leat_tree_folders(s->tree),
        .f_namemax = LEAT_PATH_NAME_MAX,
    };
    (void)ino;
    fuse.fuse_reply_statfs(req, &v);
}

/* Nothing is counted: a number means the same file as long as the mount is there. */
static void on_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
    (void)ino, (void)n;
    fuse.fuse_reply_none(req);
}

static const struct fuse_lowlevel_ops answers = {
    .init = on_init,
    .lookup = on_lookup,
    .forget = on_forget,
    .getattr = on_getattr,
    .open = on_open,
    .read = on_read,
    .opendir = on_opendir,
    .readdir = on_readdir,
    .readdirplus = on_readdirplus,
    .statfs = on_statfs,
};

/* What libfuse has to say, of which its return values say nothing. */
__attribute__((format(printf, 2, 0))) static void pass_on(enum fuse_log_level level, const char *format, va_list args)
{
    char line[500];
    int n = vsnprintf(line, sizeof line, format, args);
    (void)level;
    if (n > 0 && n < (int)sizeof line && line[n - 1] == '\n')
        line[n - 1] = '\0';
    leat_log(LEAT_LOG_WARN, "%s", line);
}

/* Opening */

leat_status leat_session_check(const char *dir, struct leat_error *err)
{
    leat_status rc = leat_library_open(&library, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "leat mount");
    rc = leat_mount_check_device("/dev/fuse", err);
    return rc == LEAT_OK ? leat_mount_check_folder(dir, err) : rc;
}

static leat_status add_args(const struct leat_session_opts *o, struct fuse_args *args, struct leat_error *err)
{
    char source[600] = "-ofsname=";
    size_t n = strlen(source);
    for (const char *c = o->source; *c && n + 3 < sizeof source; c++) { /* ',' and '\' mean something there */
        if (*c == ',' || *c == '\\')
            source[n++] = '\\';
        source[n++] = *c;
    }
    source[n] = '\0';
    const char *const all[] = {
        "leat",
        source,
        "-osubtype=leat",
        "-oro,nosuid,nodev,default_permissions",
        leat_mount_has_helper() ? "-oauto_unmount" : "",
        o->allow_other ? "-oallow_other" : "",
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (*all[i] && fuse.fuse_opt_add_arg(args, all[i]) != 0)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for a mount");
    }
    return LEAT_OK;
}

static leat_status mount_on(struct leat_session *s, struct leat_error *err)
{
    struct fuse_args args = {0};
    leat_status rc = add_args(&s->opts, &args, err);
    if (rc == LEAT_OK) {
        s->fuse = fuse.fuse_session_new(&args, &answers, sizeof answers, s);
        if (!s->fuse)
            rc = leat_fail(err, LEAT_UNSUPPORTED, "libfuse3 does not take the mount's options");
    }
    fuse.fuse_opt_free_args(&args);
    if (rc != LEAT_OK)
        return rc;
    if (fuse.fuse_session_mount(s->fuse, s->opts.dir) != 0)
        return leat_fail(err, LEAT_DENIED, "cannot mount on '%s': not permitted here, or not to this user; %s",
                         s->opts.dir,
                         s->opts.allow_other && s->uid
                             ? "--allow-other needs 'user_allow_other' in /etc/fuse.conf"
                             : "a container needs --device /dev/fuse --cap-add SYS_ADMIN, a user the package fuse3");
    s->mounted = true;
    return LEAT_OK;
}

leat_status leat_session_open(const struct leat_session_opts *opts, struct leat_session **out, struct leat_error *err)
{
    leat_status rc = leat_session_check(opts->dir, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_session *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a mount");
    s->opts = *opts;
    s->files = opts->files;
    s->tree = leat_files_tree(opts->files);
    s->uid = getuid();
    s->gid = getgid();
    pthread_mutex_init(&s->mutex, NULL);
    leat_cond_init(&s->ended);
    fuse.fuse_set_log_func(pass_on);
    rc = mount_on(s, err);
    if (rc != LEAT_OK) {
        leat_session_close(s);
        return rc;
    }
    *out = s;
    return LEAT_OK;
}

void leat_session_close(struct leat_session *s)
{
    if (!s)
        return;
    if (s->mounted)
        fuse.fuse_session_unmount(s->fuse);
    if (s->fuse)
        fuse.fuse_session_destroy(s->fuse);
    pthread_cond_destroy(&s->ended);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* Threads */

static void nothing(int signal)
{
    (void)signal;
}

static void *answer(void *arg)
{
    struct leat_session *s = arg;
    struct fuse_buf request = {0};
    sigset_t wake;
    sigemptyset(&wake);
    sigaddset(&wake, WAKE);
    pthread_sigmask(SIG_UNBLOCK, &wake, NULL);
    while (!fuse.fuse_session_exited(s->fuse)) {
        int got = fuse.fuse_session_receive_buf(s->fuse, &request);
        if (got > 0)
            fuse.fuse_session_process_buf(s->fuse, &request);
        else if (got != -EINTR && got != -EAGAIN)
            fuse.fuse_session_exit(s->fuse); /* unmounted, or the device is broken */
    }
    free(request.mem);
    pthread_mutex_lock(&s->mutex);
    s->locked.running--;
    pthread_cond_signal(&s->ended);
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

/* Waits for all threads to end, and makes them when it is time. A thread may miss the signal just before its wait, so
 * it is sent until all have ended. */
static void wait_for(struct leat_session *s, const pthread_t *threads, unsigned n)
{
    pthread_mutex_lock(&s->mutex);
    while (s->locked.running) {
        leat_cond_wait(&s->ended, &s->mutex, leat_after(POLL));
        if (s->opts.stop(s->opts.user))
            fuse.fuse_session_exit(s->fuse);
        if (!fuse.fuse_session_exited(s->fuse))
            continue;
        for (unsigned i = 0; i < n; i++)
            pthread_kill(threads[i], WAKE);
    }
    pthread_mutex_unlock(&s->mutex);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

leat_status leat_session_run(struct leat_session *s, struct leat_error *err)
{
    pthread_t threads[THREADS_MAX];
    struct sigaction wake = {.sa_handler = nothing};
    unsigned n = 0;
    leat_status rc = LEAT_OK;
    sigaction(WAKE, &wake, NULL);
    while (rc == LEAT_OK && n < s->opts.threads && n < THREADS_MAX) {
        pthread_mutex_lock(&s->mutex);
        s->locked.running++;
        pthread_mutex_unlock(&s->mutex);
        rc = leat_thread_start(&threads[n], "leat-mount", answer, s, err);
        n += rc == LEAT_OK;
    }
    if (rc != LEAT_OK) {
        pthread_mutex_lock(&s->mutex);
        s->locked.running--;
        pthread_mutex_unlock(&s->mutex);
        fuse.fuse_session_exit(s->fuse);
    }
    wait_for(s, threads, n);
    return rc;
}

#else

static leat_status not_built(struct leat_error *err)
{
    return leat_fail(err, LEAT_UNSUPPORTED,
                     "this Leat was built without libfuse3, which 'leat mount' needs: install "
                     "libfuse3-dev and build it again");
}

leat_status leat_session_check(const char *dir, struct leat_error *err)
{
    (void)dir;
    return not_built(err);
}

leat_status leat_session_open(const struct leat_session_opts *opts, struct leat_session **out, struct leat_error *err)
{
    (void)opts, (void)out;
    return not_built(err);
}

leat_status leat_session_run(struct leat_session *s, struct leat_error *err)
{
    (void)s;
    return not_built(err);
}

void leat_session_close(struct leat_session *s)
{
    (void)s;
}
#endif
