#include "order/place.h"

#include <stdlib.h>

/* A node that is to own some slots. */
struct share {
    uint32_t node;
    uint32_t ranks;
    uint32_t has;  /* slots */
    uint32_t take; /* slots that it is to have */
    uint32_t rest; /* of slots · ranks of the node / all ranks, rounded down: what is left, in parts of all ranks */
};

static leat_status no_memory(uint32_t nodes, struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory to place slots on %u nodes", nodes);
}

static leat_status count_ranks(uint32_t slots, uint32_t ranks, const uint32_t *node_of_rank, uint32_t nodes,
                               struct share *shares, struct leat_error *err)
{
    if (slots > LEAT_ORDER_SLOTS_MAX)
        return leat_fail(err, LEAT_INVALID, "a placement of %u slots, more than %u", slots, LEAT_ORDER_SLOTS_MAX);
    if (ranks == 0 || nodes == 0)
        return leat_fail(err, LEAT_INVALID, "slots cannot be placed on %u ranks of %u nodes", ranks, nodes);
    for (uint32_t k = 0; k < nodes; k++)
        shares[k].node = k;
    for (uint32_t r = 0; r < ranks; r++) {
        if (node_of_rank[r] >= nodes)
            return leat_fail(err, LEAT_INVALID, "rank %u is on node %u of %u", r, node_of_rank[r], nodes);
        shares[node_of_rank[r]].ranks++;
    }
    return LEAT_OK;
}

leat_status leat_order_place(uint32_t slots, uint32_t ranks, const uint32_t *node_of_rank, uint32_t nodes,
                             uint32_t *node_of_slot, struct leat_error *err)
{
    struct share *shares = calloc((size_t)nodes + 1, sizeof *shares);
    leat_status rc = shares ? count_ranks(slots, ranks, node_of_rank, nodes, shares, err) : no_memory(nodes, err);
    uint32_t node = 0;
    uint64_t end = shares ? shares[0].ranks : 0; /* ranks of the nodes up to this one */
    for (uint32_t s = 0; rc == LEAT_OK && s < slots; s++) {
        while ((uint64_t)s * ranks >= end * slots)
            end += shares[++node].ranks; /* ends: s < slots */
        node_of_slot[s] = node;
    }
    free(shares);
    return rc;
}

/* Those that have a slot more than the whole part of their share keep it, if any may; then the largest rest. */
static int first_to_round_up(const void *a, const void *b)
{
    const struct share *x = a;
    const struct share *y = b;
    bool x_has = x->rest && x->has > x->take;
    bool y_has = y->rest && y->has > y->take;
    if (x_has != y_has)
        return x_has ? -1 : 1;
    if (x->rest != y->rest)
        return x->rest > y->rest ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int by_node(const void *a, const void *b)
{
    const struct share *x = a;
    const struct share *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void set_shares(struct share *shares, uint32_t nodes, uint32_t slots, uint32_t ranks)
{
    uint32_t over = slots;
    for (uint32_t k = 0; k < nodes; k++) {
        uint64_t exact = (uint64_t)slots * shares[k].ranks;
        shares[k].take = (uint32_t)(exact / ranks);
        shares[k].rest = (uint32_t)(exact % ranks);
        over -= shares[k].take;
    }
    qsort(shares, nodes, sizeof *shares, first_to_round_up);
    for (uint32_t k = 0; k < over; k++) /* less than the number of nodes with a rest */
        shares[k].take++;
    qsort(shares, nodes, sizeof *shares, by_node);
}

/* Neighbouring slots of one node. */
struct run {
    uint32_t first;
    uint32_t n;
};

static int shorter_first(const void *a, const void *b)
{
    const struct run *x = a;
    const struct run *y = b;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static uint32_t find_runs(uint32_t slots, const uint32_t *before, struct run *runs)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < slots; s++) {
        if (s == 0 || before[s] != before[s - 1])
            runs[n++] = (struct run){.first = s};
        runs[n - 1].n++;
    }
    qsort(runs, n, sizeof *runs, shorter_first);
    return n;
}

/* How often 2 divides a number. */
static unsigned evenness(uint32_t x)
{
    return x ? (unsigned)__builtin_ctz(x) : 32;
}

/* Slots that must go get LEAT_ORDER_NONE: those of nodes that are gone, and what nodes have above their shares.
 *
 * A node gives its shortest runs first: they came from nodes that left, and the next one to join gets a whole run
 * again. Of a run it gives the end that cuts the tree of slots at the less important place: the order is even over
 * whole subtrees, and neighbours then give where they meet. now_of: new number by old one. */
static void keep_slots(uint32_t slots, const uint32_t *before, const uint32_t *now_of, struct share *shares,
                       uint32_t *node_of_slot)
{
    struct run runs[LEAT_ORDER_SLOTS_MAX] = {0};
    uint32_t runs_n = find_runs(slots, before, runs);
    for (uint32_t s = 0; s < slots; s++)
        node_of_slot[s] = now_of[before[s]];
    for (uint32_t i = 0; i < runs_n; i++) {
        uint32_t first = runs[i].first;
        uint32_t n = runs[i].n;
        uint32_t node = node_of_slot[first];
        bool low = evenness(first) < evenness(first + n);
        for (uint32_t k = 0; node != LEAT_ORDER_NONE && k < n && shares[node].has > shares[node].take; k++) {
            shares[node].has--;
            node_of_slot[low ? first + k : first + n - 1 - k] = LEAT_ORDER_NONE;
        }
    }
}

static void fill_slots(uint32_t slots, struct share *shares, uint32_t *node_of_slot)
{
    uint32_t node = 0;
    for (uint32_t s = 0; s < slots; s++) {
        if (node_of_slot[s] != LEAT_ORDER_NONE)
            continue;
        while (shares[node].has == shares[node].take)
            node++; /* ends: the shares make up all slots */
        shares[node].has++;
        node_of_slot[s] = node;
    }
}

static leat_status find_nodes(uint32_t slots, const uint32_t *before, uint32_t nodes_before, const uint32_t *was,
                              uint32_t nodes, uint32_t *now_of, struct share *shares, struct leat_error *err)
{
    for (uint32_t k = 0; k < nodes_before; k++)
        now_of[k] = LEAT_ORDER_NONE;
    for (uint32_t k = 0; k < nodes; k++) {
        if (was[k] == LEAT_ORDER_NONE)
            continue;
        if (was[k] >= nodes_before || now_of[was[k]] != LEAT_ORDER_NONE)
            return leat_fail(err, LEAT_INVALID, "node %u cannot have been node %u of %u", k, was[k], nodes_before);
        now_of[was[k]] = k;
    }
    for (uint32_t s = 0; s < slots; s++) {
        if (before[s] >= nodes_before)
            return leat_fail(err, LEAT_INVALID, "slot %u was on node %u of %u", s, before[s], nodes_before);
        if (now_of[before[s]] != LEAT_ORDER_NONE)
            shares[now_of[before[s]]].has++;
    }
    return LEAT_OK;
}

leat_status leat_order_place_again(uint32_t slots, const uint32_t *before, uint32_t nodes_before, uint32_t ranks,
                                   const uint32_t *node_of_rank, uint32_t nodes, const uint32_t *was,
                                   uint32_t *node_of_slot, struct leat_error *err)
{
    struct share *shares = calloc((size_t)nodes + 1, sizeof *shares);
    uint32_t *now_of = malloc(((size_t)nodes_before + 1) * sizeof *now_of);
    leat_status rc = shares && now_of ? LEAT_OK : no_memory(nodes, err);
    if (rc == LEAT_OK)
        rc = count_ranks(slots, ranks, node_of_rank, nodes, shares, err);
    if (rc == LEAT_OK)
        rc = find_nodes(slots, before, nodes_before, was, nodes, now_of, shares, err);
    if (rc == LEAT_OK) {
        set_shares(shares, nodes, slots, ranks);
        keep_slots(slots, before, now_of, shares, node_of_slot);
        fill_slots(slots, shares, node_of_slot);
    }
    free(now_of);
    free(shares);
    return rc;
}

/* One after the other */

/* Slots of each node, and how many of them it is to give. */
struct grown {
    uint32_t has[LEAT_ORDER_SLOTS_MAX];
    uint32_t gives[LEAT_ORDER_SLOTS_MAX];
    uint32_t givers[LEAT_ORDER_SLOTS_MAX];
    uint32_t givers_n;
    struct run shortest[LEAT_ORDER_SLOTS_MAX]; /* of those that give; n 0: none was found */
};

/* Node number `last` joins. Shares are equal but for one slot: those with more than the whole part keep it as long as
 * any may, the lowest numbers first. All that are to keep one have it, since shares only become smaller; so nobody but
 * the new node is given any. Returns how many it is. */
static uint32_t set_gifts(struct grown *g, uint32_t slots, uint32_t last)
{
    uint32_t take = slots / (last + 1);
    uint32_t over = slots % (last + 1);
    uint32_t all = 0;
    g->givers_n = 0;
    for (uint32_t k = 0; k < last; k++) {
        uint32_t keeps = take + (over && g->has[k] > take);
        over -= keeps > take;
        if (g->has[k] == keeps)
            continue;
        g->gives[k] = g->has[k] - keeps;
        g->has[k] = keeps;
        g->givers[g->givers_n++] = k;
        all += g->gives[k];
    }
    g->has[last] = all;
    return all;
}

/* The shortest run of each node that still has to give, the first of several. */
static void find_shortest(struct grown *g, uint32_t slots, const uint32_t *node_of_slot)
{
    uint32_t s = 0;
    while (s < slots) {
        uint32_t node = node_of_slot[s];
        uint32_t first = s++;
        if (!g->gives[node]) /* most of them */
            continue;
        while (s < slots && node_of_slot[s] == node)
            s++;
        struct run *best = &g->shortest[node];
        if (!best->n || s - first < best->n)
            *best = (struct run){.first = first, .n = s - first};
    }
}

/* As keep_slots() and fill_slots(). What is left of gifts when this returns is of the next shortest runs. */
static uint32_t give(struct grown *g, uint32_t last, uint32_t *node_of_slot)
{
    uint32_t given = 0;
    for (uint32_t j = 0; j < g->givers_n; j++) {
        uint32_t k = g->givers[j];
        struct run *r = &g->shortest[k];
        bool low = evenness(r->first) < evenness(r->first + r->n);
        uint32_t n = g->gives[k] < r->n ? g->gives[k] : r->n;
        for (uint32_t i = 0; i < n; i++)
            node_of_slot[low ? r->first + i : r->first + r->n - 1 - i] = last;
        g->gives[k] -= n;
        given += n;
        r->n = 0;
    }
    return given;
}

leat_status leat_order_place_grown(uint32_t slots, uint32_t nodes, uint32_t *node_of_slot, struct leat_error *err)
{
    if (slots > LEAT_ORDER_SLOTS_MAX)
        return leat_fail(err, LEAT_INVALID, "a placement of %u slots, more than %u", slots, LEAT_ORDER_SLOTS_MAX);
    struct grown *g = calloc(1, sizeof *g);
    if (!g)
        return no_memory(nodes, err);
    for (uint32_t s = 0; s < slots; s++)
        node_of_slot[s] = 0;
    g->has[0] = slots;
    for (uint32_t last = 1; last < nodes && last < slots; last++) { /* with one slot each, who comes gets none */
        uint32_t left = set_gifts(g, slots, last);
        while (left) {
            find_shortest(g, slots, node_of_slot);
            left -= give(g, last, node_of_slot);
        }
    }
    free(g);
    return LEAT_OK;
}
