#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "order/state.h"

static struct leat_order_state sample(void)
{
    struct leat_order_state s = {.view = "samples",
                                 .units = 1281167,
                                 .shuffle = true,
                                 .seed = LEAT_ORDER_NUMBER_MAX,
                                 .window = LEAT_ORDER_WINDOW_MAX,
                                 .epoch = 89,
                                 .position = 1281167};
    memset(s.dataset, 0xa7, sizeof s.dataset);
    return s;
}

static void a_state_survives_the_round_trip_in_less_than_1_kb(void **state)
{
    (void)state;
    struct leat_order_state s = sample();
    struct leat_order_state back;
    char text[LEAT_ORDER_STATE_SIZE];
    for (int k = 0; k < 3; k++) {
        if (k == 1)
            s.units = s.seed = s.epoch = s.position = LEAT_ORDER_NUMBER_MAX;
        if (k == 2) /* the longest view, every byte of which needs quoting */
            memset(s.view, '"', sizeof s.view - 1);
        assert_int_equal(leat_order_state_write(&s, text, NULL), LEAT_OK);
        assert_true(strlen(text) < 1000);
        memset(&back, 0, sizeof back);
        struct leat_error err;
        if (leat_order_state_read(text, strlen(text), &back, &err) != LEAT_OK)
            fail_msg("%s", err.text);
        assert_memory_equal(&s, &back, sizeof s);
    }
}

static void a_state_begins_where_its_order_does(void **state)
{
    (void)state;
    const uint32_t counts[3] = {4, 5, 6};
    struct leat_order_spec spec = {
        .view = "samples", .counts = counts, .chunks = 3, .shuffle = true, .seed = 5, .epoch = 2, .window = 3};
    struct leat_order *o;
    assert_int_equal(leat_order_open(&spec, &o, NULL), LEAT_OK);
    struct leat_order_state s = leat_order_state(&spec, o);
    assert_true(s.units == 15 && s.seed == 5 && s.epoch == 2 && s.window == 3 && s.position == 0);
    assert_string_equal(s.view, "samples");
    leat_order_close(o);
    spec.shuffle = false;
    assert_int_equal(leat_order_open(&spec, &o, NULL), LEAT_OK);
    s = leat_order_state(&spec, o);
    assert_true(s.seed == 0 && s.window == 1);
    leat_order_close(o);
}

static void what_differs_is_named(void **state)
{
    (void)state;
    struct leat_order_state mine = sample();
    struct leat_error err;
    struct leat_order_state other = mine;
    other.epoch = 3;
    other.position = 7;
    assert_int_equal(leat_order_state_fits(&other, &mine, "the state", &err), LEAT_OK);
    const struct {
        const char *name;
        size_t offset;
    } members[] = {
        {"dataset", offsetof(struct leat_order_state, dataset)},
        {"view", offsetof(struct leat_order_state, view)},
        {"units", offsetof(struct leat_order_state, units)},
        {"shuffle", offsetof(struct leat_order_state, shuffle)},
        {"seed", offsetof(struct leat_order_state, seed)},
        {"window", offsetof(struct leat_order_state, window)},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        other = mine;
        ((uint8_t *)&other)[members[i].offset] ^= 1;
        assert_int_equal(leat_order_state_fits(&other, &mine, "rank 3", &err), LEAT_INVALID);
        assert_non_null(strstr(err.text, members[i].name));
        assert_non_null(strstr(err.text, "rank 3"));
        for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
            if (k != i)
                assert_null(strstr(err.text, members[k].name));
        }
    }
    other = mine;
    other.seed = 1;
    other.window = 2;
    assert_int_equal(leat_order_state_fits(&other, &mine, "the state", &err), LEAT_INVALID);
    assert_non_null(strstr(err.text, "seed 1 (here 9223372036854775807), window 2 (here 65536)"));
}

static void a_state_of_another_version_is_refused_by_that_name(void **state)
{
    (void)state;
    struct leat_order_state s;
    struct leat_error err;
    const char *text = "{\"order\": 2, \"something\": [\"new\"]}";
    assert_int_equal(leat_order_state_read(text, strlen(text), &s, &err), LEAT_VERSION);
    assert_non_null(strstr(err.text, "version 2"));
}

static void texts_that_are_no_state_are_refused(void **state)
{
    (void)state;
    struct leat_order_state s = sample();
    struct leat_order_state out;
    struct leat_error err;
    char text[LEAT_ORDER_STATE_SIZE];
    char bad[LEAT_ORDER_STATE_SIZE + 64];
    assert_int_equal(leat_order_state_write(&s, text, NULL), LEAT_OK);
    for (size_t n = 0; n < strlen(text); n++) /* cut anywhere */
        assert_int_equal(leat_order_state_read(text, n, &out, &err), LEAT_INVALID);
    const struct {
        const char *from, *to;
    } edits[] = {
        {"\"units\": 1281167", "\"units\": 1281166"},
        {"\"seed\": ", "\"seed\": -"},
        {"\"seed\": 9", "\"seed\": 19"},
        {"\"window\": 65536", "\"window\": 65537"},
        {"\"window\": 65536", "\"window\": 0"},
        {"\"shuffle\": true", "\"shuffle\": 1"},
        {"\"epoch\": 89", "\"epoch\": 8.5"},
        {"\"epoch\": 89", "\"epok\": 89"},
        {"\"epoch\": 89", "\"epoch\": 89, \"epoch\": 8"},
        {"\"epoch\": 89", "\"epoch\": 89, \"more\": 8"},
        {"\"a7", "\"7"},
        {"\"a7", "\"g7"},
        {"\"samples\"", "\"\""},
        {"\"samples\"", "\"sam\\u0000ples\""},
        {"{", "["},
        {"{", "{\"x\":{"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const char *at = strstr(text, edits[i].from);
        assert_non_null(at);
        snprintf(bad, sizeof bad, "%.*s%s%s", (int)(at - text), text, edits[i].to, at + strlen(edits[i].from));
        memset(&out, 0x55, sizeof out);
        struct leat_order_state untouched = out;
        assert_int_equal(leat_order_state_read(bad, strlen(bad), &out, &err), LEAT_INVALID);
        assert_memory_equal(&out, &untouched, sizeof out);
    }
    memset(bad, ' ', sizeof bad);
    memcpy(bad, text, strlen(text));
    assert_int_equal(leat_order_state_read(bad, sizeof bad, &out, &err), LEAT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_survives_the_round_trip_in_less_than_1_kb),
        cmocka_unit_test(a_state_begins_where_its_order_does),
        cmocka_unit_test(what_differs_is_named),
        cmocka_unit_test(a_state_of_another_version_is_refused_by_that_name),
        cmocka_unit_test(texts_that_are_no_state_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
