/* Memory for chunks: mapped, so that what is freed goes back at once, and reused where a chunk takes another's place,
 * so that its pages need not be made again. malloc() does neither well for megabytes: it raises its own limit for
 * mapping when such a block is freed, and then keeps holes that no other chunk fits (a quarter of the budget,
 * measured). */
#ifndef LEAT_CACHE_MEMORY_H
#define LEAT_CACHE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"

struct leat_cache_memory {
    void *data;
    uint64_t capacity; /* bytes mapped; 0: small, from malloc() */
};

/* Whether leat_cache_memory_get() takes it for that many bytes. */
bool leat_cache_memory_fits(const struct leat_cache_memory *memory, uint64_t bytes);

/* Takes what is in `spare` if it fits, and frees it if not. data is NULL when there is no memory. */
struct leat_cache_memory leat_cache_memory_get(uint64_t bytes, struct leat_cache_memory *spare);
void leat_cache_memory_free(struct leat_cache_memory *memory); /* a zeroed one is allowed */

/* A task that frees it, in the memory itself: the kernel takes milliseconds for tens of megabytes. NULL: it was small,
 * and is freed. */
struct leat_task *leat_cache_memory_give(struct leat_cache_memory *memory);

#endif
