#include "order/assign.h"

#include <stdlib.h>

#define UNASSIGNED UINT32_MAX

void leat_order_place_slots(uint32_t slots, uint32_t nodes, uint32_t *node_of_slot)
{
    for (uint32_t s = 0; s < slots; s++)
        node_of_slot[s] = (uint32_t)((uint64_t)s * nodes / slots);
}

leat_status leat_order_world_check(const struct leat_order_world *w, struct leat_error *err)
{
    if (w->ranks == 0 || w->nodes == 0 || w->nodes > w->ranks)
        return leat_fail(err, LEAT_INVALID, "a world of %u ranks on %u nodes cannot be", w->ranks, w->nodes);
    if (w->slots != leat_order_slots(w->chunks))
        return leat_fail(err, LEAT_INVALID, "the placement has %u slots, the dataset %u", w->slots,
                         leat_order_slots(w->chunks));
    for (uint32_t r = 0; r < w->ranks; r++) {
        if (w->node_of_rank[r] >= w->nodes)
            return leat_fail(err, LEAT_INVALID, "rank %u is on node %u of %u", r, w->node_of_rank[r], w->nodes);
    }
    for (uint32_t s = 0; s < w->slots; s++) {
        if (w->node_of_slot[s] >= w->nodes)
            return leat_fail(err, LEAT_INVALID, "slot %u is on node %u of %u", s, w->node_of_slot[s], w->nodes);
    }
    return LEAT_OK;
}

uint32_t leat_order_quota(const struct leat_order_world *w, uint32_t n, uint32_t rank)
{
    return n / w->ranks + (rank < n % w->ranks);
}

static uint32_t owner(const struct leat_order_world *w, struct leat_order_item item)
{
    return w->node_of_slot[leat_order_slot_of(item.chunk, w->chunks)];
}

/* First pass: node_of[i]. `room` is what each node still takes. */
static void assign_nodes(const struct leat_order_world *w, const struct leat_order_item *items, uint32_t n,
                         uint32_t *room, uint32_t *node_of)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = owner(w, items[i]);
        node_of[i] = UNASSIGNED;
        if (room[node]) {
            room[node]--;
            node_of[i] = node;
        }
    }
    uint32_t node = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (node_of[i] != UNASSIGNED)
            continue;
        while (room[node] == 0)
            node++; /* ends: the room left is as large as the number of units left */
        room[node]--;
        node_of[i] = node;
    }
}

struct costly {
    uint32_t cost;
    uint32_t i; /* in the batch */
};

static int costliest_first(const void *a, const void *b)
{
    const struct costly *x = a;
    const struct costly *y = b;
    if (x->cost != y->cost)
        return x->cost > y->cost ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

struct load {
    uint64_t cost;
    uint32_t rank;
    uint32_t left; /* of its quota */
};

/* Gives one node's units to its ranks: the costliest first, each to the rank with the least so far. All costs
 * equal, that is in turn. */
static void assign_ranks(const struct costly *units, uint32_t n, struct load *loads, uint32_t ranks, uint32_t *rank_of)
{
    for (uint32_t i = 0; i < n; i++) {
        struct load *best = loads;
        for (struct load *l = loads; l < loads + ranks; l++) {
            if (l->left && (!best->left || l->cost < best->cost || (l->cost == best->cost && l->left > best->left)))
                best = l;
        }
        best->left--; /* there is one: the node took no more than its ranks' quotas */
        best->cost += units[i].cost;
        rank_of[units[i].i] = best->rank;
    }
}

struct scratch {
    uint32_t *room;       /* by node, and one more */
    uint32_t *ranks;      /* by node: its first place in loads, and one more */
    uint32_t *own;        /* by node: its first place in units, and one more */
    uint32_t *node_of;    /* by unit */
    struct load *loads;   /* grouped by node, ranks ascending */
    struct costly *units; /* grouped by node, positions ascending */
};

/* Turns counts at [k + 1] into first places at [k]. */
static void sum_up(uint32_t *v, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        v[k + 1] += v[k];
}

static void assign(const struct leat_order_world *w, const struct leat_order_item *items, const uint32_t *costs,
                   uint32_t n, const struct scratch *s, uint32_t *rank_of)
{
    for (uint32_t r = 0; r < w->ranks; r++) {
        s->room[w->node_of_rank[r]] += leat_order_quota(w, n, r);
        s->ranks[w->node_of_rank[r] + 1]++;
    }
    assign_nodes(w, items, n, s->room, s->node_of);
    for (uint32_t i = 0; i < n; i++)
        s->own[s->node_of[i] + 1]++;
    sum_up(s->ranks, w->nodes);
    sum_up(s->own, w->nodes);
    /* Filling a group moves its first place to its end, which is the next one's first place. */
    for (uint32_t r = 0; r < w->ranks; r++)
        s->loads[s->ranks[w->node_of_rank[r]]++] = (struct load){.rank = r, .left = leat_order_quota(w, n, r)};
    for (uint32_t i = 0; i < n; i++)
        s->units[s->own[s->node_of[i]]++] = (struct costly){costs ? costs[i] : 1, i};
    for (uint32_t node = 0; node < w->nodes; node++) {
        uint32_t unit = node ? s->own[node - 1] : 0;
        uint32_t load = node ? s->ranks[node - 1] : 0;
        if (costs)
            qsort(s->units + unit, s->own[node] - unit, sizeof *s->units, costliest_first);
        assign_ranks(s->units + unit, s->own[node] - unit, s->loads + load, s->ranks[node] - load, rank_of);
    }
}

leat_status leat_order_assign(const struct leat_order_world *w, const struct leat_order_item *items,
                              const uint32_t *costs, uint32_t n, uint32_t *rank_of, struct leat_error *err)
{
    struct scratch s = {
        .room = calloc((size_t)w->nodes + 1, sizeof *s.room),
        .ranks = calloc((size_t)w->nodes + 1, sizeof *s.ranks),
        .own = calloc((size_t)w->nodes + 1, sizeof *s.own),
        .node_of = calloc((size_t)n + 1, sizeof *s.node_of),
        .loads = calloc((size_t)w->ranks + 1, sizeof *s.loads),
        .units = calloc((size_t)n + 1, sizeof *s.units),
    };
    leat_status rc = LEAT_OK;
    if (s.room && s.ranks && s.own && s.node_of && s.loads && s.units)
        assign(w, items, costs, n, &s, rank_of);
    else
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to assign a batch of %u", n);
    free(s.units);
    free(s.loads);
    free(s.node_of);
    free(s.own);
    free(s.ranks);
    free(s.room);
    return rc;
}

uint32_t leat_order_local(const struct leat_order_world *w, const struct leat_order_item *items, uint32_t n,
                          const uint32_t *rank_of)
{
    uint32_t local = 0;
    for (uint32_t i = 0; i < n; i++)
        local += owner(w, items[i]) == w->node_of_rank[rank_of[i]];
    return local;
}
