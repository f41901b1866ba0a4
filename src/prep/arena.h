/* Memory of one sample: taken piece by piece, given back all at once. After a few samples one block holds
 * everything and nothing is allocated any more. Not thread-safe: one arena a thread. */
#ifndef LEAT_PREP_ARENA_H
#define LEAT_PREP_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LEAT_ARENA_ALIGN 64 /* a cache line, and the widest vector */

struct leat_arena_block;

struct leat_arena {
    struct leat_arena_block *blocks; /* newest first */
    size_t used;                     /* since the last reset */
    size_t max;
    bool full; /* a request failed because of max, not of memory */
};

void leat_arena_init(struct leat_arena *a, size_t max);
void leat_arena_free(struct leat_arena *a);

/* Aligned, not cleared; NULL when max or memory is reached. 0 bytes is allowed. */
void *leat_arena_take(struct leat_arena *a, size_t bytes);

/* Gives everything back. Keeps a block for the next sample unless it is unusually large. */
void leat_arena_reset(struct leat_arena *a);

/* The error behind a NULL. */
leat_status leat_arena_fail(const struct leat_arena *a, struct leat_error *err);

#endif
