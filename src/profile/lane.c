#include "profile/lane.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC        0x454E414C5441454CULL /* "LEATLANE" */
#define VERSION      1
#define HEADER_WORDS 64
#define RECORD_WORDS 5
#define CAPACITY_MAX (1U << 20)
#define NAME_WORD    32

static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "must be lock-free across processes");

/* Words of the header, as observer/lane.py has them. */
enum word {
    W_MAGIC,
    W_VERSION,
    W_CAPACITY,
    W_PID,
    W_TID,
    W_RANK,
    W_WORLD,
    W_LOCAL,
    W_LOCAL_WORLD,
    W_ROLE,
    W_PARENT,
    W_LOADER,
    W_HEAD,
    W_TAIL,
    W_DROPPED,
    W_STATE,
    W_BORN,
    W_GRADIENT_BYTES,
    W_BUCKETS,
    W_WORKERS,
    W_SAMPLES,
    W_PEAK,
    W_NODE,
    W_EXPECT,
    W_EPOCH
};

struct leat_lane {
    void *map;
    _Atomic uint64_t *words; /* the same */
    size_t size;
    uint64_t capacity;
    uint64_t tail;
    uint64_t senseless;
};

static uint64_t word(const struct leat_lane *lane, size_t at)
{
    return atomic_load_explicit(&lane->words[at], memory_order_relaxed);
}

leat_status leat_lane_open(const char *path, struct leat_lane **out, struct leat_error *err)
{
    struct leat_lane *lane = calloc(1, sizeof *lane);
    struct stat st;
    leat_status rc = LEAT_OK;
    if (!lane)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a lane");
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0) {
        rc = leat_fail_errno(err, errno, "%s", path);
        goto fail;
    }
    if (st.st_size < HEADER_WORDS * 8) {
        rc = leat_fail(err, LEAT_CORRUPT, "%s: no lane: it has %lld bytes", path, (long long)st.st_size);
        goto fail;
    }
    lane->size = (size_t)st.st_size;
    void *map = mmap(NULL, lane->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        rc = leat_fail_errno(err, errno, "cannot map %s", path);
        goto fail;
    }
    lane->map = map;
    lane->words = map;
    lane->capacity = word(lane, W_CAPACITY);
    if (word(lane, W_MAGIC) != MAGIC)
        rc = leat_fail(err, LEAT_CORRUPT, "%s: no lane", path);
    else if (word(lane, W_VERSION) != VERSION)
        rc = leat_fail(err, LEAT_VERSION, "%s: a lane of version %llu, this release reads %d", path,
                       (unsigned long long)word(lane, W_VERSION), VERSION);
    else if (!lane->capacity || lane->capacity > CAPACITY_MAX ||
             (HEADER_WORDS + RECORD_WORDS * lane->capacity) * 8 > lane->size)
        rc = leat_fail(err, LEAT_CORRUPT, "%s: a lane of %llu records in %zu bytes", path,
                       (unsigned long long)lane->capacity, lane->size);
    if (rc != LEAT_OK)
        goto fail;
    close(fd);
    *out = lane;
    return LEAT_OK;
fail:
    if (fd >= 0)
        close(fd);
    leat_lane_close(lane);
    return rc;
}

void leat_lane_close(struct leat_lane *lane)
{
    if (!lane)
        return;
    if (lane->map)
        munmap(lane->map, lane->size);
    free(lane);
}

struct leat_lane_head leat_lane_look(const struct leat_lane *lane)
{
    struct leat_lane_head h = {
        .pid = (uint32_t)word(lane, W_PID),
        .tid = (uint32_t)word(lane, W_TID),
        .parent = (uint32_t)word(lane, W_PARENT),
        .rank = (int)(word(lane, W_RANK) & 0xFFFFFF) - 1,
        .world = (unsigned)(word(lane, W_WORLD) & 0xFFFFFF),
        .local_rank = (int)(word(lane, W_LOCAL) & 0xFFFF) - 1,
        .local_world = (unsigned)(word(lane, W_LOCAL_WORLD) & 0xFFFF),
        .worker = word(lane, W_ROLE) == 2,
        .loader = (uint32_t)word(lane, W_LOADER),
        .state =
            word(lane, W_STATE) <= LEAT_LANE_RAISED ? (enum leat_lane_state)word(lane, W_STATE) : LEAT_LANE_RUNNING,
        .dropped = word(lane, W_DROPPED) + lane->senseless,
        .gradient_bytes = word(lane, W_GRADIENT_BYTES),
        .buckets = (unsigned)word(lane, W_BUCKETS),
        .workers = (unsigned)word(lane, W_WORKERS),
        .samples = word(lane, W_SAMPLES),
        .peak_bytes = word(lane, W_PEAK),
        .node = (unsigned)(word(lane, W_NODE) & 0xFFFFFF),
        .epoch = word(lane, W_EPOCH) & 0xFFFFFFFFFFFF,
        .expect = (unsigned)(word(lane, W_EXPECT) & 0xFFFFFF),
    };
    for (size_t i = 0; i < sizeof h.accelerator / 8; i++) {
        uint64_t w = word(lane, NAME_WORD + i);
        memcpy(h.accelerator + 8 * i, &w, 8);
    }
    h.accelerator[sizeof h.accelerator - 1] = '\0';
    leat_one_line(h.accelerator);
    return h;
}

size_t leat_lane_take(struct leat_lane *lane, uint64_t until_ns, struct leat_lane_record *out, size_t n)
{
    /* Pairs with the writer's plain store of the head; `until_ns` covers machines that let stores overtake each other.
     */
    uint64_t head = atomic_load_explicit(&lane->words[W_HEAD], memory_order_acquire);
    size_t count = 0;
    if (head - lane->tail > lane->capacity) { /* a scribbled head */
        lane->senseless++;
        lane->tail = head;
    }
    while (lane->tail != head && count < n) {
        size_t at = HEADER_WORDS + RECORD_WORDS * (size_t)(lane->tail % lane->capacity);
        uint64_t what = word(lane, at + 2);
        struct leat_lane_record r = {.start_ns = word(lane, at),
                                     .end_ns = word(lane, at + 1),
                                     .value = word(lane, at + 3),
                                     .extra = word(lane, at + 4),
                                     .kind = (uint8_t)what,
                                     .mode = (uint8_t)(what >> 8),
                                     .flags = (uint16_t)(what >> 16),
                                     .loader = (uint32_t)(what >> 32)};
        if (!(r.flags & LEAT_LANE_DEVICE) && r.end_ns >= until_ns)
            break;
        lane->tail++;
        if (r.end_ns < r.start_ns || r.kind < LEAT_LANE_WAIT || r.kind >= LEAT_LANE_KINDS)
            lane->senseless++;
        else
            out[count++] = r;
    }
    atomic_store_explicit(&lane->words[W_TAIL], lane->tail, memory_order_release);
    return count;
}
