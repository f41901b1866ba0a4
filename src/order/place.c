#include "order/place.h"

#include <stdlib.h>

/* A node that is to own some slots. */
struct share {
    uint32_t node;
    uint32_t ranks;
    uint32_t had;  /* slots, before */
    uint32_t take; /* slots, from now on */
    uint32_t rest; /* of slots · ranks of the node / all ranks, rounded down: what is left, in parts of all ranks */
    uint32_t kept; /* so far */
    bool from_end; /* gives slots away from the high end of what it had, else from the low one */
};

static leat_status no_memory(uint32_t nodes, struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory to place slots on %u nodes", nodes);
}

static leat_status count_ranks(uint32_t ranks, const uint32_t *node_of_rank, uint32_t nodes, struct share *shares,
                               struct leat_error *err)
{
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
    leat_status rc = shares ? count_ranks(ranks, node_of_rank, nodes, shares, err) : no_memory(nodes, err);
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
    bool x_has = x->rest && x->had > x->take;
    bool y_has = y->rest && y->had > y->take;
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
    /* Neighbours give away at the ends where they meet, so that the pieces make longer runs. */
    bool from_end = true;
    for (uint32_t k = 0; k < nodes; k++) {
        if (shares[k].had <= shares[k].take)
            continue;
        shares[k].from_end = from_end;
        from_end = !from_end;
    }
}

/* Slots that stay; the others get LEAT_ORDER_NONE. now_of: new number by old one. */
static void keep_slots(uint32_t slots, const uint32_t *before, const uint32_t *now_of, struct share *shares,
                       uint32_t *node_of_slot)
{
    for (uint32_t i = 0; i < 2 * slots; i++) { /* upwards, then downwards */
        uint32_t s = i < slots ? i : 2 * slots - 1 - i;
        uint32_t node = now_of[before[s]];
        if (i < slots)
            node_of_slot[s] = LEAT_ORDER_NONE;
        if (node == LEAT_ORDER_NONE || shares[node].from_end != (i < slots) || shares[node].kept == shares[node].take)
            continue;
        shares[node].kept++;
        node_of_slot[s] = node;
    }
}

static void fill_slots(uint32_t slots, struct share *shares, uint32_t *node_of_slot)
{
    uint32_t node = 0;
    for (uint32_t s = 0; s < slots; s++) {
        if (node_of_slot[s] != LEAT_ORDER_NONE)
            continue;
        while (shares[node].kept == shares[node].take)
            node++; /* ends: the shares make up all slots */
        shares[node].kept++;
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
            shares[now_of[before[s]]].had++;
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
        rc = count_ranks(ranks, node_of_rank, nodes, shares, err);
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
