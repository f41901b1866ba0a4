/* The index of the section of keys, which is sorted by hash and may be larger than memory: entries go into parts by the
 * first bits of their hash, and each part is sorted by itself. What does not fit is in the spill. Not thread-safe. */
#ifndef LEAT_DATASET_KEY_INDEX_H
#define LEAT_DATASET_KEY_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/spill.h"

#define LEAT_KEY_ENTRY 16u /* bytes of an entry: hash and sample */

struct leat_key_index;

/* For about n entries. Borrows the spill, which others may add to. `memory`: bytes that sorting may take. */
leat_status leat_key_index_open(struct leat_spill *spill, uint64_t n, size_t memory, struct leat_key_index **out,
                                struct leat_error *err);
void leat_key_index_close(struct leat_key_index *x); /* NULL is allowed */

/* Samples come in increasing order. */
leat_status leat_key_index_add(struct leat_key_index *x, uint64_t hash, uint64_t sample, struct leat_error *err);

/* Appends all entries to the spill, sorted by hash, then sample, as the section has them. *at: where they begin. */
leat_status leat_key_index_finish(struct leat_key_index *x, uint64_t *at, struct leat_error *err);

#endif
