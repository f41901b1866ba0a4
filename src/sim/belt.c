#include "sim/belt.h"

#include <stdlib.h>

struct leat_sim_belt_thing {
    struct leat_sim_belt_thing *next;
    void *what;
    uint64_t at_ns;
};

bool leat_sim_belt_add(struct leat_sim_belt *b, void *what, uint64_t bytes, uint64_t now_ns)
{
    struct leat_sim_belt_thing *t = malloc(sizeof *t);
    if (!t)
        return false;
    uint64_t begin = b->free_ns > now_ns ? b->free_ns : now_ns;
    b->free_ns = begin + (b->rate > 0 ? (uint64_t)((double)bytes * 1e9 / b->rate) : 0);
    *t = (struct leat_sim_belt_thing){.what = what, .at_ns = b->free_ns};
    *(b->last ? &b->last->next : &b->first) = t;
    b->last = t;
    return true;
}

void *leat_sim_belt_take(struct leat_sim_belt *b, uint64_t now_ns)
{
    struct leat_sim_belt_thing *t = b->first;
    if (!t || t->at_ns > now_ns)
        return NULL;
    b->first = t->next;
    if (!b->first)
        b->last = NULL;
    void *what = t->what;
    free(t);
    return what;
}

uint64_t leat_sim_belt_next_ns(const struct leat_sim_belt *b)
{
    return b->first ? b->first->at_ns : UINT64_MAX;
}

void leat_sim_belt_free(struct leat_sim_belt *b)
{
    while (b->first)
        leat_sim_belt_take(b, UINT64_MAX);
}
