/* Of what a chunk of an indexed dataset is made: format 1, section kind 3 (docs/format.md).
 *
 * An indexed dataset has no chunk objects. Its chunks are made when they are fetched: head and schema as the snapshot
 * has them, then what the recipe says itself (rows, keys, values that are nobody's file), then pieces of objects that
 * stay where they are. In memory the result is a chunk as any other: leat_chunk_read() reads it, and everything above
 * works on it as on a packed one. A chunk's name is the SHA-256 of its recipe, which says where the bytes lie, how long
 * their objects are and which ETags they have: so names, content id and cache work as for packed ones.
 *
 * Bytes in memory to structs and back; no I/O. */
#ifndef LEAT_DATASET_RECIPE_H
#define LEAT_DATASET_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/chunk.h"
#include "dataset/piece.h"

/* Building one. Pieces are noted in the order in which they make up the chunk's data. */
struct leat_recipe_builder;

leat_status leat_recipe_builder_open(const struct leat_schema *schema, struct leat_recipe_builder **out,
                                     struct leat_error *err);  /* copies the schema, borrows what it points to */
void leat_recipe_builder_close(struct leat_recipe_builder *b); /* NULL is allowed */

/* Where bytes of a value lie: `length` bytes of the object `key` (the key in its store, whole) from `offset` on, which
 * has object_bytes bytes and the ETag `pin`. *at: where they will lie among the data of the chunk's pieces. What
 * follows the last piece in the same object, with at most LEAT_RECIPE_GAP bytes between, makes that piece longer (the
 * bytes between are fetched with it and ignored); what lies inside the last piece makes none. All pieces of a chunk
 * come from one source. */
#define LEAT_RECIPE_GAP (64u << 10)
struct leat_recipe_place {
    const char *key;
    uint64_t offset;
    uint64_t length;
    uint64_t object_bytes;
    const char *pin; /* NULL or "": the store has none */
};
leat_status leat_recipe_place(struct leat_recipe_builder *b, const struct leat_recipe_place *place, uint64_t *at,
                              struct leat_error *err);

/* A sample, as leat_chunk_builder_add() takes it; values with bytes elsewhere say where (leat_value.elsewhere, .at),
 * others bring their bytes, which then stand in the recipe. */
leat_status leat_recipe_add(struct leat_recipe_builder *b, const void *key, size_t key_n,
                            const struct leat_value *values, struct leat_error *err);

uint32_t leat_recipe_samples(const struct leat_recipe_builder *b);
uint64_t leat_recipe_size(const struct leat_recipe_builder *b); /* of the chunk, in memory, as it would be now */

/* Writes the recipe to `out` (cleared first) and empties the builder. source: number of the store (index.h); the other
 * three stand in the chunk's head. *size: of the chunk in memory. */
leat_status leat_recipe_finish(struct leat_recipe_builder *b, uint32_t source, const uint8_t pack[LEAT_PACK_ID_BYTES],
                               uint32_t number, uint32_t total, struct leat_buf *out, uint64_t *size,
                               struct leat_error *err);

/* A recipe that was read, checked against its n bytes: pointers into them. `schema` is one that was read itself
 * (leat_schema_read). What the rows say is not checked: leat_chunk_read() does, once the chunk is there. */
struct leat_recipe {
    const uint8_t *data;
    size_t size;
    uint32_t source;
    uint32_t samples;
    uint64_t lead_bytes; /* of the chunk before the pieces' data: head, schema, rows, keys, the recipe's own values */
    uint64_t data_bytes; /* of the pieces */
    uint32_t pieces_n;

    /* Its own. */
    uint32_t piece_bytes; /* of an entry of … */
    const uint8_t *pieces;
    const char *text; /* keys and pins */
    uint32_t text_bytes;
    const uint8_t *lead; /* without the schema */
    uint32_t chunk_head; /* bytes of it before the schema's place */
};
leat_status leat_recipe_read(const void *data, size_t n, const struct leat_schema *schema, struct leat_recipe *out,
                             struct leat_error *err);

/* Writes the chunk's first lead_bytes bytes to `into`. */
void leat_recipe_lead(const struct leat_recipe *r, const struct leat_schema *schema, void *into);

/* Its pieces; the list is the caller's (leat_pieces_free), and borrows nothing. */
leat_status leat_recipe_pieces(const struct leat_recipe *r, struct leat_pieces *out, struct leat_error *err);

#endif
