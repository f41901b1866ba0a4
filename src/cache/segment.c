#include "cache/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"

#define BLOCK       LEAT_SEGMENT_BLOCK
#define ENTRY       LEAT_SEGMENT_ENTRY
#define HEAD_BYTES  64u
#define OWNER_AT    2048u               /* in the first block: the process id of who claimed it, for people */
#define RESERVED_AT (OWNER_AT + 8u)     /* what that one counts for the segment */
#define MAGIC       0x6765737461656cull /* "leatseg" */
#define FORMAT      1u
#define ENTRY_A_DATA                                                                                                   \
    65536u /* bytes of chunks for which the table has an entry: smaller chunks fill the table first                    \
            */
#define SLOTS_MAX  (LEAT_SEGMENT_BYTES_MAX / ENTRY_A_DATA + BLOCK / ENTRY)
#define SCAN_PIECE 65536u

static uint64_t round_up(uint64_t n)
{
    return (n + BLOCK - 1) / BLOCK * BLOCK;
}

uint64_t leat_segment_footprint(uint64_t bytes)
{
    return round_up(bytes) + ENTRY;
}

uint64_t leat_segment_hash(uint64_t before, const void *data, size_t n)
{
    const uint8_t *at = data;
    for (size_t left = n; left;) {
        size_t piece = left < LEAT_SEGMENT_PIECE ? left : LEAT_SEGMENT_PIECE;
        uint8_t chain[16];
        leat_put_u64(chain, before);
        leat_put_u64(chain + 8, leat_xxh3(at, piece));
        before = leat_xxh3(chain, sizeof chain);
        at += piece;
        left -= piece;
    }
    return before;
}

bool leat_segment_is_name(const char *file)
{
    uint8_t id[8];
    char digits[17];
    if (strlen(file) != 20 || strcmp(file + 16, ".seg") != 0)
        return false;
    memcpy(digits, file, 16);
    digits[16] = '\0';
    return leat_unhex(digits, id, sizeof id);
}

static leat_status move_all(int fd, bool writing, uint64_t offset, uint8_t *memory, size_t n, const char *file,
                            struct leat_error *err)
{
    while (n) {
        ssize_t done = writing ? pwrite(fd, memory, n, (off_t)offset) : pread(fd, memory, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return leat_fail_errno(err, errno, "cannot %s '%s'", writing ? "write to" : "read", file);
        if (done == 0 && !writing)
            return leat_fail(err, LEAT_CORRUPT, "'%s' ends at byte %" PRIu64, file, offset);
        if (done == 0)
            return leat_fail(err, LEAT_IO, "'%s' cannot be written any further than byte %" PRIu64, file, offset);
        memory += done;
        offset += (uint64_t)done;
        n -= (size_t)done;
    }
    return LEAT_OK;
}

static leat_status read_at(const struct leat_segment *s, uint64_t offset, void *memory, size_t n,
                           struct leat_error *err)
{
    return move_all(s->fd, false, offset, memory, n, s->file, err);
}

static leat_status write_at(const struct leat_segment *s, uint64_t offset, void *memory, size_t n,
                            struct leat_error *err)
{
    return move_all(s->fd, true, offset, memory, n, s->file, err);
}

static leat_status write_head(const struct leat_segment *s, struct leat_error *err)
{
    uint8_t head[HEAD_BYTES] = {0};
    struct leat_writer w = leat_writer(head, sizeof head);
    leat_write_u64(&w, MAGIC);
    leat_write_u32(&w, FORMAT);
    leat_write_u32(&w, s->slots_max);
    leat_write_u64(&w, s->id);
    leat_write_u64(&w, s->data_start);
    leat_write_u64(&w, s->data_end);
    leat_write_u64(&w, (uint64_t)s->made_s);
    leat_put_u64(head + HEAD_BYTES - 8, leat_xxh3(head, HEAD_BYTES - 8));
    return write_at(s, 0, head, sizeof head, err);
}

static leat_status read_head(struct leat_segment *s, struct leat_error *err)
{
    uint8_t head[HEAD_BYTES];
    uint8_t owner[4];
    leat_status rc = read_at(s, 0, head, sizeof head, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_reader r = leat_reader(head, sizeof head);
    uint64_t magic = leat_read_u64(&r);
    uint32_t format = leat_read_u32(&r);
    bool whole = leat_get_u64(head + HEAD_BYTES - 8) == leat_xxh3(head, HEAD_BYTES - 8); /* in every format */
    if (whole && magic == MAGIC && format > FORMAT)
        return leat_fail(err, LEAT_VERSION, "'%s' was written by a later release of Leat", s->file);
    s->slots_max = leat_read_u32(&r);
    s->id = leat_read_u64(&r);
    s->data_start = leat_read_u64(&r);
    s->data_end = leat_read_u64(&r);
    s->made_s = (int64_t)leat_read_u64(&r);
    char file[LEAT_SEGMENT_FILE];
    snprintf(file, sizeof file, "%016" PRIx64 ".seg", s->id);
    if (!whole || magic != MAGIC || format != FORMAT || strcmp(file, s->file) != 0 || s->data_end < s->data_start ||
        s->data_end > LEAT_SEGMENT_BYTES_MAX * 2 || s->slots_max > SLOTS_MAX ||
        s->data_start != BLOCK + round_up((uint64_t)s->slots_max * ENTRY))
        return leat_fail(err, LEAT_CORRUPT, "the head of '%s' is damaged", s->file);
    if (read_at(s, OWNER_AT, owner, sizeof owner, err) == LEAT_OK)
        s->owner = leat_get_u32(owner);
    return LEAT_OK;
}

static struct leat_segment *new_segment(void)
{
    struct leat_segment *s = calloc(1, sizeof *s);
    if (s)
        s->fd = s->direct = -1;
    return s;
}

void leat_segment_close(struct leat_segment *s)
{
    if (!s)
        return;
    if (s->direct >= 0)
        close(s->direct);
    if (s->fd >= 0)
        close(s->fd);
    leat_extents_free(&s->extents);
    free(s->slots);
    free(s);
}

static void note_owner(struct leat_segment *s)
{
    uint8_t owner[4];
    s->owner = (uint32_t)getpid();
    leat_put_u32(owner, s->owner);
    write_at(s, OWNER_AT, owner, sizeof owner, NULL);
}

/* Made under another name and renamed when it is locked: nobody can take an unfinished one for an orphan. */
static leat_status make_file(struct leat_segment *s, int folder, struct leat_error *err)
{
    char fresh[LEAT_SEGMENT_FILE];
    snprintf(s->file, sizeof s->file, "%016" PRIx64 ".seg", s->id);
    snprintf(fresh, sizeof fresh, "%016" PRIx64 ".new", s->id);
    s->fd = openat(folder, fresh, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->fd < 0)
        return leat_fail_errno(err, errno, "cannot make the file '%s'", fresh);
    leat_status rc = LEAT_OK;
    if (flock(s->fd, LOCK_EX | LOCK_NB) < 0)
        rc = leat_fail_errno(err, errno, "cannot lock '%s'", fresh);
    if (rc == LEAT_OK && ftruncate(s->fd, (off_t)s->data_end) < 0)
        rc = leat_fail_errno(err, errno, "cannot make '%s' %" PRIu64 " bytes long", fresh, s->data_end);
    if (rc == LEAT_OK)
        rc = write_head(s, err);
    if (rc == LEAT_OK) {
        note_owner(s);
        s->direct = openat(folder, fresh, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_DIRECT);
    }
    if (rc == LEAT_OK && renameat(folder, fresh, folder, s->file) < 0)
        rc = leat_fail_errno(err, errno, "cannot rename '%s'", fresh);
    if (rc != LEAT_OK)
        unlinkat(folder, fresh, 0);
    return rc;
}

leat_status leat_segment_make(int folder, uint64_t bytes, struct leat_segment **out, struct leat_error *err)
{
    if (bytes > LEAT_SEGMENT_BYTES_MAX)
        return leat_fail(err, LEAT_LIMIT, "a segment of %" PRIu64 " bytes is larger than any may be", bytes);
    struct leat_segment *s = new_segment();
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    bytes = round_up(bytes);
    s->slots_max = (uint32_t)(bytes / ENTRY_A_DATA) + BLOCK / ENTRY;
    s->data_start = BLOCK + round_up((uint64_t)s->slots_max * ENTRY);
    s->data_end = s->data_start + bytes;
    s->made_s = leat_wall_s();
    s->ours = true;
    leat_status rc = LEAT_OK;
    if (getrandom(&s->id, sizeof s->id, 0) != sizeof s->id)
        rc = leat_fail_errno(err, errno, "no random number for a segment's name");
    if (rc == LEAT_OK && !leat_extents_init(&s->extents, s->data_start / BLOCK, s->data_end / BLOCK))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    if (rc == LEAT_OK)
        rc = make_file(s, folder, err);
    if (rc != LEAT_OK) {
        leat_segment_close(s);
        return rc;
    }
    *out = s;
    return LEAT_OK;
}

leat_status leat_segment_open(int folder, const char *file, struct leat_segment **out, struct leat_error *err)
{
    struct stat st;
    struct leat_segment *s = new_segment();
    leat_status rc = LEAT_OK;
    int access = O_RDWR;
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    snprintf(s->file, sizeof s->file, "%s", file);
    s->fd = openat(folder, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (s->fd < 0 && (errno == EROFS || errno == EACCES || errno == EPERM)) {
        access = O_RDONLY;
        s->fd = openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    }
    if (s->fd < 0)
        rc = leat_fail_errno(err, errno, "cannot open '%s'", file);
    else if (fstat(s->fd, &st) < 0)
        rc = leat_fail_errno(err, errno, "cannot inspect '%s'", file);
    else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1 || (st.st_mode & 0077))
        rc = leat_fail(err, LEAT_DENIED, "'%s' is not a private file of this user", file);
    if (rc == LEAT_OK)
        rc = read_head(s, err);
    if (rc != LEAT_OK) {
        leat_segment_close(s);
        return rc;
    }
    s->direct = openat(folder, file, access | O_NOFOLLOW | O_CLOEXEC | O_DIRECT);
    *out = s;
    return LEAT_OK;
}

void leat_segment_discard(int folder, const char *file)
{
    struct stat st;
    int fd = openat(folder, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, file, 0);
    close(fd);
}

bool leat_segment_claim(struct leat_segment *s)
{
    if (s->ours)
        return true;
    if ((fcntl(s->fd, F_GETFL) & O_ACCMODE) != O_RDWR || flock(s->fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    s->ours = true;
    note_owner(s);
    return true;
}

void leat_segment_reserve(const struct leat_segment *s, uint64_t bytes)
{
    uint8_t number[8];
    leat_put_u64(number, bytes);
    write_at(s, RESERVED_AT, number, sizeof number, NULL); /* a disk that refuses this refuses the chunk as well */
}

uint64_t leat_segment_reserved(int fd)
{
    struct stat st;
    uint8_t number[8];
    if (fstat(fd, &st) < 0)
        return 0;
    uint64_t taken = (uint64_t)st.st_blocks * 512;
    uint64_t reserved =
        pread(fd, number, sizeof number, RESERVED_AT) == (ssize_t)sizeof number ? leat_get_u64(number) : 0;
    return reserved > taken && reserved <= (uint64_t)st.st_size ? reserved : taken;
}

/* --- the table --- */

static uint32_t entry_check(const struct leat_segment *s, const uint8_t entry[ENTRY])
{
    uint8_t bound[ENTRY + 4]; /* with the file it belongs to: an entry of another one is not believed */
    memcpy(bound, entry, ENTRY - 4);
    leat_put_u64(bound + ENTRY - 4, s->id);
    return (uint32_t)leat_xxh3(bound, sizeof bound);
}

static uint64_t entry_offset(uint32_t slot)
{
    return BLOCK + (uint64_t)slot * ENTRY;
}

leat_status leat_segment_publish(const struct leat_segment *s, uint32_t slot, const struct leat_segment_slot *e,
                                 struct leat_error *err)
{
    uint8_t entry[ENTRY];
    struct leat_writer w = leat_writer(entry, sizeof entry);
    leat_write_bytes(&w, e->name, sizeof e->name);
    leat_write_u64(&w, e->bytes);
    leat_write_u64(&w, e->hash);
    leat_write_u64(&w, e->sequence);
    leat_write_u32(&w, e->block);
    leat_write_u32(&w, entry_check(s, entry));
    return write_at(s, entry_offset(slot), entry, sizeof entry, err);
}

leat_status leat_segment_retract(const struct leat_segment *s, uint32_t slot, struct leat_error *err)
{
    uint8_t entry[ENTRY] = {0};
    return write_at(s, entry_offset(slot), entry, sizeof entry, err);
}

static bool grow_slots(struct leat_segment *s, uint32_t n)
{
    if (n <= s->slots_n)
        return s->slots != NULL;
    uint32_t cap = s->slots_n * 2 > n ? s->slots_n * 2 : n + 64;
    if (cap > s->slots_max)
        cap = s->slots_max;
    struct leat_segment_slot *more = reallocarray(s->slots, cap, sizeof *more);
    if (!more)
        return false;
    memset(more + s->slots_n, 0, (cap - s->slots_n) * sizeof *more);
    s->slots = more;
    s->slots_n = cap;
    return true;
}

/* False when memory ran out. An entry that cannot be believed is no entry. */
static bool take_entry(struct leat_segment *s, uint32_t slot, const uint8_t entry[ENTRY], uint64_t file_end)
{
    static const uint8_t none[ENTRY];
    struct leat_segment_slot e = {.state = LEAT_SLOT_LIVE};
    if (memcmp(entry, none, ENTRY) == 0)
        return true;
    struct leat_reader r = leat_reader(entry, ENTRY);
    memcpy(e.name, leat_read_bytes(&r, sizeof e.name), sizeof e.name);
    e.bytes = leat_read_u64(&r);
    e.hash = leat_read_u64(&r);
    e.sequence = leat_read_u64(&r);
    e.block = leat_read_u32(&r);
    uint64_t from = (uint64_t)e.block * BLOCK;
    uint64_t end = s->data_end < file_end ? s->data_end : file_end;
    if (leat_read_u32(&r) != entry_check(s, entry) || e.bytes == 0 || from < s->data_start || from > end ||
        e.bytes > end - from || round_up(e.bytes) > end - from) {
        s->torn++;
        return true;
    }
    if (!grow_slots(s, slot + 1))
        return false;
    s->slots[slot] = e;
    s->live++;
    s->live_bytes += leat_segment_footprint(e.bytes);
    if (e.sequence > s->sequence)
        s->sequence = e.sequence;
    return true;
}

static leat_status read_table(struct leat_segment *s, uint64_t file_end, struct leat_error *err)
{
    uint8_t *piece = malloc(SCAN_PIECE);
    leat_status rc = piece ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    uint64_t table_end = entry_offset(s->slots_max);
    uint64_t at = BLOCK;
    if (table_end > file_end)
        table_end = file_end / ENTRY * ENTRY;
    while (rc == LEAT_OK && at < table_end) {
        /* Most of the table is a hole. Where the file system cannot tell, all of it is read. */
        off_t data = lseek(s->fd, (off_t)at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        if (data > (off_t)at)
            at = (uint64_t)data / ENTRY * ENTRY;
        size_t n = at < table_end ? (size_t)(table_end - at) : 0;
        n = n < SCAN_PIECE ? n : SCAN_PIECE;
        rc = read_at(s, at, piece, n, err);
        for (size_t i = 0; rc == LEAT_OK && i < n; i += ENTRY) {
            if (!take_entry(s, (uint32_t)((at + i - BLOCK) / ENTRY), piece + i, file_end))
                rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
        }
        at += n ? n : table_end;
    }
    free(piece);
    return rc;
}

static void drop_entry(struct leat_segment *s, uint32_t slot)
{
    s->live--;
    s->live_bytes -= leat_segment_footprint(s->slots[slot].bytes);
    s->slots[slot] = (struct leat_segment_slot){0};
    s->torn++;
}

struct start {
    uint32_t block;
    uint32_t slot;
};

static int by_block(const void *a, const void *b)
{
    const struct start *x = a;
    const struct start *y = b;
    return (x->block > y->block) - (x->block < y->block);
}

/* Finds what is free. An entry whose retraction a crash has undone overlaps the one written over it. */
static leat_status find_free(struct leat_segment *s, struct leat_error *err)
{
    struct start *starts = calloc(s->live ? s->live : 1, sizeof *starts);
    size_t n = 0;
    bool sorted = true;
    leat_status rc = LEAT_OK;
    if (!starts || !leat_extents_init(&s->extents, s->data_start / BLOCK, s->data_end / BLOCK))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    for (uint32_t i = 0; rc == LEAT_OK && i < s->slots_n; i++) {
        if (s->slots[i].state == LEAT_SLOT_LIVE)
            starts[n++] = (struct start){s->slots[i].block, i};
        sorted = sorted && (n < 2 || starts[n - 2].block < starts[n - 1].block);
    }
    if (!sorted) /* only where something was removed */
        qsort(starts, n, sizeof *starts, by_block);
    uint64_t end = 0; /* of the last one that was kept */
    uint32_t last = 0;
    for (size_t i = 0; i < n && rc == LEAT_OK; i++) {
        struct leat_segment_slot *e = &s->slots[starts[i].slot];
        if (e->block < end && e->sequence < s->slots[last].sequence) {
            drop_entry(s, starts[i].slot);
            continue;
        }
        if (e->block < end) {
            leat_extents_give(&s->extents, s->slots[last].block, round_up(s->slots[last].bytes) / BLOCK);
            drop_entry(s, last);
        }
        last = starts[i].slot;
        end = e->block + round_up(e->bytes) / BLOCK;
        if (!leat_extents_take_at(&s->extents, e->block, end - e->block))
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the disk cache");
    }
    free(starts);
    return rc;
}

leat_status leat_segment_scan(struct leat_segment *s, struct leat_error *err)
{
    struct stat st;
    leat_extents_free(&s->extents);
    free(s->slots);
    s->slots = NULL;
    s->slots_n = s->live = s->torn = s->first_free = 0;
    s->live_bytes = s->taken_bytes = 0;
    if (fstat(s->fd, &st) < 0)
        return leat_fail_errno(err, errno, "cannot inspect '%s'", s->file);
    s->modified_ns = (uint64_t)st.st_mtim.tv_sec * LEAT_S + (uint64_t)st.st_mtim.tv_nsec;
    leat_status rc = read_table(s, (uint64_t)st.st_size, err);
    if (rc == LEAT_OK && s->ours)
        rc = find_free(s, err);
    s->taken_bytes = s->live_bytes;
    if (rc == LEAT_OK && s->ours && (uint64_t)st.st_size < s->data_end && ftruncate(s->fd, (off_t)s->data_end) < 0)
        rc = leat_fail_errno(err, errno, "cannot repair '%s'", s->file);
    return rc;
}

/* --- bookkeeping --- */

static bool free_slot(struct leat_segment *s, uint32_t *slot)
{
    uint32_t i = s->first_free;
    while (i < s->slots_n && s->slots[i].state != LEAT_SLOT_FREE)
        i++;
    s->first_free = i;
    if (i >= s->slots_max || !grow_slots(s, i + 1))
        return false;
    *slot = i;
    return true;
}

bool leat_segment_take(struct leat_segment *s, const uint8_t name[32], uint64_t bytes, uint32_t *slot)
{
    uint64_t block;
    if (!free_slot(s, slot) || !leat_extents_take(&s->extents, round_up(bytes) / BLOCK, &block))
        return false;
    struct leat_segment_slot *e = &s->slots[*slot];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * LEAT_S + (uint64_t)now.tv_nsec;
    s->sequence = now_ns > s->sequence ? now_ns : s->sequence + 1;
    *e = (struct leat_segment_slot){
        .bytes = bytes, .block = (uint32_t)block, .sequence = s->sequence, .state = LEAT_SLOT_WRITING};
    memcpy(e->name, name, sizeof e->name);
    s->taken_bytes += leat_segment_footprint(bytes);
    return true;
}

void leat_segment_set_live(struct leat_segment *s, uint32_t slot)
{
    s->slots[slot].state = LEAT_SLOT_LIVE;
    s->live++;
    s->live_bytes += leat_segment_footprint(s->slots[slot].bytes);
}

void leat_segment_set_dead(struct leat_segment *s, uint32_t slot)
{
    s->slots[slot].state = LEAT_SLOT_DEAD;
    s->live--;
    s->live_bytes -= leat_segment_footprint(s->slots[slot].bytes);
}

void leat_segment_give_back(struct leat_segment *s, uint32_t slot)
{
    struct leat_segment_slot *e = &s->slots[slot];
    leat_extents_give(&s->extents, e->block, round_up(e->bytes) / BLOCK);
    s->taken_bytes -= leat_segment_footprint(e->bytes);
    *e = (struct leat_segment_slot){0};
    if (slot < s->first_free)
        s->first_free = slot;
}

/* --- the chunks --- */

leat_status leat_segment_read(const struct leat_segment *s, uint64_t offset, void *memory, size_t n,
                              struct leat_error *err)
{
    if (s->direct >= 0) {
        leat_status rc = move_all(s->direct, false, offset, memory, n, s->file, err);
        if (rc != LEAT_INVALID)
            return rc; /* EINVAL: this file system takes the flag and not the reads */
    }
    leat_status rc = move_all(s->fd, false, offset, memory, n, s->file, err);
    posix_fadvise(s->fd, (off_t)offset, (off_t)n, POSIX_FADV_DONTNEED); /* it is in our memory now */
    return rc;
}

leat_status leat_segment_write(const struct leat_segment *s, uint64_t offset, const void *memory, size_t n,
                               struct leat_error *err)
{
    uint8_t *bytes = (uint8_t *)(uintptr_t)memory; /* only read */
    if (s->direct >= 0) {
        leat_status rc = move_all(s->direct, true, offset, bytes, n, s->file, err);
        if (rc != LEAT_INVALID)
            return rc;
    }
    return move_all(s->fd, true, offset, bytes, n, s->file, err);
}

bool leat_segment_punch(const struct leat_segment *s, const struct leat_segment_slot *e)
{
    return fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)e->block * BLOCK,
                     (off_t)round_up(e->bytes)) == 0;
}
