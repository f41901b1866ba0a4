/* The chunk cache in memory: whole chunks under one byte budget, shared by every dataset that is open. What has to
 * go is the chunk whose next use is farthest away, which the owner of a set is asked for.
 *
 * One thread only. It holds memory and says what may be forgotten; fetching is the feed's. */
#ifndef LEAT_CACHE_CACHE_H
#define LEAT_CACHE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cache/memory.h"

#define LEAT_CACHE_NEVER UINT64_MAX

struct leat_cache;
struct leat_cache_set; /* the chunks of one dataset */

struct leat_cache_entry {
    struct leat_cache_set *set;
    uint32_t chunk;
    uint32_t pins; /* > 0: in use or about to be; never evicted */
    bool ready;    /* data is whole and checked; the owner sets it */
    uint64_t bytes;
    void *data;
    void *user; /* the owner's */
    struct leat_cache_memory memory;
    struct leat_cache_entry *prev, *next;
};

/* When a chunk is used next, as a distance from now; LEAT_CACHE_NEVER when it is not. */
typedef uint64_t leat_cache_next_use(void *user, uint32_t chunk);

leat_status leat_cache_open(uint64_t budget, struct leat_cache **out, struct leat_error *err);
void leat_cache_close(struct leat_cache *cache); /* sets must be closed before; NULL is allowed */
uint64_t leat_cache_budget(const struct leat_cache *cache);
uint64_t leat_cache_used(const struct leat_cache *cache);
uint64_t leat_cache_pinned(const struct leat_cache *cache); /* bytes of pinned chunks */

/* `forget` is called for a ready entry of this set that is about to be evicted, so that its owner lets go of it. */
leat_status leat_cache_set_open(struct leat_cache *cache, uint32_t chunks, leat_cache_next_use *next_use,
                                void (*forget)(void *user, struct leat_cache_entry *entry), void *user,
                                struct leat_cache_set **out, struct leat_error *err);
void leat_cache_set_close(struct leat_cache_set *set); /* frees its entries, pinned or not; NULL is allowed */

struct leat_cache_entry *leat_cache_find(const struct leat_cache_set *set, uint32_t chunk); /* NULL: not there */

/* Room for a chunk that is not there. Entries whose next use is farther away than `use` are evicted as needed, with 0
 * (now) all that are not pinned; NULL when that is not enough (or memory ran out). The new entry is not ready and not
 * pinned. */
struct leat_cache_entry *leat_cache_add(struct leat_cache_set *set, uint32_t chunk, uint64_t bytes, uint64_t use);

void leat_cache_pin(struct leat_cache_entry *entry);
void leat_cache_unpin(struct leat_cache_entry *entry);
void leat_cache_remove(struct leat_cache_entry *entry); /* not pinned */

struct leat_cache_stats {
    uint64_t evictions;
    uint64_t entries;
};
void leat_cache_stats(const struct leat_cache *cache, struct leat_cache_stats *out);

#endif
