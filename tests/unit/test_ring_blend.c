/* The description of a mixture: read, refused, written. */
#include "ring/blend.h"

#include "fail_alloc.h"
#include "unit.h"

static const char whole[] = "{\"streams\": [{\"name\": \"a\", \"url\": \"s3://b/a\", \"view\": \"blocks=8 shift=1\"}, "
                            "{\"name\": \"b\", \"url\": "
                            "\"/x\", \"view\": null}], \"schedule\": [{\"from\": 0, \"weights\": [0.7, 0.3]}, "
                            "{\"from\": 100, \"weights\": [0, 1]}]}";

TEST(a_description_survives_the_round_trip)
{
    static const char *const texts[] = {
        whole,
        "{\"streams\": [{\"name\": \"a\", \"url\": \"x\", \"weight\": 0.1}, {\"name\": \"b\", \"url\": \"y\", "
        "\"weight\": 0.9}]}",
        "{\"streams\": [{\"name\": \"a\", \"url\": \"x\"}, {\"name\": \"b\", \"url\": \"y\"}], \"temperature\": 1.7}",
        "{\"streams\": [{\"name\": \"only\", \"url\": \"x\"}]}",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        static struct leat_blend_spec b;
        static struct leat_blend_spec again;
        struct leat_error err;
        char *text;
        assert_ok(leat_blend_read(texts[i], &b, &err), err);
        assert_ok(leat_blend_write(&b, &text, &err), err);
        assert_ok(leat_blend_read(text, &again, &err), err);
        assert_true(b.n == again.n && b.parts_n == again.parts_n && b.temperature == again.temperature);
        for (uint32_t k = 0; k < b.n; k++) {
            assert_string_equal(b.streams[k].name, again.streams[k].name);
            assert_string_equal(b.streams[k].url, again.streams[k].url);
            assert_true(!b.streams[k].view == !again.streams[k].view);
        }
        assert_memory_equal(b.parts, again.parts, b.parts_n * sizeof *b.parts);
        free(text);
        leat_blend_free(&b);
        leat_blend_free(&again);
    }
}

TEST(what_is_wrong_is_said)
{
#define TWO "{\"streams\": [{\"name\": \"a\", \"url\": \"x\"}, {\"name\": \"b\", \"url\": \"y\"}]"
    static const struct {
        const char *text;
        const char *words;
    } cases[] = {
        {"", "not a JSON object"},
        {"[]", "not a JSON object"},
        {"{}", "1 to 64 streams, not 0"},
        {"{\"streams\": []}", "1 to 64 streams, not 0"},
        {"{\"streams\": [7]}", "stream 0 of the mixture needs a \"name\""},
        {"{\"streams\": [{\"name\": \"a\"}]}", "stream 0 of the mixture needs"},
        {"{\"streams\": [{\"name\": \"a\", \"url\": \"x\", \"wieght\": 1}]}", "an unknown member \"wieght\""},
        {"{\"streams\": [{\"name\": \"a\", \"url\": \"x\", \"weight\": \"1\"}]}", "\"weight\" a number"},
        {"{\"streams\": [{\"name\": \"a\", \"url\": \"x\"}, {\"name\": \"a\", \"url\": \"y\"}]}", "two streams"},
        {TWO "}", "stream 'a' of the mixture has no weight"},
        {TWO ", \"temperature\": 0}", "a number above 0"},
        {TWO ", \"temperature\": \"hot\"}", "a number above 0"},
        {TWO ", \"temperature\": 1, \"schedule\": []}", "give one of them"},
        {TWO ", \"schedule\": []}", "1 to 256 steps, not 0"},
        {TWO ", \"schedule\": [{\"from\": -1, \"weights\": [1, 0]}]}", "needs \"from\""},
        {TWO ", \"schedule\": [{\"from\": 0, \"weights\": [1]}]}", "one for each of the 2 streams"},
        {TWO ", \"schedule\": [{\"from\": 0, \"weights\": [1, null]}]}", "a weight is not a number"},
        {TWO ", \"schedule\": [{\"form\": 0, \"weights\": [1, 0]}]}", "an unknown member \"form\""},
        {TWO ", \"tempreature\": 1}", "an unknown member \"tempreature\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct leat_blend_spec b;
        struct leat_error err;
        assert_fails(leat_blend_read(cases[i].text, &b, &err), err, LEAT_INVALID, cases[i].words);
    }
}

static leat_status round_trip(void *user, struct leat_error *err)
{
    static struct leat_blend_spec b;
    char *text = NULL;
    (void)user;
    leat_status rc = leat_blend_read(whole, &b, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_blend_write(&b, &text, err);
    leat_blend_free(&b);
    free(text);
    return rc;
}

TEST(every_allocation_may_fail)
{
    assert_true(fail_alloc_each(round_trip, NULL) >= 3);
}
