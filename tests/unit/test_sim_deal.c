#include "sim/deal.h"

#include "order/place.h"
#include "order/reader.h"
#include "sched/cursor.h"
#include "unit.h"

#define CHUNKS 1500u
#define NODES  3u
#define RANKS  6u
#define EPOCHS 3u

static uint32_t counts[CHUNKS];

struct bench {
    uint32_t node_of_rank[RANKS];
    uint32_t node_of_slot[LEAT_ORDER_SLOTS_MAX];
    struct leat_sim_deal_opts opts;
    struct leat_sim_deal *deal;
};

static void open_bench(struct bench *b, enum leat_order_last last, uint32_t global_batch)
{
    struct leat_error err;
    *b = (struct bench){0};
    for (uint32_t c = 0; c < CHUNKS; c++)
        counts[c] = c % 7;
    for (uint32_t r = 0; r < RANKS; r++)
        b->node_of_rank[r] = r / (RANKS / NODES);
    b->opts = (struct leat_sim_deal_opts){
        .spec = {.dataset = {9}, .view = "samples", .counts = counts, .chunks = CHUNKS, .shuffle = true, .window = 40},
        .world = {.ranks = RANKS,
                  .nodes = NODES,
                  .node_of_rank = b->node_of_rank,
                  .slots = leat_order_slots(CHUNKS),
                  .node_of_slot = b->node_of_slot,
                  .chunks = CHUNKS},
        .global_batch = global_batch,
        .last = last,
    };
    assert_ok(leat_order_place(b->opts.world.slots, RANKS, b->node_of_rank, NODES, b->node_of_slot, &err), err);
    assert_ok(leat_sim_deal_open(&b->opts, &b->deal, &err), err);
}

/* The agent's own cursor of one rank, against what was dealt to it. */
static void compare_rank(struct bench *b, uint32_t rank)
{
    struct leat_error err;
    struct leat_cursor *cursor;
    struct leat_cursor_opts o = {
        .specs = &b->opts.spec,
        .specs_n = 1,
        .global_batch = b->opts.global_batch,
        .last = b->opts.last,
        .rank = rank,
        .world = RANKS,
        .node_of_rank = b->node_of_rank,
    };
    assert_ok(leat_cursor_open(&o, &cursor, &err), err);
    for (uint64_t k = 0, ends = 0; ends < EPOCHS; k++) {
        struct leat_sim_batch *g;
        struct leat_cursor_batch own;
        assert_ok(leat_sim_deal_batch(b->deal, k, &g, &err), err);
        ends += g->end;
        assert_ok(leat_cursor_next(cursor, &own, &err), err);
        assert_int_equal(g->number, k);
        assert_int_equal(g->end, own.end);
        assert_int_equal(g->epoch, own.epoch);
        assert_int_equal(g->all_stage, own.stage);
        struct leat_sched_view view;
        leat_cursor_view(cursor, &view);
        assert_int_equal(g->stage, view.streams[0].stage);
        assert_int_equal(leat_sim_deal_epoch(b->deal, g->view)->before, view.streams[0].before);
        assert_non_null(leat_sim_deal_epoch(b->deal, g->view + 1));
        if (!g->end) {
            assert_int_equal(g->first[rank + 1] - g->first[rank], own.chunks_n);
            assert_memory_equal(g->chunks + g->first[rank], own.chunks, own.chunks_n * sizeof *own.chunks);
        }
        leat_cursor_batch_free(&own);
    }
    leat_cursor_close(cursor);
}

TEST(every_rank_gets_what_its_own_cursor_gives)
{
    static const enum leat_order_last lasts[] = {LEAT_ORDER_DROP, LEAT_ORDER_PAD, LEAT_ORDER_SHORT};
    for (size_t i = 0; i < COUNT(lasts); i++) {
        struct bench b;
        open_bench(&b, lasts[i], i == 1 ? 500 : 90); /* more and fewer than insertion sorts */
        for (uint32_t r = 0; r < RANKS; r++)
            compare_rank(&b, r);
        leat_sim_deal_close(b.deal);
    }
}

TEST(a_node_s_own_chunks_are_in_the_order_of_their_use)
{
    struct bench b;
    open_bench(&b, LEAT_ORDER_SHORT, 90);
    for (uint64_t e = 0; e < 2; e++) {
        const struct leat_sim_epoch *epoch = leat_sim_deal_epoch(b.deal, e);
        uint32_t places = leat_order_places(epoch->order);
        static bool seen[CHUNKS];
        memset(seen, 0, sizeof seen);
        assert_int_equal(epoch->own_first[0], 0);
        assert_int_equal(epoch->own_first[NODES], places);
        for (uint32_t n = 0; n < NODES; n++) {
            for (uint32_t i = epoch->own_first[n]; i < epoch->own_first[n + 1]; i++) {
                uint32_t place = epoch->own_place[i];
                uint32_t chunk = leat_order_chunk_at(epoch->order, place);
                assert_true(i == epoch->own_first[n] || epoch->own_place[i - 1] < place);
                assert_int_equal(b.node_of_slot[leat_order_slot_of(chunk, CHUNKS)], n);
                assert_false(seen[place]);
                seen[place] = true;
            }
        }
    }
    leat_sim_deal_close(b.deal);
}

TEST(epochs_and_batches_go_when_nobody_needs_them)
{
    struct bench b;
    struct leat_error err;
    struct leat_sim_batch *g;
    uint64_t taken = 0;
    uint64_t samples = 0;
    open_bench(&b, LEAT_ORDER_SHORT, 90);
    for (uint32_t c = 0; c < CHUNKS; c++)
        samples += counts[c];
    for (uint64_t k = 0, ends = 0; ends < EPOCHS; k++) {
        assert_ok(leat_sim_deal_batch(b.deal, k, &g, &err), err);
        ends += g->end;
        taken += g->taken;
        if (g->end) {
            assert_int_equal(taken, samples * (g->epoch + 1));
            assert_int_equal(g->view, g->epoch + 1);
            for (uint32_t r = 0; r < RANKS; r++) {
                assert_non_null(leat_sim_deal_epoch(b.deal, g->epoch));
                leat_sim_deal_leave(b.deal, g->epoch);
            }
            assert_null(leat_sim_deal_epoch(b.deal, g->epoch));
        }
        leat_sim_deal_give_back(b.deal);
    }
    assert_int_equal(taken, samples * EPOCHS);
    leat_sim_deal_close(b.deal);
}
