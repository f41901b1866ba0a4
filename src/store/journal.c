#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json.h"

struct leat_journal {
    char *path;
    int fd;
};

static char *journal_path(const char *folder, const char *from, const char *to)
{
    struct leat_buf b;
    uint8_t digest[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    leat_buf_init(&b, 64 << 10);
    leat_buf_printf(&b, "%s\n%s", from, to);
    leat_sha256(b.data, b.len, digest);
    leat_buf_clear(&b);
    leat_hex(digest, 16, hex);
    leat_buf_printf(&b, "%s/copy-%s.jsonl", folder, hex);
    return leat_buf_take(&b);
}

void leat_journal_close(struct leat_journal *j, bool remove)
{
    if (!j)
        return;
    if (remove && j->path)
        unlink(j->path);
    if (j->fd >= 0)
        close(j->fd);
    free(j->path);
    free(j);
}

/* Opens and locks the file at j->path; one that another copy removed between the two is no longer the journal. */
static leat_status lock_file(struct leat_journal *j, struct leat_error *err)
{
    for (;;) {
        struct stat st;
        j->fd = open(j->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (j->fd < 0)
            return leat_fail_errno(err, errno, "cannot open '%s'", j->path);
        if (flock(j->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
            return leat_fail(err, LEAT_BUSY, "another copy to the same object is running (it holds '%s')", j->path);
        if (fstat(j->fd, &st) < 0)
            return leat_fail_errno(err, errno, "cannot inspect '%s'", j->path);
        if (st.st_nlink)
            return LEAT_OK;
        close(j->fd);
    }
}

/* With the folders above it. */
static leat_status make_folder(const char *path, struct leat_error *err)
{
    char *copy = strdup(path);
    if (!copy)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a journal");
    for (char *p = copy + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(copy, 0700); /* what is wrong with one of them is wrong with the last one too */
        *p = '/';
    }
    free(copy);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return leat_fail_errno(err, errno, "cannot make the folder '%s'", path);
    return LEAT_OK;
}

leat_status leat_journal_open(const char *folder, const char *from, const char *to, struct leat_journal **out,
                              struct leat_error *err)
{
    leat_status rc = make_folder(folder, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_journal *j = calloc(1, sizeof *j);
    if (!j)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a journal");
    j->fd = -1;
    j->path = journal_path(folder, from, to);
    rc = j->path ? lock_file(j, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a journal");
    if (rc != LEAT_OK) {
        leat_journal_close(j, false);
        return rc;
    }
    *out = j;
    return LEAT_OK;
}

void leat_journal_forget(const char *folder, const char *from, const char *to)
{
    char *path = journal_path(folder, from, to);
    if (path)
        unlink(path);
    free(path);
}

static void copy_text(char *out, size_t size, const json_t *value)
{
    const char *text = json_string_value(value);
    snprintf(out, size, "%s", text && strlen(text) < size ? text : "");
}

static bool head_fits(const json_t *line, const struct leat_journal_head *head)
{
    const char *etag = json_string_value(json_object_get(line, "etag"));
    return json_integer_value(json_object_get(line, "version")) == 1 &&
           (uint64_t)json_integer_value(json_object_get(line, "size")) == head->size &&
           (uint64_t)json_integer_value(json_object_get(line, "part_size")) == head->part_size && etag &&
           strcmp(etag, head->etag) == 0 && head->upload[0] &&
           json_is_true(json_object_get(line, "by_server")) == head->by_server;
}

/* Numbers of 64 bits are text: JSON's have 63. */
static bool take_number(const json_t *value, size_t digits, uint64_t *out)
{
    uint8_t bytes[8];
    const char *text = json_string_value(value);
    if (!text || strlen(text) != digits || !leat_unhex(text, bytes, digits / 2))
        return false;
    *out = 0;
    for (size_t i = 0; i < digits / 2; i++)
        *out = *out << 8 | bytes[i];
    return true;
}

static void take_part(struct leat_store_part *part, const json_t *line)
{
    uint64_t crc32c = 0;
    copy_text(part->etag, sizeof part->etag, json_object_get(line, "etag"));
    part->summed = take_number(json_object_get(line, "crc32c"), 8, &crc32c) && crc32c; /* 0: a server has copied it */
    part->crc32c = (uint32_t)crc32c;
    /* Journals that do not say of which kind a sum is are of an earlier Leat: as if there was none. */
    const char *kind = json_string_value(json_object_get(line, "sum_kind"));
    part->sum_kind = kind && take_number(json_object_get(line, "sum"), 16, &part->sum) ? leat_checksum_called(kind)
                                                                                       : LEAT_CHECKSUM_NONE;
}

bool leat_journal_read(struct leat_journal *j, struct leat_journal_head *head, struct leat_store_part *parts,
                       uint32_t parts_n)
{
    head->upload[0] = '\0';
    int fd = open(j->path, O_RDONLY | O_CLOEXEC);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!f) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    json_t *line = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
    copy_text(head->upload, sizeof head->upload, json_object_get(line, "upload"));
    bool fits = head_fits(line, head);
    while (fits && line) {
        json_decref(line);
        line = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL); /* NULL at the end and at a line cut off by a crash */
        json_int_t part = json_integer_value(json_object_get(line, "part"));
        if (part >= 1 && part <= parts_n)
            take_part(&parts[part - 1], line);
    }
    json_decref(line);
    fclose(f);
    return fits;
}

static void write_line(int fd, json_t *line)
{
    char *text = leat_json_write(line, JSON_COMPACT);
    if (text) {
        size_t n = strlen(text);
        text[n] = '\n'; /* in place of the NUL: one write, so that lines of several threads do not mix */
        ssize_t ignored = write(fd, text, n + 1);
        (void)ignored;
    }
    free(text);
    json_decref(line);
}

void leat_journal_begin(struct leat_journal *j, const struct leat_journal_head *head, const char *from, const char *to)
{
    json_t *line = json_pack("{s:i,s:I,s:I,s:b,s:s,s:s}", "version", 1, "size", (json_int_t)head->size, "part_size",
                             (json_int_t)head->part_size, "by_server", head->by_server, "etag", head->etag, "upload",
                             head->upload);
    /* For people who look into it; names that are no UTF-8 cannot be in JSON. */
    json_object_set_new(line, "from", json_string(from));
    json_object_set_new(line, "to", json_string(to));
    if (ftruncate(j->fd, 0) == 0)
        write_line(j->fd, line);
    else
        json_decref(line);
}

void leat_journal_note(struct leat_journal *j, uint32_t number, const struct leat_store_part *part)
{
    char crc32c[16];
    char sum[24];
    snprintf(crc32c, sizeof crc32c, "%08" PRIx32, part->crc32c);
    snprintf(sum, sizeof sum, "%016" PRIx64, part->sum);
    if (!j)
        return;
    json_t *line = json_pack("{s:I,s:s,s:s}", "part", (json_int_t)number, "etag", part->etag, "crc32c", crc32c);
    if (part->sum_kind) {
        json_object_set_new(line, "sum_kind", json_string(leat_checksum_name(part->sum_kind)));
        json_object_set_new(line, "sum", json_string(sum));
    }
    write_line(j->fd, line);
}
