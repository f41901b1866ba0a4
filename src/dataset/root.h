/* The snapshot's root, format 1 (docs/format.md): schema, chunk table, and digests of the blocks of the other
 * sections. Mapped, never parsed: an open root is pointers into its own bytes.
 *
 * Two digests tell roots apart. The content id, which stands in the root, is the dataset's version: equal schemas,
 * counts and chunks have equal ones, however the root is written. The root id is the SHA-256 of the root's bytes: its
 * name. */
#ifndef LEAT_DATASET_ROOT_H
#define LEAT_DATASET_ROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "dataset/chunk.h"
#include "dataset/schema.h"

#define LEAT_ROOT_MAX     ((size_t)1 << 30) /* bytes anyone will read of one */
#define LEAT_BLOCK_BYTES  65536u            /* of sections, as this writer cuts them */
#define LEAT_SECTIONS_MAX 64u

/* Numbers are part of the format; sections of other kinds are skipped. */
enum leat_section_kind {
    LEAT_SECTION_SAMPLES = 1, /* rows, one per sample */
    LEAT_SECTION_KEYS = 2,
    LEAT_SECTION_RECIPES = 3,  /* of which pieces each chunk is made: u64 offsets of chunks + 1 recipes, and these */
    LEAT_SECTION_SOURCES = 4,  /* the stores that pieces come from */
    LEAT_SECTION_SELECTION = 5 /* which samples count: selection.h */
};

#define LEAT_SECTION_REQUIRED 1u /* a bit of `needs`: without reading this section the dataset cannot be read */

struct leat_section {
    uint32_t kind;
    uint32_t needs; /* what must be understood to read it */
    uint32_t flags; /* what need not */
    uint64_t size;
    const uint8_t *name;    /* its SHA-256, which is its name */
    const uint8_t *digests; /* 16 bytes for each block */
    uint64_t blocks;
};

/* Chunks that follow each other and are of one packing. */
struct leat_packing {
    uint8_t pack[LEAT_PACK_ID_BYTES];
    uint32_t chunks;
};

struct leat_root {
    const uint8_t *data;
    size_t size;
    const uint8_t *id; /* the content id: LEAT_SHA256_SIZE bytes */
    uint64_t flags;    /* what need not be understood */
    uint64_t samples;  /* in all chunks */
    uint64_t selected; /* those that count: all, or fewer in a selection */
    uint64_t bytes;    /* of all chunks */
    uint32_t chunks;
    uint32_t block_bytes;
    struct leat_schema schema;
    const uint32_t *counts; /* samples in each chunk */
    const uint32_t *sizes;  /* bytes of each chunk, in memory */
    const uint64_t *sums;   /* XXH3 of each chunk, all of it. Made of a recipe: of its pieces' data; 0: not known */
    const uint8_t *names;   /* SHA-256 of each chunk, or of its recipe: its name */
    uint32_t packings_n;
    uint32_t packing_bytes; /* of an entry of … */
    const uint8_t *packings;
    uint32_t sections_n;
    struct leat_section sections[LEAT_SECTIONS_MAX];
};

/* `data` must begin at a multiple of 8, as what malloc and mmap give does, and stay. Every number is checked
 * against the n bytes there are, and the content id against what it is made of. Whether it is the right root only
 * its SHA-256 tells. LEAT_VERSION for one that needs a newer Leat. */
leat_status leat_root_read(const void *data, size_t n, struct leat_root *out, struct leat_error *err);

/* The same without comparing the content id: for what makes roots, and for tests. */
leat_status leat_root_map(const void *data, size_t n, struct leat_root *out, struct leat_error *err);

/* Whether only some of the samples count: it has a section that says which. */
bool leat_root_is_selection(const struct leat_root *r);

/* The content id that the root's schema, counts and chunks have, and its selection. */
leat_status leat_root_content_id(const struct leat_root *r, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err);

/* What the head alone says: for a look at a root whose other bytes are not needed. n is at least LEAT_ROOT_PEEK. */
#define LEAT_ROOT_PEEK 192u
struct leat_root_peek {
    uint8_t id[LEAT_SHA256_SIZE];
    uint64_t size;    /* of the whole root */
    uint64_t samples; /* that count */
    uint64_t bytes;
    uint32_t chunks;
};
leat_status leat_root_peek(const void *data, size_t n, struct leat_root_peek *out, struct leat_error *err);

struct leat_packing leat_root_packing(const struct leat_root *r, uint32_t i); /* i < packings_n */

/* Whether a section can be read. LEAT_VERSION for a kind or a bit of `needs` that this Leat does not know. */
leat_status leat_section_check(const struct leat_section *s, struct leat_error *err);

const struct leat_section *leat_root_section(const struct leat_root *r, enum leat_section_kind kind); /* or NULL */
const uint8_t *leat_root_chunk_name(const struct leat_root *r, uint32_t chunk); /* LEAT_SHA256_SIZE bytes */

/* Whether chunks may be made of recipes (recipe.h): their bytes are those of objects that somebody else has. */
bool leat_root_indexed(const struct leat_root *r);

uint32_t leat_root_unsummed(const struct leat_root *r); /* chunks whose checksum is not known */

/* Whether these are the bytes of a chunk that is stored: length and checksum. */
leat_status leat_root_check_chunk(const struct leat_root *r, uint32_t chunk, const void *data, size_t n,
                                  struct leat_error *err);

/* What everyone does with a chunk that arrives: checks its bytes as above, reads it, and compares its schema and number
 * of samples with the root's. A chunk that is whole but another than the root says is LEAT_CORRUPT too. The lead of one
 * that is made of a recipe is the caller's to check, by the recipe's name. */
leat_status leat_root_open_chunk(const struct leat_root *r, uint32_t chunk, const void *data, size_t n,
                                 struct leat_chunk *out, struct leat_error *err);

/* Whether these are the bytes of a section's block. */
leat_status leat_root_check_block(const struct leat_root *r, const struct leat_section *s, uint64_t block,
                                  const void *data, size_t n, struct leat_error *err);
uint32_t leat_root_block_size(const struct leat_root *r, const struct leat_section *s, uint64_t block);

/* Writing one. */
struct leat_root_chunk {
    uint32_t samples;
    uint32_t size;
    uint64_t sum;
    uint8_t name[LEAT_SHA256_SIZE];
};

/* A section that is stored, or will be. */
struct leat_root_section {
    enum leat_section_kind kind;
    uint32_t needs;
    uint64_t size;
    uint8_t name[LEAT_SHA256_SIZE];
    const uint8_t *digests; /* 16 bytes for each block of LEAT_BLOCK_BYTES */
};

struct leat_root_parts {
    const struct leat_schema *schema;
    const struct leat_packing *packings; /* of all chunks, in order */
    uint32_t packings_n;
    const struct leat_root_chunk *chunks;
    uint32_t chunks_n;
    const struct leat_root_section *sections;
    uint32_t sections_n;
};

leat_status leat_root_write(const struct leat_root_parts *parts, struct leat_buf *out, struct leat_error *err);

#endif
