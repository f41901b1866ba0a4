/* Keeps things that take long to load (chunks, decompressed values) by number, within a budget of bytes. Several
 * threads that want one thing load it once. What was used longest ago goes first. What is in use stays, and what was
 * given back last, so that the budget can be exceeded by what callers hold at one moment or by one large thing, and by
 * nothing else.
 *
 * A failure is kept for a second and told to everyone who asks: a reader that tries again at once, as the kernel does
 * page by page, must not wait for the deadline each time.
 *
 * Thread-safe. `load` and `drop` are called without a lock held. */
#ifndef LEAT_MOUNT_HOLD_H
#define LEAT_MOUNT_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct leat_hold;
struct leat_held; /* a thing that somebody has */

struct leat_hold_opts {
    uint64_t budget;
    unsigned threads; /* that load ahead; 0: nothing is loaded ahead */
    leat_status (*load)(void *user, uint64_t id, void **thing, struct leat_error *err);
    void (*drop)(void *user, void *thing);
    uint64_t (*bytes)(void *user, uint64_t id); /* that the thing will take, known before it is loaded */
    void *user;
};

leat_status leat_hold_open(const struct leat_hold_opts *opts, struct leat_hold **out, struct leat_error *err);
void leat_hold_close(struct leat_hold *h); /* nothing may be held; NULL is allowed */

/* *fresh: nobody had taken it since it was loaded. It stays until it is given back. */
leat_status leat_hold_take(struct leat_hold *h, uint64_t id, struct leat_held **out, bool *fresh,
                           struct leat_error *err);
void leat_hold_give(struct leat_hold *h, struct leat_held *x);
void *leat_held_thing(const struct leat_held *x);

/* Loads it soon, if there is room beside what is in use and nothing more urgent. Waits for nobody. */
void leat_hold_ahead(struct leat_hold *h, uint64_t id);

bool leat_hold_has(struct leat_hold *h, uint64_t id); /* loaded, or on its way */

struct leat_hold_stats {
    uint64_t bytes; /* now */
    uint64_t peak_bytes;
    uint64_t loads;
    uint64_t hits;
};
void leat_hold_stats(struct leat_hold *h, struct leat_hold_stats *out);

#endif
