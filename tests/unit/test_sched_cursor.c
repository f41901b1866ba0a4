#include "sched/cursor.h"

#include "base/random.h"
#include "order/policy.h"
#include "order/reader.h"
#include "unit.h"

#define CHUNKS 300u
#define COUNTS 4u /* 1 … 4 samples per chunk, and empty chunks */

static uint32_t counts[CHUNKS];

static struct leat_cursor_opts make(uint32_t world, uint32_t rank, const uint32_t *nodes)
{
    static const struct leat_order_spec spec = {
        .view = LEAT_ORDER_VIEW_SAMPLES, .counts = counts, .chunks = CHUNKS, .shuffle = true, .seed = 7, .window = 20};
    struct leat_cursor_opts o = {.specs = &spec,
                                 .specs_n = 1,
                                 .global_batch = 17,
                                 .last = LEAT_ORDER_SHORT,
                                 .rank = rank,
                                 .world = world,
                                 .node_of_rank = nodes};
    for (uint32_t c = 0; c < CHUNKS; c++)
        counts[c] = c % (COUNTS + 1);
    return o;
}

static struct leat_cursor *open_cursor(const struct leat_cursor_opts *o)
{
    struct leat_cursor *c;
    struct leat_error err;
    assert_ok(leat_cursor_open(o, &c, &err), err);
    return c;
}

static uint64_t units(void)
{
    uint64_t n = 0;
    for (uint32_t c = 0; c < CHUNKS; c++)
        n += counts[c];
    return n;
}

/* Batches say what they are: distinct chunks that hold their samples, stages and positions that only grow. */
static void check_batch(const struct leat_cursor *c, const struct leat_cursor_batch *b)
{
    for (uint32_t i = 1; i < b->chunks_n; i++)
        assert_true(b->chunks[i] > b->chunks[i - 1]);
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t at = 0;
        while (at < b->chunks_n && b->chunks[at] != b->units[i].item.chunk)
            at++;
        assert_true(at < b->chunks_n);
        assert_int_equal(b->units[i].where, at);
        assert_int_equal(b->units[i].number, leat_order_unit(leat_cursor_order(c, 0), b->units[i].item));
    }
    assert_true(b->chunks_n <= b->n);
}

static const uint32_t three_nodes[7] = {0, 0, 1, 1, 2, 2, 2};

TEST(every_unit_comes_once_an_epoch_over_all_ranks)
{
    const struct {
        uint32_t world;
        const uint32_t *nodes;
    } worlds[] = {{1, NULL}, {4, NULL}, {7, three_nodes}};
    for (size_t w = 0; w < COUNT(worlds); w++) {
        uint8_t *seen = calloc(3 * CHUNKS * COUNTS, 1);
        uint64_t all = 0;
        for (uint32_t r = 0; r < worlds[w].world; r++) {
            struct leat_cursor_opts o = make(worlds[w].world, r, worlds[w].nodes);
            struct leat_cursor *c = open_cursor(&o);
            struct leat_error err;
            uint64_t stage = 0;
            for (uint64_t epoch = 0; epoch < 3;) {
                struct leat_cursor_batch b;
                assert_ok(leat_cursor_next(c, &b, &err), err);
                assert_int_equal(b.epoch, epoch);
                assert_true(b.stage >= stage);
                stage = b.stage;
                if (!b.end)
                    check_batch(c, &b);
                for (uint32_t i = 0; i < b.n; i++, all++) {
                    assert_true(b.units[i].valid);
                    assert_false(seen[epoch * CHUNKS * COUNTS + b.units[i].number]++);
                }
                epoch += b.end;
                leat_cursor_batch_free(&b);
            }
            leat_cursor_close(c);
        }
        assert_int_equal(all, 3 * units());
        free(seen);
    }
}

TEST(a_cursor_goes_on_where_another_stopped)
{
    struct leat_cursor_opts o = make(3, 1, NULL);
    struct leat_error err;
    struct leat_cursor *whole = open_cursor(&o);
    for (unsigned i = 0; i < 2 * units() / o.global_batch; i++) {
        struct leat_cursor_batch a;
        assert_ok(leat_cursor_next(whole, &a, &err), err);
        uint64_t stage = a.stage;
        o.epoch = a.end ? a.epoch + 1 : a.epoch;
        o.position = a.end ? 0 : a.position;
        leat_cursor_batch_free(&a);
        struct leat_cursor *c = open_cursor(&o);
        struct leat_cursor_batch b;
        struct leat_sched_view view;
        leat_cursor_view(whole, &view);
        assert_int_equal(view.stage, stage);
        assert_int_equal(view.streams[0].before + view.streams[0].stage, stage);
        assert_ok(leat_cursor_next(c, &b, &err), err);
        struct leat_cursor_opts again = o;
        struct leat_cursor *d = open_cursor(&again);
        struct leat_cursor_batch e;
        assert_ok(leat_cursor_next(d, &e, &err), err);
        assert_int_equal(b.n, e.n);
        assert_int_equal(b.epoch, o.epoch);
        for (uint32_t k = 0; k < b.n; k++)
            assert_int_equal(b.units[k].number, e.units[k].number);
        leat_cursor_batch_free(&b);
        leat_cursor_batch_free(&e);
        leat_cursor_close(c);
        leat_cursor_close(d);
    }
    leat_cursor_close(whole);
}

/* The numbers of one epoch, read in one go and by cursors that are closed and opened again all the time. */
TEST(resumed_positions_lose_and_double_nothing)
{
    struct leat_cursor_opts o = make(2, 0, NULL);
    struct leat_error err;
    struct leat_cursor *whole = open_cursor(&o);
    for (bool end = false; !end;) {
        struct leat_cursor_batch a;
        struct leat_cursor_batch b;
        struct leat_cursor *c = open_cursor(&o);
        assert_ok(leat_cursor_next(whole, &a, &err), err);
        assert_ok(leat_cursor_next(c, &b, &err), err);
        assert_int_equal(a.n, b.n);
        assert_int_equal(a.end, b.end);
        assert_int_equal(a.position, b.position);
        for (uint32_t i = 0; i < a.n; i++)
            assert_int_equal(a.units[i].number, b.units[i].number);
        o.position = a.position;
        end = a.end;
        leat_cursor_batch_free(&a);
        leat_cursor_batch_free(&b);
        leat_cursor_close(c);
    }
    assert_int_equal(o.position, units());
    leat_cursor_close(whole);
}

static bool owned(struct leat_cursor *c, uint32_t chunk)
{
    struct leat_sched_view v;
    leat_cursor_view(c, &v);
    return !v.node_of_slot || v.node_of_slot[leat_order_slot_of(chunk, CHUNKS)] == v.node;
}

/* From the beginning to the end of the second epoch: each chunk of the node's once an epoch, in the order's order, and
 * never after its first use has been planned. */
TEST(ahead_names_each_chunk_of_the_nodes_once_and_in_order)
{
    for (uint32_t rank = 0; rank < 7; rank++) {
        struct leat_cursor_opts o = make(7, rank, three_nodes);
        struct leat_cursor *c = open_cursor(&o);
        const struct leat_order *now = leat_cursor_order(c, 0);
        uint32_t times[CHUNKS] = {0};
        uint32_t number;
        uint64_t stage;
        uint64_t last = 0;
        uint64_t before = leat_order_stages(now);
        struct leat_sched_view v;
        leat_cursor_view(c, &v);
        for (unsigned n = 0; leat_cursor_ahead(c, &number, &stage); n++) {
            assert_true(owned(c, number) && counts[number]);
            assert_true(stage >= last);
            assert_int_equal(times[number]++, stage >= before);
            if (stage < before && stage > v.stage)
                assert_int_equal(leat_order_chunk_at(now, (uint32_t)stage), number);
            last = stage;
        }
        for (uint32_t i = 0; i < CHUNKS; i++)
            assert_int_equal(times[i], owned(c, i) && counts[i] ? 2 : 0);
        assert_false(leat_cursor_ahead(c, &number, &stage));
        leat_cursor_close(c);
    }
}

TEST(ahead_goes_on_into_the_epochs_that_follow)
{
    struct leat_cursor_opts o = make(1, 0, NULL);
    struct leat_cursor *c = open_cursor(&o);
    struct leat_error err;
    uint32_t times[CHUNKS] = {0};
    uint64_t epochs = 0;
    while (epochs < 4) {
        struct leat_cursor_batch b;
        uint32_t number;
        uint64_t stage;
        for (unsigned i = 0; i < 12 && leat_cursor_ahead(c, &number, &stage); i++)
            times[number]++;
        assert_ok(leat_cursor_next(c, &b, &err), err);
        epochs += b.end;
        leat_cursor_batch_free(&b);
    }
    uint32_t number;
    uint64_t stage;
    while (leat_cursor_ahead(c, &number, &stage))
        times[number]++;
    for (uint32_t i = 0; i < CHUNKS; i++)
        assert_int_equal(times[i], counts[i] ? 6 : 0); /* epochs 0 … 5 */
    leat_cursor_close(c);
}

/* In the middle of an epoch: those that are live come first, those that are through do not come, and the stage is never
 * after the cursor. */
TEST(ahead_of_a_resumed_cursor_begins_with_what_is_live)
{
    struct leat_cursor_opts o = make(1, 0, NULL);
    for (o.position = 0; o.position < units(); o.position += 31) {
        struct leat_cursor *c = open_cursor(&o);
        struct leat_sched_view v;
        leat_cursor_view(c, &v);
        uint32_t want[2 * CHUNKS];
        size_t n = leat_order_upcoming(v.streams[0].now, v.streams[0].coming, v.streams[0].stage, 0, want, COUNT(want));
        for (size_t i = 0; i < n; i++) {
            uint32_t number;
            uint64_t stage;
            assert_true(leat_cursor_ahead(c, &number, &stage));
            assert_int_equal(number, want[i]);
            assert_true(stage >= v.stage);
        }
        leat_cursor_close(c);
    }
}

TEST(the_end_of_an_epoch_is_treated_as_it_is_called)
{
    const enum leat_order_last ways[] = {LEAT_ORDER_DROP, LEAT_ORDER_PAD, LEAT_ORDER_SHORT};
    for (size_t w = 0; w < COUNT(ways); w++) {
        struct leat_cursor_opts o = make(1, 0, NULL);
        struct leat_error err;
        uint64_t n = 0;
        uint64_t padded = 0;
        o.last = ways[w];
        struct leat_cursor *c = open_cursor(&o);
        for (bool end = false; !end;) {
            struct leat_cursor_batch b;
            assert_ok(leat_cursor_next(c, &b, &err), err);
            n += b.n;
            for (uint32_t i = 0; i < b.n; i++)
                padded += !b.units[i].valid;
            end = b.end;
            leat_cursor_batch_free(&b);
        }
        uint64_t rest = units() % o.global_batch;
        assert_true(rest != 0);
        assert_int_equal(padded, ways[w] == LEAT_ORDER_PAD ? o.global_batch - rest : 0);
        assert_int_equal(n, units() - (ways[w] == LEAT_ORDER_DROP ? rest : 0) + padded);
        leat_cursor_close(c);
    }
}

TEST(what_does_not_fit_is_refused)
{
    struct leat_cursor *c;
    struct leat_error err;
    const uint32_t nodes[2] = {0, 2};
    struct leat_cursor_opts o = make(1, 0, NULL);
    o.position = units() + 1;
    assert_fails(leat_cursor_open(&o, &c, &err), err, LEAT_INVALID, "after the end of the epoch");
    o = make(2, 0, nodes);
    assert_fails(leat_cursor_open(&o, &c, &err), err, LEAT_INVALID, "a node 2 in a world of 2 ranks");
    o = make(1, 0, NULL);
    o.global_batch = 0;
    assert_true(leat_cursor_open(&o, &c, &err) != LEAT_OK);
    leat_cursor_close(NULL);
}
