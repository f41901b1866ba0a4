/* Free stretches of a file, and the table of names: compared with the plainest model of each over random steps. */
#include "cache/extents.h"

#include "base/random.h"
#include "cache/disk_index.h"
#include "cache/segment.h"
#include "unit.h"

#define UNITS 300u

TEST(extents_agree_with_a_map_of_units)
{
    struct leat_extents x;
    struct leat_extent taken[UNITS];
    bool used[UNITS] = {false};
    size_t n = 0;
    struct leat_rng r = leat_rng(1, 2);
    assert_true(leat_extents_init(&x, 0, UNITS));
    for (int step = 0; step < 20000; step++) {
        uint64_t want = 1 + leat_rng_below(&r, 20);
        if (n && leat_rng_below(&r, 2)) {
            size_t i = (size_t)leat_rng_below(&r, n);
            leat_extents_give(&x, taken[i].at, taken[i].n);
            memset(used + taken[i].at, 0, taken[i].n);
            taken[i] = taken[--n];
            continue;
        }
        /* First fit, by looking at every unit. */
        uint64_t expected = 0;
        uint64_t run = 0;
        while (expected + run < UNITS && run < want) {
            if (used[expected + run]) {
                expected += run + 1;
                run = 0;
            } else {
                run++;
            }
        }
        uint64_t at;
        bool exact = leat_rng_below(&r, 2);
        bool found = exact ? leat_extents_take_at(&x, at = expected, want) : leat_extents_take(&x, want, &at);
        assert_int_equal(found, run == want);
        if (!found)
            continue;
        assert_int_equal(at, expected);
        memset(used + at, 1, want);
        taken[n++] = (struct leat_extent){at, want};
        assert_false(leat_extents_take_at(&x, at, 1));
        assert_int_equal(x.taken, n);
    }
    while (n) {
        n--;
        leat_extents_give(&x, taken[n].at, taken[n].n);
    }
    assert_int_equal(leat_extents_longest(&x), UNITS);
    assert_int_equal(x.count, 1);
    assert_false(leat_extents_take_at(&x, UNITS - 1, 2));
    assert_false(leat_extents_take_at(&x, 5, UINT64_MAX));
    leat_extents_free(&x);
}

TEST(names_are_found_until_they_are_removed)
{
    enum { NAMES = 3000 };
    static struct leat_segment_slot slots[NAMES];
    static bool there[NAMES];
    struct leat_segment segment = {.slots = slots, .slots_n = NAMES};
    struct leat_disk_index x = {0};
    struct leat_rng r = leat_rng(3, 4);
    assert_null(leat_disk_index_find(&x, slots[0].name).segment);
    for (uint32_t i = 0; i < NAMES; i++) {
        uint64_t v = leat_rng_u64(&r) >> (i % 3 ? 0 : 58) << (i % 3 ? 0 : 58); /* many begin alike */
        memcpy(slots[i].name, &v, 8);
        memcpy(slots[i].name + 8, &i, 4);
    }
    for (int step = 0; step < 40000; step++) {
        uint32_t i = (uint32_t)leat_rng_below(&r, NAMES);
        struct leat_disk_place place = leat_disk_index_find(&x, slots[i].name);
        assert_int_equal(place.segment != NULL, there[i]);
        if (there[i]) {
            assert_int_equal(place.slot, i);
            leat_disk_index_remove(&x, slots[i].name);
        } else {
            assert_true(leat_disk_index_reserve(&x, 1));
            leat_disk_index_add(&x, (struct leat_disk_place){&segment, i});
        }
        there[i] = !there[i];
    }
    size_t n = 0;
    for (uint32_t i = 0; i < NAMES; i++)
        n += there[i];
    assert_int_equal(x.count, n);
    leat_disk_index_free(&x);
}
