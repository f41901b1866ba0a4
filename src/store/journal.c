#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

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

static leat_status open_journal(const char *folder, const char *from, const char *to, int flags,
                                struct leat_journal **out, struct leat_error *err)
{
    struct leat_journal *j = calloc(1, sizeof *j);
    if (!j)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a journal");
    j->fd = -1;
    j->path = journal_path(folder, from, to);
    if (!j->path) {
        leat_journal_close(j, false);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a journal");
    }
    j->fd = open(j->path, O_RDWR | O_APPEND | O_CLOEXEC | flags, 0600);
    if (j->fd < 0) {
        leat_status rc = leat_fail_errno(err, errno, "cannot open '%s'", j->path);
        leat_journal_close(j, false);
        return rc;
    }
    *out = j;
    return LEAT_OK;
}

static void copy_text(char *out, size_t size, const json_t *value)
{
    const char *text = json_string_value(value);
    snprintf(out, size, "%s", text && strlen(text) < size ? text : "");
}

static bool head_fits(const json_t *line, struct leat_journal_head *head)
{
    const char *etag = json_string_value(json_object_get(line, "etag"));
    if (json_integer_value(json_object_get(line, "version")) != 1 ||
        (uint64_t)json_integer_value(json_object_get(line, "size")) != head->size ||
        (uint64_t)json_integer_value(json_object_get(line, "part_size")) != head->part_size || !etag ||
        strcmp(etag, head->etag) != 0)
        return false;
    copy_text(head->upload, sizeof head->upload, json_object_get(line, "upload"));
    return head->upload[0] != '\0';
}

leat_status leat_journal_find(const char *folder, const char *from, const char *to, struct leat_journal_head *head,
                              struct leat_store_part *parts, uint32_t parts_n, struct leat_journal **journal,
                              struct leat_error *err)
{
    struct leat_journal *j;
    *journal = NULL;
    leat_status rc = open_journal(folder, from, to, 0, &j, err);
    if (rc == LEAT_NOT_FOUND)
        return LEAT_OK;
    if (rc != LEAT_OK)
        return rc;
    int fd = dup(j->fd);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!f && fd >= 0)
        close(fd);
    bool fits = false;
    json_t *line = f ? json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    fits = line && head_fits(line, head);
    while (fits && line) {
        json_decref(line);
        line = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL); /* NULL at the end and at a line cut off by a crash */
        json_int_t part = json_integer_value(json_object_get(line, "part"));
        if (part >= 1 && part <= parts_n)
            copy_text(parts[part - 1].etag, sizeof parts[part - 1].etag, json_object_get(line, "etag"));
    }
    json_decref(line);
    if (f)
        fclose(f);
    if (fits)
        *journal = j;
    else
        leat_journal_close(j, true);
    return LEAT_OK;
}

static void write_line(int fd, json_t *line)
{
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (text) {
        size_t n = strlen(text);
        text[n] = '\n'; /* in place of the NUL: one write, so that lines of several threads do not mix */
        ssize_t ignored = write(fd, text, n + 1);
        (void)ignored;
    }
    free(text);
    json_decref(line);
}

leat_status leat_journal_begin(const char *folder, const char *from, const char *to,
                               const struct leat_journal_head *head, struct leat_journal **journal,
                               struct leat_error *err)
{
    struct leat_journal *j;
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return leat_fail_errno(err, errno, "cannot make the folder '%s'", folder);
    leat_status rc = open_journal(folder, from, to, O_CREAT | O_TRUNC, &j, err);
    if (rc != LEAT_OK)
        return rc;
    write_line(j->fd, json_pack("{s:i,s:I,s:I,s:s,s:s,s:s,s:s}", "version", 1, "size", (json_int_t)head->size,
                                "part_size", (json_int_t)head->part_size, "etag", head->etag, "upload", head->upload,
                                "from", from, "to", to));
    *journal = j;
    return LEAT_OK;
}

void leat_journal_note(struct leat_journal *j, uint32_t part, const char *etag)
{
    if (j)
        write_line(j->fd, json_pack("{s:I,s:s}", "part", (json_int_t)part, "etag", etag));
}
