/* Walking folders in the order of a bucket's listing: sorted by the bytes of the whole key. One folder's names are
 * in memory for each level of depth. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/log.h"
#include "store/file.h"

#define DEPTH_MAX 128

struct folder {
    size_t path_n; /* length of the key up to and with this folder's slash */
    char **names;  /* folders with a slash at the end, which puts them where their contents belong */
    size_t n;
    size_t at;
    dev_t device; /* to notice a link back to a folder that is being walked */
    ino_t inode;
};

struct file_list {
    struct leat_list list; /* first member */
    bool recursive;
    char *start; /* names in the first folder must begin with this */
    struct leat_buf key;
    char etag[LEAT_ETAG_MAX];
    struct folder folders[DEPTH_MAX];
    unsigned depth;
    uint64_t left_out; /* links to nowhere, pipes, sockets: said once, at the end */
    char first[256];   /* of them */
};

static void leave(struct file_list *l)
{
    struct folder *f = &l->folders[--l->depth];
    for (size_t i = 0; i < f->n; i++)
        free(f->names[i]);
    free(f->names);
    *f = (struct folder){0};
}

static void close_list(struct leat_list *list)
{
    struct file_list *l = (struct file_list *)list;
    while (l->depth)
        leave(l);
    leat_buf_free(&l->key);
    free(l->start);
    free(l);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_folder(int fd, const struct dirent *d)
{
    struct stat st;
    if (d->d_type == DT_DIR)
        return true;
    if (d->d_type != DT_LNK && d->d_type != DT_UNKNOWN)
        return false;
    return fstatat(fd, d->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static bool add_name(struct folder *f, size_t *cap, const char *name, bool folder)
{
    if (f->n == *cap) {
        size_t more = *cap ? *cap * 2 : 64;
        char **names = realloc(f->names, more * sizeof *names);
        if (!names)
            return false;
        f->names = names;
        *cap = more;
    }
    size_t n = strlen(name);
    char *copy = malloc(n + 2);
    if (!copy)
        return false;
    memcpy(copy, name, n);
    memcpy(copy + n, folder ? "/" : "", folder ? 2 : 1);
    f->names[f->n++] = copy;
    return true;
}

static leat_status read_names(struct file_list *l, struct folder *f, DIR *dir, struct leat_error *err)
{
    size_t cap = 0;
    struct dirent *d;
    const char *start = l->depth == 1 ? l->start : "";
    while (errno = 0, (d = readdir(dir))) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
            strncmp(d->d_name, start, strlen(start)) != 0 ||
            strncmp(d->d_name, LEAT_FILE_TEMPORARY, strlen(LEAT_FILE_TEMPORARY)) == 0)
            continue;
        if (!add_name(f, &cap, d->d_name, is_folder(dirfd(dir), d)))
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the names in '%s'", l->key.data);
    }
    if (errno)
        return leat_fail_errno(err, errno, "cannot list '%s'", l->key.data);
    if (f->n)
        qsort(f->names, f->n, sizeof *f->names, by_bytes);
    return LEAT_OK;
}

/* Goes into the folder whose path is in key, up to and with its slash (or empty: the current folder). */
static leat_status enter(struct file_list *l, struct leat_error *err)
{
    struct stat st;
    if (l->depth == DEPTH_MAX)
        return leat_fail(err, LEAT_LIMIT, "'%.200s…' is more than %d folders deep", l->key.data, DEPTH_MAX);
    DIR *dir = opendir(l->key.len ? l->key.data : ".");
    if (!dir)
        return leat_fail_errno(err, errno, "cannot list '%s'", l->key.len ? l->key.data : ".");
    leat_status rc = LEAT_OK;
    if (fstat(dirfd(dir), &st) < 0) {
        rc = leat_fail_errno(err, errno, "cannot list '%s'", l->key.data);
    } else {
        for (unsigned i = 0; i < l->depth && rc == LEAT_OK; i++) {
            if (l->folders[i].device == st.st_dev && l->folders[i].inode == st.st_ino)
                rc = leat_fail(err, LEAT_INVALID, "'%s' is a link back to a folder above it", l->key.data);
        }
    }
    if (rc == LEAT_OK) {
        struct folder *f = &l->folders[l->depth++];
        f->path_n = l->key.len;
        f->device = st.st_dev;
        f->inode = st.st_ino;
        rc = read_names(l, f, dir, err);
    }
    closedir(dir);
    return rc;
}

static void set_key(struct file_list *l, const struct folder *f, const char *name)
{
    l->key.len = f->path_n;
    leat_buf_str(&l->key, name);
}

/* A folder with what is no file in it is not an error, but somebody may count on its being there. */
static void leave_out(struct file_list *l)
{
    if (!l->left_out++)
        snprintf(l->first, sizeof l->first, "%s", l->key.data);
}

static void say_left_out(struct file_list *l)
{
    if (l->left_out == 1)
        leat_log(LEAT_LOG_WARN, "'%s' is left out: it is not a file, or a link that leads nowhere", l->first);
    else if (l->left_out)
        leat_log(LEAT_LOG_WARN,
                 "'%s' and %" PRIu64 " more are left out: they are not files, or links that lead nowhere", l->first,
                 l->left_out - 1);
    l->left_out = 0;
}

static leat_status next(struct leat_list *list, struct leat_list_entry *entry, bool *end, struct leat_error *err)
{
    struct file_list *l = (struct file_list *)list;
    struct stat st;
    while (l->depth) {
        struct folder *f = &l->folders[l->depth - 1];
        if (f->at == f->n) {
            leave(l);
            continue;
        }
        const char *name = f->names[f->at++];
        set_key(l, f, name);
        if (l->key.failed)
            return leat_buf_check(&l->key, "a path", err);
        bool folder = name[strlen(name) - 1] == '/';
        if (folder && l->recursive) {
            leat_status rc = enter(l, err);
            if (rc != LEAT_OK)
                return rc;
            continue;
        }
        *entry = (struct leat_list_entry){.key = l->key.data, .prefix = folder, .etag = ""};
        *end = false;
        if (folder)
            return LEAT_OK;
        if (stat(l->key.data, &st) < 0) {
            if (errno != ENOENT && errno != ELOOP)
                return leat_fail_errno(err, errno, "cannot inspect '%s'", l->key.data);
            if (lstat(l->key.data, &st) == 0) /* else it is gone meanwhile */
                leave_out(l);
            continue;
        }
        if (!S_ISREG(st.st_mode)) {
            leave_out(l); /* a socket, a pipe */
            continue;
        }
        leat_file_etag(&st, l->etag);
        entry->size = (uint64_t)st.st_size;
        entry->modified_s = (int64_t)st.st_mtim.tv_sec;
        entry->etag = l->etag;
        return LEAT_OK;
    }
    say_left_out(l);
    *end = true;
    return LEAT_OK;
}

leat_status leat_file_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                                struct leat_error *err)
{
    (void)store;
    const char *slash = strrchr(prefix, '/');
    size_t folder_n = slash ? (size_t)(slash + 1 - prefix) : 0;
    struct file_list *l = calloc(1, sizeof *l);
    if (!l)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a listing");
    leat_status rc;
    leat_buf_init(&l->key, 8192);
    l->list.next = next;
    l->list.close = close_list;
    l->recursive = recursive;
    l->start = strdup(prefix + folder_n);
    leat_buf_add(&l->key, prefix, folder_n);
    if (!l->start || l->key.failed) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a listing");
        goto fail;
    }
    rc = enter(l, err);
    if (rc == LEAT_NOT_FOUND)
        rc = LEAT_OK; /* a prefix that nothing has: an empty list, as in a bucket */
    if (rc != LEAT_OK)
        goto fail;
    *out = &l->list;
    return LEAT_OK;
fail:
    close_list(&l->list);
    return rc;
}
