/* The identity of a chunk: 32 bytes that tell it from every chunk whose bytes may differ. Memory, the cache on disk and
 * loaders that share samples find chunks by it.
 *
 * A stored chunk is named by its content, and that name is its identity. A chunk made of a recipe (recipe.h) is named
 * by the recipe, which states keys, ranges, lengths and ETags, but neither the server that the keys are on nor, where
 * the server has no ETags, the data. The identity of such a chunk therefore also covers the URLs of all sources of the
 * dataset with the endpoints that they are reached through, and the checksum of the data where the root has it. */
#ifndef LEAT_DATASET_IDENTITY_H
#define LEAT_DATASET_IDENTITY_H

#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "dataset/recipes.h"
#include "dataset/root.h"

struct leat_identities {
    uint8_t *made;                   /* LEAT_SHA256_SIZE bytes for each chunk; NULL: all are stored */
    const uint8_t *chunks;           /* the same, or the names in the root */
    uint8_t whole[LEAT_SHA256_SIZE]; /* of the dataset: with the same one, every sample has the same bytes */
};

/* recipes NULL: all chunks are stored. Borrows the root's names; the caller frees *out. Looks the endpoints up where
 * they were not given to the dataset, which may take seconds. */
leat_status leat_identities_make(const struct leat_root *root, struct leat_recipes *recipes,
                                 struct leat_identities *out, struct leat_error *err);
void leat_identities_free(struct leat_identities *i); /* zeroed ones are allowed */

#endif
