/* A dataset that is made up: all samples alike, all chunks but the last alike. Names are drawn, because the scheduler
 * takes them for digests; the same numbers give the same names. */
#ifndef LEAT_SIM_DATASET_H
#define LEAT_SIM_DATASET_H

#include <stdint.h>

#include "base/error.h"

struct leat_sim_dataset {
    uint8_t *names; /* LEAT_SCHED_NAME bytes of each chunk */
    uint32_t *counts;
    uint32_t *sizes;
    uint32_t chunks;
    uint64_t samples;
    uint64_t bytes;
};

/* LEAT_INVALID: numbers that cannot be, or more chunks than an order holds. */
leat_status leat_sim_dataset_make(uint64_t samples, uint64_t sample_bytes, uint64_t chunk_bytes,
                                  struct leat_sim_dataset *out, struct leat_error *err);
void leat_sim_dataset_free(struct leat_sim_dataset *d); /* a zeroed one is allowed */

#endif
