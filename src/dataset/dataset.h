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
#include "dataset/root.h"
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

const struct leat_home *leat_dataset_home(const struct leat_dataset *d);

/* Which chunk a sample (< samples) is in, and where in it. */
uint32_t leat_dataset_locate(const struct leat_dataset *d, uint64_t sample, uint32_t *index);

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
 * `out` points into. */
leat_status leat_dataset_load(struct leat_dataset *d, uint32_t chunk, void **data, struct leat_chunk *out,
                              struct leat_error *err);

/* Every block of a section, against its digest. */
leat_status leat_dataset_check_section(struct leat_dataset *d, const struct leat_section *s, struct leat_error *err);

#endif
