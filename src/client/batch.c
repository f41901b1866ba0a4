#include "client/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/abi.h"
#include "base/dtype.h"

/* A batch's columns in memory of their own: this, then their names, then the bytes of those that were copied. */
struct batch_copy {
    struct leat_rank_state *state;
    uint64_t bytes; /* of all this */
    uint32_t columns;
    struct leat_column column[]; /* data is NULL where it was left out */
};

struct leat_batch {
    struct leat_rank_ring *ring; /* NULL: a copy */
    struct batch_copy *copy;     /* NULL: in a slot of the ring */
    uint32_t slot;
    uint32_t samples; /* from here on what the slot said when the batch was taken */
    uint64_t epoch;
    uint64_t began;
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
    if (r->before_unmap && r->pid == getpid())
        r->before_unmap(r->before_unmap_user, r->ring.head, r->ring.bytes);
    for (uint32_t s = 0; s < LEAT_RING_SLOTS_MAX; s++)
        unmap(&r->memory[s]);
    if (r->fd >= 0)
        close(r->fd);
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
    static _Atomic uint64_t ids;
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
    r->id = 1 + atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed);
    r->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
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
    /* Writable as the rest of a batch is: the one that may change it in place there expects to here. */
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

/* Whether this many bytes can be a value of a ragged column: whole ones, in the shape that the slot says. */
static bool value_fits(const struct leat_rank_ring *r, const char *slot, uint32_t c, uint32_t i, uint64_t bytes)
{
    const struct leat_ring_column *column = &r->column[c];
    uint32_t sizes = leat_ring_shape_numbers(column);
    uint64_t unit = leat_dtype_bytes(column->dtype);
    for (uint32_t d = 0; d < column->dims_n && d < LEAT_RING_DIMS_MAX; d++)
        unit *= column->dims[d] ? column->dims[d] : 1;
    if (unit < 2 && !sizes)
        return true;
    if (!unit || bytes % unit)
        return false;
    uint64_t left = bytes / unit;
    bool empty = false;
    for (uint32_t d = 0; d < sizes; d++) {
        uint64_t n;
        memcpy(&n, slot + leat_ring_shape_at(column, r->samples_max, i) + d * sizeof n, sizeof n);
        if (n > UINT32_MAX || (n && left % n))
            return false;
        left = n ? left / n : left;
        empty = empty || !n;
    }
    return !sizes || (empty ? bytes == 0 : left == 1);
}

/* Ends grow, and the last is where the bytes end. */
static bool ends_fit(const struct leat_rank_ring *r, const char *slot, uint32_t c, uint32_t samples, uint64_t used)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < samples; i++) {
        uint64_t end;
        memcpy(&end, slot + r->column[c].offset + i * sizeof end, sizeof end);
        if (end < at || end > used || !value_fits(r, slot, c, i, end - at))
            return false;
        at = end;
    }
    return at == used;
}

/* Finds the bytes of the ragged columns: in the slot, or one after the other in memory of their own. */
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
        return scribbled(expect->taken, "the slot of another batch", err);
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
    b->began = expect->began;
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
    if (b->copy) {
        leat_rank_state_drop(b->copy->state);
        free(b->copy);
        free(b);
        return;
    }
    unmap(&b->memory);
    atomic_fetch_sub_explicit(&b->ring->held, 1, memory_order_release);
    free_slot(b->ring, b->slot);
    leat_releases_poll(b->ring->releases);
    leat_rank_ring_drop(b->ring);
    free(b);
}

static leat_status add_release(struct leat_batch *b, const struct leat_release *after, struct leat_error *err)
{
    if (b->copy)
        return leat_fail(err, LEAT_INVALID, "the batch is a copy and occupies no slot: release it after the event");
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
        return leat_fail(err, LEAT_INVALID, "no %s", b ? "event to release the batch after" : "batch to release");
    return add_release(b, &(struct leat_release){.done = done, .user = user, .fd = -1}, err);
}

leat_status leat_batch_release_after_fd(struct leat_batch *b, int fd, struct leat_error *err)
{
    if (!b)
        return leat_fail(err, LEAT_INVALID, "no batch to release");
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return leat_fail_errno(err, errno, "cannot wait for descriptor %d", fd);
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
    return b->copy ? b->copy->columns : b->ring->ring.columns;
}

uint64_t leat_batch_epoch(const struct leat_batch *b)
{
    return b->epoch;
}

uint64_t leat_batch_began(const struct leat_batch *b)
{
    return b->began;
}

uint64_t leat_batch_position(const struct leat_batch *b)
{
    return b->position;
}

static struct leat_column column_of_slot(const struct leat_batch *b, size_t i)
{
    const struct leat_rank_ring *r = b->ring;
    const struct leat_ring_column *c = &r->column[i];
    char *base = (char *)leat_ring_slot(&r->ring, b->slot);
    struct leat_column column = {
        .size = sizeof column,
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
        if (leat_ring_shape_numbers(c))
            column.shapes = (const uint64_t *)(base + leat_ring_shape_at(c, r->samples_max, 0));
    }
    return column;
}

static struct leat_column column_of(const struct leat_batch *b, size_t i)
{
    return b->copy ? b->copy->column[i] : column_of_slot(b, i);
}

leat_status leat_batch_column(const struct leat_batch *b, size_t i, struct leat_column *out, struct leat_error *err)
{
    size_t n = leat_batch_columns(b);
    if (i >= n)
        return leat_fail(err, LEAT_INVALID, "the batch has %zu columns, not %zu", n, i + 1);
    struct leat_column column = column_of(b, i);
    if (!out || out->size != sizeof column)
        return leat_abi_give(&column, sizeof column, "leat_column", out, err);
    *out = column; /* the usual case, without a walk through code that is seldom in the cache */
    return LEAT_OK;
}

leat_status leat_batch_memory(const struct leat_batch *b, size_t i, struct leat_memory *out, struct leat_error *err)
{
    size_t n = leat_batch_columns(b);
    if (i > n)
        return leat_fail(err, LEAT_INVALID, "the batch has %zu columns, not %zu", n, i);
    if (b->copy) {
        struct leat_memory own = {.data = b->copy, .bytes = b->copy->bytes, .fd = -1};
        return leat_abi_give(&own, sizeof own, "leat_memory", out, err);
    }
    const struct leat_rank_ring *r = b->ring;
    const char *at = i < r->ring.columns && r->column[i].ragged ? b->arena[i].data : NULL;
    struct leat_memory memory = {.id = r->id, .data = r->ring.head, .bytes = r->ring.bytes, .fd = r->fd};
    if (b->memory.data && at >= (char *)b->memory.data && at <= (char *)b->memory.data + b->memory.bytes)
        memory = (struct leat_memory){.data = b->memory.data, .bytes = b->memory.bytes, .fd = -1};
    return leat_abi_give(&memory, sizeof memory, "leat_memory", out, err);
}

leat_status leat_batch_before_unmap(struct leat_batch *b, void (*call)(void *user, void *data, uint64_t bytes),
                                    void *user, struct leat_error *err)
{
    struct leat_rank_ring *r = b->ring;
    if (b->copy)
        return leat_fail(err, LEAT_INVALID, "the batch is a copy and lies in no ring");
    if (atomic_exchange(&r->watched, true))
        return leat_fail(err, LEAT_EXISTS, "something is called already before the ring is unmapped");
    r->before_unmap = call;
    r->before_unmap_user = user;
    return LEAT_OK;
}

leat_status leat_batch_state(const struct leat_batch *b, char **out, struct leat_error *err)
{
    return leat_rank_state_write(b->copy ? b->copy->state : b->ring->state, b->epoch, b->position, out, err);
}

#define COPY_ALIGN 64 /* as in a slot: a cache line */

static uint64_t align_up(uint64_t n)
{
    return (n + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
}

static uint64_t copy_head_bytes(size_t columns)
{
    return align_up(sizeof(struct batch_copy) + columns * (sizeof(struct leat_column) + LEAT_RING_NAME));
}

/* What a part of a column takes in a copy. An empty one has an address of its own too. */
static uint64_t room_for(const void *part, uint64_t bytes)
{
    return part ? align_up(bytes ? bytes : 1) : 0;
}

/* Bytes of the three parts of a column: its data, its ends and its shapes. */
static void parts_of(const struct leat_column *c, uint32_t samples, uint64_t bytes[3])
{
    uint64_t varying = 0;
    for (uint32_t d = 0; d < c->dims_n; d++)
        varying += c->dims[d] == 0;
    bytes[0] = c->bytes;
    bytes[1] = c->ends ? samples * sizeof *c->ends : 0;
    bytes[2] = c->shapes ? samples * varying * sizeof *c->shapes : 0;
}

/* How much memory a copy of the columns up to that size takes; 0: none is that small. */
static uint64_t copy_bytes(const struct leat_batch *b, uint64_t most)
{
    uint64_t total = 0;
    for (size_t i = 0; i < leat_batch_columns(b); i++) {
        struct leat_column c = column_of(b, i);
        uint64_t bytes[3];
        if (!c.data || c.bytes > most)
            continue;
        parts_of(&c, b->samples, bytes);
        total += room_for(c.data, bytes[0]) + room_for(c.ends, bytes[1]) + room_for(c.shapes, bytes[2]);
    }
    return total ? total + copy_head_bytes(leat_batch_columns(b)) : 0;
}

static void *copy_part(char **to, const void *from, uint64_t bytes)
{
    char *at = *to;
    if (!from)
        return NULL;
    memcpy(at, from, (size_t)bytes);
    *to += room_for(from, bytes);
    return at;
}

static void copy_columns(const struct leat_batch *b, uint64_t most, struct batch_copy *copy)
{
    size_t n = leat_batch_columns(b);
    char *name = (char *)&copy->column[n];
    char *to = (char *)copy + copy_head_bytes(n);
    copy->columns = (uint32_t)n;
    copy->state = leat_rank_state_hold(b->copy ? b->copy->state : b->ring->state);
    for (size_t i = 0; i < n; i++, name += LEAT_RING_NAME) {
        struct leat_column c = column_of(b, i);
        bool small = c.data && c.bytes <= most;
        uint64_t bytes[3];
        parts_of(&c, b->samples, bytes);
        snprintf(name, LEAT_RING_NAME, "%s", c.name);
        c.name = name;
        c.ends = small ? copy_part(&to, c.ends, bytes[1]) : NULL;
        c.shapes = small ? copy_part(&to, c.shapes, bytes[2]) : NULL;
        c.data = small ? copy_part(&to, c.data, bytes[0]) : NULL;
        c.bytes = small ? c.bytes : 0;
        copy->column[i] = c;
    }
}

leat_status leat_batch_copy(const struct leat_batch *b, uint64_t most, struct leat_batch **out, struct leat_error *err)
{
    if (!b || !out)
        return leat_fail(err, LEAT_INVALID, "no %s", b ? "place for the copy" : "batch to copy");
    uint64_t bytes = copy_bytes(b, most);
    if (!bytes) {
        *out = NULL;
        return LEAT_OK;
    }
    struct leat_batch *made = calloc(1, sizeof *made);
    struct batch_copy *copy = made ? aligned_alloc(COPY_ALIGN, (size_t)bytes) : NULL;
    if (!copy) {
        free(made);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a copy of a batch: %llu bytes", (unsigned long long)bytes);
    }
    made->copy = copy;
    made->samples = b->samples;
    made->epoch = b->epoch;
    made->began = b->began;
    made->position = b->position;
    copy->bytes = bytes;
    copy_columns(b, most, copy);
    *out = made;
    return LEAT_OK;
}
