/* What holds the chunks of an index to the data that were indexed: an ETag, a date and a size, a checksum, or nothing
 * but the length. */
#ifndef LEAT_DATASET_PINS_H
#define LEAT_DATASET_PINS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/dataset.h"
#include "dataset/piece.h"

/* Chunks that are made of recipes. One is counted by the weakest pin of its pieces, and by its checksum only where a
 * piece has no pin. */
struct leat_pins {
    uint32_t etag;
    uint32_t date;     /* and size; in files the inode, too */
    uint32_t checksum; /* of data whose store states no version */
    uint32_t
        length; /* only: data of the same length that have replaced them are not noticed before they were read once */
};

/* local: the pieces are files. */
void leat_pins_add(struct leat_pins *pins, const struct leat_pieces *pieces, bool local, bool summed);

void leat_pins_sum(struct leat_pins *pins, const struct leat_pins *more);

/* Counts those of a dataset by its recipes, of which at most this many bytes are read: where there are more, of chunks
 * that are spread over all. *looked_at: chunks that were counted, *of: that are made of recipes. */
leat_status leat_pins_count(struct leat_dataset *d, uint64_t bytes_max, struct leat_pins *out, uint32_t *looked_at,
                            uint32_t *of, struct leat_error *err);

#endif
