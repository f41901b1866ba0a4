#include "sim/dataset.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "order/order.h"
#include "sched/sched.h"

leat_status leat_sim_dataset_make(uint64_t samples, uint64_t sample_bytes, uint64_t chunk_bytes,
                                  struct leat_sim_dataset *out, struct leat_error *err)
{
    if (!samples || samples > (uint64_t)1e15)
        return leat_fail(err, LEAT_INVALID, "a dataset of %" PRIu64 " samples: from 1 to 1e15", samples);
    if (!sample_bytes || sample_bytes > UINT32_MAX || !chunk_bytes || chunk_bytes > UINT32_MAX)
        return leat_fail(err, LEAT_INVALID, "samples and chunks have from 1 byte to 4 GiB");
    uint64_t each = chunk_bytes / sample_bytes ? chunk_bytes / sample_bytes : 1;
    uint64_t chunks = (samples + each - 1) / each;
    if (chunks > LEAT_ORDER_CHUNKS_MAX)
        return leat_fail(err, LEAT_INVALID,
                         "%" PRIu64 " chunks are more than an order can hold (%u): larger ones are needed", chunks,
                         LEAT_ORDER_CHUNKS_MAX);
    struct leat_sim_dataset d = {.chunks = (uint32_t)chunks, .samples = samples, .bytes = samples * sample_bytes};
    d.names = malloc((size_t)chunks * LEAT_SCHED_NAME);
    d.counts = malloc((size_t)chunks * sizeof *d.counts);
    d.sizes = malloc((size_t)chunks * sizeof *d.sizes);
    if (!d.names || !d.counts || !d.sizes) {
        leat_sim_dataset_free(&d);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a table of %" PRIu64 " chunks", chunks);
    }
    uint64_t key = leat_key("simulated chunks", samples, sample_bytes, NULL, 0);
    for (uint64_t i = 0; i < chunks; i++) {
        uint32_t block[8];
        leat_random_block(key, 0, 2 * i, block);
        leat_random_block(key, 0, 2 * i + 1, block + 4);
        memcpy(d.names + i * LEAT_SCHED_NAME, block, LEAT_SCHED_NAME);
        d.counts[i] = (uint32_t)(i + 1 < chunks ? each : samples - (chunks - 1) * each);
        d.sizes[i] = (uint32_t)(d.counts[i] * sample_bytes);
    }
    *out = d;
    return LEAT_OK;
}

void leat_sim_dataset_free(struct leat_sim_dataset *d)
{
    free(d->names);
    free(d->counts);
    free(d->sizes);
    *d = (struct leat_sim_dataset){0};
}
