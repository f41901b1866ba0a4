/* Indexing: a snapshot over objects that stay where and as they are. Recipes in, a snapshot out; no chunk is stored.
 *
 * Like packing (pack.h) it has no threads of its own, keeps what it gathers in temporary files beyond some memory, and
 * publishes last, atomically. */
#ifndef LEAT_DATASET_INDEX_H
#define LEAT_DATASET_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/home.h"
#include "dataset/pins.h"
#include "dataset/publish.h"
#include "dataset/recipe.h"
#include "dataset/sources.h"

struct leat_index_opts {
    const struct leat_schema *schema; /* what it points to must stay until close */
    uint8_t id[LEAT_PACK_ID_BYTES];   /* of this indexing: the same for the same input */
    uint32_t chunks;                  /* there will be; 0: only the last one knows */
    struct leat_publish_opts publish;
    size_t memory; /* as leat_pack_opts */
};

struct leat_index;

leat_status leat_index_open(const struct leat_home *to, const struct leat_index_opts *opts, struct leat_index **out,
                            struct leat_error *err);
void leat_index_close(struct leat_index *x); /* without a finish nothing is published; NULL is allowed */

/* The number of a store that pieces come from: of the bucket or file system that `url` lies in. Asked twice for the
 * same one it says the same. At most LEAT_SOURCES_MAX. Keys in a file system are absolute paths. */
leat_status leat_index_source(struct leat_index *x, const char *url, uint32_t *out, struct leat_error *err);

/* Notes a finished recipe as the chunk with this number. sum: XXH3 of the pieces' bytes, one after the other; 0: nobody
 * has read them. From any thread, in any order; in the end the numbers must be 0, 1, 2, … */
leat_status leat_index_put(struct leat_index *x, struct leat_recipe_builder *b, uint32_t source, uint32_t number,
                           uint64_t sum, struct leat_error *err);

leat_status leat_index_finish(struct leat_index *x, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err);
struct leat_pins leat_index_pins(const struct leat_index *x); /* of what was put, once nothing more is */
bool leat_index_guarded(const struct leat_index *x);          /* as leat_pack_guarded */

#endif
