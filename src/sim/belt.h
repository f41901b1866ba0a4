/* Things that leave in the order in which they were put, as fast as a rate allows: a disk's reads, or its writes. */
#ifndef LEAT_SIM_BELT_H
#define LEAT_SIM_BELT_H

#include <stdbool.h>
#include <stdint.h>

struct leat_sim_belt_thing;

struct leat_sim_belt {
    double rate;      /* bytes a second; 0: no limit */
    uint64_t free_ns; /* when the last of them leaves */
    struct leat_sim_belt_thing *first, *last;
};

bool leat_sim_belt_add(struct leat_sim_belt *b, void *what, uint64_t bytes, uint64_t now_ns); /* false: no memory */
void *leat_sim_belt_take(struct leat_sim_belt *b, uint64_t now_ns); /* one that has left by then, or NULL */
uint64_t leat_sim_belt_next_ns(const struct leat_sim_belt *b);      /* UINT64_MAX: none */
void leat_sim_belt_free(struct leat_sim_belt *b);

#endif
