/* Datasets for simulations: chunks that are all alike, with names that are drawn. */
#ifndef LEAT_TESTS_SIM_DATA_H
#define LEAT_TESTS_SIM_DATA_H

#include <string.h>

#include "base/random.h"
#include "sim/job.h"

#define SIM_CHUNKS_MAX 4096u

static uint8_t sim_names[SIM_CHUNKS_MAX * LEAT_SCHED_NAME];
static uint32_t sim_counts[SIM_CHUNKS_MAX];
static uint32_t sim_sizes[SIM_CHUNKS_MAX];
static const uint8_t sim_id[32] = {1, 2, 3};

/* One node, one rank, memory for everything, no limits, one request at a time. */
static inline struct leat_sim_job_opts sim_job(uint32_t chunks, uint32_t samples_each, uint32_t bytes_each)
{
    for (uint32_t i = 0; i < chunks; i++) {
        uint32_t block[8];
        leat_random_block(7, 0, 2 * i, block);
        leat_random_block(7, 0, 2 * i + 1, block + 4);
        memcpy(sim_names + i * LEAT_SCHED_NAME, block, LEAT_SCHED_NAME);
        sim_counts[i] = samples_each;
        sim_sizes[i] = bytes_each;
    }
    return (struct leat_sim_job_opts){
        .id = sim_id,
        .names = sim_names,
        .counts = sim_counts,
        .sizes = sim_sizes,
        .chunks = chunks,
        .window = 4,
        .nodes = 1,
        .ranks = 1,
        .batch = 1,
        .last = LEAT_ORDER_SHORT,
        .epochs = 2,
        .ram = 1ull << 50,
        .slots = 4,
        .connections = 1,
        .cores = 1,
    };
}

#endif
