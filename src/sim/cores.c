#include "sim/cores.h"

#include <stdlib.h>

#define PART 4u /* samples: as the agent cuts pictures */

leat_status leat_sim_cores_open(uint32_t n, double rate, struct leat_sim_cores *out, struct leat_error *err)
{
    *out = (struct leat_sim_cores){.n = n, .rate = rate, .free_ns = calloc((size_t)n + 1, sizeof *out->free_ns)};
    return out->free_ns ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for %u cores", n);
}

void leat_sim_cores_close(struct leat_sim_cores *c)
{
    free(c->free_ns);
    *c = (struct leat_sim_cores){0};
}

/* The core that is free first works until then. */
static void take(struct leat_sim_cores *c, uint64_t until_ns)
{
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < c->n && c->free_ns[child + 1] < c->free_ns[child])
            child++;
        if (child >= c->n || c->free_ns[child] >= until_ns)
            break;
        c->free_ns[at] = c->free_ns[child];
        at = child;
    }
    c->free_ns[at] = until_ns;
}

uint64_t leat_sim_cores_give(struct leat_sim_cores *c, uint32_t samples, uint64_t now_ns)
{
    uint64_t end = now_ns;
    for (uint32_t left = c->rate > 0 ? samples : 0; left;) {
        uint32_t part = left < PART ? left : PART;
        uint64_t begin = c->free_ns[0] > now_ns ? c->free_ns[0] : now_ns;
        uint64_t until = begin + (uint64_t)(part * 1e9 / c->rate);
        take(c, until);
        end = until > end ? until : end;
        left -= part;
    }
    return end;
}
