#include "ring/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/parse.h"

#define RING_BYTES_MAX (1ull << 40)

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

uint64_t leat_ring_layout(struct leat_ring_column *columns, uint32_t columns_n, uint32_t samples_max)
{
    uint64_t at = round_up(sizeof(struct leat_ring_slot), LEAT_RING_LINE);
    for (uint32_t i = 0; i < columns_n; i++) {
        struct leat_ring_column *c = &columns[i];
        /* Images begin on a page: they are what is registered with a GPU and copied by whole pages. */
        at = round_up(at, c->dims_n ? LEAT_RING_PAGE : LEAT_RING_LINE);
        c->offset = at;
        uint64_t each = c->ragged ? sizeof(uint64_t) * (1 + leat_ring_shape_numbers(c)) : c->stride;
        if (each && samples_max > RING_BYTES_MAX / each)
            return 0;
        at += each * samples_max;
        if (c->ragged) {
            at = round_up(at, LEAT_RING_LINE);
            c->arena = at;
            if (c->arena_bytes > RING_BYTES_MAX)
                return 0;
            at += c->arena_bytes;
        }
        if (at > RING_BYTES_MAX)
            return 0;
    }
    return round_up(at, LEAT_RING_PAGE);
}

leat_status leat_shared_create(const char *name, uint64_t bytes, int *fd, void **map, struct leat_error *err)
{
    char wanted[LEAT_FORMAT_SIZE];
    char there[LEAT_FORMAT_SIZE];
    uint64_t available = leat_memory_available();
    /* The kernel would go on giving pages until it has to kill somebody. */
    if (bytes > available)
        return leat_fail(err, LEAT_LIMIT,
                         "no memory for batches of %s: %s are free; ask for a smaller batch or fewer slots",
                         leat_format_size(bytes, wanted), leat_format_size(available, there));
    int f = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (f < 0)
        return leat_fail_errno(err, errno, "cannot make shared memory");
    leat_status rc = LEAT_OK;
    void *m = MAP_FAILED;
    /* fallocate, so that memory that is not there is an error here and not a signal later. */
    if (ftruncate(f, (off_t)bytes) < 0 || fallocate(f, 0, 0, (off_t)bytes) < 0)
        rc = leat_fail_errno(err, errno, "no shared memory of %llu bytes", (unsigned long long)bytes);
    else if (fcntl(f, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        rc = leat_fail_errno(err, errno, "cannot seal shared memory");
    else if ((m = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0)) == MAP_FAILED)
        rc = leat_fail_errno(err, errno, "cannot map shared memory");
    if (rc != LEAT_OK) {
        close(f);
        return rc;
    }
    *fd = f;
    *map = m;
    return LEAT_OK;
}

leat_status leat_ring_create(const struct leat_ring_column *columns, uint32_t columns_n, uint32_t samples_max,
                             uint64_t slot_bytes, uint32_t slots, struct leat_ring *out, struct leat_error *err)
{
    if (columns_n > LEAT_RING_COLUMNS_MAX || slots < 2 || slots > LEAT_RING_SLOTS_MAX || !slot_bytes)
        return leat_fail(err, LEAT_INVALID, "a ring of %u slots and %u outputs cannot be made (2 to %u, at most %u)",
                         slots, columns_n, LEAT_RING_SLOTS_MAX, LEAT_RING_COLUMNS_MAX);
    struct leat_ring ring = {.slots = slots, .columns = columns_n, .slot_bytes = slot_bytes, .fd = -1};
    void *map;
    ring.slot_offset = round_up(sizeof(struct leat_ring_head), LEAT_RING_PAGE);
    ring.bytes = ring.slot_offset + slots * slot_bytes;
    leat_status rc = leat_shared_create("leat-ring", ring.bytes, &ring.fd, &map, err);
    if (rc != LEAT_OK)
        return rc;
    ring.head = map;
    struct leat_ring_head *h = ring.head;
    h->version = LEAT_RING_VERSION;
    h->slots = slots;
    h->columns = columns_n;
    h->samples_max = samples_max;
    h->bytes = ring.bytes;
    h->slot_offset = ring.slot_offset;
    h->slot_bytes = slot_bytes;
    memcpy(h->column, columns, columns_n * sizeof *columns);
    h->magic = LEAT_RING_MAGIC;
    *out = ring;
    return LEAT_OK;
}

/* The agent is of the same user, so this is against mistakes (another version), not against malice. */
static bool head_fits(const struct leat_ring_head *h, uint64_t bytes)
{
    return h->magic == LEAT_RING_MAGIC && h->version == LEAT_RING_VERSION && h->slots >= 2 &&
           h->slots <= LEAT_RING_SLOTS_MAX && h->columns <= LEAT_RING_COLUMNS_MAX && h->bytes == bytes &&
           h->slot_bytes >= sizeof(struct leat_ring_slot) && h->slot_offset >= sizeof *h && h->slot_offset < bytes &&
           h->slot_bytes <= (bytes - h->slot_offset) / h->slots;
}

leat_status leat_ring_attach(int fd, struct leat_ring *out, struct leat_error *err)
{
    struct stat st;
    struct leat_ring ring = {.fd = -1};
    leat_status rc = LEAT_OK;
    if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct leat_ring_head)) {
        close(fd);
        return leat_fail(err, LEAT_VERSION, "the agent's ring is not one of this version");
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int os_error = errno;
    close(fd);
    if (map == MAP_FAILED)
        return leat_fail_errno(err, os_error, "cannot map the agent's ring");
    ring.head = map;
    ring.bytes = (uint64_t)st.st_size;
    if (!head_fits(ring.head, ring.bytes)) {
        rc = leat_fail(err, LEAT_VERSION, "the agent's ring is not one of this version");
        leat_ring_close(&ring);
        return rc;
    }
    ring.slots = ring.head->slots;
    ring.columns = ring.head->columns;
    ring.slot_offset = ring.head->slot_offset;
    ring.slot_bytes = ring.head->slot_bytes;
    *out = ring;
    return LEAT_OK;
}

void leat_ring_close(struct leat_ring *ring)
{
    if (ring->head)
        munmap(ring->head, (size_t)ring->bytes);
    if (ring->fd >= 0)
        close(ring->fd);
    *ring = (struct leat_ring){.fd = -1};
}
