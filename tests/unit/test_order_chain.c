/* Chains of worlds: a training that is stopped and resumed again and again, each time with another world, node map,
 * batch, placement and way to treat the last batch, from nothing but the text of its state. */

#include "base/random.h"
#include "order/assign.h"
#include "order/batch.h"
#include "order/place.h"
#include "order/reader.h"
#include "order/state.h"
#include "unit.h"

#define CHUNKS_MAX 1500u
#define NODES_MAX  9u
#define RANKS_MAX  (NODES_MAX * 6)
#define BATCH_MAX  (RANKS_MAX * 8)

struct chain {
    struct leat_rng rng;
    uint32_t counts[CHUNKS_MAX];
    struct leat_order_spec spec;
    struct leat_order *order;
    char *state; /* all that is kept from leg to leg */
    uint8_t *seen;

    uint32_t nodes, ranks;
    uint32_t ranks_of[NODES_MAX];
    uint32_t node_of_rank[RANKS_MAX];
    uint32_t table[LEAT_ORDER_SLOTS_MAX];
};

static uint32_t below(struct chain *c, uint32_t n)
{
    return (uint32_t)leat_rng_below(&c->rng, n);
}

static void save(struct chain *c, uint64_t position)
{
    static struct leat_order_state s;
    struct leat_error err;
    s = (struct leat_order_state){.streams_n = 1, .streams = {leat_order_stream(&c->spec, c->order)}};
    s.streams[0].position = position;
    free(c->state);
    assert_ok(leat_order_state_write(&s, &c->state, &err), err);
}

static uint64_t load(struct chain *c)
{
    static struct leat_order_state s;
    struct leat_error err;
    struct leat_order_stream mine = leat_order_stream(&c->spec, c->order);
    assert_ok(leat_order_state_read(c->state, strlen(c->state), &s, &err), err);
    assert_int_equal(s.streams_n, 1);
    assert_ok(leat_order_stream_fits(&s.streams[0], &mine, "the state", &err), err);
    return s.streams[0].position;
}

static void begin(struct chain *c)
{
    const uint32_t sizes[] = {1, 2, 3, 40, 200, 1023, 1024, CHUNKS_MAX};
    const uint32_t windows[] = {1, 3, 128, 2000};
    struct leat_error err;
    uint32_t chunks = sizes[below(c, COUNT(sizes))];
    uint32_t most = 2000 / chunks + 1;
    for (uint32_t i = 0; i < chunks; i++)
        c->counts[i] = below(c, most + 1);
    c->spec = (struct leat_order_spec){.view = "samples",
                                       .counts = c->counts,
                                       .chunks = chunks,
                                       .shuffle = below(c, 8) != 0,
                                       .seed = below(c, 1000),
                                       .epoch = below(c, 100),
                                       .window = windows[below(c, COUNT(windows))]};
    assert_ok(leat_order_open(&c->spec, &c->order, &err), err);
    c->seen = calloc(leat_order_units(c->order) + 1, 1);
    c->nodes = 0;
    save(c, 0);
}

/* Another node map, of any shape, and its table: from nothing, or from the one before. */
static void new_world(struct chain *c)
{
    struct leat_error err;
    uint32_t before[LEAT_ORDER_SLOTS_MAX];
    uint32_t was[NODES_MAX];
    uint32_t nodes_before = c->nodes;
    uint32_t slots = leat_order_slots(c->spec.chunks);
    memcpy(before, c->table, sizeof before);
    c->nodes = 1 + below(c, NODES_MAX);
    c->ranks = 0;
    for (uint32_t k = 0; k < c->nodes; k++) {
        c->ranks_of[k] = 1 + below(c, 6);
        for (uint32_t r = 0; r < c->ranks_of[k]; r++)
            c->node_of_rank[c->ranks++] = k;
        was[k] = k < nodes_before && below(c, 4) ? k : LEAT_ORDER_NONE;
    }
    if (below(c, 2)) /* ranks of a node next to each other, or anyhow */
        leat_shuffle_u32(leat_rng_u64(&c->rng), 1, c->node_of_rank, c->ranks);
    if (nodes_before && below(c, 2))
        assert_ok(leat_order_place_again(slots, before, nodes_before, c->ranks, c->node_of_rank, c->nodes, was,
                                         c->table, &err),
                  err);
    else
        assert_ok(leat_order_place(slots, c->ranks, c->node_of_rank, c->nodes, c->table, &err), err);
}

/* Every rank has its quota, and none is empty while there is a unit for each. */
static void check_quotas(const struct chain *c, const struct leat_order_world *w, struct leat_order_batch b,
                         const uint32_t *rank_of)
{
    uint32_t own[RANKS_MAX] = {0};
    for (uint32_t i = 0; i < b.size; i++) {
        assert_true(rank_of[i] < c->ranks);
        own[rank_of[i]]++;
    }
    for (uint32_t r = 0; r < c->ranks; r++) {
        assert_int_equal(own[r], leat_order_quota(w, b.size, r));
        assert_true(own[r] + 1 >= own[0] && own[r] <= own[0]);
        assert_true(own[r] > 0 || b.size < c->ranks);
    }
}

/* Some batches from where the state says; returns whether the epoch is over. */
static bool leg(struct chain *c)
{
    static struct leat_order_item items[BATCH_MAX];
    static uint32_t rank_of[BATCH_MAX];
    static uint32_t costs[BATCH_MAX];
    struct leat_error err;
    struct leat_order_reader *reader;
    struct leat_order_assigner *a;
    uint64_t units = leat_order_units(c->order);
    uint64_t position = load(c);
    new_world(c);
    struct leat_order_world w = {.ranks = c->ranks,
                                 .nodes = c->nodes,
                                 .node_of_rank = c->node_of_rank,
                                 .slots = leat_order_slots(c->spec.chunks),
                                 .node_of_slot = c->table,
                                 .chunks = c->spec.chunks};
    uint32_t batch = c->ranks * (1 + below(c, 8));
    enum leat_order_last last = (enum leat_order_last)below(c, 3);
    bool with_costs = below(c, 4) == 0;
    uint64_t steps = below(c, 12);
    assert_ok(leat_order_assigner_open(&w, batch, with_costs, &a, &err), err);
    assert_ok(leat_order_reader_open(c->order, position, &reader, &err), err);
    struct leat_order_batch b = leat_order_batch_at(units, position, batch, last);
    for (uint64_t left = leat_order_batches(units, position, batch, last); b.take && steps > 0; steps--, left--) {
        size_t got;
        assert_true(left > 0);
        assert_ok(leat_order_reader_next(reader, items, b.take, &got, &err), err);
        assert_int_equal(got, b.take);
        leat_order_batch_pad(items, b);
        for (uint32_t i = 0; i < b.size; i++)
            costs[i] = below(c, 100);
        leat_order_assign(a, items, with_costs ? costs : NULL, b.size, rank_of);
        check_quotas(c, &w, b, rank_of);
        for (uint32_t i = 0; i < b.take; i++)
            c->seen[leat_order_unit(c->order, items[i])]++;
        position += b.take;
        b = leat_order_batch_at(units, position, batch, last);
    }
    leat_order_reader_close(reader);
    leat_order_assigner_close(a);
    save(c, position);
    return b.take == 0;
}

static void run_chain(struct chain *c, uint64_t number)
{
    c->rng = leat_rng(number, 71);
    begin(c);
    while (!leg(c)) {
    }
    /* What was dropped is the end of the order, and nothing else is missing. */
    uint64_t units = leat_order_units(c->order);
    uint64_t end = load(c);
    struct leat_order_reader *r;
    struct leat_order_item item;
    size_t got;
    assert_int_equal(leat_order_reader_open(c->order, end, &r, NULL), LEAT_OK);
    while (leat_order_reader_next(r, &item, 1, &got, NULL) == LEAT_OK && got)
        c->seen[leat_order_unit(c->order, item)]++;
    leat_order_reader_close(r);
    for (uint64_t u = 0; u < units; u++) {
        if (c->seen[u] != 1)
            fail_msg("chain %llu: unit %llu came %u times", (unsigned long long)number, (unsigned long long)u,
                     c->seen[u]);
    }
    leat_order_close(c->order);
    free(c->seen);
    free(c->state);
    c->state = NULL;
}

static uint64_t chains = 1000;

TEST(chains_lose_and_double_nothing)
{
    struct chain *c = calloc(1, sizeof *c);
    for (uint64_t number = 0; number < chains; number++)
        run_chain(c, number);
    free(c);
}

static void set_up(void)
{
    chains = unit_number(0, chains);
}

TEST_GROUP(set_up, NULL);
