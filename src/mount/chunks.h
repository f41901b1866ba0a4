/* Where a mount's chunks come from: the cache on disk, if there is one, else the dataset's store; verified either way.
 * What came from the store goes to the disk while there is room. Nothing is removed to make room: files are mostly read
 * in rounds, and then what came first is as good as what came last. Thread-safe. */
#ifndef LEAT_MOUNT_CHUNKS_H
#define LEAT_MOUNT_CHUNKS_H

#include <stdint.h>

#include "base/error.h"
#include "dataset/chunk.h"
#include "dataset/dataset.h"

struct leat_chunks;

/* A chunk, or another block of memory. */
struct leat_loaded {
    uint8_t *data;
    struct leat_chunk chunk; /* points into it */
};

/* dir NULL: no disk. */
leat_status leat_chunks_open(struct leat_dataset *d, const char *dir, uint64_t budget, struct leat_chunks **out,
                             struct leat_error *err);
void leat_chunks_close(struct leat_chunks *c); /* NULL is allowed */

/* The error names the chunk and the object. */
leat_status leat_chunks_load(struct leat_chunks *c, uint32_t chunk, struct leat_loaded **out, struct leat_error *err);
void leat_loaded_free(struct leat_loaded *l); /* NULL is allowed */

#endif
