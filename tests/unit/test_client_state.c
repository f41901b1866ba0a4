/* The loader's state in the rank: the agent's text with another cursor, whatever else a later agent says. */
#include <pthread.h>

#include "base/json.h"
#include "client/state.h"
#include "unit.h"

TEST(only_the_cursor_changes)
{
    static const char text[] =
        "{\"state\": 1, \"needs\": [\"order 1\"], \"streams\": [{\"dataset\": \"ab\", \"epoch\": 3, \"view\": "
        "\"a \\\"quoted\\\" \\u00e9\", \"position\": 77, \"later\": {\"epoch\": 1}}], \"more\": [1, null]}";
    struct leat_rank_state *s;
    struct leat_error err;
    uint64_t epoch, position;
    char *out;
    json_t *a, *b;
    assert_int_equal(leat_rank_state_make(text, &s, &epoch, &position, &err), LEAT_OK);
    assert_int_equal(epoch, 3);
    assert_int_equal(position, 77);
    assert_int_equal(leat_rank_state_write(s, 3, 77, &out, &err), LEAT_OK);
    leat_json_read(text, strlen(text), 0, &a, NULL);
    leat_json_read(out, strlen(out), 0, &b, NULL);
    assert_true(json_equal(a, b));
    json_decref(b);
    free(out);
    assert_int_equal(leat_rank_state_write(s, INT64_MAX, 0, &out, &err), LEAT_OK);
    leat_json_read(out, strlen(out), 0, &b, NULL);
    json_t *stream = json_array_get(json_object_get(b, "streams"), 0);
    assert_true(json_integer_value(json_object_get(stream, "epoch")) == INT64_MAX);
    assert_int_equal(json_integer_value(json_object_get(stream, "position")), 0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(stream, "later"), "epoch")), 1);
    json_decref(a);
    json_decref(b);
    free(out);
    assert_ptr_equal(leat_rank_state_hold(s), s);
    leat_rank_state_drop(s);
    leat_rank_state_drop(s);
    leat_rank_state_drop(NULL);
}

TEST(what_is_no_state_is_refused)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "{}",
                                        "{\"streams\": []}",
                                        "{\"streams\": [{\"epoch\": 1}]}",
                                        "{\"streams\": [{\"epoch\": \"1\", \"position\": 2}]}"};
    struct leat_rank_state *s;
    struct leat_error err;
    uint64_t epoch, position;
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(leat_rank_state_make(texts[i], &s, &epoch, &position, &err), LEAT_VERSION);
}
