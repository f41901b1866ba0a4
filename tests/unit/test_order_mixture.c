/* Mixtures: proportions, counts and parts. */
#include "order/mixture.h"

#include <math.h>

#include "base/random.h"
#include "unit.h"

static struct leat_mixture *open_shares(const uint32_t *shares, uint32_t n)
{
    struct leat_mixture_part part = {0};
    struct leat_mixture *m = NULL;
    struct leat_error err;
    memcpy(part.shares, shares, n * sizeof *shares);
    assert_ok(leat_mixture_open(n, &part, 1, &m, &err), err);
    return m;
}

/* Every beginning has the proportions to within one unit, every window to within two, and a period exactly. */
static void check_even(const uint32_t *shares, uint32_t n)
{
    struct leat_mixture *m = open_shares(shares, n);
    uint64_t period = 0;
    uint64_t taken[LEAT_ORDER_STREAMS_MAX] = {0};
    double least[LEAT_ORDER_STREAMS_MAX] = {0};
    double most[LEAT_ORDER_STREAMS_MAX] = {0};
    for (uint32_t s = 0; s < n; s++)
        period += shares[s];
    for (uint64_t t = 0; t < 2 * period + 5; t++) {
        uint8_t stream;
        uint64_t counts[LEAT_ORDER_STREAMS_MAX];
        leat_mixture_counts(m, t, counts);
        assert_memory_equal(counts, taken, n * sizeof *counts);
        leat_mixture_read(m, t, &stream, 1);
        assert_true(stream < n && shares[stream]);
        taken[stream]++;
        for (uint32_t s = 0; s < n; s++) {
            double off = (double)taken[s] - (double)(t + 1) * shares[s] / (double)period;
            assert_true(fabs(off) < 1);
            least[s] = off < least[s] ? off : least[s];
            most[s] = off > most[s] ? off : most[s];
            assert_true(most[s] - least[s] < 2);
            if ((t + 1) % period == 0)
                assert_true(taken[s] == (t + 1) / period * shares[s]);
        }
    }
    leat_mixture_close(m);
}

TEST(test_even)
{
    check_even((uint32_t[]){1}, 1);
    check_even((uint32_t[]){7, 3}, 2);
    check_even((uint32_t[]){1, 1, 1}, 3);
    check_even((uint32_t[]){500, 300, 150, 49, 1}, 5);
    check_even((uint32_t[]){0, 5, 0, 2}, 4);
    for (uint64_t k = 0; k < 200; k++) {
        uint32_t shares[12];
        struct leat_rng rng = leat_rng(leat_key("shares", 1, k, NULL, 0), 0);
        uint32_t n = 1 + (uint32_t)leat_rng_below(&rng, 12);
        for (uint32_t s = 0; s < n; s++)
            shares[s] = 1 + (uint32_t)leat_rng_below(&rng, k % 2 ? 10 : 900);
        check_even(shares, n);
    }
}

/* Reading any stretch is reading one after the other, over the ends of periods and parts. */
TEST(test_parts)
{
    struct leat_mixture_part parts[3] = {
        {.from = 0, .shares = {7, 3, 0}}, {.from = 1003, .shares = {1, 1, 1}}, {.from = 1011, .shares = {0, 1, 5}}};
    struct leat_mixture *m = NULL;
    struct leat_error err;
    assert_ok(leat_mixture_open(3, parts, 3, &m, &err), err);
    uint8_t all[5000];
    uint64_t taken[3] = {0};
    leat_mixture_read(m, 0, all, sizeof all);
    for (uint64_t t = 0; t < sizeof all; t++) {
        uint64_t counts[3];
        uint8_t some[40];
        leat_mixture_counts(m, t, counts);
        assert_memory_equal(counts, taken, sizeof counts);
        size_t n = sizeof all - t < sizeof some ? sizeof all - (size_t)t : sizeof some;
        leat_mixture_read(m, t, some, n);
        assert_memory_equal(some, all + t, n);
        taken[all[t]]++;
        assert_true(t >= 1003 || all[t] != 2);
        assert_true(t < 1011 || all[t] != 0);
    }
    assert_true(leat_mixture_share(m, 1002, 0) == 0.7 && leat_mixture_share(m, 1011, 2) == 5.0 / 6);
    uint64_t counts[3];
    leat_mixture_counts(m, 1011 + 6000000000ull, counts); /* far away, at once */
    assert_int_equal(counts[0], 702 + 3);
    assert_int_equal(counts[0] + counts[1] + counts[2], 1011 + 6000000000ull);
    leat_mixture_close(m);
}

/* The sequence is part of the order: these never change. */
TEST(test_golden)
{
    static const uint8_t three[20] = {0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 0, 1, 0, 2, 0, 1};
    static const uint8_t five[40] = {0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 0, 1, 0, 3,
                                     0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 0, 1, 0, 3};
    uint8_t got[40];
    struct leat_mixture *m = open_shares((uint32_t[]){5, 3, 2}, 3);
    leat_mixture_read(m, 0, got, 20);
    assert_memory_equal(got, three, 20);
    leat_mixture_close(m);
    m = open_shares((uint32_t[]){500, 300, 150, 49, 1}, 5);
    leat_mixture_read(m, 480, got, 40);
    assert_memory_equal(got, five, 40);
    leat_mixture_close(m);
}

TEST(test_shares)
{
    struct leat_error err;
    uint32_t shares[5];
    assert_ok(leat_mixture_shares((double[]){0.7, 0.3}, 2, shares, &err), err);
    assert_int_equal(shares[0], 7);
    assert_int_equal(shares[1], 3);
    assert_ok(leat_mixture_shares((double[]){0.123456, 0.876544}, 2, shares, &err), err);
    assert_true(shares[0] == 123456 / 64 && shares[1] == 876544 / 64);
    assert_ok(leat_mixture_shares((double[]){1.0 / 3, 1.0 / 3, 1.0 / 3}, 3, shares, &err), err);
    double sum = (double)shares[0] + shares[1] + shares[2];
    for (uint32_t s = 0; s < 3; s++)
        assert_true(fabs(shares[s] / sum - 1.0 / 3) < 2e-6);
    assert_ok(leat_mixture_shares((double[]){1 - 1e-9, 1e-9}, 2, shares, &err), err);
    assert_int_equal(shares[1], 1);
    assert_fails(leat_mixture_shares((double[]){0.7, 0.2}, 2, shares, &err), err, LEAT_INVALID, "add up to 0.9");
    assert_fails(leat_mixture_shares((double[]){1.5, -0.5}, 2, shares, &err), err, LEAT_INVALID, "-0.5");
    assert_fails(leat_mixture_shares((double[]){NAN, 1}, 2, shares, &err), err, LEAT_INVALID, "from 0 to 1");
}

TEST(test_temper)
{
    struct leat_error err;
    double w[3];
    const uint64_t units[3] = {800, 100, 100};
    assert_ok(leat_mixture_temper(units, 3, 1, w, &err), err);
    assert_true(fabs(w[0] - 0.8) < 1e-9 && fabs(w[1] - 0.1) < 1e-9);
    assert_ok(leat_mixture_temper(units, 3, 1e6, w, &err), err);
    assert_true(fabs(w[0] - w[1]) < 3e-4 && fabs(w[0] + w[1] + w[2] - 1) < 1e-12);
    assert_fails(leat_mixture_temper(units, 3, 0, w, &err), err, LEAT_INVALID, "temperature");
    assert_fails(leat_mixture_temper((uint64_t[]){0, 0}, 2, 1, w, &err), err, LEAT_INVALID, "any units");
}

TEST(test_refused)
{
    struct leat_error err;
    struct leat_mixture *m = NULL;
    struct leat_mixture_part none = {0};
    struct leat_mixture_part late = {.from = 1, .shares = {1}};
    struct leat_mixture_part twice[2] = {{.shares = {1}}, {.shares = {1}}};
    assert_fails(leat_mixture_open(2, &none, 1, &m, &err), err, LEAT_INVALID, "add up to 0");
    assert_fails(leat_mixture_open(1, &late, 1, &m, &err), err, LEAT_INVALID, "begins at 1");
    assert_fails(leat_mixture_open(1, twice, 2, &m, &err), err, LEAT_INVALID, "begins at 0");
    assert_fails(leat_mixture_open(65, &none, 1, &m, &err), err, LEAT_INVALID, "65 streams");
    assert_fails(leat_mixture_open(1, &none, 0, &m, &err), err, LEAT_INVALID, "0 parts");
}
