/* The free stretches of a file: given out first fit from the front, merged when they come back. Pure bookkeeping in
 * units of the caller's. */
#ifndef LEAT_CACHE_EXTENTS_H
#define LEAT_CACHE_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leat_extent {
    uint64_t at;
    uint64_t n;
};

struct leat_extents {
    struct leat_extent *free; /* in order, never touching one another */
    size_t count;
    size_t cap;
    size_t taken; /* stretches that may come back: cap is more than that, since between two of them lies at most one */
};

/* Of a file from `from` to `end`, all of it free. False without memory. */
bool leat_extents_init(struct leat_extents *x, uint64_t from, uint64_t end);
void leat_extents_free(struct leat_extents *x); /* zeroed ones are allowed */

/* The first stretch of n that is free. False when there is none, or no memory for the bookkeeping of giving it back. */
bool leat_extents_take(struct leat_extents *x, uint64_t n, uint64_t *at);

/* Exactly this stretch; false when a part of it is not free, or there is no memory. */
bool leat_extents_take_at(struct leat_extents *x, uint64_t at, uint64_t n);

/* Cannot fail: room for it was made when it was taken. */
void leat_extents_give(struct leat_extents *x, uint64_t at, uint64_t n);

/* The longest that could be taken. */
uint64_t leat_extents_longest(const struct leat_extents *x);

#endif
