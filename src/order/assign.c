#include "order/assign.h"

#include <stdlib.h>
#include <string.h>

#define LOW_BITS     (LEAT_ORDER_SLOTS_MAX - 1) /* of a chunk's number: they alone decide on its slot */
#define DIGIT_BITS   11                         /* of a cost, sorted by at a time: three passes */
#define DIGITS       (1u << DIGIT_BITS)
#define DIGIT(c, at) ((c) >> (at) & (DIGITS - 1))

/* Nodes stand in a line in the order of their numbers, and in the same line stand the slots: by node, then by number.
 */

struct costly {
    uint32_t cost;
    uint32_t i; /* in the batch */
};

struct load {
    uint64_t cost;
    uint32_t rank;
    uint32_t left; /* of its quota */
};

/* What a node has and takes of the batch at hand. */
struct node {
    uint32_t first_rank; /* in by_node */
    uint32_t ranks;
    uint32_t lines_end; /* first place in the line after its slots */
    uint32_t quota;
    uint32_t holes; /* of its quota that its own units do not fill */
    uint32_t turn;  /* the rank that is next */
};

struct leat_order_assigner {
    uint32_t ranks, nodes, slots, batch_max;
    uint32_t *node_of_rank;
    uint32_t *by_node;                   /* ranks, node by node, ascending */
    uint32_t line[LEAT_ORDER_SLOTS_MAX]; /* place in the line, by the low bits of a chunk's number */
    uint32_t ends[LEAT_ORDER_SLOTS_MAX]; /* scratch: by place in the line, where its units end in `sorted` */
    struct node *node;
    uint32_t *sorted;     /* scratch: the batch in the order of the line, then of position */
    struct costly *costs; /* scratch, twice the batch; NULL without costs */
    struct load *loads;   /* scratch, as by_node: a heap for each node; NULL without costs */
};

static leat_status check_nodes(const struct leat_order_world *w, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    uint8_t *seen = calloc(w->nodes, 1);
    if (!seen)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %u nodes", w->nodes);
    for (uint32_t r = 0; rc == LEAT_OK && r < w->ranks; r++) {
        if (w->node_of_rank[r] < w->nodes)
            seen[w->node_of_rank[r]] = 1;
        else
            rc = leat_fail(err, LEAT_INVALID, "rank %u is on node %u of %u", r, w->node_of_rank[r], w->nodes);
    }
    for (uint32_t k = 0; rc == LEAT_OK && k < w->nodes; k++) {
        if (!seen[k])
            rc = leat_fail(err, LEAT_INVALID, "node %u of %u has no ranks", k, w->nodes);
    }
    free(seen);
    return rc;
}

leat_status leat_order_world_check(const struct leat_order_world *w, struct leat_error *err)
{
    if (w->ranks > LEAT_ORDER_WORLD_MAX)
        return leat_fail(err, LEAT_LIMIT, "a world of %u ranks is more than %u", w->ranks, LEAT_ORDER_WORLD_MAX);
    if (w->ranks == 0 || w->nodes == 0 || w->nodes > w->ranks)
        return leat_fail(err, LEAT_INVALID, "a world of %u ranks on %u nodes is impossible", w->ranks, w->nodes);
    if (w->slots != leat_order_slots(w->chunks))
        return leat_fail(err, LEAT_INVALID, "the placement has %u slots, the dataset %u", w->slots,
                         leat_order_slots(w->chunks));
    for (uint32_t s = 0; s < w->slots; s++) {
        if (w->node_of_slot[s] >= w->nodes)
            return leat_fail(err, LEAT_INVALID, "slot %u is on node %u of %u", s, w->node_of_slot[s], w->nodes);
    }
    return check_nodes(w, err);
}

leat_status leat_order_batch_check(uint64_t batch, struct leat_error *err)
{
    if (batch == 0)
        return leat_fail(err, LEAT_INVALID, "a global batch must have at least 1 sample");
    if (batch > LEAT_ORDER_BATCH_MAX)
        return leat_fail(err, LEAT_LIMIT, "a global batch of %llu is more than %u", (unsigned long long)batch,
                         LEAT_ORDER_BATCH_MAX);
    return LEAT_OK;
}

uint32_t leat_order_quota(const struct leat_order_world *w, uint32_t n, uint32_t rank)
{
    return n / w->ranks + (rank < n % w->ranks);
}

/* Making ready */

static void set_ranks(struct leat_order_assigner *a)
{
    for (uint32_t r = 0; r < a->ranks; r++)
        a->node[a->node_of_rank[r]].ranks++;
    uint32_t sum = 0;
    for (uint32_t k = 0; k < a->nodes; k++) {
        a->node[k].first_rank = sum;
        sum += a->node[k].ranks;
        a->node[k].turn = 0;
    }
    for (uint32_t r = 0; r < a->ranks; r++) {
        struct node *node = &a->node[a->node_of_rank[r]];
        a->by_node[node->first_rank + node->turn++] = r;
    }
}

static void set_line(struct leat_order_assigner *a, const struct leat_order_world *w)
{
    uint32_t line[LEAT_ORDER_SLOTS_MAX] = {0}; /* by slot */
    for (uint32_t s = 0; s < w->slots; s++)
        a->node[w->node_of_slot[s]].lines_end++;
    for (uint32_t k = 1; k < a->nodes; k++)
        a->node[k].lines_end += a->node[k - 1].lines_end;
    for (uint32_t s = w->slots; s-- > 0;)
        line[s] = --a->node[w->node_of_slot[s]].lines_end;
    /* Now each has its first place: the end is the next one's. */
    for (uint32_t k = 0; k < a->nodes; k++)
        a->node[k].lines_end = k + 1 < a->nodes ? a->node[k + 1].lines_end : w->slots;
    for (uint32_t low = 0; low < w->slots; low++)
        a->line[low] = line[leat_order_slot_of(low, w->chunks)];
}

leat_status leat_order_assigner_open(const struct leat_order_world *w, uint32_t batch_max, bool with_costs,
                                     struct leat_order_assigner **out, struct leat_error *err)
{
    leat_status rc = leat_order_batch_check(batch_max, err);
    if (rc == LEAT_OK)
        rc = leat_order_world_check(w, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_order_assigner *a = calloc(1, sizeof *a);
    if (!a)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to assign batches");
    a->ranks = w->ranks;
    a->nodes = w->nodes;
    a->slots = w->slots;
    a->batch_max = batch_max;
    a->node_of_rank = malloc(w->ranks * sizeof *a->node_of_rank);
    a->by_node = malloc(w->ranks * sizeof *a->by_node);
    a->node = calloc(w->nodes, sizeof *a->node);
    a->sorted = malloc(batch_max * sizeof *a->sorted);
    if (with_costs) {
        a->costs = malloc(2 * (size_t)batch_max * sizeof *a->costs);
        a->loads = malloc(w->ranks * sizeof *a->loads);
    }
    if (!a->node_of_rank || !a->by_node || !a->node || !a->sorted || (with_costs && (!a->costs || !a->loads))) {
        leat_order_assigner_close(a); /* accepts a half-built one */
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to assign batches of %u to %u ranks", batch_max, w->ranks);
    }
    memcpy(a->node_of_rank, w->node_of_rank, w->ranks * sizeof *a->node_of_rank);
    set_ranks(a);
    set_line(a, w);
    *out = a;
    return LEAT_OK;
}

void leat_order_assigner_close(struct leat_order_assigner *a)
{
    if (!a)
        return;
    free(a->loads);
    free(a->costs);
    free(a->sorted);
    free(a->node);
    free(a->by_node);
    free(a->node_of_rank);
    free(a);
}

/* Units to nodes */

static void set_quotas(struct leat_order_assigner *a, uint32_t n)
{
    for (uint32_t k = 0; k < a->nodes; k++)
        a->node[k].quota = a->node[k].ranks * (n / a->ranks);
    for (uint32_t r = 0; r < n % a->ranks; r++) /* these get one more */
        a->node[a->node_of_rank[r]].quota++;
}

static void sort_by_line(struct leat_order_assigner *a, const struct leat_order_item *items, uint32_t n)
{
    memset(a->ends, 0, sizeof a->ends);
    for (uint32_t i = 0; i < n; i++)
        a->ends[a->line[items[i].chunk & LOW_BITS]]++;
    uint32_t sum = 0;
    for (uint32_t l = 0; l < a->slots; l++) {
        uint32_t here = a->ends[l];
        a->ends[l] = sum;
        sum += here;
    }
    for (uint32_t i = 0; i < n; i++)
        a->sorted[a->ends[a->line[items[i].chunk & LOW_BITS]]++] = i;
}

/* Where a node's units end in the line. */
static uint32_t units_end(const struct leat_order_assigner *a, const struct node *node)
{
    return node->lines_end ? a->ends[node->lines_end - 1] : 0;
}

/* A node keeps its units up to its quota. Those over it are taken from the ends of its stretch of the line, from the
 * left end for holes to the left and from the right end for holes to the right: the j-th unit left over, along the
 * line, fills the j-th hole. So few chunks are read on more than one node, and each on few. Sets node_of[i]. */
static void assign_nodes(struct leat_order_assigner *a, const struct leat_order_item *items, uint32_t n,
                         uint32_t *node_of)
{
    set_quotas(a, n);
    sort_by_line(a, items, n);
    uint32_t over = 0;  /* units left over by the nodes so far */
    uint32_t holes = 0; /* in the nodes so far */
    uint32_t begin = 0;
    for (uint32_t k = 0; k < a->nodes; k++) {
        struct node *node = &a->node[k];
        uint32_t end = units_end(a, node);
        uint32_t own = end - begin;
        uint32_t surplus = own > node->quota ? own - node->quota : 0;
        uint32_t left = holes > over ? holes - over : 0;
        left = left < surplus ? left : surplus;
        uint32_t keep_end = end - (surplus - left);
        for (uint32_t j = begin; j < end; j++)
            node_of[a->sorted[j]] = j >= begin + left && j < keep_end ? k : LEAT_ORDER_NONE;
        node->holes = own < node->quota ? node->quota - own : 0;
        over += surplus;
        holes += node->holes;
        begin = end;
    }
    uint32_t hole = 0;
    for (uint32_t j = 0; over && j < n; j++) {
        if (node_of[a->sorted[j]] != LEAT_ORDER_NONE)
            continue;
        while (a->node[hole].holes == 0)
            hole++; /* ends: there are as many holes as units left over */
        a->node[hole].holes--;
        node_of[a->sorted[j]] = hole;
        over--;
    }
}

/* Units of a node to its ranks */

/* All of one cost: in turn. Ranks with one unit more than others come first in the turn, as their numbers are smaller.
 */
static void take_turns(struct leat_order_assigner *a, uint32_t n, uint32_t *rank_of)
{
    for (uint32_t k = 0; k < a->nodes; k++)
        a->node[k].turn = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct node *node = &a->node[rank_of[i]];
        rank_of[i] = a->by_node[node->first_rank + node->turn];
        if (++node->turn == node->ranks)
            node->turn = 0;
    }
}

/* The costliest first, then by position. Returns where they are: one half of a->costs. */
static const struct costly *sort_by_cost(struct leat_order_assigner *a, const uint32_t *costs, uint32_t n)
{
    struct costly *from = a->costs;
    struct costly *to = a->costs + a->batch_max;
    for (uint32_t i = 0; i < n; i++)
        from[i] = (struct costly){costs[i], i};
    for (unsigned at = 0; at < 32; at += DIGIT_BITS) {
        uint32_t firsts[DIGITS] = {0};
        for (uint32_t i = 0; i < n; i++)
            firsts[DIGIT(from[i].cost, at)]++;
        uint32_t sum = 0;
        for (uint32_t d = DIGITS; d-- > 0;) {
            uint32_t here = firsts[d];
            firsts[d] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < n; i++)
            to[firsts[DIGIT(from[i].cost, at)]++] = from[i];
        struct costly *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

/* Whether x is to get a unit before y. */
static bool poorer(const struct load *x, const struct load *y)
{
    if (!x->left || !y->left)
        return x->left != 0;
    if (x->cost != y->cost)
        return x->cost < y->cost;
    return x->left != y->left ? x->left > y->left : x->rank < y->rank;
}

static void sink(struct load *heap, uint32_t n)
{
    struct load moved = heap[0];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < n && poorer(&heap[child + 1], &heap[child]))
            child++;
        if (child >= n || !poorer(&heap[child], &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* The costliest first, each to the rank of its node that has the least so far. */
static void level_costs(struct leat_order_assigner *a, const uint32_t *costs, uint32_t n, uint32_t *rank_of)
{
    for (uint32_t j = 0; j < a->ranks; j++) { /* ascending ranks: a heap already */
        uint32_t rank = a->by_node[j];
        a->loads[j] = (struct load){.rank = rank, .left = n / a->ranks + (rank < n % a->ranks)};
    }
    const struct costly *units = sort_by_cost(a, costs, n);
    for (uint32_t j = 0; j < n; j++) {
        const struct node *node = &a->node[rank_of[units[j].i]];
        struct load *heap = a->loads + node->first_rank;
        heap->left--; /* there is one: the node took no more than its ranks' quotas */
        heap->cost += units[j].cost;
        rank_of[units[j].i] = heap->rank;
        sink(heap, node->ranks);
    }
}

void leat_order_assign(struct leat_order_assigner *a, const struct leat_order_item *items, const uint32_t *costs,
                       uint32_t n, uint32_t *rank_of)
{
    assign_nodes(a, items, n, rank_of);
    if (costs)
        level_costs(a, costs, n, rank_of);
    else
        take_turns(a, n, rank_of);
}

uint32_t leat_order_local(const struct leat_order_world *w, const struct leat_order_item *items, uint32_t n,
                          const uint32_t *rank_of)
{
    uint32_t local = 0;
    for (uint32_t i = 0; i < n; i++)
        local += w->node_of_slot[leat_order_slot_of(items[i].chunk, w->chunks)] == w->node_of_rank[rank_of[i]];
    return local;
}
