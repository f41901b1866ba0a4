/* The ring: shared memory through which a rank takes finished batches from its agent (docs/ring.md).
 *
 * The agent creates it, knows its layout privately and believes nothing it reads there; the rank checks the head
 * once and then trusts the agent, which runs as the same user. Each slot holds one batch: fixed-size columns one
 * after the other, ragged ones as ends and an arena. */
#ifndef LEAT_RING_RING_H
#define LEAT_RING_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LEAT_RING_MAGIC       0x31474e4952544145ull /* "EATRING1" */
#define LEAT_RING_VERSION     1u
#define LEAT_RING_SLOTS_MAX   64u
#define LEAT_RING_COLUMNS_MAX 32u
#define LEAT_RING_DIMS_MAX    8u
#define LEAT_RING_NAME        48u
#define LEAT_RING_PAGE        4096u
#define LEAT_RING_LINE        128u /* two cache lines: neighbours are fetched in pairs */

struct leat_ring_column {
    char name[LEAT_RING_NAME];
    uint32_t kind;  /* enum leat_output_kind */
    uint32_t dtype; /* enum leat_dtype_code */
    uint32_t dims_n;
    uint32_t ragged;
    uint64_t dims[LEAT_RING_DIMS_MAX]; /* ragged: 0 for those that vary */
    uint64_t stride;                   /* bytes of a sample; 0: ragged */
    uint64_t
        offset; /* from the beginning of the slot; ragged: of the ends, uint64_t[samples], and the shapes after them */
    uint64_t arena; /* ragged: offset of the bytes */
    uint64_t arena_bytes;
};

enum leat_slot_state {
    LEAT_SLOT_FREE = 0,  /* the agent may fill it */
    LEAT_SLOT_READY = 1, /* published, not yet taken */
    LEAT_SLOT_HELD = 2   /* the rank looks at it */
};

struct leat_ring_slot {
    _Atomic uint32_t state;
    uint32_t samples;
    uint64_t epoch;
    uint64_t position; /* in the order, after this batch */
    uint64_t batch;    /* counted from the opening of the ring */
    uint32_t end;      /* 1: no batch, the end of the epoch */
    uint32_t external; /* bit c: the bytes of column c are in memory of their own, sent over the socket before */
    uint64_t arena_used[LEAT_RING_COLUMNS_MAX];
    uint64_t ready_ns;     /* when its chunks were all there, and … */
    uint64_t published_ns; /* … when it was published (monotonic clock); 0: not told. Statistics only */
    uint32_t ready_from;   /* where the last of them had come from: enum leat_account_stall plus 1; 0: not told */
    uint32_t reserved;
};

struct leat_ring_head {
    uint64_t magic;
    uint32_t version;
    uint32_t slots;
    uint32_t columns;
    uint32_t samples_max; /* in a batch */
    uint64_t bytes;       /* of the whole ring */
    uint64_t slot_offset; /* of slot 0 */
    uint64_t slot_bytes;  /* from one slot to the next */
    uint8_t reserved[LEAT_RING_LINE - 48];
    /* Written by the agent: how many batches it has published. Release; partner: the rank's acquire. */
    _Atomic uint32_t published;
    uint8_t pad[4];
    /* Written by the agent: when the chunks of the batch that it publishes next were all there, 0: not yet. Relaxed:
     * statistics. */
    _Atomic uint64_t next_ready_ns;
    uint8_t pad1[LEAT_RING_LINE - 16];
    /* Written by the rank: since when it waits for a batch (monotonic clock), 0: it does not. Relaxed: statistics. */
    _Atomic uint64_t waiting_since_ns;
    uint8_t pad2[LEAT_RING_LINE - 8];
    /* Slot of batch n at n modulo LEAT_RING_SLOTS_MAX, which divides 2^32, where the count begins again. Written before
     * `published`. */
    uint32_t queue[LEAT_RING_SLOTS_MAX];
    struct leat_ring_column column[LEAT_RING_COLUMNS_MAX];
};

static_assert(offsetof(struct leat_ring_head, published) == LEAT_RING_LINE, "shared ABI");
static_assert(offsetof(struct leat_ring_head, queue) == 3 * LEAT_RING_LINE, "shared ABI");
static_assert(offsetof(struct leat_ring_head, next_ready_ns) == LEAT_RING_LINE + 8, "shared ABI");
static_assert(offsetof(struct leat_ring_slot, arena_used) == 40, "shared ABI");
static_assert(offsetof(struct leat_ring_slot, ready_ns) == 296, "shared ABI");
static_assert(sizeof(struct leat_ring_slot) == 320, "shared ABI: columns begin at the next line");
static_assert(sizeof(struct leat_ring_column) == 160, "shared ABI");
static_assert(ATOMIC_INT_LOCK_FREE == 2, "must be lock-free across processes");

/* One side's view of a ring. */
struct leat_ring {
    struct leat_ring_head *head;
    uint64_t bytes;
    uint32_t slots; /* private copies of what the head says */
    uint32_t columns;
    uint64_t slot_offset;
    uint64_t slot_bytes;
    int fd; /* the agent's; -1 on the rank's side */
};

/* Fills in the columns' offsets and returns the bytes of a slot. Pure. 0 when it would be too large. */
uint64_t leat_ring_layout(struct leat_ring_column *columns, uint32_t columns_n, uint32_t samples_max);

/* Ragged columns of arrays in which two dimensions or more vary say their sizes beside the values: this many numbers
 * for each sample, after the ends. 0: the others. Pure. */
static inline uint32_t leat_ring_shape_numbers(const struct leat_ring_column *c)
{
    uint32_t n = 0;
    for (uint32_t d = 0; c->ragged && d < c->dims_n && d < LEAT_RING_DIMS_MAX; d++)
        n += c->dims[d] == 0;
    return n > 1 ? n : 0;
}

/* Where those of a sample begin in the slot. */
static inline uint64_t leat_ring_shape_at(const struct leat_ring_column *c, uint32_t samples_max, uint32_t sample)
{
    return c->offset + sizeof(uint64_t) * (samples_max + (uint64_t)sample * leat_ring_shape_numbers(c));
}

/* The agent's side. The memory cannot be shrunk or grown by anybody. */
leat_status leat_ring_create(const struct leat_ring_column *columns, uint32_t columns_n, uint32_t samples_max,
                             uint64_t slot_bytes, uint32_t slots, struct leat_ring *out, struct leat_error *err);

/* The rank's side: maps and checks. Takes fd over, also on failure. */
leat_status leat_ring_attach(int fd, struct leat_ring *out, struct leat_error *err);
void leat_ring_close(struct leat_ring *ring); /* a zeroed one (fd 0 included) must have fd -1 */

static inline struct leat_ring_slot *leat_ring_slot(const struct leat_ring *ring, uint32_t i)
{
    return (struct leat_ring_slot *)((char *)ring->head + ring->slot_offset + i * ring->slot_bytes);
}

/* In a batch's own memory the columns that did not fit the slot lie one after the other: where the next one begins
 * when this one begins at `at`. Pure. */
static inline uint64_t leat_ring_memory_next(uint64_t at, uint64_t bytes)
{
    return (at + bytes + LEAT_RING_LINE - 1) / LEAT_RING_LINE * LEAT_RING_LINE;
}

/* A sealed piece of shared memory, mapped. */
leat_status leat_shared_create(const char *name, uint64_t bytes, int *fd, void **map, struct leat_error *err);

#endif
