/* Of which pieces a chunk consists: byte ranges of objects, in the order in which they make up the chunk. A chunk that
 * is stored has one piece, the whole object; one that is made of a recipe has what its recipe says (recipe.h). */
#ifndef LEAT_DATASET_PIECE_H
#define LEAT_DATASET_PIECE_H

#include <stdint.h>

#include "base/error.h"
#include "dataset/home.h"

struct leat_dataset;

struct leat_piece {
    const char *key; /* in its store; the list's memory */
    uint64_t offset;
    uint64_t length;
    uint64_t object_bytes; /* how long the object must be in all; 0: not known */
    const char *pin;       /* the ETag to insist on, or NULL */
};

struct leat_pieces {
    struct leat_piece *list;
    uint32_t n;
    uint64_t bytes; /* of all of them */
};

/* Those of a chunk (< chunks) that is stored. From any thread. */
leat_status leat_dataset_pieces(const struct leat_dataset *d, uint32_t chunk, struct leat_pieces *out,
                                struct leat_error *err);

/* Those of the recipe of one that is not. */
leat_status leat_dataset_recipe_pieces(const struct leat_dataset *d, uint32_t chunk, struct leat_pieces *out,
                                       struct leat_error *err);

/* A list of one: a stretch of the object `name` below `home`, which has object_bytes bytes. */
leat_status leat_pieces_of(const struct leat_home *home, const char *name, uint64_t offset, uint64_t length,
                           uint64_t object_bytes, struct leat_pieces *out, struct leat_error *err);

void leat_pieces_free(struct leat_pieces *p); /* of either; zeroed ones are allowed */

#endif
