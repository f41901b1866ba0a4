#include "base/prefix.h"
#include "unit.h"

static void check_all(const uint32_t *counts, const uint32_t *via, uint32_t n)
{
    struct leat_prefix p;
    assert_int_equal(leat_prefix_make(counts, via, n, &p, NULL), LEAT_OK);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = counts[via ? via[i] : i];
        assert_int_equal(leat_prefix_before(&p, i), sum);
        for (uint32_t k = 0; k < count; k++)
            assert_int_equal(leat_prefix_find(&p, sum + k), i);
        sum += count;
    }
    assert_int_equal(leat_prefix_before(&p, n), sum);
    assert_int_equal(leat_prefix_total(&p), sum);
    assert_int_equal(leat_prefix_find(&p, sum), n);
    assert_int_equal(leat_prefix_find(&p, UINT64_MAX), n);
    leat_prefix_free(&p);
}

TEST(sums_and_lookups_agree_for_every_length)
{
    uint32_t counts[200];
    uint32_t via[200];
    for (uint32_t i = 0; i < 200; i++) {
        counts[i] = i * 7 % 5; /* zeros among them */
        via[i] = 199 - i;
    }
    for (uint32_t n = 0; n <= 200; n++) {
        check_all(counts, NULL, n);
        check_all(counts, via, n);
    }
}

TEST(sums_beyond_32_bits_are_exact)
{
    uint32_t counts[130];
    for (int i = 0; i < 130; i++)
        counts[i] = UINT32_MAX;
    struct leat_prefix p;
    assert_int_equal(leat_prefix_make(counts, NULL, 130, &p, NULL), LEAT_OK);
    assert_true(leat_prefix_before(&p, 129) == 129ull * UINT32_MAX);
    assert_int_equal(leat_prefix_find(&p, 129ull * UINT32_MAX - 1), 128);
    leat_prefix_free(&p);
    leat_prefix_free(&p);
}
