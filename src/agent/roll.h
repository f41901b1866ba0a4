/* The roll: what the loaders and datasets of an agent are called, also those that were here lately. A trace names what
 * has ended meanwhile; a loader that has jumped comes back with another connection and is still the same. Loop thread
 * only. */
#ifndef LEAT_AGENT_ROLL_H
#define LEAT_AGENT_ROLL_H

#include <stdint.h>

#define LEAT_ROLL_MAX 128u /* the oldest makes room */

struct leat_roll_entry {
    uint32_t number; /* from 1 on; 0: none */
    int pid;         /* of the rank; 0: a dataset */
    uint64_t born_ns;
    uint32_t rank, world;
    char name[64];     /* UTF-8, as the address: other bytes are replaced */
    char dataset[200]; /* its address without a version, cut where it is longer */
};

struct leat_roll {
    struct leat_roll_entry entries[LEAT_ROLL_MAX];
    uint32_t last; /* number given out */
};

/* The one that asks keeps a copy: the roll may forget.
 * A loader: of a process, made at a moment (0: not known, and so a new one). `name` NULL: the end of the address. */
struct leat_roll_entry leat_roll_loader(struct leat_roll *roll, int pid, uint64_t born_ns, uint32_t rank,
                                        uint32_t world, const char *name, const char *dataset);
struct leat_roll_entry leat_roll_dataset(struct leat_roll *roll, const char *dataset);

const struct leat_roll_entry *leat_roll_find(const struct leat_roll *roll, uint32_t number); /* NULL: forgotten */

#endif
