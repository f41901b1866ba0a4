/* Adding to a dataset: what a snapshot says of the chunks of a version that is there, taken from its sections, so that
 * a new packing can be joined to it. No chunk is read where the version has its tables (slice.h). */
#ifndef LEAT_DATASET_ADD_H
#define LEAT_DATASET_ADD_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/dataset.h"
#include "dataset/snapshot.h"

/* Packings of a version, one snapshot each, in their order. */
struct leat_add {
    struct leat_snapshot **packings;
    uint32_t n;
};

/* LEAT_UNSUPPORTED for a selection, whose samples are not all there is in its chunks. `memory` as in
 * leat_snapshot_open, for all of them together. */
leat_status leat_add_load(struct leat_dataset *d, size_t memory, struct leat_add *out, struct leat_error *err);
void leat_add_free(struct leat_add *a); /* zeroed ones are allowed */

/* Gives the version's sources the same numbers in a snapshot that has none yet. */
leat_status leat_add_sources(const struct leat_dataset *d, struct leat_snapshot *to, struct leat_error *err);

/* Whether samples with this schema can be added: LEAT_INVALID, with what is different and what to do, when they
 * cannot. */
leat_status leat_add_check(const struct leat_dataset *d, const struct leat_schema *schema, struct leat_error *err);

/* LEAT_EXISTS when a packing with this id is in the version already: the same files packed in the same way. */
leat_status leat_add_check_packing(const struct leat_dataset *d, const uint8_t pack[LEAT_PACK_ID_BYTES],
                                   struct leat_error *err);

#endif
