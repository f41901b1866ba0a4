/* Memory for chunks: mapped, so that what is freed goes back at once, and reused where a chunk takes another's place,
 * so that its pages need not be made again. malloc() does neither well for megabytes: it raises its own limit for
 * mapping when such a block is freed, and then keeps holes that no other chunk fits (a quarter of the budget,
 * measured). */
#ifndef LEAT_CACHE_MEMORY_H
#define LEAT_CACHE_MEMORY_H

#include <stdint.h>

struct leat_cache_memory {
    void *data;
    uint64_t capacity; /* bytes mapped; 0: small, from malloc() */
};

/* Takes what is in `spare` if it fits, and frees it if not. data is NULL when there is no memory. */
struct leat_cache_memory leat_cache_memory_get(uint64_t bytes, struct leat_cache_memory *spare);
void leat_cache_memory_free(struct leat_cache_memory *memory); /* a zeroed one is allowed */

#endif
