/* The cores of a node that prepare samples. A batch is cut into parts, as the agent cuts it, and each part goes to the
 * core that is free first. Batches are served in the order in which they are given. */
#ifndef LEAT_SIM_CORES_H
#define LEAT_SIM_CORES_H

#include <stdint.h>

#include "base/error.h"

struct leat_sim_cores {
    uint64_t *free_ns; /* a heap, the earliest first */
    uint32_t n;
    double rate; /* samples a second of one core; 0: no time at all */
};

leat_status leat_sim_cores_open(uint32_t n, double rate, struct leat_sim_cores *out, struct leat_error *err);
void leat_sim_cores_close(struct leat_sim_cores *c);

/* When a batch of this many samples, given now, is prepared. */
uint64_t leat_sim_cores_give(struct leat_sim_cores *c, uint32_t samples, uint64_t now_ns);

#endif
