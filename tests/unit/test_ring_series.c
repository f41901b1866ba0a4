/* An account over time: bounded, from its beginning, with nothing lost of the sums. */
#include <math.h>

#include "base/clock.h"
#include "ring/series.h"
#include "unit.h"

static struct leat_series *fresh(void)
{
    struct leat_series *s = calloc(1, sizeof *s);
    assert_non_null(s);
    return s;
}

static double at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

TEST(a_point_is_due_after_each_step)
{
    struct leat_series *s = fresh();
    struct leat_account a = {0};
    assert_true(leat_series_due(s, 5));
    leat_series_add(s, 5, &a);
    assert_false(leat_series_due(s, 5));
    assert_false(leat_series_due(s, LEAT_S + 4));
    leat_series_add(s, LEAT_S + 4, &a); /* too early: nothing */
    assert_int_equal(s->n, 1);
    assert_true(leat_series_due(s, LEAT_S + 5));
    leat_series_add(s, LEAT_S + 5, &a);
    assert_int_equal(s->n, 2);
    assert_false(leat_series_due(s, 3)); /* a clock that went back */
    free(s);
}

/* Ten days in the memory of ten minutes. */
TEST(long_series_reach_back_to_their_beginning)
{
    struct leat_series *s = fresh();
    struct leat_account a = {0};
    uint64_t now = 7 * LEAT_S;
    for (uint64_t i = 0; i < 10 * 86400; i++, now += LEAT_S) {
        leat_series_add(s, now, &a);
        assert_true(s->n >= 1 && s->n <= LEAT_SERIES_POINTS);
        a.samples += 256;
        a.wait_by_cause_ns[LEAT_WAIT_FETCH] += LEAT_S / 4;
    }
    json_t *j = leat_series_json(s, now, 1000000.0);
    const json_t *t = json_object_get(j, "t");
    const json_t *samples = json_object_get(j, "samples");
    const json_t *fetch = json_object_get(json_object_get(j, "wait_by_cause_s"), "fetch");
    size_t n = json_array_size(t);
    double step = json_number_value(json_object_get(j, "step_s"));
    assert_true(n > LEAT_SERIES_POINTS / 2 - 1);
    assert_int_equal(json_array_size(samples), n);
    assert_int_equal(json_array_size(fetch), n);
    assert_true(fabs(at(t, 0) - (1000000.0 - 864000)) < 0.01);
    assert_true(at(t, n - 1) > 1000000.0 - step - 1);
    for (size_t i = 1; i < n; i++) {
        assert_true(at(t, i) - at(t, i - 1) >= step / 2);
        assert_true(fabs((at(samples, i) - at(samples, 0)) - 256 * (at(t, i) - at(t, 0))) < 1);
        assert_true(fabs(at(fetch, i) - (at(t, i) - at(t, 0)) / 4) < 0.01);
    }
    json_decref(j);
    free(s);
}

TEST(every_row_that_is_kept_over_time_has_its_list)
{
    struct leat_series *s = fresh();
    struct leat_account a;
    uint32_t rows = 0;
    for (size_t i = 0; i < sizeof a / sizeof(uint64_t); i++)
        ((uint64_t *)(void *)&a)[i] = (i + 1) * 1000000000ull;
    leat_series_add(s, 1, &a);
    json_t *j = leat_series_json(s, 2, 50.0);
    for (size_t i = 0; i < leat_account_rows(); i++) {
        const struct leat_account_row *row = leat_account_row(i);
        const json_t *list = json_object_get(j, row->name);
        if (row->part)
            list = json_object_get(list, row->part);
        assert_int_equal(list != NULL, row->series);
        if (!list)
            continue;
        rows++;
        uint64_t value = leat_account_get(&a, row);
        assert_true(at(list, 0) == (row->unit == LEAT_UNIT_SECONDS ? (double)value / 1e9 : (double)value));
    }
    assert_true(rows > 10 && rows <= LEAT_SERIES_COLUMNS);
    json_decref(j);
    free(s);
}
