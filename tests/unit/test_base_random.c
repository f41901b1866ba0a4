#include "base/random.h"

#include <math.h>

#include "unit.h"

/* Statistics run over fixed keys, so they either always pass or always fail: the limits leave room for chance once
 * and are five standard deviations. */

static double chi_square_z(const uint64_t *counts, size_t n, double expected)
{
    double x = 0;
    for (size_t i = 0; i < n; i++)
        x += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    double freedom = (double)n - 1;
    return (x - freedom) / sqrt(2 * freedom);
}

/* Known answers of the Random123 distribution: zeros, ones, and digits of pi. */
TEST(philox_has_the_published_values)
{
    static const struct {
        uint64_t key, stream, index;
        uint32_t block[4];
    } rows[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t b[4];
        leat_random_block(rows[i].key, rows[i].stream, rows[i].index, b);
        assert_memory_equal(b, rows[i].block, sizeof b);
        assert_true(leat_random_u64(rows[i].key, rows[i].stream, rows[i].index) ==
                    ((uint64_t)rows[i].block[1] << 32 | rows[i].block[0]));
    }
}

/* docs/random.md has more of them, compared by tests/py/test_random.py. */
TEST(golden_values_never_change)
{
    assert_true(leat_key("order", 0, 0, NULL, 0) == 0xd2332f77bbf2b7db);
    uint64_t key = leat_key("order", 7, 3, NULL, 0);
    assert_true(key == 0xfd8530a2abd2b1e5);
    assert_true(leat_key("augment", 1, UINT64_MAX, "abc", 3) == 0x8b98a4f837a1d3f3);
    static const uint32_t shuffled[16] = {10, 4, 3, 8, 2, 6, 9, 11, 5, 14, 7, 15, 1, 0, 12, 13};
    uint32_t v[16];
    uint64_t w[16];
    for (uint32_t i = 0; i < 16; i++)
        w[i] = v[i] = i;
    leat_shuffle_u32(key, 9, v, 16);
    leat_shuffle_u64(key, 9, w, 16);
    assert_memory_equal(v, shuffled, sizeof v);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(w[i], v[i]);
    struct leat_permutation p = leat_permutation(key, 1000003);
    assert_int_equal(leat_permute(&p, 0), 473595);
    assert_int_equal(leat_permute(&p, 142857), 536079);
}

TEST(keys_differ_in_every_argument)
{
    uint64_t keys[] = {
        leat_key("order", 1, 2, "ab", 2),          leat_key("orders", 1, 2, "ab", 2), leat_key("", 1, 2, "ab", 2),
        leat_key("order", 2, 1, "ab", 2),          leat_key("order", 0, 2, "ab", 2),  leat_key("order", 1, 2, "ab", 1),
        leat_key("order", 1, 2, "ab", 3),          leat_key("order", 1, 2, NULL, 0),  leat_key("order", 1, 0, "ab", 2),
        leat_key("order", 1ull << 32, 2, "ab", 2),
    };
    for (size_t i = 0; i < COUNT(keys); i++) {
        for (size_t j = 0; j < i; j++)
            assert_true(keys[i] != keys[j]);
    }
}

TEST(draws_are_the_blocks_in_order)
{
    struct leat_rng r = leat_rng(1, 2);
    for (uint64_t index = 0; index < 3; index++) {
        uint32_t b[4];
        leat_random_block(1, 2, index, b);
        for (int i = 0; i < 4; i++)
            assert_int_equal(leat_rng_u32(&r), b[i]);
    }
    struct leat_rng copy = r;
    assert_true(leat_rng_u64(&r) == leat_rng_u64(&copy)); /* plain data */
}

TEST(below_stays_below_and_needs_no_luck)
{
    static const uint64_t bounds[] = {1, 2, 3, 7, 1ull << 32, (1ull << 63) + 1, UINT64_MAX};
    struct leat_rng r = leat_rng(3, 4);
    for (size_t i = 0; i < COUNT(bounds); i++) {
        for (int k = 0; k < 1000; k++)
            assert_true(leat_rng_below(&r, bounds[i]) < bounds[i]);
    }
}

TEST(below_is_uniform)
{
    static const uint64_t bounds[] = {2, 3, 5, 6, 10, 100, 257, 1000};
    uint64_t counts[1000];
    for (size_t i = 0; i < COUNT(bounds); i++) {
        struct leat_rng r = leat_rng(5, bounds[i]);
        memset(counts, 0, sizeof counts);
        for (uint64_t k = 0; k < 1000 * bounds[i]; k++)
            counts[leat_rng_below(&r, bounds[i])]++;
        assert_true(fabs(chi_square_z(counts, bounds[i], 1000)) < 5);
    }
    /* Where the bound is not small beside 2^64 a careless reduction would be off by a third. */
    uint64_t n = 3ull << 62;
    struct leat_rng r = leat_rng(6, 7);
    memset(counts, 0, sizeof counts);
    for (int k = 0; k < 30000; k++)
        counts[leat_rng_below(&r, n) >> 62]++;
    assert_true(fabs(chi_square_z(counts, 3, 10000)) < 5);
}

TEST(unit_is_in_range_and_centred)
{
    struct leat_rng r = leat_rng(8, 9);
    double sum = 0;
    double squares = 0;
    const int n = 100000;
    for (int i = 0; i < n; i++) {
        double u = leat_rng_unit(&r);
        assert_true(u >= 0 && u < 1);
        assert_true(u * 0x1p53 == floor(u * 0x1p53));
        sum += u;
        squares += u * u;
    }
    assert_true(fabs(sum / n - 0.5) < 5 * sqrt(1.0 / 12 / n));
    assert_true(fabs(squares / n - 1.0 / 3) < 5 * sqrt(4.0 / 45 / n));
}

TEST(streams_and_keys_are_unrelated)
{
    /* Bits that agree between neighbouring keys, streams and indices: half of them. */
    uint64_t same[3] = {0};
    const int n = 2000;
    for (uint64_t i = 0; i < (uint64_t)n; i++) {
        uint64_t x = leat_random_u64(i, 0, 0);
        same[0] += (uint64_t)__builtin_popcountll(~(x ^ leat_random_u64(i + 1, 0, 0)));
        same[1] += (uint64_t)__builtin_popcountll(~(x ^ leat_random_u64(i, 1, 0)));
        same[2] += (uint64_t)__builtin_popcountll(~(x ^ leat_random_u64(i, 0, 1)));
    }
    for (int k = 0; k < 3; k++)
        assert_true(fabs((double)same[k] - 32.0 * n) < 5 * sqrt(16.0 * n));
}

TEST(few_elements_are_shuffled_harmlessly)
{
    uint32_t v[2] = {7, 8};
    leat_shuffle_u32(1, 1, v, 0);
    leat_shuffle_u32(1, 1, NULL, 0);
    leat_shuffle_u32(1, 1, v, 1);
    leat_shuffle_u64(1, 1, NULL, 0);
    assert_int_equal(v[0], 7);
    assert_int_equal(v[1], 8);
}

/* The number of an order of n elements among all n! of them. */
static size_t rank_of(const uint64_t *v, size_t n)
{
    size_t rank = 0;
    for (size_t i = 0; i < n; i++) {
        size_t smaller = 0;
        for (size_t j = i + 1; j < n; j++)
            smaller += v[j] < v[i];
        rank = rank * (n - i) + smaller;
    }
    return rank;
}

TEST(shuffles_and_small_permutations_give_every_order_equally_often)
{
    static const size_t factorials[] = {1, 1, 2, 6, 24, 120, 720};
    uint64_t *counts = calloc(720 * 2, sizeof *counts);
    for (size_t n = 2; n <= 6; n++) {
        memset(counts, 0, 720 * 2 * sizeof *counts);
        for (uint64_t key = 0; key < 100 * factorials[n]; key++) {
            uint64_t v[6];
            struct leat_permutation p = leat_permutation(key, n);
            for (size_t i = 0; i < n; i++)
                v[i] = leat_permute(&p, i);
            counts[720 + rank_of(v, n)]++;
            for (size_t i = 0; i < n; i++)
                v[i] = i;
            leat_shuffle_u64(key, 1000, v, n);
            counts[rank_of(v, n)]++;
        }
        assert_true(fabs(chi_square_z(counts, factorials[n], 100)) < 5);
        assert_true(fabs(chi_square_z(counts + 720, factorials[n], 100)) < 5);
    }
    free(counts);
}

TEST(permutations_hit_every_element_once_and_lead_back)
{
    static const uint64_t sizes[] = {1,   2,   3,   4,   5,   7,   8,    9,    15,   16,   17,    100,  255,
                                     256, 257, 258, 511, 512, 513, 1000, 1023, 1024, 1025, 65535, 65537};
    uint8_t *seen = malloc(70000);
    for (size_t k = 0; k < COUNT(sizes); k++) {
        for (uint64_t key = 0; key < 3; key++) {
            uint64_t n = sizes[k];
            struct leat_permutation p = leat_permutation(key, n);
            memset(seen, 0, 70000);
            for (uint64_t i = 0; i < n; i++) {
                uint64_t x = leat_permute(&p, i);
                assert_true(x < n);
                assert_int_equal(seen[x]++, 0);
                assert_true(leat_unpermute(&p, x) == i);
            }
        }
    }
    free(seen);
}

TEST(huge_permutations_lead_back)
{
    static const uint64_t sizes[] = {1ull << 32, (1ull << 32) + 1, (1ull << 33) - 1,
                                     1ull << 63, (1ull << 63) + 1, UINT64_MAX};
    struct leat_rng r = leat_rng(10, 11);
    for (size_t k = 0; k < COUNT(sizes); k++) {
        struct leat_permutation p = leat_permutation(k, sizes[k]);
        for (int i = 0; i < 2000; i++) {
            uint64_t x = leat_rng_below(&r, sizes[k]);
            assert_true(leat_permute(&p, x) < sizes[k]);
            assert_true(leat_unpermute(&p, leat_permute(&p, x)) == x);
            assert_true(leat_permute(&p, leat_unpermute(&p, x)) == x);
        }
        assert_true(leat_unpermute(&p, leat_permute(&p, sizes[k] - 1)) == sizes[k] - 1);
    }
}

/* On both sides of the border between tables and networks: where the first, the second and the last element go, how
 * far apart neighbours land, and how many elements stay where they are. */
TEST(permutations_scatter_evenly)
{
    static const uint64_t sizes[] = {10, 100, 256, 257, 400, 512, 1000};
    enum { KEYS = 20000 };
    uint64_t *where[4];
    for (int i = 0; i < 4; i++)
        where[i] = calloc(1000, sizeof **where);
    for (size_t k = 0; k < COUNT(sizes); k++) {
        uint64_t n = sizes[k];
        double fixed = 0;
        for (int i = 0; i < 4; i++)
            memset(where[i], 0, 1000 * sizeof **where);
        for (uint64_t key = 0; key < KEYS; key++) {
            struct leat_permutation p = leat_permutation(leat_random_u64(12, n, key), n);
            uint64_t first = leat_permute(&p, 0);
            uint64_t second = leat_permute(&p, 1);
            where[0][first]++;
            where[1][second]++;
            where[2][leat_permute(&p, n - 1)]++;
            where[3][(second + n - first) % n - 1]++;
            fixed += leat_permute(&p, key % n) == key % n;
        }
        for (int i = 0; i < 3; i++)
            assert_true(fabs(chi_square_z(where[i], n, (double)KEYS / (double)n)) < 5);
        assert_true(fabs(chi_square_z(where[3], n - 1, (double)KEYS / ((double)n - 1))) < 5);
        double expected = (double)KEYS / (double)n;
        assert_true(fabs(fixed - expected) < 5 * sqrt(expected));
    }
    for (int i = 0; i < 4; i++)
        free(where[i]);
}
