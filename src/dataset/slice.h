/* What is known of the samples of one chunk: their rows and keys, from the snapshot's sections where it has them and
 * from the chunk where it does not; and the chunk itself, loaded when its bytes are asked for. For code that goes
 * through a whole dataset. All samples of the chunk are there, whether they count in a selection or not.
 *
 * One thread uses a slice; several may have slices of the same dataset. */
#ifndef LEAT_DATASET_SLICE_H
#define LEAT_DATASET_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/chunk.h"
#include "dataset/dataset.h"

struct leat_slice {
    struct leat_dataset *dataset;
    uint32_t chunk;
    uint32_t samples;
    uint64_t first; /* number of its first sample among all of the dataset */
    uint8_t *rows;  /* NULL: in the chunk, as the next */
    uint8_t *ends;  /* u64 for each key: where it ends, counted as the section does */
    uint8_t *keys;
    uint64_t keys_at; /* where the first one begins */
    void *data;       /* the chunk's bytes, once they are loaded */
    struct leat_chunk loaded;
};

enum { LEAT_SLICE_ROWS = 1, LEAT_SLICE_KEYS = 2 }; /* what is wanted; one may want both */

leat_status leat_slice_open(struct leat_dataset *d, uint32_t chunk, unsigned wanted, struct leat_slice *out,
                            struct leat_error *err);
void leat_slice_close(struct leat_slice *s); /* zeroed ones are allowed */

/* i < samples. */
const uint8_t *leat_slice_row(const struct leat_slice *s, uint32_t i);
const char *leat_slice_key(const struct leat_slice *s, uint32_t i, size_t *n); /* *n 0: it has none */

/* The chunk, which is loaded the first time. */
leat_status leat_slice_load(struct leat_slice *s, const struct leat_chunk **out, struct leat_error *err);

#endif
