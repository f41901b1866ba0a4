/* Which samples of an origin make which chunk: for packing and indexing alike. The same input gives the same chunks. */
#ifndef LEAT_DATASET_CUT_H
#define LEAT_DATASET_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/origin.h"

struct leat_cut_opts {
    bool keep_order; /* false: samples are permuted by the seed, unless the origin is in_place */
    uint64_t seed;
    uint64_t chunk_bytes; /* 0: LEAT_CHUNK_BYTES */
};

struct leat_cut {
    uint64_t *order;  /* sample by place; NULL: sample i is at place i */
    uint64_t *starts; /* chunks + 1 places */
    uint32_t chunks;
};

/* LEAT_LIMIT, naming the sample, for one that no chunk can hold. */
leat_status leat_cut_make(const struct leat_origin *o, const struct leat_cut_opts *opts, struct leat_cut *out,
                          struct leat_error *err);
void leat_cut_free(struct leat_cut *c); /* zeroed ones are allowed */

static inline uint64_t leat_cut_sample(const struct leat_cut *c, uint64_t place)
{
    return c->order ? c->order[place] : place;
}

#endif
