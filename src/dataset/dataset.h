/* A dataset in a store, open for reading. Opening reads the pointer and the root, nothing else; sample tables and
 * keys are fetched by range when they are asked for, and every block of them is verified on its way in.
 *
 * Any thread may call; reads of the same stretch of a section wait for each other. */
#ifndef LEAT_DATASET_DATASET_H
#define LEAT_DATASET_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/chunk.h"
#include "dataset/home.h"
#include "dataset/piece.h"
#include "dataset/root.h"
#include "dataset/sources.h"
#include "store/store.h"

struct leat_dataset;

/* Which version: leat_home_resolve (home.h) says how `id`, a content id or NULL, and the address decide it. A pointer
 * or root that arrives damaged is read once more. */
leat_status leat_dataset_open(const char *url, const struct leat_store_opts *opts, const uint8_t *id,
                              struct leat_dataset **out, struct leat_error *err);
void leat_dataset_close(struct leat_dataset *d);

const struct leat_root *leat_dataset_root(const struct leat_dataset *d);

/* LEAT_SHA256_SIZE bytes each: the content id, by which order, state and cache know the dataset, and the root's name.
 */
const uint8_t *leat_dataset_id(const struct leat_dataset *d);
const uint8_t *leat_dataset_root_id(const struct leat_dataset *d);

/* Which chunks have the same bytes, in this dataset and others: identity.h. To be made by one thread before others ask.
 */
leat_status leat_dataset_identify(struct leat_dataset *d, struct leat_error *err);
const uint8_t *leat_dataset_identity(const struct leat_dataset *d);   /* of all of it: LEAT_SHA256_SIZE bytes */
const uint8_t *leat_dataset_identities(const struct leat_dataset *d); /* … of each chunk */

const struct leat_home *leat_dataset_home(const struct leat_dataset *d);

/* The samples that count: all, or those of a selection. Numbers of samples everywhere count these. */
uint64_t leat_dataset_samples(const struct leat_dataset *d);
const uint32_t *leat_dataset_counts(const struct leat_dataset *d); /* in each chunk; 0 is possible in a selection */

/* Where the i-th (< counts[chunk]) of a chunk's samples that count lies in the chunk. */
uint32_t leat_dataset_index(const struct leat_dataset *d, uint32_t chunk, uint32_t i);

/* Which chunk a sample (< samples) is in, and where in it. */
uint32_t leat_dataset_locate(const struct leat_dataset *d, uint64_t sample, uint32_t *index);

/* Rows and keys lie in the sections of all samples, whether they count or not: the number there of a sample (<
 * samples), and back. False: the sample with that number (< root.samples) does not count. */
uint64_t leat_dataset_number(const struct leat_dataset *d, uint64_t sample);
uint32_t leat_dataset_chunk(const struct leat_dataset *d, uint64_t number); /* which chunk it is in */
uint64_t leat_dataset_first(const struct leat_dataset *d, uint32_t chunk);  /* number there of a chunk's first sample */
bool leat_dataset_counted(const struct leat_dataset *d, uint64_t number, uint64_t *sample);

/* Bytes of a section, verified. LEAT_NOT_FOUND when there is none. */
leat_status leat_dataset_read(struct leat_dataset *d, enum leat_section_kind kind, uint64_t at, void *into, size_t n,
                              struct leat_error *err);

/* Copies a sample's row: schema.row_bytes bytes. */
leat_status leat_dataset_row(struct leat_dataset *d, uint64_t sample, uint8_t *row, struct leat_error *err);

/* Appends a sample's key: nothing when it has none. LEAT_NOT_FOUND when the dataset has no keys. */
leat_status leat_dataset_key(struct leat_dataset *d, uint64_t sample, struct leat_buf *out, struct leat_error *err);

/* The first sample with a key, and how many have it: leat_keys_find. */
leat_status leat_dataset_find(struct leat_dataset *d, const void *key, size_t n, uint64_t *sample, uint64_t *count,
                              struct leat_error *err);

/* Whether two samples may have the same key: leat_keys_repeat. Reads the whole index of the keys. */
leat_status leat_dataset_keys_repeat(struct leat_dataset *d, bool *out, struct leat_error *err);

/* A chunk, fetched and verified; one that arrives damaged is fetched once more. The caller frees *data, which
 * `out` points into. LEAT_CHANGED, with its name, for an object that is no longer what was indexed. */
leat_status leat_dataset_load(struct leat_dataset *d, uint32_t chunk, void **data, struct leat_chunk *out,
                              struct leat_error *err);

/* The steps of it, for callers that do not wait (feed.h). A chunk that is made of a recipe comes in two: the recipe,
 * from where leat_dataset_recipe_pieces() (piece.h) says, and what leat_dataset_begin() then says. */
uint32_t leat_dataset_recipe_bytes(const struct leat_dataset *d, uint32_t chunk); /* 0: it has none, it is stored */
leat_status leat_dataset_recipe(struct leat_dataset *d, uint32_t chunk, uint8_t **out, uint32_t *n,
                                struct leat_error *err); /* its bytes, verified; the caller frees them. NULL: none */
leat_status leat_dataset_begin(const struct leat_dataset *d, uint32_t chunk, const void *recipe, void *into,
                               struct leat_pieces *pieces, struct leat_store **store,
                               struct leat_error *err); /* leat_recipes_begin */

/* Whether these are the bytes of the chunk: leat_root_open_chunk, and what was learned of it when it came first. */
leat_status leat_dataset_open_chunk(const struct leat_dataset *d, uint32_t chunk, const void *data, size_t n,
                                    struct leat_chunk *out, struct leat_error *err);

uint64_t leat_dataset_learned(const struct leat_dataset *d, uint32_t chunk); /* leat_recipes_learned */

/* Before leat_dataset_open_chunk() of one that another machine has made of a recipe: leat_recipes_known and _judge. */
bool leat_dataset_known(const struct leat_dataset *d, uint32_t chunk);
leat_status leat_dataset_judge(const struct leat_dataset *d, uint32_t chunk, const void *recipe, void *data,
                               uint64_t *doubt, struct leat_error *err);
void leat_dataset_pins_prove_nothing(const struct leat_dataset *d);

/* Says why the pieces of a chunk are not available: leat_recipes_explain. */
leat_status leat_dataset_explain(const struct leat_dataset *d, uint32_t chunk, struct leat_error *err);

/* The stores that pieces come from; NULL: all chunks are stored with the dataset. */
const struct leat_sources_list *leat_dataset_sources(const struct leat_dataset *d);

/* Of what somebody has found out about stores, the part that this dataset needs, its home's and its sources'; and the
 * URLs of stores that it says nothing of, one for each place. The caller frees both. */
leat_status leat_dataset_access(const struct leat_dataset *d, const struct leat_access *access,
                                struct leat_access **out, struct leat_sources_list *lacks, struct leat_error *err);

/* Other keys for all of its stores: leat_store_renew. */
void leat_dataset_renew(const struct leat_dataset *d, const struct leat_access *access);

/* What its stores have counted, all together. Waits for nobody. */
void leat_dataset_stats(const struct leat_dataset *d, struct leat_store_stats *out);

/* Every block of a section, against its digest. */
leat_status leat_dataset_check_section(struct leat_dataset *d, const struct leat_section *s, struct leat_error *err);

#endif
