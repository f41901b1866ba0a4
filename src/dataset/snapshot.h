/* Gathers what a snapshot says of each chunk of a packing, in any order, and writes it when all are there. Used by
 * packing, by indexing and by rebuilding a lost snapshot: packing and rebuilding come to the same bytes. Not
 * thread-safe.
 *
 * Memory: some 70 bytes per chunk while gathering and as many again while writing, and what is said at open; the rest
 * of the tables lies in temporary files (spill.h), some 40 bytes per sample and its row and key. */
#ifndef LEAT_DATASET_SNAPSHOT_H
#define LEAT_DATASET_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "dataset/chunk.h"
#include "dataset/names.h"
#include "dataset/root.h"

struct leat_snapshot;

/* Chunk numbers from chunks_max on are refused, before memory is set aside for them. memory: bytes of tables that are
 * kept before they go to a file; writing takes as much again. 0: 64 MiB. */
leat_status leat_snapshot_open(uint32_t chunks_max, size_t memory, struct leat_snapshot **out, struct leat_error *err);
void leat_snapshot_close(struct leat_snapshot *s);

/* Takes note of a chunk with the name `sha`; copies what it needs. Refuses a chunk of another packing or schema than
 * the first one's, and a second one with the same number. */
leat_status leat_snapshot_add(struct leat_snapshot *s, const struct leat_chunk *c, const uint8_t sha[LEAT_SHA256_SIZE],
                              struct leat_error *err);

/* The same for a chunk that is made of a recipe: `lead` is what leat_chunk_read_lead() found, `sha` the recipe's
 * digest. sum: XXH3 of the pieces' data, 0 when nobody has read them. recipe_n is a multiple of 8. */
leat_status leat_snapshot_add_made(struct leat_snapshot *s, const struct leat_chunk *lead,
                                   const uint8_t sha[LEAT_SHA256_SIZE], uint64_t sum, const void *recipe,
                                   size_t recipe_n, struct leat_error *err);

/* The same for a chunk of which only this much is at hand, from the tables of a snapshot that has it: number, total,
 * pack, schema, samples, size, rows and keys. sum: as the root has it. recipe_n 0: it is stored. */
leat_status leat_snapshot_add_known(struct leat_snapshot *s, const struct leat_chunk *c,
                                    const uint8_t sha[LEAT_SHA256_SIZE], uint64_t sum, const void *recipe,
                                    size_t recipe_n, struct leat_error *err);

/* The number of a store that recipes may name, by its URL (leat_source_url): the same for the same one. */
leat_status leat_snapshot_source(struct leat_snapshot *s, const char *url, uint32_t *out, struct leat_error *err);

const char *leat_snapshot_source_url(const struct leat_snapshot *s, uint32_t source); /* NULL: there is none */

/* All chunks have been added, for packings whose chunks do not say how many they are. */
void leat_snapshot_end(struct leat_snapshot *s);

/* Whether an equal chunk is there already: false for another or none of that number. */
bool leat_snapshot_has(const struct leat_snapshot *s, uint32_t number, const uint8_t sha[LEAT_SHA256_SIZE]);

const uint8_t *leat_snapshot_pack(const struct leat_snapshot *s); /* LEAT_PACK_ID_BYTES; once it has a chunk */
const struct leat_schema *leat_snapshot_schema(const struct leat_snapshot *s); /* likewise */

uint32_t leat_snapshot_chunks(const struct leat_snapshot *s);
uint64_t leat_snapshot_samples(const struct leat_snapshot *s);
uint64_t leat_snapshot_bytes(const struct leat_snapshot *s);

#define LEAT_SNAPSHOT_SECTIONS 4u /* at most */

struct leat_spill;

/* The finished snapshot; the bytes of its sections are made when they are asked for. */
struct leat_snapshot_files {
    struct leat_root_section sections[LEAT_SNAPSHOT_SECTIONS];
    uint32_t sections_n;
    struct leat_buf root;
    struct leat_pointer pointer;

    /* Its own. */
    struct leat_buf digests[LEAT_SNAPSHOT_SECTIONS];
    const struct leat_snapshot *const *packings;
    uint32_t packings_n;
    uint32_t chunks;
    uint64_t samples;
    struct leat_spill *index; /* of the keys, sorted … */
    uint64_t index_at;        /* … from here on */
};

/* One dataset of n packings, in this order: their chunks follow each other. LEAT_NOT_FOUND when a chunk is missing,
 * naming it (the chunks say how many they are); LEAT_INVALID when the packings have different fields, or the same
 * numbers for different sources. Borrows the packings, which must stay as they are until *out is freed: by the caller,
 * also after a failure. */
leat_status leat_snapshot_write(const struct leat_snapshot *const *packings, uint32_t n,
                                struct leat_snapshot_files *out, struct leat_error *err);
void leat_snapshot_files_free(struct leat_snapshot_files *f);

/* The bytes of a section, from front to back; as often as one likes. */
typedef leat_status leat_snapshot_sink(void *user, const void *data, size_t n, struct leat_error *err);
leat_status leat_snapshot_emit(const struct leat_snapshot_files *f, enum leat_section_kind kind,
                               leat_snapshot_sink *sink, void *user, struct leat_error *err);

#endif
