#include "cache/segment.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "fuzz.h"

static char path[] = "/tmp/leat-fuzz-XXXXXX";
static int folder = -1;

static void remove_folder(void)
{
    rmdir(path);
}

static int the_folder(void)
{
    if (folder < 0) {
        PROMISE(mkdtemp(path));
        folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        atexit(remove_folder);
    }
    return folder;
}

/* Whatever the table says: chunks lie within the file and do not overlap, and the rest of it is free. */
static void check_table(struct leat_segment *s)
{
    struct leat_error err;
    uint64_t used = 0;
    uint64_t at;
    leat_status rc = leat_segment_scan(s, &err);
    fuzz_check_error(rc, &err);
    if (rc != LEAT_OK)
        return;
    uint32_t live = 0;
    for (uint32_t i = 0; i < s->slots_n; i++) {
        const struct leat_segment_slot *e = &s->slots[i];
        if (e->state != LEAT_SLOT_LIVE)
            continue;
        uint64_t blocks = (e->bytes + LEAT_SEGMENT_BLOCK - 1) / LEAT_SEGMENT_BLOCK;
        live++;
        used += blocks;
        PROMISE(e->block >= s->data_start / LEAT_SEGMENT_BLOCK);
        PROMISE(e->block + blocks <= s->data_end / LEAT_SEGMENT_BLOCK);
    }
    PROMISE(live == s->live);
    uint64_t free_blocks = 0;
    for (size_t i = 0; i < s->extents.count; i++)
        free_blocks += s->extents.free[i].n;
    PROMISE(used + free_blocks == s->data_end / LEAT_SEGMENT_BLOCK - s->data_start / LEAT_SEGMENT_BLOCK);
    while (leat_extents_take(&s->extents, 1, &at)) { /* what is given out is nobody's */
        for (uint32_t i = 0; i < s->slots_n; i++) {
            const struct leat_segment_slot *e = &s->slots[i];
            PROMISE(e->state != LEAT_SLOT_LIVE || at < e->block ||
                    at >= e->block + (e->bytes + LEAT_SEGMENT_BLOCK - 1) / LEAT_SEGMENT_BLOCK);
        }
    }
}

/* The bytes are the file, but for a head that says what its name is and that it is whole. */
static void try_file(const uint8_t *data, size_t size)
{
    struct leat_error err;
    struct leat_segment *s = NULL;
    char file[LEAT_SEGMENT_FILE];
    uint8_t head[64] = "leatseg";
    if (size < 64)
        return;
    memcpy(head + 8, data + 8, 48);
    leat_put_u64(head + 56, leat_xxh3(head, 56));
    snprintf(file, sizeof file, "%016llx.seg", (unsigned long long)leat_get_u64(head + 16));
    int fd = openat(the_folder(), file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    PROMISE(fd >= 0 && write(fd, head, 64) == 64 && write(fd, data + 64, size - 64) == (ssize_t)(size - 64));
    close(fd);
    leat_status rc = leat_segment_open(the_folder(), file, &s, &err);
    fuzz_check_error(rc, &err);
    if (rc == LEAT_OK && s->data_end - s->data_start < 1u << 20) {
        leat_segment_claim(s);
        check_table(s);
    }
    leat_segment_close(s);
    unlinkat(the_folder(), file, 0);
}

/* The bytes are entries, whole and as contradictory as they like. */
static void try_entries(const uint8_t *data, size_t size)
{
    struct leat_error err;
    struct leat_segment *s = NULL;
    struct leat_reader r = leat_reader(data, size);
    if (leat_segment_make(the_folder(), 16 * LEAT_SEGMENT_BLOCK, &s, &err) != LEAT_OK)
        return;
    for (uint32_t slot = 0; slot < s->slots_max && leat_reader_left(&r) >= 4; slot++) {
        struct leat_segment_slot e = {.name = {(uint8_t)slot}};
        e.bytes = leat_read_u16(&r);
        e.block = (uint32_t)(s->data_start / LEAT_SEGMENT_BLOCK) + leat_read_u8(&r);
        e.sequence = leat_read_u8(&r);
        PROMISE(leat_segment_publish(s, slot, &e, &err) == LEAT_OK);
    }
    check_table(s);
    unlinkat(the_folder(), s->file, 0);
    leat_segment_close(s);
}

FUZZ(segment)
{
    if (size && data[0] & 1)
        try_entries(data + 1, size - 1);
    else if (size)
        try_file(data + 1, size - 1);
}
