/* The snapshot's root, format 1 (docs/format.md): schema, chunk table, and digests of the blocks of the other
 * sections. Its SHA-256 is the dataset's id. Mapped, never parsed: an open root is pointers into its own bytes. */
#ifndef LEAT_DATASET_ROOT_H
#define LEAT_DATASET_ROOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "dataset/chunk.h"
#include "dataset/schema.h"

#define LEAT_ROOT_MAX     ((size_t)1 << 30) /* bytes anyone will read of one */
#define LEAT_BLOCK_BYTES  65536u            /* of sections, as this writer cuts them */
#define LEAT_SECTIONS_MAX 16u

/* Numbers are part of the format; sections of other kinds are skipped. */
enum leat_section_kind {
    LEAT_SECTION_SAMPLES = 1, /* rows, one a sample */
    LEAT_SECTION_KEYS = 2
};

struct leat_section {
    uint32_t kind;
    uint64_t size;
    const uint8_t *name;    /* its SHA-256, which is its name */
    const uint8_t *digests; /* 16 bytes for each block */
    uint64_t blocks;
};

struct leat_root {
    const uint8_t *data;
    size_t size;
    uint8_t pack[LEAT_PACK_ID_BYTES];
    uint64_t samples;
    uint64_t bytes; /* of all chunks */
    uint32_t chunks;
    uint32_t block_bytes;
    struct leat_schema schema;
    const uint32_t *counts; /* samples in each chunk */
    const uint32_t *sizes;  /* bytes of each chunk */
    const uint64_t *sums;   /* XXH3 of each chunk, all of it */
    const uint8_t *names;   /* SHA-256 of each chunk: its name */
    uint32_t sections_n;
    struct leat_section sections[LEAT_SECTIONS_MAX];
};

/* `data` must begin at a multiple of 8, as what malloc and mmap give does, and stay. Every number is checked
 * against the n bytes there are; nothing is allocated. Whether it is the right root only its SHA-256 tells. */
leat_status leat_root_read(const void *data, size_t n, struct leat_root *out, struct leat_error *err);

const struct leat_section *leat_root_section(const struct leat_root *r, enum leat_section_kind kind); /* or NULL */
const uint8_t *leat_root_chunk_name(const struct leat_root *r, uint32_t chunk); /* LEAT_SHA256_SIZE bytes */

/* Whether these are the bytes of the chunk: length and checksum. What everyone does with a chunk that arrives. */
leat_status leat_root_check_chunk(const struct leat_root *r, uint32_t chunk, const void *data, size_t n,
                                  struct leat_error *err);

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

struct leat_root_section {
    enum leat_section_kind kind;
    const struct leat_buf *data;
};

leat_status leat_root_write(const struct leat_schema *schema, const uint8_t pack[LEAT_PACK_ID_BYTES],
                            const struct leat_root_chunk *chunks, uint32_t chunks_n,
                            const struct leat_root_section *sections, uint32_t sections_n, struct leat_buf *out,
                            struct leat_error *err);

#endif
