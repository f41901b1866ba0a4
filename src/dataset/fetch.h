/* Brings pieces from a store into memory, one after the other, in as many requests as are asked for. Whether they are
 * the right bytes is for the caller to check: leat_dataset_open_chunk(), leat_root_check_block().
 *
 * What the store knows is compared here: an object that is shorter or longer than the snapshot says is LEAT_CORRUPT.
 * The first request that fails ends the others. */
#ifndef LEAT_DATASET_FETCH_H
#define LEAT_DATASET_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/piece.h"
#include "store/store.h"

struct leat_fetch;

#define LEAT_RANGE_LEAST (1u << 20) /* shorter ranges spend more time on the way than on the line */

struct leat_fetch_opts {
    struct leat_store *store;
    const struct leat_pieces *pieces; /* borrowed until done */
    void *into;                       /* pieces->bytes bytes */
    /* Split into this many requests at most, each of LEAT_RANGE_LEAST bytes at least; but never fewer than one a piece.
     * 0 and 1: one a piece. */
    uint32_t ranges;
    bool urgent;  /* before all in the store's queue that is not */
    bool foreign; /* objects that are not the dataset's own: one of another length is LEAT_CHANGED */
    /* Once, on the store's thread; must not block, and may free the fetch. err is NULL when all is there. */
    void (*done)(void *user, const struct leat_error *err);
    void *user;
};

/* From any thread. Fails only without memory; done is not called then. */
leat_status leat_fetch_start(const struct leat_fetch_opts *opts, struct leat_fetch **out, struct leat_error *err);

/* From any thread, until it is freed. done still follows, with LEAT_CANCELLED unless it has been called already. */
void leat_fetch_cancel(struct leat_fetch *f);
void leat_fetch_free(struct leat_fetch *f); /* after done; NULL is allowed */

/* Starts one and waits for it; the store's stop() ends it. done and user do not matter. Not on the store's thread. */
leat_status leat_fetch_run(const struct leat_fetch_opts *opts, struct leat_error *err);

#endif
