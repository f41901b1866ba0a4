/* Cursors through a mixture: every stream exactly once an epoch of its own, in its proportion, over any chain of stops
 * and changes of the world. */
#include "base/random.h"
#include "order/reader.h"
#include "sched/cursor.h"
#include "unit.h"

#define STREAMS 5u

/* Streams of very different lengths: the smallest goes round several times in one batch. */
static const uint32_t chunks[STREAMS] = {40, 13, 200, 1, 7};
static const uint32_t most[STREAMS] = {9, 30, 3, 5, 60};
static uint32_t counts[STREAMS][200];
static uint64_t units[STREAMS];

static void make_specs(struct leat_order_spec *specs)
{
    memset(units, 0, sizeof units);
    for (uint32_t s = 0; s < STREAMS; s++) {
        for (uint32_t c = 0; c < chunks[s]; c++)
            units[s] += counts[s][c] = s == 3 ? most[s] : c % (most[s] + 1);
        specs[s] = (struct leat_order_spec){.dataset = {(uint8_t)s},
                                            .view = LEAT_ORDER_VIEW_SAMPLES,
                                            .counts = counts[s],
                                            .chunks = chunks[s],
                                            .shuffle = s != 4,
                                            .seed = 11,
                                            .window = 6};
    }
}

static struct leat_mixture *open_mixture(void)
{
    struct leat_mixture_part parts[2] = {{.from = 0, .shares = {500, 300, 150, 49, 1}},
                                         {.from = 2500, .shares = {1, 1, 1, 0, 1}}};
    struct leat_mixture *m = NULL;
    struct leat_error err;
    assert_ok(leat_mixture_open(STREAMS, parts, 2, &m, &err), err);
    return m;
}

/* What the streams alone would give: unit n of each, epoch after epoch. */
struct reference {
    struct leat_order *order[STREAMS];
    struct leat_order_reader *reader[STREAMS];
    uint64_t epoch[STREAMS];
    uint64_t taken[STREAMS];
};

static struct leat_order_item next_of(struct reference *r, const struct leat_order_spec *specs, uint32_t s)
{
    struct leat_error err;
    struct leat_order_item item;
    size_t got = 0;
    if (r->taken[s] % units[s] == 0) {
        struct leat_order_spec spec = specs[s];
        leat_order_reader_close(r->reader[s]);
        leat_order_close(r->order[s]);
        spec.epoch = r->epoch[s] = r->taken[s] / units[s];
        assert_ok(leat_order_open(&spec, &r->order[s], &err), err);
        assert_ok(leat_order_reader_open(r->order[s], 0, &r->reader[s], &err), err);
    }
    assert_ok(leat_order_reader_next(r->reader[s], &item, 1, &got, &err), err);
    assert_int_equal(got, 1);
    r->taken[s]++;
    return item;
}

static void close_reference(struct reference *r)
{
    for (uint32_t s = 0; s < STREAMS; s++) {
        leat_order_reader_close(r->reader[s]);
        leat_order_close(r->order[s]);
    }
}

struct unit {
    uint32_t stream, chunk, index;
    uint64_t epoch;
};

static int by_unit(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct unit));
}

/* One global batch, from cursors of all ranks; and the same from the streams alone. */
static uint32_t read_ranks(struct leat_cursor **c, uint32_t world, struct unit *out, struct leat_cursor_batch *last)
{
    struct leat_error err;
    uint32_t n = 0;
    *last = (struct leat_cursor_batch){0};
    for (uint32_t r = 0; r < world; r++) {
        struct leat_cursor_batch b;
        assert_ok(leat_cursor_next(c[r], &b, &err), err);
        for (uint32_t i = 0; i < b.n; i++) {
            const struct leat_cursor_unit *u = &b.units[i];
            uint32_t first = 0;
            for (uint32_t s = 0; s < u->stream; s++)
                first += chunks[s];
            assert_true(u->valid && u->where < b.chunks_n);
            assert_int_equal(b.chunks[u->where], first + u->item.chunk);
            memset(&out[n], 0, sizeof out[n]);
            out[n++] = (struct unit){u->stream, u->item.chunk, u->item.index, u->epoch};
        }
        *last = b;
        leat_cursor_batch_free(&b);
        last->units = NULL;
    }
    return n;
}

#define BATCH_MAX 96u

static void run_chain(uint64_t seed)
{
    static const uint32_t nodes[6] = {0, 1, 1, 2, 2, 2};
    struct leat_rng rng = leat_rng(leat_key("chain", seed, 0, NULL, 0), 0);
    struct leat_order_spec specs[STREAMS];
    struct leat_mixture *m = open_mixture();
    struct reference ref = {0};
    uint64_t epoch_units = 300 + leat_rng_below(&rng, 1500);
    uint64_t epoch = 0;
    uint64_t position = 0;
    uint64_t at = 0;
    make_specs(specs);
    while (epoch < 4) {
        struct leat_cursor *c[6];
        struct leat_error err;
        uint32_t world = 1 + (uint32_t)leat_rng_below(&rng, 6);
        struct leat_cursor_opts o = {.specs = specs,
                                     .specs_n = STREAMS,
                                     .mixture = m,
                                     .epoch_units = epoch_units,
                                     .epoch = epoch,
                                     .position = position,
                                     .global_batch = world + (uint32_t)leat_rng_below(&rng, BATCH_MAX - world + 1),
                                     .last = LEAT_ORDER_SHORT,
                                     .world = world,
                                     .node_of_rank = leat_rng_below(&rng, 2) ? nodes : NULL};
        for (o.rank = 0; o.rank < world; o.rank++)
            assert_ok(leat_cursor_open(&o, &c[o.rank], &err), err);
        for (uint64_t k = leat_rng_below(&rng, 20); k-- > 0 && epoch < 4;) {
            struct unit got[BATCH_MAX];
            struct unit want[BATCH_MAX];
            uint8_t mixed[BATCH_MAX];
            struct leat_cursor_batch b;
            uint32_t n = read_ranks(c, world, got, &b);
            leat_mixture_read(m, at, mixed, n);
            for (uint32_t i = 0; i < n; i++) {
                struct leat_order_item item = next_of(&ref, specs, mixed[i]);
                memset(&want[i], 0, sizeof want[i]);
                want[i] = (struct unit){mixed[i], item.chunk, item.index, ref.epoch[mixed[i]]};
            }
            qsort(got, n, sizeof *got, by_unit);
            qsort(want, n, sizeof *want, by_unit);
            assert_memory_equal(got, want, n * sizeof *got);
            at += n;
            epoch = b.end ? b.epoch + 1 : b.epoch;
            position = b.end ? 0 : b.position;
            assert_int_equal(at, epoch * epoch_units + position);
        }
        for (uint32_t r = 0; r < world; r++)
            leat_cursor_close(c[r]);
    }
    close_reference(&ref);
    leat_mixture_close(m);
}

TEST(chains_give_every_stream_exactly_once)
{
    const uint64_t seeds = unit_number(0, 80);
    for (uint64_t seed = 0; seed < seeds; seed++)
        run_chain(seed);
}

/* Chunks are named in the order of their use, each once for each epoch that is known, and what a lane is told of its
 * streams is near to what happens. */
TEST(ahead_follows_all_streams)
{
    struct leat_order_spec specs[STREAMS];
    struct leat_mixture *m = open_mixture();
    struct leat_error err;
    struct leat_cursor *c;
    uint32_t times[300] = {0};
    make_specs(specs);
    struct leat_cursor_opts o = {.specs = specs,
                                 .specs_n = STREAMS,
                                 .mixture = m,
                                 .epoch_units = 1000,
                                 .global_batch = 50,
                                 .last = LEAT_ORDER_DROP,
                                 .world = 1};
    assert_ok(leat_cursor_open(&o, &c, &err), err);
    uint32_t number;
    uint64_t stage;
    uint64_t last = 0;
    while (leat_cursor_ahead(c, &number, &stage)) {
        assert_true(number < 261 && stage >= last);
        times[number]++;
        last = stage;
    }
    for (uint32_t s = 0, k = 0; s < STREAMS; s++) {
        for (uint32_t i = 0; i < chunks[s]; i++, k++)
            assert_int_equal(times[k], counts[s][i] ? 2 : 0);
    }
    for (unsigned i = 0; i < 45; i++) { /* as far as shares stay: 2250 of 2500 */
        struct leat_cursor_batch b;
        struct leat_sched_view v;
        assert_ok(leat_cursor_next(c, &b, &err), err);
        leat_cursor_view(c, &v);
        assert_int_equal(v.streams_n, STREAMS);
        assert_int_equal(v.stage, b.stage);
        for (uint32_t s = 0; s < 3; s++) { /* the others have hardly any stages */
            const struct leat_sched_stream *k = &v.streams[s];
            double says = k->origin + (double)(k->before + k->stage) * k->pace;
            double window = (double)leat_order_stages(k->now) * k->pace;
            assert_true(says > (double)v.stage - window && says < (double)v.stage + window);
        }
        leat_cursor_batch_free(&b);
    }
    leat_cursor_close(c);
    leat_mixture_close(m);
}

TEST(what_cannot_be_is_refused)
{
    struct leat_order_spec specs[STREAMS];
    struct leat_mixture *m = open_mixture();
    struct leat_error err;
    struct leat_cursor *c = NULL;
    static const uint32_t none[1] = {0};
    make_specs(specs);
    struct leat_cursor_opts o = {.specs = specs,
                                 .specs_n = STREAMS,
                                 .mixture = m,
                                 .epoch_units = 1000,
                                 .position = 1001,
                                 .global_batch = 50,
                                 .world = 1};
    assert_fails(leat_cursor_open(&o, &c, &err), err, LEAT_INVALID, "after the end of the epoch");
    o.position = 0;
    o.epoch = 1ull << 60;
    assert_fails(leat_cursor_open(&o, &c, &err), err, LEAT_INVALID, "too far");
    o.epoch = 0;
    specs[3].counts = none;
    assert_fails(leat_cursor_open(&o, &c, &err), err, LEAT_INVALID, "stream 3 of the mixture is empty");
    leat_mixture_close(m);
}
