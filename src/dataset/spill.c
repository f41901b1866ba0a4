#include "dataset/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct leat_spill {
    size_t memory;
    uint64_t size;
    uint8_t *data; /* NULL once there is a file */
    size_t cap;
    int fd; /* -1: none yet */
};

leat_status leat_spill_open(size_t memory, struct leat_spill **out, struct leat_error *err)
{
    struct leat_spill *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for packing");
    s->memory = memory;
    s->fd = -1;
    *out = s;
    return LEAT_OK;
}

void leat_spill_close(struct leat_spill *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    free(s->data);
    free(s);
}

uint64_t leat_spill_size(const struct leat_spill *s)
{
    return s->size;
}

bool leat_spill_on_disk(const struct leat_spill *s)
{
    return s->fd >= 0;
}

static const char *folder(void)
{
    const char *given = getenv("TMPDIR");
    return given && *given ? given : "/var/tmp";
}

static leat_status make_file(struct leat_spill *s, struct leat_error *err)
{
    char path[4096];
    s->fd = open(folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        int n = snprintf(path, sizeof path, "%s/leat-XXXXXX", folder());
        s->fd = n > 0 && (size_t)n < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
        if (s->fd >= 0)
            unlink(path);
    }
    if (s->fd < 0)
        return leat_fail_errno(err, errno, "cannot make a temporary file in %s (TMPDIR says where)", folder());
    return LEAT_OK;
}

static leat_status write_file(struct leat_spill *s, uint64_t at, const void *data, size_t n, struct leat_error *err)
{
    const uint8_t *from = data;
    while (n) {
        ssize_t done = pwrite(s->fd, from, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return leat_fail_errno(
                err, errno, "cannot write to a temporary file in %s, which has %" PRIu64 " bytes (TMPDIR says where)",
                folder(), at);
        from += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return LEAT_OK;
}

/* What was in memory goes to a file, and everything after it. */
static leat_status move_to_file(struct leat_spill *s, struct leat_error *err)
{
    leat_status rc = make_file(s, err);
    if (rc == LEAT_OK)
        rc = write_file(s, 0, s->data, (size_t)s->size, err);
    free(s->data);
    s->data = NULL;
    return rc;
}

static leat_status keep(struct leat_spill *s, const void *data, size_t n, struct leat_error *err)
{
    if (s->size + n > s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64 << 10;
        while (cap < s->size + n)
            cap *= 2;
        uint8_t *more = realloc(s->data, cap);
        if (!more)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the tables of a snapshot");
        s->data = more;
        s->cap = cap;
    }
    if (n)
        memcpy(s->data + s->size, data, n);
    return LEAT_OK;
}

leat_status leat_spill_add(struct leat_spill *s, const void *data, size_t n, uint64_t *at, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    bool fits = s->size <= s->memory && n <= s->memory - s->size;
    if (s->fd < 0 && !fits)
        rc = move_to_file(s, err);
    if (rc == LEAT_OK)
        rc = s->fd < 0 ? keep(s, data, n, err) : write_file(s, s->size, data, n, err);
    if (rc != LEAT_OK)
        return rc;
    if (at)
        *at = s->size;
    s->size += n;
    return LEAT_OK;
}

leat_status leat_spill_read(const struct leat_spill *s, uint64_t at, void *into, size_t n, struct leat_error *err)
{
    uint8_t *to = into;
    if (at > s->size || n > s->size - at)
        return leat_fail(err, LEAT_INTERNAL, "%zu bytes from %" PRIu64 " on were never spilled", n, at);
    if (s->fd < 0) {
        if (n)
            memcpy(to, s->data + at, n);
        return LEAT_OK;
    }
    while (n) {
        ssize_t got = pread(s->fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return leat_fail_errno(err, got < 0 ? errno : EIO, "cannot read a temporary file in %s", folder());
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return LEAT_OK;
}
