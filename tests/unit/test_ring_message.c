/* Typed messages: what was written is read, damage is refused, what a newer side adds is skipped unless it is needed.
 */
#include "base/bytes.h"
#include "ring/message.h"
#include "unit.h"

static leat_status open_buf(const struct leat_buf *b, enum leat_message_kind *kind, struct leat_part *p,
                            struct leat_error *err)
{
    return leat_message_open(b->data, b->len, kind, p, err);
}

static void make(struct leat_buf *b)
{
    const uint32_t numbers[] = {0, 8, 1, 4};
    leat_buf_init(b, 4096);
    leat_message_begin(b, LEAT_MESSAGE_OPEN);
    leat_message_text(b, LEAT_TAG_URL, "s3://bucket/x");
    leat_message_number(b, LEAT_TAG_UNITS, UINT64_MAX);
    leat_message_numbers(b, LEAT_TAG_NODES, numbers, COUNT(numbers));
    for (int i = 0; i < 2; i++) {
        size_t group = leat_message_group(b, LEAT_TAG_OUTPUT);
        leat_message_text(b, LEAT_TAG_NAME, i ? "y" : "x");
        leat_message_number(b, LEAT_TAG_KIND, (uint64_t)i);
        leat_message_group_end(b, group);
    }
    leat_message_text(b, LEAT_TAG_STATE, NULL);
    assert_false(b->failed);
}

TEST(what_was_written_is_read)
{
    struct leat_buf b;
    struct leat_part p, group;
    enum leat_message_kind kind;
    struct leat_error err;
    uint32_t numbers[8] = {0};
    make(&b);
    assert_int_equal(open_buf(&b, &kind, &p, &err), LEAT_OK);
    assert_int_equal(kind, LEAT_MESSAGE_OPEN);
    assert_string_equal(leat_part_text(p, LEAT_TAG_URL), "s3://bucket/x");
    assert_true(leat_part_number(p, LEAT_TAG_UNITS, 0) == UINT64_MAX);
    assert_int_equal(leat_part_numbers(p, LEAT_TAG_NODES, numbers, 2), 4);
    assert_int_equal(numbers[1], 8);
    assert_int_equal(numbers[2], 0);
    assert_true(leat_part_group(p, LEAT_TAG_OUTPUT, 1, &group));
    assert_string_equal(leat_part_text(group, LEAT_TAG_NAME), "y");
    assert_int_equal(leat_part_number(group, LEAT_TAG_KIND, 9), 1);
    assert_false(leat_part_group(p, LEAT_TAG_OUTPUT, 2, &group));
    assert_null(leat_part_text(p, LEAT_TAG_STATE));
    assert_int_equal(leat_part_number(p, LEAT_TAG_PID, 7), 7);
    assert_null(leat_part_text(p, LEAT_TAG_UNITS)); /* a number is no text */
    assert_true(leat_part_has(p, LEAT_TAG_OUTPUT));
    assert_false(leat_part_has(p, LEAT_TAG_PID));
    leat_buf_free(&b);
}

TEST(bytes_are_carried_as_they_are)
{
    static const char bytes[] = "\0a\0\xff";
    struct leat_buf b;
    struct leat_part p;
    enum leat_message_kind kind;
    struct leat_error err;
    size_t n = 9;
    leat_buf_init(&b, 4096);
    leat_message_begin(&b, LEAT_MESSAGE_KEYS);
    leat_message_bytes(&b, LEAT_TAG_ACCESS, NULL, 0);
    assert_int_equal(open_buf(&b, &kind, &p, &err), LEAT_OK);
    assert_null(leat_part_bytes(p, LEAT_TAG_ACCESS, &n));
    leat_message_bytes(&b, LEAT_TAG_ACCESS, bytes, 4);
    assert_int_equal(open_buf(&b, &kind, &p, &err), LEAT_OK);
    assert_memory_equal(leat_part_bytes(p, LEAT_TAG_ACCESS, &n), bytes, 4);
    assert_int_equal(n, 4);
    assert_null(leat_part_text(p, LEAT_TAG_ACCESS));
    leat_buf_free(&b);
}

/* At the end of a field a cut leaves a whole, shorter message; anywhere else it is damage. */
TEST(cut_message_is_refused_at_every_length)
{
    struct leat_buf b;
    struct leat_part p;
    enum leat_message_kind kind;
    struct leat_error err;
    unsigned whole = 0;
    make(&b);
    for (size_t n = 0; n < b.len; n++) {
        char *copy = malloc(n + 1); /* of its own length, so that sanitizers see a read beyond it */
        memcpy(copy, b.data, n);
        leat_status rc = leat_message_open(copy, n, &kind, &p, &err);
        assert_true(rc == LEAT_OK || rc == LEAT_INVALID);
        whole += rc == LEAT_OK;
        free(copy);
    }
    assert_int_equal(whole, 5); /* before each of its fields */
    leat_buf_free(&b);
}

TEST(unknown_parts_are_skipped_unless_they_are_needed)
{
    struct leat_part p;
    enum leat_message_kind kind;
    struct leat_error err;
    for (unsigned needed = 0; needed < 2; needed++) {
        const struct {
            uint16_t tag;
            uint8_t type;
        } odd[] = {{300, 1}, {LEAT_TAG_TEXT, 9}, {0, 2}, {LEAT_TAG_END, 4}};
        for (size_t i = 0; i < COUNT(odd); i++) {
            uint8_t bytes[64];
            struct leat_writer w = leat_writer(bytes, sizeof bytes);
            leat_write_u32(&w, LEAT_MESSAGE_STATS);
            leat_write_u16(&w, odd[i].tag);
            leat_write_u8(&w, odd[i].type);
            leat_write_u8(&w, (uint8_t)needed);
            leat_write_u32(&w, 3);
            leat_write_bytes(&w, "abc", 3);
            assert_int_equal(leat_message_open(bytes, w.at, &kind, &p, &err), needed ? LEAT_VERSION : LEAT_OK);
        }
    }
}

TEST(damaged_fields_are_refused)
{
    struct leat_part p;
    enum leat_message_kind kind;
    struct leat_error err;
    const struct {
        uint8_t type;
        uint32_t n;
        const char *bytes;
    } odd[] = {{1, 7, "1234567"}, {1, 9, "123456789"}, {2, 0, ""}, {2, 3, "abc"}, {2, 4, "a\0b"}, {3, 6, "123456"}};
    for (size_t i = 0; i < COUNT(odd); i++) {
        uint8_t bytes[64];
        struct leat_writer w = leat_writer(bytes, sizeof bytes);
        leat_write_u32(&w, LEAT_MESSAGE_STATS);
        leat_write_u16(&w, LEAT_TAG_TEXT);
        leat_write_u8(&w, odd[i].type);
        leat_write_u8(&w, 0);
        leat_write_u32(&w, odd[i].n);
        leat_write_bytes(&w, odd[i].bytes, odd[i].n);
        assert_int_equal(leat_message_open(bytes, w.at, &kind, &p, &err), LEAT_INVALID);
    }
}

TEST(groups_in_groups_have_an_end)
{
    struct leat_buf b;
    struct leat_part p;
    enum leat_message_kind kind;
    struct leat_error err;
    for (int depth = 1; depth < 6; depth++) {
        size_t groups[6];
        leat_buf_init(&b, 4096);
        leat_message_begin(&b, LEAT_MESSAGE_OPEN);
        for (int i = 0; i < depth; i++)
            groups[i] = leat_message_group(&b, LEAT_TAG_OUTPUT);
        for (int i = depth; i-- > 0;)
            leat_message_group_end(&b, groups[i]);
        assert_int_equal(open_buf(&b, &kind, &p, &err), depth <= 2 ? LEAT_OK : LEAT_INVALID);
        leat_buf_free(&b);
    }
}

TEST(a_full_buffer_is_a_failed_message)
{
    struct leat_buf b;
    leat_buf_init(&b, 40);
    leat_message_begin(&b, LEAT_MESSAGE_OPEN);
    size_t group = leat_message_group(&b, LEAT_TAG_OUTPUT);
    leat_message_text(&b, LEAT_TAG_NAME, "a name that does not fit into so little");
    leat_message_group_end(&b, group);
    assert_true(b.failed);
    leat_buf_free(&b);
}
