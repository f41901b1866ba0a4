#include "base/bytes.h"

#include "unit.h"

TEST(numbers_are_little_endian)
{
    uint8_t bytes[15];
    struct leat_writer w = leat_writer(bytes, sizeof bytes);
    leat_write_u8(&w, 0x01);
    leat_write_u16(&w, 0x0302);
    leat_write_u32(&w, 0x07060504);
    leat_write_u64(&w, 0x0f0e0d0c0b0a0908);
    assert_false(w.bad);
    assert_int_equal(w.at, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], i + 1);
    struct leat_reader r = leat_reader(bytes, sizeof bytes);
    assert_int_equal(leat_read_u8(&r), 0x01);
    assert_int_equal(leat_read_u16(&r), 0x0302);
    assert_int_equal(leat_read_u32(&r), 0x07060504);
    assert_true(leat_read_u64(&r) == 0x0f0e0d0c0b0a0908);
    assert_false(r.bad);
    assert_int_equal(leat_reader_left(&r), 0);
}

TEST(high_bits_are_not_sign_extended)
{
    uint8_t bytes[8];
    memset(bytes, 0xff, sizeof bytes);
    struct leat_reader r = leat_reader(bytes, sizeof bytes);
    assert_int_equal(leat_read_u16(&r), 0xffff);
    assert_true(leat_get_u32(bytes) == 0xffffffffu);
    assert_true(leat_get_u64(bytes) == UINT64_MAX);
    leat_put_u64(bytes, 0x80000000u);
    assert_true(leat_get_u64(bytes) == 0x80000000u);
}

/* Reads u8, u16, u32, u64 and two bytes from every possible prefix; exactly the whole one is good. */
TEST(reading_a_prefix_is_bad_at_every_length)
{
    static const uint8_t bytes[17] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    for (size_t n = 0; n <= sizeof bytes; n++) {
        uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees one byte too many */
        memcpy(exact, bytes, n);
        struct leat_reader r = leat_reader(exact, n);
        leat_read_u8(&r);
        leat_read_u16(&r);
        leat_read_u32(&r);
        leat_read_u64(&r);
        const uint8_t *rest = leat_read_bytes(&r, 2);
        assert_int_equal(r.bad, n < sizeof bytes);
        assert_true(n < sizeof bytes ? rest == NULL : rest[1] == 17);
        assert_true(r.at <= n);
        free(exact);
    }
}

TEST(after_a_bad_read_nothing_moves_and_zeros_come)
{
    static const uint8_t bytes[4] = {1, 2, 3, 4};
    struct leat_reader r = leat_reader(bytes, sizeof bytes);
    leat_read_u8(&r);
    assert_int_equal(leat_read_u32(&r), 0);
    assert_true(r.bad);
    assert_int_equal(r.at, 1);
    assert_int_equal(leat_read_u8(&r), 0); /* there would be room for it */
    assert_null(leat_read_bytes(&r, 0));
    assert_int_equal(r.at, 1);
}

TEST(a_huge_length_is_bad_and_does_not_wrap)
{
    static const uint8_t bytes[4] = {0};
    struct leat_reader r = leat_reader(bytes, sizeof bytes);
    leat_read_u16(&r);
    assert_null(leat_read_bytes(&r, SIZE_MAX));
    assert_true(r.bad);
    uint8_t out[4];
    struct leat_writer w = leat_writer(out, sizeof out);
    leat_write_u16(&w, 1);
    leat_write_bytes(&w, bytes, SIZE_MAX - 1);
    assert_true(w.bad);
    assert_int_equal(w.at, 2);
}

TEST(nothing_can_be_read_from_nothing)
{
    struct leat_reader r = leat_reader(NULL, 0);
    assert_non_null(leat_read_bytes(&r, 0)); /* no bytes are not a failure */
    assert_false(r.bad);
    leat_read_u8(&r);
    assert_true(r.bad);
    struct leat_writer w = leat_writer(NULL, 0);
    leat_write_bytes(&w, NULL, 0);
    assert_false(w.bad);
    leat_write_u8(&w, 1);
    assert_true(w.bad);
}

TEST(writing_past_the_end_leaves_the_rest_alone)
{
    uint8_t out[8];
    memset(out, 0xee, sizeof out);
    struct leat_writer w = leat_writer(out, 6);
    leat_write_u32(&w, 0);
    leat_write_u32(&w, 0);
    assert_true(w.bad);
    leat_write_u8(&w, 0);
    assert_int_equal(w.at, 4);
    for (size_t i = 4; i < sizeof out; i++)
        assert_int_equal(out[i], 0xee);
}

TEST(text_is_copied_without_looking_past_its_end)
{
    char *exact = malloc(3); /* a sanitizer sees who reads a fourth byte */
    memcpy(exact, "a\0b", 3);
    char *text = leat_bytes_text(exact, 3);
    assert_memory_equal(text, "a\0b", 4);
    free(text);
    free(exact);
    text = leat_bytes_text(NULL, 0);
    assert_string_equal(text, "");
    free(text);
}
