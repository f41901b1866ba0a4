#include "order/order.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "order/policy.h"
#include "order/reader.h"
#include "unit.h"

static uint32_t *make_counts(uint32_t chunks, uint32_t low, uint32_t span)
{
    uint32_t *counts = malloc(((size_t)chunks + 1) * sizeof *counts);
    assert_non_null(counts);
    for (uint32_t c = 0; c < chunks; c++)
        counts[c] = low + (uint32_t)((uint64_t)c * 7919 % span);
    return counts;
}

static struct leat_order_spec make_spec(const uint32_t *counts, uint32_t chunks)
{
    struct leat_order_spec spec = {.view = "samples", .counts = counts, .chunks = chunks, .shuffle = true};
    for (uint8_t i = 0; i < 32; i++)
        spec.dataset[i] = i;
    spec.window = 16;
    return spec;
}

static struct leat_order *open_order(const struct leat_order_spec *spec)
{
    struct leat_order *o;
    struct leat_error err;
    if (leat_order_open(spec, &o, &err) != LEAT_OK)
        fail_msg("%s", err.text);
    return o;
}

/* Reads units from a position on, in reads of different lengths; the caller frees them. */
static uint64_t *read_units(const struct leat_order *o, uint64_t from)
{
    uint64_t left = leat_order_units(o) - from;
    uint64_t *units = malloc((left + 1) * sizeof *units);
    struct leat_order_item items[97];
    struct leat_order_reader *r;
    assert_int_equal(leat_order_reader_open(o, from, &r, NULL), LEAT_OK);
    for (uint64_t done = 0; done < left;) {
        size_t got;
        assert_int_equal(leat_order_reader_next(r, items, 1 + done % 97, &got, NULL), LEAT_OK);
        assert_true(got > 0);
        for (size_t i = 0; i < got; i++)
            units[done++] = leat_order_unit(o, items[i]);
        assert_true(leat_order_reader_position(r) == from + done);
    }
    size_t got;
    assert_int_equal(leat_order_reader_next(r, items, 5, &got, NULL), LEAT_OK);
    assert_int_equal(got, 0);
    leat_order_reader_close(r);
    return units;
}

static void assert_each_once(const uint64_t *units, uint64_t n)
{
    uint8_t *seen = calloc(n + 1, 1);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(units[i] < n);
        assert_false(seen[units[i]]++);
    }
    free(seen);
}

/* Every size class: one chunk, around the number of slots, counts with zeros, windows from 1 to beyond. */
static const struct {
    uint32_t chunks, low, span, window;
} shapes[] = {
    {1, 1, 1, 1},     {1, 1000, 1, 7},    {2, 3, 2, 1},      {3, 0, 2, 5},     {10, 5, 3, 100},  {63, 2, 5, 8},
    {64, 2, 5, 8},    {65, 2, 5, 8},      {1000, 3, 1, 1},   {1023, 1, 2, 33}, {1024, 1, 2, 33}, {1025, 1, 2, 33},
    {2047, 1, 4, 64}, {3000, 0, 2, 1000}, {5000, 2, 9, 128}, {200, 0, 1, 4},   {0, 1, 1, 4},     {40, 700, 90, 65536},
};

TEST(every_unit_comes_exactly_once)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint32_t *counts = make_counts(shapes[i].chunks, shapes[i].low, shapes[i].span);
        struct leat_order_spec spec = make_spec(counts, shapes[i].chunks);
        spec.window = shapes[i].window;
        for (spec.epoch = 0; spec.epoch < 3; spec.epoch++) {
            struct leat_order *o = open_order(&spec);
            uint64_t *units = read_units(o, 0);
            assert_each_once(units, leat_order_units(o));
            free(units);
            leat_order_close(o);
        }
        free(counts);
    }
}

TEST(reading_from_any_position_continues_the_same_order)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint32_t *counts = make_counts(shapes[i].chunks, shapes[i].low, shapes[i].span);
        struct leat_order_spec spec = make_spec(counts, shapes[i].chunks);
        spec.window = shapes[i].window;
        struct leat_order *o = open_order(&spec);
        uint64_t n = leat_order_units(o);
        uint64_t *units = read_units(o, 0);
        uint64_t hop = n < 40 ? 1 : n / 37;
        for (uint64_t from = 0; from <= n; from += hop) {
            uint64_t *rest = read_units(o, from);
            assert_memory_equal(rest, units + from, (n - from) * sizeof *units);
            free(rest);
        }
        free(units);
        leat_order_close(o);
        free(counts);
    }
}

TEST(a_reader_may_seek_to_and_fro)
{
    uint32_t *counts = make_counts(300, 3, 8);
    struct leat_order_spec spec = make_spec(counts, 300);
    struct leat_order *o = open_order(&spec);
    uint64_t n = leat_order_units(o);
    uint64_t *units = read_units(o, 0);
    struct leat_order_reader *r;
    assert_int_equal(leat_order_reader_open(o, 0, &r, NULL), LEAT_OK);
    for (uint64_t k = 0; k < 200; k++) {
        uint64_t to = k * 7919 % (n + 1);
        struct leat_order_item items[10];
        size_t got;
        assert_int_equal(leat_order_reader_seek(r, to, NULL), LEAT_OK);
        assert_int_equal(leat_order_reader_next(r, items, 10, &got, NULL), LEAT_OK);
        assert_int_equal(got, n - to < 10 ? n - to : 10);
        for (size_t i = 0; i < got; i++)
            assert_true(leat_order_unit(o, items[i]) == units[to + i]);
    }
    struct leat_error err;
    assert_int_equal(leat_order_reader_seek(r, n + 1, &err), LEAT_INVALID);
    leat_order_reader_close(r);
    free(units);
    leat_order_close(o);
    free(counts);
}

TEST(without_shuffle_units_come_in_their_own_order)
{
    uint32_t *counts = make_counts(1100, 0, 4);
    struct leat_order_spec spec = make_spec(counts, 1100);
    spec.shuffle = false;
    spec.window = 0; /* of no meaning */
    struct leat_order *o = open_order(&spec);
    for (uint64_t from = 0; from < leat_order_units(o); from += 111) {
        uint64_t *units = read_units(o, from);
        for (uint64_t i = from; i < leat_order_units(o); i++)
            assert_true(units[i - from] == i);
        free(units);
    }
    leat_order_close(o);
    free(counts);
}

TEST(golden_orders_are_reproduced)
{
    char path[4096];
    const char *root = getenv("LEAT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/golden/order-1.txt", root ? root : ".");
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char line[500];
    int cases = 0;
    while (fgets(line, sizeof line, f)) {
        unsigned chunks, low, span, window;
        unsigned long long seed, epoch, n, head;
        char digest[65];
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%u %u %u %llu %llu %u %llu %64s %llu", &chunks, &low, &span, &seed, &epoch,
                                &window, &n, digest, &head),
                         9);
        uint32_t *counts = make_counts(chunks, low, span);
        struct leat_order_spec spec = make_spec(counts, chunks);
        spec.seed = seed;
        spec.epoch = epoch;
        spec.window = window;
        struct leat_order *o = open_order(&spec);
        assert_true(leat_order_units(o) == n);
        uint64_t *units = read_units(o, 0);
        assert_true(units[0] == head);
        for (uint64_t i = 0; i < n; i++)
            leat_put_u64(&units[i], units[i]);
        uint8_t sha[LEAT_SHA256_SIZE];
        char hex[65];
        leat_sha256(units, n * sizeof *units, sha);
        leat_hex(sha, sizeof sha, hex);
        assert_string_equal(hex, digest);
        free(units);
        leat_order_close(o);
        free(counts);
        cases++;
    }
    fclose(f);
    assert_true(cases >= 12);
}

TEST(units_and_items_are_each_others_inverse)
{
    uint32_t *counts = make_counts(500, 0, 6);
    struct leat_order_spec spec = make_spec(counts, 500);
    struct leat_order *o = open_order(&spec);
    for (uint64_t u = 0; u < leat_order_units(o); u++) {
        struct leat_order_item item = leat_order_item(o, u);
        assert_true(item.index < counts[item.chunk]);
        assert_true(leat_order_unit(o, item) == u);
    }
    leat_order_close(o);
    free(counts);
}

/* A chunk is live from its first unit to its last. */
TEST(at_most_a_window_of_chunks_is_live)
{
    uint32_t *counts = make_counts(2500, 1, 12);
    struct leat_order_spec spec = make_spec(counts, 2500);
    spec.window = 50;
    struct leat_order *o = open_order(&spec);
    uint64_t *units = read_units(o, 0);
    uint32_t *left = malloc(2500 * sizeof *left);
    memcpy(left, counts, 2500 * sizeof *left);
    uint32_t live = 0;
    for (uint64_t i = 0; i < leat_order_units(o); i++) {
        uint32_t c = leat_order_item(o, units[i]).chunk;
        live += left[c] == counts[c];
        assert_true(live <= spec.window);
        live -= --left[c] == 0;
    }
    free(left);
    free(units);
    leat_order_close(o);
    free(counts);
}

TEST(stages_bound_the_use_of_every_chunk)
{
    uint32_t *counts = make_counts(1300, 0, 9);
    struct leat_order_spec spec = make_spec(counts, 1300);
    struct leat_order *o = open_order(&spec);
    uint64_t *first = malloc(1300 * sizeof *first);
    uint64_t *last = malloc(1300 * sizeof *last);
    memset(first, 0xff, 1300 * sizeof *first);
    struct leat_order_reader *r;
    assert_int_equal(leat_order_reader_open(o, 0, &r, NULL), LEAT_OK);
    for (uint64_t i = 0; i < leat_order_units(o); i++) {
        struct leat_order_item item;
        size_t got;
        assert_int_equal(leat_order_reader_next(r, &item, 1, &got, NULL), LEAT_OK);
        uint64_t stage = leat_order_reader_stage(r);
        assert_true(leat_order_stage_of(o, i) == stage);
        assert_true(leat_order_stage_start(o, stage) <= i);
        assert_true(leat_order_stage_start(o, stage + 1) > i);
        if (first[item.chunk] == UINT64_MAX)
            first[item.chunk] = stage;
        last[item.chunk] = stage;
    }
    for (uint32_t c = 0; c < 1300; c++) {
        uint64_t f, l;
        assert_int_equal(leat_order_uses(o, c, &f, &l), counts[c] != 0);
        if (!counts[c])
            continue;
        uint32_t place = leat_order_place_of(o, c);
        assert_int_equal(leat_order_chunk_at(o, place), c);
        assert_true(f == first[c] && l == last[c]);
        assert_true(f >= place && l < (uint64_t)place + spec.window);
    }
    assert_true(leat_order_stage_start(o, 0) == 0);
    assert_true(leat_order_stage_start(o, leat_order_stages(o)) == leat_order_units(o));
    leat_order_reader_close(r);
    free(last);
    free(first);
    leat_order_close(o);
    free(counts);
}

static double correlation(const double *x, const double *y, size_t n)
{
    double mx = 0, my = 0, xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        mx += x[i] / (double)n;
        my += y[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        xy += (x[i] - mx) * (y[i] - my);
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
    }
    return xy / __builtin_sqrt(xx * yy);
}

/* Where a chunk comes in one epoch says nothing about where it comes in the next, whatever the number of
 * chunks: also just above the number of slots, where most slots have one chunk and few have two. */
TEST(epochs_are_not_correlated)
{
    const uint32_t sizes[] = {300, 1024, 1025, 1100, 1500, 2047, 2048, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint32_t n = sizes[s];
        uint32_t *counts = make_counts(n, 4, 1);
        double *x = malloc(n * sizeof *x);
        double *y = malloc(n * sizeof *y);
        double worst = 0;
        for (uint64_t epoch = 0; epoch < 20; epoch++) {
            struct leat_order_spec spec = make_spec(counts, n);
            spec.epoch = epoch;
            struct leat_order *o = open_order(&spec);
            for (uint32_t c = 0; c < n; c++) {
                y[c] = leat_order_place_of(o, c);
                if (epoch == 0)
                    x[c] = y[c];
            }
            leat_order_close(o);
            double r = epoch ? correlation(x, y, n) : 0;
            worst = __builtin_fabs(r) > worst ? __builtin_fabs(r) : worst;
        }
        assert_true(worst < 4.0 / __builtin_sqrt(n)); /* four standard deviations of an unrelated pair */
        free(y);
        free(x);
        free(counts);
    }
}

TEST(any_stretch_of_chunks_draws_evenly_from_runs_of_slots)
{
    const uint32_t sizes[] = {1024, 1500, 4096, 10000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint32_t n = sizes[s];
        uint32_t *counts = make_counts(n, 1, 1);
        struct leat_order_spec spec = make_spec(counts, n);
        struct leat_order *o = open_order(&spec);
        for (uint32_t from = 0; from + 128 <= n; from += 61) {
            int owned[8] = {0};
            for (uint32_t p = from; p < from + 128; p++)
                owned[leat_order_slot_of(leat_order_chunk_at(o, p), n) / 128]++;
            for (int k = 0; k < 8; k++)
                assert_in_range(owned[k], 13, 19); /* 16 each; independent draws would spread by ±4 */
        }
        leat_order_close(o);
        free(counts);
    }
}

TEST(slots_share_the_chunks_evenly_among_nodes)
{
    for (uint32_t chunks = 1024; chunks < 4000; chunks += 77) {
        uint32_t owned[8] = {0};
        for (uint32_t c = 0; c < chunks; c++)
            owned[leat_order_slot_of(c, chunks) / 128]++;
        for (int k = 0; k < 8; k++)
            assert_in_range(owned[k], chunks / 8, chunks / 8 + 1);
    }
}

TEST(an_order_depends_on_every_argument)
{
    uint32_t *counts = make_counts(50, 10, 1);
    struct leat_order_spec base = make_spec(counts, 50);
    struct leat_order *o = open_order(&base);
    uint64_t *units = read_units(o, 0);
    for (int k = 0; k < 5; k++) {
        struct leat_order_spec other = base;
        other.seed += k == 0;
        other.epoch += k == 1;
        other.window += k == 2;
        other.dataset[31] ^= k == 3;
        other.view = k == 4 ? "samples2" : "samples";
        struct leat_order *p = open_order(&other);
        uint64_t *theirs = read_units(p, 0);
        assert_memory_not_equal(units, theirs, 500 * sizeof *units);
        free(theirs);
        leat_order_close(p);
    }
    free(units);
    leat_order_close(o);
    free(counts);
}

TEST(arguments_that_cannot_work_are_refused)
{
    uint32_t counts[1] = {1};
    struct leat_order *o;
    struct leat_error err;
    struct leat_order_spec spec = make_spec(counts, 1);
    spec.window = 0;
    assert_int_equal(leat_order_open(&spec, &o, &err), LEAT_INVALID);
    spec.window = LEAT_ORDER_WINDOW_MAX + 1;
    assert_int_equal(leat_order_open(&spec, &o, &err), LEAT_INVALID);
    spec = make_spec(counts, 1);
    spec.seed = (uint64_t)1 << 63;
    assert_int_equal(leat_order_open(&spec, &o, &err), LEAT_INVALID);
    spec = make_spec(counts, 1);
    spec.view = "";
    assert_int_equal(leat_order_open(&spec, &o, &err), LEAT_INVALID);
    spec.view = "a name of sixty-four bytes or more is longer than any view may have";
    assert_int_equal(leat_order_open(&spec, &o, &err), LEAT_INVALID);
    spec = make_spec(counts, 1);
    spec.chunks = UINT32_MAX;
    assert_int_equal(leat_order_open(&spec, &o, &err), LEAT_LIMIT);
    leat_order_close(NULL);
    leat_order_reader_close(NULL);
}

TEST(the_default_window_is_a_gibibyte_of_chunks)
{
    assert_int_equal(leat_order_window_default(10000, 10000ull << 23), 128);
    assert_int_equal(leat_order_window_default(1, 1ull << 40), 1);
    assert_int_equal(leat_order_window_default(1u << 31, 1u << 31), 4096);
    assert_int_equal(leat_order_window_default(1u << 31, (1ull << 30) + 1), 4096);
    /* what fits is mixed as a whole */
    assert_int_equal(leat_order_window_default(128, 1ull << 30), LEAT_ORDER_WINDOW_MAX);
    assert_int_equal(leat_order_window_default(129, (1ull << 30) + 1000), 128);
    assert_int_equal(leat_order_window_default(1, 5000), LEAT_ORDER_WINDOW_MAX);
    assert_int_equal(leat_order_window_default(0, 0), LEAT_ORDER_WINDOW_MAX);
}

/* How far the classes of some units are from their shares: chi-square of 10 classes, 9 degrees of freedom. */
static double chi_square(const struct leat_order *o, const struct leat_order_item *items, size_t n)
{
    double found[10] = {0};
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        found[leat_order_unit(o, items[i]) * 10 / leat_order_units(o)]++;
    for (int c = 0; c < 10; c++)
        sum += (found[c] - (double)n / 10) * (found[c] - (double)n / 10) / ((double)n / 10);
    return sum;
}

/* Mean chi-square of the first and of the last batch over many seeds. */
static void first_and_last(uint32_t chunks, uint32_t count, uint32_t window, size_t batch, double out[2])
{
    uint32_t *counts = make_counts(chunks, count, 1);
    struct leat_order_spec spec = make_spec(counts, chunks);
    struct leat_order_item *items = malloc(batch * sizeof *items);
    const int seeds = 20;
    spec.window = window;
    out[0] = out[1] = 0;
    for (int seed = 0; seed < seeds; seed++) {
        spec.seed = (uint64_t)seed;
        struct leat_order *o = open_order(&spec);
        for (int end = 0; end < 2; end++) {
            struct leat_order_reader *r;
            size_t got;
            uint64_t at = end ? leat_order_units(o) - batch : 0;
            assert_int_equal(leat_order_reader_open(o, at, &r, NULL), LEAT_OK);
            assert_int_equal(leat_order_reader_next(r, items, batch, &got, NULL), LEAT_OK);
            out[end] += chi_square(o, items, got) / seeds;
            leat_order_reader_close(r);
        }
        leat_order_close(o);
    }
    free(items);
    free(counts);
}

/* CIFAR-10 sorted by class, in 3 chunks and in 19 of 8 MiB; a thousand samples in 100 chunks. */
TEST(a_dataset_that_fits_into_the_window_begins_and_ends_with_all_classes_in_proportion)
{
    const struct {
        uint32_t chunks, count;
    } sets[] = {{3, 16667}, {19, 2632}, {100, 10}};
    for (size_t i = 0; i < COUNT(sets); i++) {
        uint32_t window = leat_order_window_default(sets[i].chunks, sets[i].chunks * 1000ull);
        double chi[2];
        for (size_t batch = 64; batch <= 256; batch *= 4) {
            first_and_last(sets[i].chunks, sets[i].count, window, batch, chi);
            if (chi[0] > 11 || chi[1] > 11) /* independent draws: 9, and 1 is the deviation of a mean of 20 */
                fail_msg("%u chunks, batches of %zu: %.1f, %.1f", sets[i].chunks, batch, chi[0], chi[1]);
        }
    }
    double chi[2];
    first_and_last(3, 16667, 3, 256, chi); /* which is what a window of all chunks would not do */
    assert_true(chi[0] > 100 && chi[1] > 100);
}

/* Policy */

static void check_next_use(uint32_t window)
{
    uint32_t *counts = make_counts(90, 1, 7);
    struct leat_order_spec spec = make_spec(counts, 90);
    spec.window = window;
    struct leat_order *now = open_order(&spec);
    spec.epoch++;
    struct leat_order *next = open_order(&spec);
    uint64_t first, last;
    for (uint64_t stage = 0; stage <= leat_order_stages(now); stage++) {
        for (uint32_t c = 0; c < 90; c++) {
            assert_true(leat_order_uses(now, c, &first, &last));
            uint64_t use = leat_order_next_use(now, next, stage, c);
            if (stage <= first)
                assert_true(use == first);
            else if (stage <= last)
                assert_true(use == stage);
            else {
                assert_true(leat_order_next_use(now, NULL, stage, c) == LEAT_ORDER_NEVER);
                assert_true(leat_order_uses(next, c, &first, &last));
                assert_true(use == leat_order_stages(now) + first);
            }
        }
    }
    leat_order_close(next);
    leat_order_close(now);
    free(counts);
}

TEST(next_use_is_the_next_unit_of_the_chunk_in_either_epoch)
{
    check_next_use(16);
    check_next_use(300); /* more than there are chunks */
}

static void check_upcoming(uint32_t window)
{
    uint32_t *counts = make_counts(90, 1, 7);
    struct leat_order_spec spec = make_spec(counts, 90);
    spec.window = window;
    struct leat_order *now = open_order(&spec);
    spec.epoch++;
    struct leat_order *next = open_order(&spec);
    for (uint64_t stage = 0; stage <= leat_order_stages(now); stage++) {
        uint32_t all[180];
        size_t n = leat_order_upcoming(now, next, stage, 0, all, 180);
        size_t expect = 0;
        for (uint32_t p = 0; p < 90; p++) {
            uint64_t first, last;
            assert_true(leat_order_uses(now, leat_order_chunk_at(now, p), &first, &last));
            if (last >= stage)
                assert_int_equal(all[expect++], leat_order_chunk_at(now, p));
        }
        for (uint32_t p = 0; p < 90; p++)
            assert_int_equal(all[expect++], leat_order_chunk_at(next, p));
        assert_int_equal(n, expect);
        for (size_t skip = 0; skip <= n; skip += 13) {
            uint32_t some[5];
            size_t m = leat_order_upcoming(now, next, stage, skip, some, 5);
            assert_int_equal(m, n - skip < 5 ? n - skip : 5);
            assert_memory_equal(some, all + skip, m * sizeof *some);
        }
    }
    leat_order_close(next);
    leat_order_close(now);
    free(counts);
}

TEST(upcoming_lists_live_chunks_then_those_to_come_then_the_next_epoch)
{
    check_upcoming(16);
    check_upcoming(300); /* more than there are chunks */
}
