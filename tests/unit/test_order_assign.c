#include "order/assign.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/random.h"
#include "order/batch.h"
#include "order/place.h"
#include "order/reader.h"
#include "unit.h"

#define RANKS_MAX 64
#define BATCH_MAX 256

struct job {
    uint32_t counts[1100];
    struct leat_order_spec spec;
    struct leat_order *order;
    uint32_t node_of_rank[RANKS_MAX];
    uint32_t node_of_slot[LEAT_ORDER_SLOTS_MAX];
    struct leat_order_world world;
    struct leat_order_assigner *assigner;
};

static void job_open(struct job *j, uint32_t chunks)
{
    memset(j, 0, sizeof *j);
    for (uint32_t c = 0; c < chunks; c++)
        j->counts[c] = c * 31 % 7;
    j->spec = (struct leat_order_spec){
        .view = "samples", .counts = j->counts, .chunks = chunks, .shuffle = true, .seed = 9, .window = 20};
    assert_int_equal(leat_order_open(&j->spec, &j->order, NULL), LEAT_OK);
}

static void job_world(struct job *j, uint32_t ranks, uint32_t nodes)
{
    uint32_t slots = leat_order_slots(j->spec.chunks);
    for (uint32_t r = 0; r < ranks; r++)
        j->node_of_rank[r] = r * nodes / ranks;
    assert_int_equal(leat_order_place(slots, ranks, j->node_of_rank, nodes, j->node_of_slot, NULL), LEAT_OK);
    j->world = (struct leat_order_world){.ranks = ranks,
                                         .nodes = nodes,
                                         .node_of_rank = j->node_of_rank,
                                         .slots = slots,
                                         .node_of_slot = j->node_of_slot,
                                         .chunks = j->spec.chunks};
    leat_order_assigner_close(j->assigner);
    assert_int_equal(leat_order_assigner_open(&j->world, BATCH_MAX, true, &j->assigner, NULL), LEAT_OK);
}

static void job_close(struct job *j)
{
    leat_order_assigner_close(j->assigner);
    leat_order_close(j->order);
}

/* Delivers `steps` batches from a position as a world of that many ranks would, and counts what every unit got.
 * Each rank reads the order by itself, as the agents of different nodes do. Returns the new position. */
static uint64_t deliver(struct job *j, uint64_t position, uint64_t steps, uint32_t batch, enum leat_order_last last,
                        uint8_t *seen)
{
    struct leat_order_item *items = malloc(batch * sizeof *items);
    uint32_t *rank_of = malloc(batch * sizeof *rank_of);
    uint64_t end = position;
    for (uint32_t rank = 0; rank < j->world.ranks; rank++) {
        struct leat_order_reader *r;
        uint64_t at = position;
        assert_int_equal(leat_order_reader_open(j->order, position, &r, NULL), LEAT_OK);
        for (uint64_t step = 0; step < steps; step++) {
            struct leat_order_batch b = leat_order_batch_at(leat_order_units(j->order), at, batch, last);
            size_t got;
            assert_int_equal(leat_order_reader_next(r, items, b.take, &got, NULL), LEAT_OK);
            assert_int_equal(got, b.take);
            leat_order_batch_pad(items, b);
            leat_order_assign(j->assigner, items, NULL, b.size, rank_of);
            uint32_t own = 0;
            for (uint32_t i = 0; i < b.size; i++) {
                own += rank_of[i] == rank;
                if (rank_of[i] == rank && i < b.take)
                    seen[leat_order_unit(j->order, items[i])]++;
            }
            assert_int_equal(own, leat_order_quota(&j->world, b.size, rank));
            at += b.take;
        }
        end = at;
        leat_order_reader_close(r);
    }
    free(rank_of);
    free(items);
    return end;
}

static const struct {
    uint32_t ranks, nodes;
} worlds[] = {{1, 1}, {2, 1}, {2, 2}, {3, 3}, {4, 2}, {8, 2}, {8, 8}};

#define WORLDS (sizeof worlds / sizeof *worlds)

TEST(every_unit_is_delivered_once_in_every_world)
{
    struct job j;
    const uint32_t sizes[] = {1, 5, 90, 1100};
    for (size_t s = 0; s < 4; s++) {
        job_open(&j, sizes[s]);
        uint64_t n = leat_order_units(j.order);
        for (size_t w = 0; w < WORLDS; w++) {
            for (int last = LEAT_ORDER_DROP; last <= LEAT_ORDER_SHORT; last++) {
                uint8_t *seen = calloc(n + 1, 1);
                job_world(&j, worlds[w].ranks, worlds[w].nodes);
                uint64_t end = deliver(&j, 0, leat_order_batches(n, 0, 24, last), 24, last, seen);
                uint64_t total = 0;
                for (uint64_t u = 0; u < n; u++) {
                    assert_true(seen[u] <= 1);
                    total += seen[u];
                }
                assert_true(total == end);
                assert_true(end == (last == LEAT_ORDER_DROP ? n / 24 * 24 : n));
                free(seen);
            }
        }
        job_close(&j);
    }
}

TEST(a_world_that_changes_in_mid_epoch_loses_and_repeats_nothing)
{
    struct job j;
    job_open(&j, 90);
    uint64_t n = leat_order_units(j.order);
    struct leat_rng rng = leat_rng(3, 4);
    for (int trial = 0; trial < 100; trial++) {
        uint8_t *seen = calloc(n + 1, 1);
        uint64_t position = 0;
        while (position < n) {
            size_t w = (size_t)leat_rng_below(&rng, WORLDS);
            uint32_t batch = worlds[w].ranks * (uint32_t)(1 + leat_rng_below(&rng, 9)); /* G changes with it */
            uint64_t left = leat_order_batches(n, position, batch, LEAT_ORDER_SHORT);
            job_world(&j, worlds[w].ranks, worlds[w].nodes);
            position = deliver(&j, position, 1 + leat_rng_below(&rng, left), batch, LEAT_ORDER_SHORT, seen);
        }
        for (uint64_t u = 0; u < n; u++)
            assert_int_equal(seen[u], 1);
        free(seen);
    }
    job_close(&j);
}

TEST(resuming_at_any_batch_delivers_exactly_the_rest)
{
    struct job j;
    job_open(&j, 90);
    uint64_t n = leat_order_units(j.order);
    for (uint64_t from = 0; from <= n; from += 12) {
        uint8_t *seen = calloc(n + 1, 1);
        uint64_t steps = from / 12;
        job_world(&j, 3, 3);
        assert_true(deliver(&j, 0, steps, 12, LEAT_ORDER_SHORT, seen) == from);
        job_world(&j, 4, 2);
        steps = leat_order_batches(n, from, 12, LEAT_ORDER_SHORT);
        assert_true(deliver(&j, from, steps, 12, LEAT_ORDER_SHORT, seen) == n);
        for (uint64_t u = 0; u < n; u++)
            assert_int_equal(seen[u], 1);
        free(seen);
    }
    job_close(&j);
}

TEST(units_stay_on_the_node_that_owns_them_while_it_has_room)
{
    struct job j;
    job_open(&j, 1100);
    struct leat_order_item items[240];
    uint32_t rank_of[240];
    struct leat_order_reader *r;
    assert_int_equal(leat_order_reader_open(j.order, 300, &r, NULL), LEAT_OK);
    job_world(&j, 8, 4);
    for (int step = 0; step < 10; step++) {
        size_t got;
        assert_int_equal(leat_order_reader_next(r, items, 240, &got, NULL), LEAT_OK);
        leat_order_assign(j.assigner, items, NULL, 240, rank_of);
        uint32_t owned[4] = {0};
        uint32_t best = 0;
        for (int i = 0; i < 240; i++)
            owned[j.node_of_slot[leat_order_slot_of(items[i].chunk, j.spec.chunks)]]++;
        for (int node = 0; node < 4; node++)
            best += owned[node] < 60 ? owned[node] : 60;
        assert_int_equal(leat_order_local(&j.world, items, 240, rank_of), best);
    }
    leat_order_reader_close(r);
    job_close(&j);
}

TEST(costs_come_out_level_within_a_node_and_never_move_units_between_nodes)
{
    struct job j;
    job_open(&j, 1100);
    struct leat_order_item items[256];
    uint32_t plain[256];
    uint32_t level[256];
    uint32_t costs[256];
    struct leat_order_reader *r;
    assert_int_equal(leat_order_reader_open(j.order, 0, &r, NULL), LEAT_OK);
    job_world(&j, 8, 2);
    struct leat_rng rng = leat_rng(1, 1);
    size_t got;
    assert_int_equal(leat_order_reader_next(r, items, 256, &got, NULL), LEAT_OK);
    for (int i = 0; i < 256; i++)
        costs[i] = (uint32_t)leat_rng_below(&rng, 10) ? 100 : 5000; /* few large images */
    leat_order_assign(j.assigner, items, NULL, 256, plain);
    leat_order_assign(j.assigner, items, costs, 256, level);
    uint64_t sum[8] = {0};
    uint32_t own[8] = {0};
    for (int i = 0; i < 256; i++) {
        assert_int_equal(j.node_of_rank[plain[i]], j.node_of_rank[level[i]]);
        sum[level[i]] += costs[i];
        own[level[i]]++;
    }
    for (int rank = 0; rank < 8; rank++) {
        assert_int_equal(own[rank], 32);
        for (int other = rank / 4 * 4; other < rank; other++)
            assert_true((sum[rank] > sum[other] ? sum[rank] - sum[other] : sum[other] - sum[rank]) <= 5000);
    }
    leat_order_reader_close(r);
    job_close(&j);
}

TEST(last_batches_are_dropped_padded_or_short)
{
    struct leat_order_batch b = leat_order_batch_at(100, 96, 8, LEAT_ORDER_DROP);
    assert_int_equal(b.take, 0);
    b = leat_order_batch_at(100, 96, 8, LEAT_ORDER_SHORT);
    assert_true(b.take == 4 && b.size == 4);
    b = leat_order_batch_at(100, 97, 8, LEAT_ORDER_PAD);
    assert_true(b.take == 3 && b.size == 8);
    struct leat_order_item items[8] = {{1, 1}, {2, 2}, {3, 3}};
    leat_order_batch_pad(items, b);
    const uint32_t expect[8] = {1, 2, 3, 1, 2, 3, 1, 2};
    for (int i = 0; i < 8; i++)
        assert_int_equal(items[i].chunk, expect[i]);
    b = leat_order_batch_at(100, 100, 8, LEAT_ORDER_PAD);
    assert_int_equal(b.take, 0);
    assert_int_equal(leat_order_batches(100, 0, 8, LEAT_ORDER_DROP), 12);
    assert_int_equal(leat_order_batches(100, 0, 8, LEAT_ORDER_PAD), 13);
    assert_int_equal(leat_order_batches(100, 100, 8, LEAT_ORDER_PAD), 0);
    assert_int_equal(leat_order_batches(96, 0, 8, LEAT_ORDER_SHORT), 12);
    enum leat_order_last last;
    for (int i = LEAT_ORDER_DROP; i <= LEAT_ORDER_SHORT; i++) {
        assert_int_equal(leat_order_last_parse(leat_order_last_name(i), &last, NULL), LEAT_OK);
        assert_int_equal(last, i);
    }
    assert_int_equal(leat_order_last_parse("keep", &last, NULL), LEAT_INVALID);
}

TEST(worlds_that_cannot_be_are_refused)
{
    struct job j;
    struct leat_error err;
    job_open(&j, 1100);
    job_world(&j, 4, 2);
    j.node_of_rank[3] = 2;
    assert_int_equal(leat_order_world_check(&j.world, &err), LEAT_INVALID);
    assert_non_null(strstr(err.text, "rank 3"));
    job_world(&j, 4, 2);
    j.node_of_slot[1000] = 9;
    assert_int_equal(leat_order_world_check(&j.world, &err), LEAT_INVALID);
    assert_non_null(strstr(err.text, "slot 1000"));
    job_world(&j, 4, 2);
    j.world.slots--;
    assert_int_equal(leat_order_world_check(&j.world, &err), LEAT_INVALID);
    job_world(&j, 4, 3);
    j.node_of_rank[3] = 1; /* and nobody is on node 2 */
    assert_fails(leat_order_world_check(&j.world, &err), err, LEAT_INVALID, "node 2 of 3 has no ranks");
    j.world.ranks = LEAT_ORDER_WORLD_MAX + 1;
    assert_fails(leat_order_world_check(&j.world, &err), err, LEAT_LIMIT, "world of 1048577");
    j.world.ranks = 0;
    assert_int_equal(leat_order_world_check(&j.world, &err), LEAT_INVALID);
    job_world(&j, 4, 2);
    struct leat_order_assigner *none = NULL;
    assert_fails(leat_order_assigner_open(&j.world, 0, false, &none, &err), err, LEAT_INVALID, "at least 1 sample");
    assert_fails(leat_order_assigner_open(&j.world, LEAT_ORDER_BATCH_MAX + 1, false, &none, &err), err, LEAT_LIMIT,
                 "global batch of 16777217");
    assert_null(none);
    job_close(&j);
}

/* Golden values: see docs/order.md */

struct golden {
    uint32_t ranks_of[20];
    uint32_t nodes, ranks, slots;
    uint32_t node_of_rank[RANKS_MAX];
    uint32_t table[LEAT_ORDER_SLOTS_MAX];
};

static void number_ranks(struct golden *g)
{
    g->ranks = 0;
    for (uint32_t k = 0; k < g->nodes; k++) {
        for (uint32_t r = 0; r < g->ranks_of[k]; r++)
            g->node_of_rank[g->ranks++] = k;
    }
}

static void read_map(struct golden *g, const char *text)
{
    unsigned each, nodes;
    g->nodes = 0;
    if (sscanf(text, "%u/%u", &each, &nodes) == 2) {
        g->nodes = nodes;
        g->ranks = each * nodes;
        for (uint32_t r = 0; r < g->ranks; r++)
            g->node_of_rank[r] = r % nodes;
        return;
    }
    for (const char *p = text; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        g->ranks_of[g->nodes++] = (uint32_t)strtoul(p, NULL, 10);
    number_ranks(g);
}

static void take_step(struct golden *g, const char *step)
{
    struct leat_error err;
    uint32_t was[20];
    uint32_t before[LEAT_ORDER_SLOTS_MAX];
    uint32_t nodes_before = g->nodes;
    uint32_t number = (uint32_t)strtoul(step + 1, NULL, 10);
    memcpy(before, g->table, sizeof before);
    for (uint32_t k = 0; k < g->nodes; k++)
        was[k] = k;
    if (*step == '+') {
        was[g->nodes] = LEAT_ORDER_NONE;
        g->ranks_of[g->nodes++] = number;
    } else {
        g->nodes--;
        for (uint32_t k = number; k < g->nodes; k++) {
            was[k] = k + 1;
            g->ranks_of[k] = g->ranks_of[k + 1];
        }
    }
    number_ranks(g);
    assert_ok(leat_order_place_again(g->slots, before, nodes_before, g->ranks, g->node_of_rank, g->nodes, was, g->table,
                                     &err),
              err);
}

static void assert_digest(const uint32_t *numbers, uint32_t n, const char *expected)
{
    uint8_t *bytes = malloc(4 * (size_t)n + 1);
    uint8_t digest[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    for (uint32_t i = 0; i < n; i++)
        leat_put_u32(bytes + 4 * (size_t)i, numbers[i]);
    leat_sha256(bytes, 4 * (size_t)n, digest);
    leat_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, expected);
    free(bytes);
}

static void check_line(const char *line)
{
    unsigned chunks, batch, with_costs;
    char map[100], steps[100], table[65], ranks[65];
    struct golden g = {0};
    struct leat_error err;
    assert_int_equal(
        sscanf(line, "%u %99s %u %u %99s %64s %64s", &chunks, map, &batch, &with_costs, steps, table, ranks), 7);
    read_map(&g, map);
    g.slots = leat_order_slots(chunks);
    assert_ok(leat_order_place(g.slots, g.ranks, g.node_of_rank, g.nodes, g.table, &err), err);
    for (const char *p = steps; p && steps[1]; p = strchr(p, ';') ? strchr(p, ';') + 1 : NULL)
        take_step(&g, p);
    assert_digest(g.table, g.slots, table);
    struct leat_order_world w = {g.ranks, g.nodes, g.node_of_rank, g.slots, g.table, chunks};
    struct leat_order_assigner *a;
    struct leat_order_item *items = calloc(batch, sizeof *items);
    uint32_t *costs = calloc(batch, sizeof *costs);
    uint32_t *rank_of = calloc(batch, sizeof *rank_of);
    for (uint32_t i = 0; i < batch; i++) {
        items[i].chunk = (i * 7919 + i / 7 * 31) % chunks;
        costs[i] = i * 2654435761u % 1000;
    }
    assert_ok(leat_order_assigner_open(&w, batch, with_costs, &a, &err), err);
    for (int again = 0; again < 2; again++) { /* a used assigner answers as a new one */
        leat_order_assign(a, items, with_costs ? costs : NULL, batch, rank_of);
        assert_digest(rank_of, batch, ranks);
        leat_order_assign(a, items, NULL, batch / 2, rank_of);
    }
    leat_order_assigner_close(a);
    free(rank_of);
    free(costs);
    free(items);
}

TEST(golden_assignments_are_reproduced)
{
    char path[4096];
    char line[500];
    const char *root = getenv("LEAT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/golden/assignment-1.txt", root ? root : ".");
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    int lines = 0;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#')
            continue;
        check_line(line);
        lines++;
    }
    fclose(f);
    assert_true(lines >= 16);
}
