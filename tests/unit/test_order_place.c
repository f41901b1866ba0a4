#include "order/place.h"

#include "base/hash.h"
#include "base/random.h"
#include "order/assign.h"
#include "order/reader.h"
#include "unit.h"

#define NODES_MAX 200u
#define RANKS_MAX 2000u
#define CHUNKS    2048u
#define CHAIN_MAX 1100u

/* A job: its node map and its table. */
struct job {
    uint32_t slots, nodes, ranks;
    uint32_t node_of_rank[RANKS_MAX];
    uint32_t ranks_of[NODES_MAX];
    uint32_t table[LEAT_ORDER_SLOTS_MAX];
    uint32_t owned[NODES_MAX];
};

static void add_node(struct job *j, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++)
        j->node_of_rank[j->ranks++] = j->nodes;
    j->ranks_of[j->nodes++] = ranks;
}

static void make_job(struct job *j, uint32_t slots, uint32_t nodes, uint32_t ranks_each)
{
    *j = (struct job){.slots = slots};
    for (uint32_t k = 0; k < nodes; k++)
        add_node(j, ranks_each);
}

/* Every slot has an owner, and no node is a slot or more away from its share. */
static void check_shares(struct job *j)
{
    memset(j->owned, 0, sizeof j->owned);
    for (uint32_t s = 0; s < j->slots; s++) {
        assert_true(j->table[s] < j->nodes);
        j->owned[j->table[s]]++;
    }
    for (uint32_t k = 0; k < j->nodes; k++) {
        uint64_t exact = (uint64_t)j->slots * j->ranks_of[k];
        assert_true(j->owned[k] >= exact / j->ranks && j->owned[k] * (uint64_t)j->ranks < exact + j->ranks);
    }
}

static void place(struct job *j)
{
    struct leat_error err;
    assert_ok(leat_order_place(j->slots, j->ranks, j->node_of_rank, j->nodes, j->table, &err), err);
    check_shares(j);
}

/* The new job's table; returns how many slots have another owner than before. */
static uint32_t place_again(const struct job *old, struct job *now, const uint32_t *was)
{
    struct leat_error err;
    assert_ok(leat_order_place_again(old->slots, old->table, old->nodes, now->ranks, now->node_of_rank, now->nodes, was,
                                     now->table, &err),
              err);
    check_shares(now);
    uint32_t moved = 0;
    for (uint32_t s = 0; s < now->slots; s++)
        moved += was[now->table[s]] != old->table[s];
    return moved;
}

TEST(every_node_owns_a_run_of_its_share)
{
    struct job j;
    const uint32_t sizes[] = {1, 2, 7, 500, 1023, 1024};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        for (uint32_t nodes = 1; nodes <= 128; nodes++) {
            make_job(&j, sizes[i], nodes, 1 + nodes % 3);
            place(&j);
            for (uint32_t s = 0; s < j.slots; s++)
                assert_int_equal(j.table[s], s * nodes / j.slots);
        }
    }
    j = (struct job){.slots = 1024};
    add_node(&j, 4);
    add_node(&j, 2);
    place(&j);
    assert_int_equal(j.owned[0], 683);
    assert_int_equal(j.owned[1], 341);
}

/* A node's share of the slots, times 1.2: what a join or a leave may move. */
static void assert_moved_little(uint32_t moved, uint32_t slots, uint32_t nodes)
{
    uint32_t share = (slots + nodes - 1) / nodes;
    if (moved * 10 > share * 12)
        fail_msg("%u of %u slots moved, the share of one of %u nodes is %u", moved, slots, nodes, share);
}

TEST(a_node_that_joins_or_leaves_moves_its_share_of_the_slots)
{
    static struct job a;
    static struct job b;
    uint32_t was[NODES_MAX];
    for (uint32_t nodes = 2; nodes <= 128; nodes++) {
        make_job(&a, LEAT_ORDER_SLOTS_MAX, nodes, 8);
        place(&a);
        make_job(&b, LEAT_ORDER_SLOTS_MAX, nodes + 1, 8);
        for (uint32_t at = 0; at <= nodes;
             at += nodes / 2) { /* the one that joins is the first, a middle or the last */
            for (uint32_t k = 0; k <= nodes; k++)
                was[k] = k < at ? k : k == at ? LEAT_ORDER_NONE : k - 1;
            assert_moved_little(place_again(&a, &b, was), a.slots, nodes + 1);
        }
        make_job(&b, LEAT_ORDER_SLOTS_MAX, nodes - 1, 8);
        for (uint32_t gone = 0; gone < nodes; gone++) {
            for (uint32_t k = 0; k + 1 < nodes; k++)
                was[k] = k < gone ? k : k + 1;
            uint32_t moved = place_again(&a, &b, was);
            assert_moved_little(moved, a.slots, nodes);
            assert_int_equal(moved, a.owned[gone]); /* nothing but what it had */
        }
    }
}

TEST(chains_of_joins_and_leaves_stay_even_and_move_little)
{
    static struct job jobs[2];
    uint32_t was[NODES_MAX];
    struct leat_rng rng = leat_rng(8, 13);
    for (int trial = 0; trial < 20; trial++) {
        uint32_t nodes = 2 + (uint32_t)leat_rng_below(&rng, 126);
        make_job(&jobs[0], LEAT_ORDER_SLOTS_MAX, nodes, 4);
        place(&jobs[0]);
        for (int step = 0; step < 100; step++) {
            struct job *old = &jobs[step % 2];
            struct job *now = &jobs[1 - step % 2];
            bool join = nodes == 2 || (nodes < 128 && leat_rng_below(&rng, 2));
            uint32_t at = (uint32_t)leat_rng_below(&rng, nodes);
            nodes = join ? nodes + 1 : nodes - 1;
            make_job(now, LEAT_ORDER_SLOTS_MAX, nodes, 4);
            for (uint32_t k = 0; k < nodes; k++) {
                if (join)
                    was[k] = k < at ? k : k == at ? LEAT_ORDER_NONE : k - 1;
                else
                    was[k] = k < at ? k : k + 1;
            }
            assert_moved_little(place_again(old, now, was), now->slots, join ? nodes : nodes + 1);
        }
    }
}

/* No balanced table moves fewer: every node keeps as many as its share allows. */
TEST(any_change_of_nodes_moves_no_more_than_it_must)
{
    static struct job a;
    static struct job b;
    uint32_t was[NODES_MAX];
    struct leat_rng rng = leat_rng(3, 5);
    for (int trial = 0; trial < 300; trial++) {
        uint32_t slots = 1 + (uint32_t)leat_rng_below(&rng, LEAT_ORDER_SLOTS_MAX);
        make_job(&a, slots, 0, 0);
        for (uint32_t k = 0, n = 1 + (uint32_t)leat_rng_below(&rng, 40); k < n; k++)
            add_node(&a, 1 + (uint32_t)leat_rng_below(&rng, 8));
        place(&a);
        make_job(&b, slots, 0, 0);
        for (uint32_t k = 0; k < a.nodes; k++) { /* some go, some stay, some come */
            if (leat_rng_below(&rng, 3)) {
                was[b.nodes] = k;
                add_node(&b, a.ranks_of[k]);
            }
            if (leat_rng_below(&rng, 4) == 0 || (k + 1 == a.nodes && b.nodes == 0)) {
                was[b.nodes] = LEAT_ORDER_NONE;
                add_node(&b, 1 + (uint32_t)leat_rng_below(&rng, 8));
            }
        }
        uint32_t moved = place_again(&a, &b, was);
        uint32_t most_kept = 0;
        for (uint32_t k = 0; k < b.nodes; k++) {
            uint32_t had = was[k] == LEAT_ORDER_NONE ? 0 : a.owned[was[k]];
            uint32_t up = (slots * b.ranks_of[k] + b.ranks - 1) / b.ranks;
            most_kept += had < up ? had : up;
            assert_true(b.owned[k] >= had || b.owned[k] + 1 >= up); /* gives no more than its share asks */
        }
        assert_true(moved >= slots - most_kept);
        assert_true(moved <= slots - most_kept + b.nodes);
    }
}

/* Of the first batches of an epoch: the share of units that stay on the node that owns them, and on how many nodes a
 * chunk is read. */
static void measure(const struct job *j, const struct leat_order *o, double *local, double *readers)
{
    static uint8_t reads[CHUNKS][NODES_MAX];
    static struct leat_order_item items[5000];
    static uint32_t rank_of[5000];
    struct leat_order_world w = {j->ranks, j->nodes, j->node_of_rank, j->slots, j->table, CHUNKS};
    struct leat_order_assigner *a;
    struct leat_order_reader *r;
    struct leat_error err;
    uint32_t batch = 4096 / j->ranks * j->ranks;
    uint64_t here = 0;
    const uint32_t batches = 20;
    memset(reads, 0, sizeof reads);
    assert_ok(leat_order_assigner_open(&w, batch, false, &a, &err), err);
    assert_ok(leat_order_reader_open(o, 0, &r, &err), err);
    for (uint32_t step = 0; step < batches; step++) {
        size_t got;
        assert_ok(leat_order_reader_next(r, items, batch, &got, &err), err);
        leat_order_assign(a, items, NULL, batch, rank_of);
        here += leat_order_local(&w, items, batch, rank_of);
        for (uint32_t i = 0; i < batch; i++)
            reads[items[i].chunk][j->node_of_rank[rank_of[i]]] = 1;
    }
    uint32_t pairs = 0;
    uint32_t chunks = 0;
    for (uint32_t c = 0; c < CHUNKS; c++) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < j->nodes; k++)
            n += reads[c][k];
        pairs += n;
        chunks += n > 0;
    }
    *local = (double)here / batch / batches;
    *readers = (double)pairs / chunks;
    leat_order_reader_close(r);
    leat_order_assigner_close(a);
}

TEST(chunks_are_read_on_few_nodes_whatever_their_number)
{
    static struct job j;
    uint32_t counts[CHUNKS];
    struct leat_order *o;
    struct leat_error err;
    for (uint32_t c = 0; c < CHUNKS; c++)
        counts[c] = 75;
    struct leat_order_spec spec = {
        .view = "samples", .counts = counts, .chunks = CHUNKS, .shuffle = true, .window = 128};
    assert_ok(leat_order_open(&spec, &o, &err), err);
    for (uint32_t nodes = 2; nodes <= 128; nodes++) {
        double local, readers;
        make_job(&j, LEAT_ORDER_SLOTS_MAX, nodes, 2);
        place(&j);
        measure(&j, o, &local, &readers);
        bool power = (nodes & (nodes - 1)) == 0;
        if (local < (power ? 0.96 : 0.80) || readers > (power ? 1.8 : 2.9) || (nodes <= 24 && local < 0.95))
            fail_msg("%u nodes: %.3f local, a chunk is read on %.2f", nodes, local, readers);
    }
    leat_order_close(o);
}

/* Runs, because that is what the order is even over: a table must not fall to pieces with every change. */
TEST(a_job_that_gets_its_nodes_back_gets_its_runs_back)
{
    static struct job whole;
    static struct job less;
    uint32_t was[NODES_MAX];
    struct leat_rng rng = leat_rng(5, 5);
    for (uint32_t nodes = 2; nodes <= 128; nodes *= 2) {
        make_job(&whole, LEAT_ORDER_SLOTS_MAX, nodes, 8);
        place(&whole);
        make_job(&less, LEAT_ORDER_SLOTS_MAX, nodes - 1, 8);
        for (int step = 0; step < 50; step++) {
            uint32_t gone = (uint32_t)leat_rng_below(&rng, nodes);
            uint32_t back = (uint32_t)leat_rng_below(&rng, nodes);
            for (uint32_t k = 0; k + 1 < nodes; k++)
                was[k] = k < gone ? k : k + 1;
            place_again(&whole, &less, was);
            for (uint32_t k = 0; k < nodes; k++)
                was[k] = k < back ? k : k == back ? LEAT_ORDER_NONE : k - 1;
            place_again(&less, &whole, was);
            for (uint32_t s = 0; s < whole.slots; s++) {
                uint32_t first = s - s % (whole.slots / nodes);
                assert_int_equal(whole.table[s], whole.table[first]);
            }
        }
    }
}

TEST(a_node_in_the_place_of_another_takes_its_slots)
{
    static struct job a;
    static struct job b;
    uint32_t was[NODES_MAX];
    make_job(&a, LEAT_ORDER_SLOTS_MAX, 48, 8);
    place(&a);
    make_job(&b, LEAT_ORDER_SLOTS_MAX, 48, 8);
    for (uint32_t k = 0; k < 48; k++)
        was[k] = k == 17 ? LEAT_ORDER_NONE : k;
    assert_int_equal(place_again(&a, &b, was), a.owned[17]);
    assert_memory_equal(a.table, b.table, sizeof a.table);
}

/* One step after the other, as leat_order_place_grown() says it does. */
struct chain {
    uint32_t slots, nodes;
    uint32_t table[LEAT_ORDER_SLOTS_MAX];
    uint32_t node_of_rank[CHAIN_MAX], was[CHAIN_MAX];
};

static void join_chain(struct chain *c)
{
    struct leat_error err;
    uint32_t before[LEAT_ORDER_SLOTS_MAX];
    uint32_t n = c->nodes;
    memcpy(before, c->table, sizeof before);
    c->node_of_rank[n] = n;
    c->was[n] = LEAT_ORDER_NONE;
    if (n)
        assert_ok(leat_order_place_again(c->slots, before, n, n + 1, c->node_of_rank, n + 1, c->was, c->table, &err),
                  err);
    c->was[n] = n;
    c->nodes++;
}

static void check_chain(uint32_t slots, uint32_t most, uint32_t every)
{
    struct chain *c = calloc(1, sizeof *c);
    uint32_t table[LEAT_ORDER_SLOTS_MAX];
    struct leat_error err;
    c->slots = slots;
    while (c->nodes < most) {
        join_chain(c);
        if (c->nodes > 40 && c->nodes % every && (c->nodes < slots - 1 || c->nodes > slots + 1) && c->nodes < most)
            continue;
        assert_ok(leat_order_place_grown(slots, c->nodes, table, &err), err);
        for (uint32_t s = 0; s < slots; s++) {
            if (table[s] != c->table[s])
                fail_msg("%u slots, %u nodes: slot %u is on node %u, not %u", slots, c->nodes, s, table[s],
                         c->table[s]);
        }
    }
    free(c);
}

TEST(nodes_that_came_one_after_the_other_have_what_each_step_gave_them)
{
    const uint32_t some[] = {2, 3, 5, 31, 64, 100, 513, 1000, 1023};
    for (size_t i = 0; i < COUNT(some); i++)
        check_chain(some[i], some[i] + 20, 17);
    for (uint64_t i = 0; i < 20; i++)
        check_chain(1 + (uint32_t)(leat_random_u64(16, 0, i) % 200), 120, 7);
    check_chain(LEAT_ORDER_SLOTS_MAX, CHAIN_MAX, 61);
}

/* Machines of other releases have the same table. */
TEST(the_table_of_nodes_that_came_one_after_the_other_is_this_one)
{
    const struct {
        uint32_t slots, nodes;
        uint64_t sum;
    } golden[] = {{1024, 2, 0x7f32c42d91e4932cu},    {1024, 7, 0x4f80a318a01a512du},
                  {1024, 100, 0x46577ffddaafb909u},  {1024, 1000, 0x6de18e1d8a137714u},
                  {1024, 4096, 0x59e8c7686da4640bu}, {777, 300, 0xd90446b06935bd84u}};
    uint32_t table[LEAT_ORDER_SLOTS_MAX];
    struct leat_error err;
    for (size_t i = 0; i < COUNT(golden); i++) {
        assert_ok(leat_order_place_grown(golden[i].slots, golden[i].nodes, table, &err), err);
        uint64_t sum = leat_xxh3(table, golden[i].slots * sizeof *table);
        if (sum != golden[i].sum)
            fail_msg("%u slots, %u nodes: 0x%llx", golden[i].slots, golden[i].nodes, (unsigned long long)sum);
    }
    assert_fails(leat_order_place_grown(1025, 3, table, &err), err, LEAT_INVALID, "1025 slots");
}

TEST(tables_that_cannot_be_are_refused)
{
    struct leat_error err;
    const uint32_t node_of_rank[3] = {0, 1, 2};
    uint32_t was[3] = {0, 1, LEAT_ORDER_NONE};
    uint32_t before[4] = {0, 0, 1, 1};
    uint32_t after[4];
    assert_fails(leat_order_place(4, 3, node_of_rank, 2, after, &err), err, LEAT_INVALID, "rank 2");
    assert_fails(leat_order_place(4, 0, node_of_rank, 2, after, &err), err, LEAT_INVALID, "0 ranks");
    assert_fails(leat_order_place(1025, 3, node_of_rank, 3, after, &err), err, LEAT_INVALID, "1025 slots");
    assert_ok(leat_order_place_again(4, before, 2, 3, node_of_rank, 3, was, after, &err), err);
    was[1] = 0;
    assert_fails(leat_order_place_again(4, before, 2, 3, node_of_rank, 3, was, after, &err), err, LEAT_INVALID,
                 "node 1 cannot have been node 0");
    was[1] = 2;
    assert_fails(leat_order_place_again(4, before, 2, 3, node_of_rank, 3, was, after, &err), err, LEAT_INVALID,
                 "node 1 cannot have been node 2");
    was[1] = 1;
    before[3] = 2;
    assert_fails(leat_order_place_again(4, before, 2, 3, node_of_rank, 3, was, after, &err), err, LEAT_INVALID,
                 "slot 3");
}
