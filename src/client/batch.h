/* A ring as the rank sees it, and the batches taken from it.
 *
 * The user's process can write to this memory, by mistake too. So the layout is a private copy, and what the agent
 * says of a batch is read once, when it is taken, and must fit what the rank knows: else the batch is refused. */
#ifndef LEAT_CLIENT_BATCH_H
#define LEAT_CLIENT_BATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "client/release.h"
#include "client/state.h"
#include "leat/loader.h"
#include "ring/ring.h"

/* Lives until the loader and all its batches have let go of it. */
struct leat_rank_ring {
    _Atomic uint32_t refs; /* the loader, its batches, and calls on them */
    _Atomic uint32_t held; /* batches taken whose slot was not given back; only taking adds to it */
    pid_t pid;             /* of the process that opened it; its forks see the same memory but own no slot */
    struct leat_ring ring;
    uint32_t samples_max; /* copies of what the head says */
    struct leat_ring_column column[LEAT_RING_COLUMNS_MAX];
    uint64_t id;          /* of this mapping, in this process */
    int fd;               /* of the ring, for other processes; -1: none */
    _Atomic bool watched; /* before_unmap is set */
    void (*before_unmap)(void *user, void *data, uint64_t bytes);
    void *before_unmap_user;
    int release_fd; /* eventfd: tells the agent that a slot is free */
    struct leat_releases *releases;
    struct leat_rank_state *state; /* of its loader, for the batches; NULL: not told yet */
    struct leat_rank_memory {
        void *data;
        uint64_t bytes;
    } memory[LEAT_RING_SLOTS_MAX]; /* of batches larger than their slot, until they are taken */
};

/* Maps the ring. Takes both descriptors over, also on failure. `releases` is the loader's list. */
leat_status leat_rank_ring_open(int fd, int release_fd, struct leat_releases *releases, struct leat_rank_ring **out,
                                struct leat_error *err);
void leat_rank_ring_drop(struct leat_rank_ring *r); /* NULL is allowed */

/* Says what the state of its loader is, apart from the cursor. Once, before a batch is taken. */
void leat_rank_ring_describe(struct leat_rank_ring *r, struct leat_rank_state *state);

/* The agent gave memory for the batch in a slot; fd stays the caller's. */
void leat_rank_ring_memory(struct leat_rank_ring *r, int64_t slot, int fd);

bool leat_rank_ring_published(const struct leat_rank_ring *r, uint32_t taken); /* a batch is there */
uint32_t leat_rank_ring_held(const struct leat_rank_ring *r);                  /* slots that were not given back */

/* No slot is left for the agent to fill, nor will one be when an event happens: nothing but the caller can go on. */
bool leat_rank_ring_all_held(const struct leat_rank_ring *r);

/* What the next batch must be: the rank knows it from its cursor. */
struct leat_rank_expect {
    uint32_t taken; /* batches before it */
    uint64_t epoch;
    uint64_t began;    /* in the order, before it */
    uint64_t position; /* in the order, after it */
    bool end;          /* no batch, the end of the epoch */
    bool whole;        /* it has as many samples as a slot holds */
};

/* Takes the next batch, when one is published; *out is NULL for an end. LEAT_BUSY when memory of its own is still to
 * come, LEAT_CORRUPT when it is not what it must be: then somebody else has written to the ring. */
leat_status leat_rank_ring_take(struct leat_rank_ring *r, const struct leat_rank_expect *expect,
                                struct leat_batch **out, struct leat_error *err);

#endif
