#include "client/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/abi.h"

struct leat_batch {
    struct leat_rank_ring *ring;
    uint32_t slot;
    uint32_t samples; /* from here on what the slot said when the batch was taken */
    uint64_t epoch;
    uint64_t position;
    struct leat_rank_memory memory;
    struct leat_release after; /* once it is to be released after an event */
    struct {
        void *data;
        uint64_t bytes;
    } arena[LEAT_RING_COLUMNS_MAX]; /* of ragged columns */
};

static void unmap(struct leat_rank_memory *m)
{
    if (m->data)
        munmap(m->data, (size_t)m->bytes);
    *m = (struct leat_rank_memory){0};
}

void leat_rank_ring_drop(struct leat_rank_ring *r)
{
    if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t s = 0; s < LEAT_RING_SLOTS_MAX; s++)
        unmap(&r->memory[s]);
    if (r->release_fd >= 0)
        close(r->release_fd);
    leat_ring_close(&r->ring);
    leat_releases_drop(r->releases);
    leat_rank_state_drop(r->state);
    free(r);
}

void leat_rank_ring_describe(struct leat_rank_ring *r, struct leat_rank_state *state)
{
    r->state = leat_rank_state_hold(state);
}

leat_status leat_rank_ring_open(int fd, int release_fd, struct leat_releases *releases, struct leat_rank_ring **out,
                                struct leat_error *err)
{
    struct leat_rank_ring *r = calloc(1, sizeof *r);
    if (!r) {
        close(fd);
        close(release_fd);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a ring");
    }
    atomic_init(&r->refs, 1);
    r->pid = getpid();
    r->ring.fd = -1;
    r->release_fd = release_fd;
    r->releases = leat_releases_keep(releases);
    leat_status rc = leat_ring_attach(fd, &r->ring, err);
    if (rc != LEAT_OK) {
        leat_rank_ring_drop(r);
        return rc;
    }
    r->samples_max = r->ring.head->samples_max;
    memcpy(r->column, r->ring.head->column, r->ring.columns * sizeof *r->column);
    *out = r;
    return LEAT_OK;
}

void leat_rank_ring_memory(struct leat_rank_ring *r, int64_t slot, int fd)
{
    struct stat st;
    if (slot < 0 || slot >= (int64_t)r->ring.slots || fstat(fd, &st) < 0 || st.st_size <= 0)
        return;
    /* Writable as the rest of a batch is: whoever may change it in place there expects to here. */
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return; /* the taker finds it missing and says so */
    unmap(&r->memory[slot]);
    r->memory[slot] = (struct leat_rank_memory){map, (uint64_t)st.st_size};
}

bool leat_rank_ring_published(const struct leat_rank_ring *r, uint32_t taken)
{
    /* Acquire: the slot's contents and the queue were written before; partner: the agent's release. */
    return atomic_load_explicit(&r->ring.head->published, memory_order_acquire) != taken;
}

uint32_t leat_rank_ring_held(const struct leat_rank_ring *r)
{
    return atomic_load_explicit(&r->held, memory_order_acquire);
}

bool leat_rank_ring_all_held(const struct leat_rank_ring *r)
{
    /* In this order: had a batch waited for its event, and been released since, it would no longer be held. */
    return leat_releases_waiting(r->releases) == 0 && leat_rank_ring_held(r) == r->ring.slots;
}

static void free_slot(struct leat_rank_ring *r, uint32_t slot)
{
    const uint64_t one = 1;
    if (r->pid != getpid())
        return; /* a batch inherited over a fork is still its parent's */
    /* Release: all our reads of the slot come before the agent's writes; partner: the agent's acquire. */
    atomic_store_explicit(&leat_ring_slot(&r->ring, slot)->state, LEAT_SLOT_FREE, memory_order_release);
    ssize_t ignored = write(r->release_fd, &one, sizeof one);
    (void)ignored;
}

static leat_status scribbled(uint32_t taken, const char *what, struct leat_error *err)
{
    return leat_fail(err, LEAT_CORRUPT,
                     "batch %u of the ring has %s: something in this process wrote to memory that is not its own",
                     taken, what);
}

/* Ends grow, and the last is where the bytes end. */
static bool ends_fit(const struct leat_rank_ring *r, const char *slot, uint32_t c, uint32_t samples, uint64_t used)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < samples; i++) {
        uint64_t end;
        memcpy(&end, slot + r->column[c].offset + i * sizeof end, sizeof end);
        if (end < at || end > used)
            return false;
        at = end;
    }
    return at == used;
}

/* Finds the bytes of the ragged columns: in the slot, or one behind the other in memory of their own. */
static leat_status find_arenas(struct leat_batch *b, uint32_t external, const struct leat_rank_expect *expect,
                               struct leat_error *err)
{
    struct leat_rank_ring *r = b->ring;
    struct leat_ring_slot *slot = leat_ring_slot(&r->ring, b->slot);
    uint64_t at = 0;
    for (uint32_t c = 0; c < r->ring.columns; c++) {
        const struct leat_ring_column *column = &r->column[c];
        if (!column->ragged)
            continue;
        bool own = external >> c & 1;
        uint64_t used = slot->arena_used[c];
        uint64_t room = own ? b->memory.bytes - at : column->arena_bytes;
        if (used > room || !ends_fit(r, (const char *)slot, c, b->samples, used))
            return scribbled(expect->taken, "values that end where they cannot", err);
        b->arena[c].data = own ? (char *)b->memory.data + at : (char *)slot + column->arena;
        b->arena[c].bytes = used;
        if (own)
            at = leat_ring_memory_next(at, used);
        at = at < b->memory.bytes ? at : b->memory.bytes;
    }
    return LEAT_OK;
}

static leat_status check_slot(const struct leat_rank_ring *r, const struct leat_ring_slot *slot,
                              const struct leat_rank_expect *expect, struct leat_error *err)
{
    uint32_t samples = slot->samples;
    uint32_t end = slot->end;
    if (atomic_load_explicit(&slot->state, memory_order_relaxed) != LEAT_SLOT_READY)
        return scribbled(expect->taken, "a slot that is not ready", err);
    if ((uint32_t)slot->batch != expect->taken)
        return scribbled(expect->taken, "another one's slot", err);
    if (end != expect->end || slot->epoch != expect->epoch || (!end && slot->position != expect->position))
        return scribbled(expect->taken, "another place in the order", err);
    if (!end && (samples > r->samples_max || (expect->whole && samples != r->samples_max)))
        return scribbled(expect->taken, "another number of samples", err);
    return LEAT_OK;
}

leat_status leat_rank_ring_take(struct leat_rank_ring *r, const struct leat_rank_expect *expect,
                                struct leat_batch **out, struct leat_error *err)
{
    uint32_t i = r->ring.head->queue[expect->taken % LEAT_RING_SLOTS_MAX];
    if (i >= r->ring.slots)
        return scribbled(expect->taken, "a slot that is not there", err);
    struct leat_ring_slot *slot = leat_ring_slot(&r->ring, i);
    leat_status rc = check_slot(r, slot, expect, err);
    if (rc != LEAT_OK)
        return rc;
    if (expect->end) {
        free_slot(r, i);
        *out = NULL;
        return LEAT_OK;
    }
    uint32_t external = slot->external;
    if (external && !r->memory[i].data)
        return leat_fail(err, LEAT_BUSY, "the memory of an unusually large batch is not there yet");
    struct leat_batch *b = calloc(1, sizeof *b);
    if (!b)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a batch");
    b->ring = r;
    b->slot = i;
    b->samples = expect->whole ? r->samples_max : slot->samples;
    b->epoch = expect->epoch;
    b->position = expect->position;
    if (external)
        b->memory = r->memory[i];
    rc = b->samples <= r->samples_max ? find_arenas(b, external, expect, err)
                                      : scribbled(expect->taken, "another number of samples", err);
    if (rc != LEAT_OK) {
        free(b);
        return rc;
    }
    r->memory[i] = (struct leat_rank_memory){0};
    atomic_store_explicit(&slot->state, LEAT_SLOT_HELD, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->held, 1, memory_order_relaxed);
    *out = b;
    return LEAT_OK;
}

void leat_batch_release(struct leat_batch *b)
{
    if (!b)
        return;
    unmap(&b->memory);
    atomic_fetch_sub_explicit(&b->ring->held, 1, memory_order_release);
    free_slot(b->ring, b->slot);
    leat_releases_poll(b->ring->releases);
    leat_rank_ring_drop(b->ring);
    free(b);
}

static leat_status add_release(struct leat_batch *b, const struct leat_release *after, struct leat_error *err)
{
    if (leat_releases_foreign(b->ring->releases))
        return leat_fail(err, LEAT_INVALID, "the batch was taken before a fork: its slot is the parent's to release");
    struct leat_rank_ring *r = b->ring;
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed); /* from here on any thread may release the batch */
    b->after = *after;
    b->after.batch = b;
    leat_releases_add(r->releases, &b->after);
    leat_releases_poll(r->releases);
    leat_rank_ring_drop(r);
    return LEAT_OK;
}

leat_status leat_batch_release_after(struct leat_batch *b, bool (*done)(void *user), void *user, struct leat_error *err)
{
    if (!b || !done)
        return leat_fail(err, LEAT_INVALID, "no %s to release %s", b ? "event" : "batch", b ? "the batch after" : "");
    return add_release(b, &(struct leat_release){.done = done, .user = user, .fd = -1}, err);
}

leat_status leat_batch_release_after_fd(struct leat_batch *b, int fd, struct leat_error *err)
{
    if (!b)
        return leat_fail(err, LEAT_INVALID, "no batch to release");
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return leat_fail_errno(err, errno, "descriptor %d cannot be waited for", fd);
    leat_status rc = add_release(b, &(struct leat_release){.fd = own}, err);
    if (rc != LEAT_OK)
        close(own);
    return rc;
}

uint32_t leat_batch_samples(const struct leat_batch *b)
{
    return b->samples;
}

size_t leat_batch_columns(const struct leat_batch *b)
{
    return b->ring->ring.columns;
}

uint64_t leat_batch_epoch(const struct leat_batch *b)
{
    return b->epoch;
}

uint64_t leat_batch_position(const struct leat_batch *b)
{
    return b->position;
}

leat_status leat_batch_column(const struct leat_batch *b, size_t i, struct leat_column *out, struct leat_error *err)
{
    const struct leat_rank_ring *r = b->ring;
    if (i >= r->ring.columns)
        return leat_fail(err, LEAT_INVALID, "the batch has %u columns, not %zu", r->ring.columns, i + 1);
    const struct leat_ring_column *c = &r->column[i];
    char *base = (char *)leat_ring_slot(&r->ring, b->slot);
    struct leat_column column = {
        .name = c->name,
        .kind = c->kind,
        .dtype = c->dtype,
        .dims_n = c->dims_n,
        .stride = c->stride,
        .data = base + c->offset,
        .bytes = c->stride * b->samples,
    };
    static_assert(LEAT_DIMS_MAX == LEAT_RING_DIMS_MAX, "a ring's column fits");
    memcpy(column.dims, c->dims, sizeof column.dims);
    if (c->ragged) {
        column.ends = (const uint64_t *)(base + c->offset);
        column.bytes = b->arena[i].bytes;
        column.data = b->arena[i].data;
    }
    if (!out || out->size != sizeof column)
        return leat_abi_give(&column, sizeof column, "leat_column", out, err);
    column.size = sizeof column;
    *out = column; /* the usual case, without a walk through code that is seldom in the cache */
    return LEAT_OK;
}

leat_status leat_batch_state(const struct leat_batch *b, char **out, struct leat_error *err)
{
    return leat_rank_state_write(b->ring->state, b->epoch, b->position, out, err);
}
