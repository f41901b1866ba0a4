/* Chunks by their next use, the farthest first. Places are kept in the members, so that one can be taken out or moved
 * from the middle. Adding takes no memory: room is made when a chunk becomes known. */
#ifndef LEAT_SCHED_HEAP_H
#define LEAT_SCHED_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/pages.h"

struct leat_sched_place {
    uint64_t key;
    size_t at; /* 1 …; 0: not in the heap */
};

struct leat_sched_heap {
    struct leat_sched_pages list; /* of pointers to places; the first is not used */
    size_t n;
    size_t cap;
};

bool leat_sched_heap_reserve(struct leat_sched_heap *h, size_t members); /* false: no memory */
void leat_sched_heap_free(struct leat_sched_heap *h);

void leat_sched_heap_put(struct leat_sched_heap *h, struct leat_sched_place *p, uint64_t key); /* adds or moves */
void leat_sched_heap_remove(struct leat_sched_heap *h, struct leat_sched_place *p); /* nothing when it is not in it */

/* at: 1 … n */
static inline struct leat_sched_place *leat_sched_heap_at(const struct leat_sched_heap *h, size_t at)
{
    return *(struct leat_sched_place **)leat_sched_pages_at(&h->list, at * sizeof(struct leat_sched_place *));
}

static inline struct leat_sched_place *leat_sched_heap_top(const struct leat_sched_heap *h)
{
    return h->n ? leat_sched_heap_at(h, 1) : NULL;
}

#endif
