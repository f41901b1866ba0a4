/* Indexes what an origin has: a recipe for each chunk of its cut, then the snapshot. Recipes are made by several
 * threads; the result does not depend on how many.
 *
 * The dataset's identity covers where the objects are and which versions they have. Data of objects whose store states
 * no version (no ETag, no date) are read, and their checksums take its place. */
#ifndef LEAT_DATASET_INDEX_ORIGIN_H
#define LEAT_DATASET_INDEX_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/cut.h"
#include "dataset/home.h"
#include "dataset/origin.h"
#include "dataset/pins.h"
#include "dataset/publish.h"

struct leat_index_origin_opts {
    struct leat_cut_opts cut; /* as the cut was made: part of the dataset's identity */
    unsigned threads;         /* 0: one for each CPU */
    struct leat_publish_opts publish;
    size_t memory;            /* see leat_index_opts */
    bool (*stop)(void *user); /* asked now and then: true ends it with LEAT_CANCELLED; may be NULL */
    void *stop_user;
    _Atomic uint64_t *samples; /* counts those done, for progress; may be NULL */
};

struct leat_index_result {
    uint8_t id[LEAT_SHA256_SIZE];
    bool guarded; /* see leat_pack_guarded */
    struct leat_pins pins;
};

leat_status leat_index_origin(const struct leat_origin *o, const struct leat_cut *cut, const struct leat_home *to,
                              const struct leat_index_origin_opts *opts, struct leat_index_result *out,
                              struct leat_error *err);

#endif
