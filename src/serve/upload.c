#include "serve/upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "serve/walk.h"

#define UPLOADS_DIR LEAT_SERVE_RESERVED "/uploads"
#define ID_BYTES    16
#define INFO_MAX    8192
#define BLOCK       "block-"
#define NAME_SIZE   (sizeof BLOCK + 2 * (size_t)LEAT_SERVE_BLOCK_MAX)

static void part_name(char out[NAME_SIZE], const struct leat_serve_part *p)
{
    if (p->number) {
        snprintf(out, NAME_SIZE, "part-%05u-%s", p->number, p->md5);
        return;
    }
    memcpy(out, BLOCK, sizeof BLOCK);
    leat_hex(p->block, strlen(p->block), out + strlen(BLOCK));
}

static bool parse_block(const char *name, struct leat_serve_part *out)
{
    size_t n = strlen(name);
    if (strncmp(name, BLOCK, strlen(BLOCK)) != 0 || n >= NAME_SIZE)
        return false;
    n = (n - strlen(BLOCK)) / 2;
    out->block[n] = '\0';
    return n > 0 && leat_unhex(name + strlen(BLOCK), out->block, n);
}

static bool parse_part(const char *name, struct leat_serve_part *out)
{
    unsigned char md5[LEAT_SERVE_MD5];
    unsigned number;
    int used = 0;
    if (sscanf(name, "part-%5u-%n", &number, &used) != 1 || used != 11 || number < 1 || number > LEAT_SERVE_PARTS_MAX ||
        !leat_unhex(name + used, md5, sizeof md5))
        return false;
    out->number = number;
    memcpy(out->md5, name + used, LEAT_SERVE_MD5_HEX + 1);
    return true;
}

static int by_number(const void *a, const void *b)
{
    const struct leat_serve_part *x = a;
    const struct leat_serve_part *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int64_t modified_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * (int64_t)LEAT_S + st->st_mtim.tv_nsec;
}

static DIR *open_dir(int at)
{
    int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

static leat_status read_parts(struct leat_serve_upload *u, struct leat_error *err)
{
    DIR *dir = open_dir(u->dir);
    const struct dirent *d;
    leat_status rc = LEAT_OK;
    if (!dir)
        return leat_fail_errno(err, errno, "cannot read the upload");
    while (rc == LEAT_OK && (d = readdir(dir))) {
        struct leat_serve_part p = {0};
        struct stat st;
        if ((!parse_part(d->d_name, &p) && !parse_block(d->d_name, &p)) ||
            fstatat(u->dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        p.size = (uint64_t)st.st_size;
        p.modified_ns = modified_ns(&st);
        struct leat_serve_part *more = realloc(u->part, (u->parts + 1) * sizeof *more);
        if (!more) {
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the list of parts");
        } else {
            u->part = more;
            u->part[u->parts++] = p;
        }
    }
    closedir(dir);
    if (u->parts > 1)
        qsort(u->part, u->parts, sizeof *u->part, by_number);
    return rc;
}

/* "KEY-ESCAPED\n" and header lines. */
static leat_status read_info(struct leat_serve_upload *u, struct leat_error *err)
{
    char text[INFO_MAX + 1];
    struct stat st = {0};
    int fd = openat(u->dir, "info", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return leat_fail_errno(err, errno, "cannot open the upload");
    ssize_t n = fstat(fd, &st) == 0 ? read(fd, text, INFO_MAX) : -1;
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *end = strchr(text, '\n');
    if (!end)
        return leat_fail(err, LEAT_NOT_FOUND, "there is no such upload");
    *end = '\0';
    u->started_ns = modified_ns(&st);
    if (!leat_serve_key_unescape(text, &u->key) || !leat_buf_str(&u->headers, end + 1))
        return leat_fail(err, LEAT_NOT_FOUND, "the upload is not one of this server's");
    return LEAT_OK;
}

leat_status leat_serve_upload_open(struct leat_serve_bucket *b, const char *id, struct leat_serve_upload *out,
                                   struct leat_error *err)
{
    char path[128];
    unsigned char bytes[ID_BYTES];
    struct leat_serve_upload u = {.dir = -1};
    leat_buf_init(&u.key, LEAT_SERVE_KEY_MAX);
    leat_buf_init(&u.headers, INFO_MAX);
    if (!id || !leat_unhex(id, bytes, sizeof bytes))
        return leat_fail(err, LEAT_NOT_FOUND, "there is no such upload");
    memcpy(u.id, id, sizeof u.id);
    snprintf(path, sizeof path, UPLOADS_DIR "/%s", id);
    u.dir = leat_serve_walk(b->fd, path, false);
    if (u.dir < 0)
        return leat_fail_errno(err, -u.dir, "cannot open the upload");
    leat_status rc = read_info(&u, err);
    if (rc == LEAT_OK)
        rc = read_parts(&u, err);
    if (rc == LEAT_OK)
        *out = u;
    else
        leat_serve_upload_close(&u);
    return rc;
}

void leat_serve_upload_close(struct leat_serve_upload *u)
{
    if (u->dir >= 0)
        close(u->dir);
    u->dir = -1;
    free(u->part);
    u->part = NULL;
    leat_buf_free(&u->key);
    leat_buf_free(&u->headers);
}

/* Writes "info" under another name until it is whole. */
static leat_status write_info(int dir, const struct leat_buf *info, struct leat_error *err)
{
    int fd = openat(dir, "info.new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    leat_status rc = LEAT_OK;
    if (fd < 0 || write(fd, info->data, info->len) != (ssize_t)info->len || renameat(dir, "info.new", dir, "info") != 0)
        rc = leat_fail_errno(err, errno, "cannot write in the folder of the upload");
    if (fd >= 0)
        close(fd);
    if (rc != LEAT_OK)
        unlinkat(dir, "info.new", 0);
    return rc;
}

leat_status leat_serve_upload_new_id(char id[LEAT_SERVE_UPLOAD_ID], struct leat_error *err)
{
    unsigned char random[ID_BYTES];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return leat_fail_errno(err, errno, "no random numbers for an upload's id");
    leat_hex(random, sizeof random, id);
    return LEAT_OK;
}

leat_status leat_serve_upload_make(struct leat_serve_bucket *b, struct leat_serve_key key, const char *headers,
                                   const char id[LEAT_SERVE_UPLOAD_ID], struct leat_error *err)
{
    char path[128];
    struct leat_buf info;
    snprintf(path, sizeof path, UPLOADS_DIR "/%s", id);
    leat_buf_init(&info, INFO_MAX);
    leat_serve_key_escape(key, &info);
    leat_buf_char(&info, '\n');
    leat_buf_str(&info, headers);
    leat_status rc = leat_buf_check(&info, "what is kept of the upload", err);
    int dir = rc == LEAT_OK ? leat_serve_walk(b->fd, path, true) : -1;
    if (rc == LEAT_OK)
        rc = dir < 0 ? leat_fail_errno(err, -dir, "cannot make the folder of the upload") : write_info(dir, &info, err);
    if (dir >= 0)
        close(dir);
    if (dir >= 0 && rc != LEAT_OK) {
        snprintf(path, sizeof path, UPLOADS_DIR "/%s/info", id);
        leat_serve_walk_prune(b->fd, path);
    }
    leat_buf_free(&info);
    return rc;
}

leat_status leat_serve_upload_place(struct leat_serve_upload *u, struct leat_serve_writer *w,
                                    const struct leat_serve_part *part, struct leat_error *err)
{
    char name[NAME_SIZE];
    struct stat st;
    part_name(name, part);
    if (fstatat(u->dir, "info", &st, AT_SYMLINK_NOFOLLOW) != 0)
        return leat_fail(err, LEAT_NOT_FOUND, "the upload was completed or aborted");
    if (renameat(w->dir, w->name, u->dir, name) != 0)
        return leat_fail_errno(err, errno, "cannot put the part in its place");
    *w->name = '\0'; /* nothing to drop any more */
    for (size_t i = 0; i < u->parts; i++) {
        if (part->number && u->part[i].number == part->number && strcmp(u->part[i].md5, part->md5) != 0) {
            part_name(name, &u->part[i]);
            unlinkat(u->dir, name, 0);
        }
    }
    return LEAT_OK;
}

leat_status leat_serve_upload_append(const struct leat_serve_upload *u, const struct leat_serve_part *part,
                                     struct leat_serve_writer *to, struct leat_error *err)
{
    char name[NAME_SIZE];
    part_name(name, part);
    int fd = openat(u->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return leat_fail_errno(err, errno, "cannot open a part of the upload");
    leat_status rc = leat_serve_writer_copy(to, fd, part->size, err);
    close(fd);
    return rc;
}

void leat_serve_upload_remove(struct leat_serve_bucket *b, const struct leat_serve_upload *u)
{
    char path[128];
    /* First what makes it an upload: a part that arrives now finds it gone. */
    unlinkat(u->dir, "info", 0);
    for (size_t i = 0; i < u->parts; i++) {
        char name[NAME_SIZE];
        part_name(name, &u->part[i]);
        unlinkat(u->dir, name, 0);
    }
    snprintf(path, sizeof path, UPLOADS_DIR "/%s/info", u->id);
    leat_serve_walk_prune(b->fd, path);
}
