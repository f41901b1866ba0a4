/* Any bytes as a tar archive: members lie inside it, one after the other, and what is said of it does not depend on how
 * it is cut up for reading. */
#include "base/buf.h"
#include "base/hash.h"
#include "dataset/ending.h"
#include "dataset/tar.h"

#include "fuzz.h"

/* Reads it in steps of this many bytes; *seen is a digest of what was found. */
static leat_status read_all(const uint8_t *data, size_t size, size_t step, uint64_t *seen, struct leat_error *err)
{
    struct leat_tar *t;
    struct leat_buf notes;
    uint64_t end = 0; /* of the last member */
    uint64_t to_come = 0;
    leat_buf_init(&notes, 64 << 20);
    PROMISE(leat_tar_open(&t, err) == LEAT_OK);
    leat_status rc = LEAT_OK;
    for (size_t at = 0; rc == LEAT_OK && at < size;) {
        size_t n = size - at < step ? size - at : step;
        size_t used = 0;
        enum leat_tar_event event;
        rc = leat_tar_feed(t, data + at, n, &used, &event, err);
        if (rc != LEAT_OK)
            break;
        PROMISE(used <= n && (used > 0 || event == LEAT_TAR_MEMBER));
        at += used;
        if (event == LEAT_TAR_MORE) {
            PROMISE(used == n);
        } else if (event == LEAT_TAR_MEMBER) {
            const struct leat_tar_member *m = leat_tar_member(t);
            PROMISE(to_come == 0);
            PROMISE(m->offset == at && m->header >= end && m->header < m->offset);
            PROMISE(strlen(m->name) == m->name_n && m->name_n <= LEAT_TAR_NAME_MAX);
            end = m->offset + m->size;
            to_come = m->size;
            leat_buf_printf(&notes, "%d %s %llu %llu\n", m->kind, m->name, (unsigned long long)m->offset,
                            (unsigned long long)m->size);
            size_t stem = 0;
            char field[LEAT_FIELD_NAME_MAX];
            if (leat_tar_is_part(m->name) && leat_ending_split(m->name, m->name_n, &stem, field))
                PROMISE(stem > 0 && stem < m->name_n);
        } else {
            PROMISE(used > 0 && used <= to_come);
            to_come -= used;
            PROMISE(leat_tar_left(t) == to_come);
        }
    }
    if (rc == LEAT_OK)
        rc = leat_tar_finish(t, err);
    if (rc == LEAT_OK)
        PROMISE(end <= size && to_come == 0);
    *seen = leat_xxh3(notes.data, notes.len);
    leat_buf_free(&notes);
    leat_tar_close(t);
    return rc;
}

static void check(const uint8_t *data, size_t size)
{
    struct leat_error err = {0};
    struct leat_error other = {0};
    uint64_t whole;
    uint64_t parts;
    leat_status rc = read_all(data, size, size ? size : 1, &whole, &err);
    fuzz_check_error(rc, &err);
    PROMISE(read_all(data, size, 97, &parts, &other) == rc);
    PROMISE(whole == parts);
}

FUZZ(tar)
{
    check(data, size);
    /* And with sums that fit in every block: no fuzzer guesses them, and nothing else gets past a changed header. */
    uint8_t *copy = malloc(size ? size : 1);
    PROMISE(copy);
    memcpy(copy, data, size);
    for (size_t at = 0; at + LEAT_TAR_BLOCK <= size; at += LEAT_TAR_BLOCK) {
        char text[9];
        unsigned sum = 8 * ' ';
        for (size_t i = 0; i < LEAT_TAR_BLOCK; i++)
            sum += i >= 148 && i < 156 ? 0 : copy[at + i];
        if (sum == 8 * ' ')
            continue;
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(copy + at + 148, text, 7);
        copy[at + 155] = ' ';
    }
    check(copy, size);
    free(copy);
}
