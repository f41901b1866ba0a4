/* Chunks, format 1 (docs/format.md): whole samples with their schema, rows and keys, so that a chunk can be read,
 * and a lost snapshot rebuilt, from the chunk alone. Bytes in memory; no I/O. */
#ifndef LEAT_DATASET_CHUNK_H
#define LEAT_DATASET_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/schema.h"

#define LEAT_CHUNK_HEAD    128u       /* as this writer makes it; later ones may be longer */
#define LEAT_CHUNK_BYTES   (8u << 20) /* what packing aims at */
#define LEAT_CHUNK_MAX     UINT32_MAX /* offsets have 32 bits */
#define LEAT_RAW_MAX       (1u << 30) /* of a compressed value; larger ones are stored as they are */
#define LEAT_KEY_MAX       (64u << 10)
#define LEAT_PACK_ID_BYTES 16

/* A chunk in memory, as leat_chunk_read found it: pointers into the bytes it was given. */
struct leat_chunk {
    const uint8_t *data;
    size_t size;
    uint32_t head_bytes;
    uint8_t pack[LEAT_PACK_ID_BYTES]; /* which packing it belongs to */
    uint32_t number;                  /* in that packing */
    uint32_t total;                   /* chunks in that packing; 0: not known when it was written */
    uint32_t lead_bytes;              /* made of a recipe: where the data of the pieces begin; else 0 */
    uint32_t samples;
    struct leat_schema schema;
    const uint8_t *rows;
    const uint8_t *key_ends;
    const uint8_t *keys;
};

/* Checks the structure: every row, key and value lies within the n bytes, and the head has its checksum. Does not check
 * the body's, which is done against the snapshot (leat_root_open_chunk) or by leat_chunk_check. LEAT_VERSION for a
 * chunk that needs a newer Leat. */
leat_status leat_chunk_read(const void *data, size_t n, struct leat_chunk *out, struct leat_error *err);

/* The same of a chunk that is made of a recipe and of which only the first lead_bytes bytes are here: rows and keys can
 * be read, data cannot. */
leat_status leat_chunk_read_lead(const void *data, size_t n, struct leat_chunk *out, struct leat_error *err);

/* The checksum of its body that a chunk carries; one that is made of a recipe has none. */
leat_status leat_chunk_check(const struct leat_chunk *c, struct leat_error *err);

/* i < samples, field < schema.n */
const uint8_t *leat_chunk_row(const struct leat_chunk *c, uint32_t i);
const char *leat_chunk_key(const struct leat_chunk *c, uint32_t i, size_t *n); /* not NUL-terminated; *n 0: none */
struct leat_cell leat_chunk_cell(const struct leat_chunk *c, uint32_t i, uint32_t field);
const uint8_t *leat_chunk_data(const struct leat_chunk *c, const struct leat_cell *cell); /* cell.size bytes, as they
                                                                                             are stored; of an absent
                                                                                             value: none */

/* The value itself, decompressed where it has to be: writes cell.raw bytes. LEAT_CORRUPT when that cannot be done. */
leat_status leat_chunk_value(const struct leat_chunk *c, const struct leat_cell *cell, void *to,
                             struct leat_error *err);

/* The same without a copy where there need be none: *out is where its cell.raw bytes lie, in the chunk or in *own,
 * which the caller frees; NULL: there is nothing to free. */
leat_status leat_chunk_view(const struct leat_chunk *c, const struct leat_cell *cell, const void **out, void **own,
                            struct leat_error *err);

/* Building one. */
struct leat_value {
    bool absent;      /* optional fields: there is none, and the rest does not matter */
    const void *data; /* where the type has any; of an array row by row */
    size_t size;
    int64_t number;               /* int */
    double real;                  /* float */
    uint32_t dims[LEAT_DIMS_MAX]; /* array: its whole shape */
    struct leat_picture image;    /* image: what a probe found, or zeros */
    bool elsewhere;               /* recipes: the bytes are not at `data` … */
    uint64_t at;                  /* … but here, among those of the chunk's pieces: see recipe.h */
};

struct leat_chunk_builder;

leat_status leat_chunk_builder_open(const struct leat_schema *schema, struct leat_chunk_builder **out,
                                    struct leat_error *err); /* copies the schema, borrows what it points to */
void leat_chunk_builder_close(struct leat_chunk_builder *b);

/* One value for each field, in order; everything is copied. key_n 0: the sample has no key. LEAT_LIMIT when the chunk
 * would become too large; after LEAT_NO_MEMORY the builder can only be closed. */
leat_status leat_chunk_builder_add(struct leat_chunk_builder *b, const void *key, size_t key_n,
                                   const struct leat_value *values, struct leat_error *err);

uint32_t leat_chunk_builder_samples(const struct leat_chunk_builder *b);
size_t leat_chunk_builder_size(const struct leat_chunk_builder *b); /* of the chunk as it would be now */
uint64_t leat_chunk_builder_size_with(const struct leat_chunk_builder *b, size_t key_n,
                                      const struct leat_value *values); /* … with one sample more */

/* Writes the chunk to `out` (cleared first) and empties the builder for the next one. total: chunks in the packing,
 * 0 when it is not known; the last one must know it. */
leat_status leat_chunk_builder_finish(struct leat_chunk_builder *b, const uint8_t pack[LEAT_PACK_ID_BYTES],
                                      uint32_t number, uint32_t total, struct leat_buf *out, struct leat_error *err);

/* The same for a recipe: writes what comes before data_bytes bytes of pieces, into which values that are elsewhere
 * point. LEAT_INVALID when one of them points beyond. */
leat_status leat_chunk_builder_finish_lead(struct leat_chunk_builder *b, uint64_t data_bytes,
                                           const uint8_t pack[LEAT_PACK_ID_BYTES], uint32_t number, uint32_t total,
                                           struct leat_buf *out, struct leat_error *err);
uint64_t leat_chunk_builder_lead(const struct leat_chunk_builder *b); /* its bytes, as it would be now */

#endif
