#include "base/buf.h"

#include "unit.h"

TEST(an_empty_buffer_is_an_empty_string)
{
    struct leat_buf b;
    leat_buf_init(&b, 10);
    assert_string_equal(b.data, "");
    assert_int_equal(b.len, 0);
    char *taken = leat_buf_take(&b);
    assert_string_equal(taken, "");
    free(taken);
    leat_buf_free(&b);
    leat_buf_free(NULL);
}

TEST(appends_add_up)
{
    struct leat_buf b;
    leat_buf_init(&b, 100);
    assert_true(leat_buf_str(&b, "one"));
    assert_true(leat_buf_char(&b, ' '));
    assert_true(leat_buf_add(&b, "t\0o", 3));
    assert_true(leat_buf_printf(&b, " %d%s", 3, "!"));
    assert_true(leat_buf_printf(&b, "%s", "")); /* nothing is not a failure */
    assert_int_equal(b.len, 10);
    assert_memory_equal(b.data, "one t\0o 3!", 11); /* with the NUL after it */
    leat_buf_free(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
}

/* Every way to append, at every distance from the maximum: it fits exactly or leaves the buffer as it was. */
TEST(the_maximum_is_exact)
{
    for (size_t max = 0; max <= 6; max++) {
        for (int way = 0; way < 3; way++) {
            struct leat_buf b;
            leat_buf_init(&b, max);
            bool done = way == 0   ? leat_buf_str(&b, "abcd")
                        : way == 1 ? leat_buf_add(&b, "abcd", 4)
                                   : leat_buf_printf(&b, "%s", "abcd");
            assert_int_equal(done, max >= 4);
            assert_int_equal(b.failed, max < 4);
            assert_int_equal(b.full, max < 4);
            assert_int_equal(b.len, max >= 4 ? 4 : 0);
            assert_string_equal(b.data, max >= 4 ? "abcd" : "");
            leat_buf_free(&b);
        }
    }
}

TEST(after_a_failure_nothing_is_appended_and_nothing_taken)
{
    struct leat_buf b;
    struct leat_error err;
    leat_buf_init(&b, 4);
    assert_true(leat_buf_str(&b, "abc"));
    assert_false(leat_buf_str(&b, "de"));
    assert_false(leat_buf_char(&b, 'd')); /* would fit */
    assert_false(leat_buf_printf(&b, "d"));
    assert_string_equal(b.data, "abc");
    assert_fails(leat_buf_check(&b, "the answer", &err), err, LEAT_LIMIT, "the answer is larger than 4 bytes");
    assert_null(leat_buf_take(&b));
    assert_false(b.failed);
    assert_true(leat_buf_str(&b, "efgh")); /* taking it made it new */
    assert_ok(leat_buf_check(&b, "x", &err), err);
    leat_buf_clear(&b);
    assert_string_equal(b.data, "");
    leat_buf_free(&b);
}

TEST(clearing_forgets_a_failure_and_keeps_the_memory)
{
    struct leat_buf b;
    leat_buf_init(&b, 4);
    assert_true(leat_buf_str(&b, "abc"));
    assert_false(leat_buf_str(&b, "de"));
    char *data = b.data;
    leat_buf_clear(&b);
    assert_true(leat_buf_str(&b, "abcd"));
    assert_ptr_equal(b.data, data);
    leat_buf_free(&b);
}

TEST(a_length_near_the_end_of_the_address_space_does_not_wrap)
{
    struct leat_buf b;
    leat_buf_init(&b, SIZE_MAX);
    assert_false(leat_buf_add(&b, "x", SIZE_MAX));
    leat_buf_clear(&b);
    assert_true(leat_buf_str(&b, "abc"));
    assert_false(leat_buf_add(&b, "x", SIZE_MAX - 3));
    assert_string_equal(b.data, "abc");
    leat_buf_free(&b);
}

TEST(growing_byte_by_byte_takes_few_reallocations)
{
    struct leat_buf b;
    size_t moves = 0;
    size_t cap = 0;
    leat_buf_init(&b, 1 << 20);
    for (size_t i = 0; i < 1 << 20; i++) {
        leat_buf_char(&b, (char)('a' + i % 26));
        moves += b.cap != cap;
        cap = b.cap;
    }
    assert_int_equal(b.len, 1 << 20);
    assert_true(moves <= 20);
    assert_true(b.cap <= b.max + 1); /* never more memory than the maximum allows */
    for (size_t i = 0; i < b.len; i++)
        assert_int_equal(b.data[i], 'a' + i % 26);
    leat_buf_free(&b);
}
