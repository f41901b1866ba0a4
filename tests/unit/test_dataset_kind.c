/* Types of fields: what goes into cells comes out of them, and values that cannot be are refused. */

#include <math.h>
#include <zstd.h>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/json.h"
#include "dataset/chunk.h"
#include "leat/dataset.h"
#include "unit.h"

static const uint8_t pack_id[LEAT_PACK_ID_BYTES] = "the pack id 16 b";

#define SHAPED "{\"dtype\": \"float32\", \"shape\": [null, 3, null]}"

TEST(the_table_has_a_row_for_every_type)
{
    for (uint32_t t = 1; t < LEAT_FIELD_TYPES; t++) {
        const struct leat_field_kind *kind = leat_field_kind(t);
        assert_non_null(kind);
        assert_int_equal(leat_field_type_find(kind->name, strlen(kind->name)), t);
        assert_true(kind->cell_bytes % 8 == 0 && kind->cell_bytes > 0);
        assert_true(kind->data || (!kind->zstd && !kind->typed));
    }
    assert_null(leat_field_kind(0));
    assert_null(leat_field_kind(LEAT_FIELD_TYPES));
    assert_int_equal(leat_field_type_find("byte", 4), 0);
    for (uint32_t d = LEAT_U8; d <= LEAT_BOOL; d++)
        assert_int_equal(leat_dtype_find(leat_dtype_name(d), strlen(leat_dtype_name(d))), d);
    assert_int_equal(leat_dtype_bytes(LEAT_BOOL + 1), 0);
    for (size_t i = 0; i < leat_data_types(); i++) {
        struct leat_data_type_info info = {.size = sizeof info};
        assert_int_equal(leat_data_type(i, &info, NULL), LEAT_OK);
        assert_string_equal(info.name, leat_field_type_name(info.type));
        assert_true(((info.flags & LEAT_DATA_TYPE_ZSTD) != 0) == leat_field_kind(info.type)->zstd);
    }
    assert_int_equal(leat_data_types(), LEAT_FIELD_TYPES - 1);
    struct leat_data_type_info none = {.size = sizeof none};
    assert_int_equal(leat_data_type(leat_data_types(), &none, NULL), LEAT_INVALID);
    struct leat_output_info last = {.size = sizeof last};
    assert_int_equal(leat_loader_output(leat_loader_outputs(), &last, NULL), LEAT_INVALID);
}

/* A schema of one field of every type, optional and compressed as asked. */
static struct leat_schema every_type(struct leat_field_choice choice)
{
    struct leat_schema s = {0};
    struct leat_error err;
    for (uint32_t t = 1; t < LEAT_FIELD_TYPES; t++) {
        const struct leat_field_kind *kind = leat_field_kind(t);
        struct leat_field_choice one = {choice.optional, choice.zstd && kind->zstd};
        const char *about = t == LEAT_FIELD_ARRAY ? SHAPED : t == LEAT_FIELD_TOKENS ? "{\"dtype\": \"uint16\"}" : NULL;
        assert_ok(leat_schema_add_as(&s, kind->name, (enum leat_field_type)t, about, one, &err), err);
    }
    return s;
}

/* Values of sample i for that schema; from a buffer of 4 KiB that is worth compressing when i is even. */
static void fill(uint32_t i, uint8_t room[4096], struct leat_value values[LEAT_FIELD_TYPES - 1])
{
    for (size_t k = 0; k < 4096; k++)
        room[k] = (uint8_t)(i % 2 ? (k * 2654435761u) >> 13 : k / 700);
    memset(values, 0, (LEAT_FIELD_TYPES - 1) * sizeof *values);
    for (uint32_t f = 0; f < LEAT_FIELD_TYPES - 1; f++) {
        values[f].data = room;
        values[f].size = 7 * i % 3000;
    }
    values[LEAT_FIELD_INT - 1].number = -(int64_t)i;
    values[LEAT_FIELD_FLOAT - 1].real = i / 3.0;
    values[LEAT_FIELD_JSON - 1].data =
        i % 2 ? "{\"a\": [1, 2.5e3, null]}" : "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]";
    values[LEAT_FIELD_JSON - 1].size = strlen(values[LEAT_FIELD_JSON - 1].data);
    struct leat_value *array = &values[LEAT_FIELD_ARRAY - 1];
    array->dims[0] = i % 5;
    array->dims[1] = 3;
    array->dims[2] = i % 7;
    array->size = (size_t)4 * 3 * (i % 5) * (i % 7);
    values[LEAT_FIELD_TOKENS - 1].size = 2 * (size_t)i;
}

static void check_round_trip(struct leat_field_choice choice)
{
    struct leat_schema schema = every_type(choice);
    struct leat_chunk_builder *b;
    struct leat_buf bytes;
    struct leat_chunk c;
    struct leat_error err;
    uint8_t room[4096];
    struct leat_value values[LEAT_FIELD_TYPES - 1];
    uint32_t compressed = 0;
    leat_buf_init(&bytes, 1 << 24);
    assert_ok(leat_chunk_builder_open(&schema, &b, &err), err);
    for (uint32_t i = 0; i < 40; i++) {
        fill(i, room, values);
        for (uint32_t f = 0; f < schema.n; f++)
            values[f].absent = choice.optional && (i + f) % 3 == 0;
        assert_ok(leat_chunk_builder_add(b, "k", 1, values, &err), err);
    }
    assert_ok(leat_chunk_builder_finish(b, pack_id, 0, 1, &bytes, &err), err);
    leat_chunk_builder_close(b);
    assert_ok(leat_chunk_read(bytes.data, bytes.len, &c, &err), err);
    for (uint32_t i = 0; i < 40; i++) {
        fill(i, room, values);
        for (uint32_t f = 0; f < schema.n; f++) {
            struct leat_cell cell = leat_chunk_cell(&c, i, f);
            assert_int_equal(cell.absent, choice.optional && (i + f) % 3 == 0);
            if (cell.absent)
                continue;
            assert_true(cell.number == values[f].number && cell.real == values[f].real);
            assert_memory_equal(cell.dims, values[f].dims, sizeof cell.dims);
            if (!leat_field_has_data(&c.schema.fields[f]))
                continue;
            assert_int_equal(cell.raw, values[f].size);
            assert_true(cell.zstd ? cell.size <= cell.raw - cell.raw / 20 : cell.size == cell.raw);
            compressed += cell.zstd;
            const void *data;
            void *own;
            assert_ok(leat_chunk_view(&c, &cell, &data, &own, &err), err);
            assert_memory_equal(data, values[f].data, cell.raw);
            free(own);
        }
    }
    assert_true(choice.zstd ? compressed > 30 : compressed == 0);
    leat_buf_free(&bytes);
}

TEST(a_chunk_gives_back_values_of_every_type)
{
    for (unsigned k = 0; k < 4; k++)
        check_round_trip((struct leat_field_choice){.optional = k & 1, .zstd = k & 2});
}

TEST(fields_whose_description_cannot_be_are_refused)
{
    static const struct {
        enum leat_field_type type;
        const char *about;
        const char *word;
    } rows[] = {
        {LEAT_FIELD_ARRAY, NULL, "wrong description"},
        {LEAT_FIELD_ARRAY, "{}", "wrong description"},
        {LEAT_FIELD_ARRAY, "[1]", "wrong description"},
        {LEAT_FIELD_ARRAY, "{\"dtype\": \"float32\"}", "wrong description"},
        {LEAT_FIELD_ARRAY, "{\"dtype\": \"float32\", \"shape\": [0]}", "wrong description"},
        {LEAT_FIELD_ARRAY, "{\"dtype\": \"float32\", \"shape\": [-1]}", "wrong description"},
        {LEAT_FIELD_ARRAY, "{\"dtype\": \"float32\", \"shape\": [65536, 65536]}", "wrong description"},
        {LEAT_FIELD_ARRAY, "{\"dtype\": \"float32\", \"shape\": [1,1,1,1,1,1,1,1,1]}", "wrong description"},
        {LEAT_FIELD_ARRAY, "{\"dtype\": \"float32\", \"shape\": 3}", "wrong description"},
        {LEAT_FIELD_ARRAY, "{\"dtype\": \"float8\", \"shape\": [3]}", "dtype"},
        {LEAT_FIELD_TOKENS, "{\"dtype\": \"float32\"}", "dtype"},
        {LEAT_FIELD_TOKENS, "{\"dtype\": 16}", "wrong description"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct leat_schema s = {0};
        struct leat_error err;
        assert_fails(leat_schema_add(&s, "x", rows[i].type, rows[i].about, &err), err, LEAT_INVALID, rows[i].word);
        assert_int_equal(s.n, 0);
    }
    struct leat_schema s = {0};
    struct leat_error err;
    assert_fails(leat_schema_add_as(&s, "x", LEAT_FIELD_INT, NULL, (struct leat_field_choice){.zstd = true}, &err), err,
                 LEAT_INVALID, "cannot be compressed");
}

TEST(a_dtype_to_come_leaves_the_other_fields_readable)
{
    struct leat_schema s = every_type((struct leat_field_choice){0});
    struct leat_schema back;
    struct leat_buf bytes;
    struct leat_error err;
    leat_buf_init(&bytes, LEAT_SCHEMA_MAX);
    s.fields[LEAT_FIELD_TOKENS - 1].about = "{\"dtype\": \"uint24\"}";
    s.fields[LEAT_FIELD_TOKENS - 1].about_n = (uint32_t)strlen(s.fields[LEAT_FIELD_TOKENS - 1].about);
    assert_ok(leat_schema_write(&s, &bytes, &err), err);
    assert_ok(leat_schema_read(bytes.data, bytes.len, &back, &err), err);
    assert_fails(leat_field_check(&back.fields[LEAT_FIELD_TOKENS - 1], &err), err, LEAT_VERSION, "dtype");
    assert_ok(leat_field_check(&back.fields[LEAT_FIELD_ARRAY - 1], &err), err);
    leat_buf_free(&bytes);
}

TEST(values_that_cannot_be_are_refused)
{
    struct leat_schema schema = every_type((struct leat_field_choice){.optional = true});
    struct leat_chunk_builder *b;
    struct leat_error err;
    uint8_t room[4096];
    struct leat_value good[LEAT_FIELD_TYPES - 1];
    struct leat_value v[LEAT_FIELD_TYPES - 1];
    assert_ok(leat_chunk_builder_open(&schema, &b, &err), err);
    fill(6, room, good);
    memcpy(v, good, sizeof v);
    v[LEAT_FIELD_TOKENS - 1].size = 3;
    assert_fails(leat_chunk_builder_add(b, "k", 1, v, &err), err, LEAT_INVALID, "whole tokens");
    memcpy(v, good, sizeof v);
    v[LEAT_FIELD_ARRAY - 1].dims[1] = 4;
    assert_fails(leat_chunk_builder_add(b, "k", 1, v, &err), err, LEAT_INVALID, "shape");
    memcpy(v, good, sizeof v);
    v[LEAT_FIELD_ARRAY - 1].dims[0] = UINT32_MAX;
    assert_fails(leat_chunk_builder_add(b, "k", 1, v, &err), err, LEAT_INVALID, "with its shape");
    memcpy(v, good, sizeof v);
    v[LEAT_FIELD_JSON - 1].data = "{\"a\": }";
    v[LEAT_FIELD_JSON - 1].size = 7;
    assert_fails(leat_chunk_builder_add(b, "k", 1, v, &err), err, LEAT_INVALID, "not JSON (byte 6)");
    memcpy(v, good, sizeof v);
    memset(&v[LEAT_FIELD_FLOAT - 1].real, 0xff, sizeof(double));
    assert_fails(leat_chunk_builder_add(b, "k", 1, v, &err), err, LEAT_INVALID, "NaN");
    assert_int_equal(leat_chunk_builder_samples(b), 0);
    v[LEAT_FIELD_FLOAT - 1].real = NAN;
    assert_ok(leat_chunk_builder_add(b, "k", 1, v, &err), err);
    leat_chunk_builder_close(b);
}

/* A chunk of one compressed value of 1000 bytes. */
static void make_compressed(struct leat_buf *out)
{
    static const uint8_t zeros[1000];
    struct leat_schema s = {0};
    struct leat_chunk_builder *b;
    struct leat_value value = {.data = zeros, .size = sizeof zeros};
    struct leat_error err;
    assert_ok(leat_schema_add_as(&s, "x", LEAT_FIELD_BYTES, NULL, (struct leat_field_choice){.zstd = true}, &err), err);
    assert_ok(leat_chunk_builder_open(&s, &b, &err), err);
    assert_ok(leat_chunk_builder_add(b, "", 0, &value, &err), err);
    assert_ok(leat_chunk_builder_finish(b, pack_id, 0, 1, out, &err), err);
    leat_chunk_builder_close(b);
}

TEST(damaged_compressed_values_are_corrupt)
{
    struct leat_buf bytes;
    struct leat_chunk c;
    struct leat_error err;
    uint8_t room[70000];
    leat_buf_init(&bytes, 1 << 20);
    make_compressed(&bytes);
    assert_ok(leat_chunk_read(bytes.data, bytes.len, &c, &err), err);
    struct leat_cell cell = leat_chunk_cell(&c, 0, 0);
    assert_true(cell.zstd && cell.raw == 1000);
    for (uint32_t raw = 0; raw < 70000; raw += 333) {
        cell.raw = raw;
        assert_true((leat_chunk_value(&c, &cell, room, NULL) == LEAT_OK) == (raw == 0));
    }
    cell.raw = 1000;
    for (cell.size = 0; cell.size < leat_chunk_cell(&c, 0, 0).size; cell.size++)
        assert_fails(leat_chunk_value(&c, &cell, room, &err), err, LEAT_CORRUPT, "compressed bytes");
    cell.size = leat_chunk_cell(&c, 0, 0).size;
    assert_ok(leat_chunk_value(&c, &cell, room, &err), err);
    /* Numbers that no frame of this size can become are refused before any memory is set aside for them. */
    uint8_t *row = (uint8_t *)bytes.data + (leat_chunk_row(&c, 0) - c.data);
    leat_put_u32(row + 8, LEAT_RAW_MAX);
    assert_fails(leat_chunk_read(bytes.data, bytes.len, &c, &err), err, LEAT_CORRUPT, "cannot become");
    leat_put_u32(row + 8, 1000);
    leat_put_u32(row + 12, 0);
    assert_fails(leat_chunk_read(bytes.data, bytes.len, &c, &err), err, LEAT_CORRUPT, "cannot become");
    leat_buf_free(&bytes);
}

TEST(json_is_what_the_standard_says)
{
    static const char *const good[] = {
        "0",
        "-0",
        "1.5e+10",
        "\"\"",
        "[]",
        "{}",
        " [ 1 , 2 ] ",
        "{\"a\":{\"b\":[[],{}]}}",
        "true",
        "null",
        "\"\\u00e9\\n\\\"\"",
        "\"\xc3\xa9 \xf0\x9f\x98\x80\"",
        "123456789012345678901234567890",
        "\n\t1\r ",
    };
    static const char *const bad[] = {
        "",
        " ",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "NaN",
        "tru",
        "truee",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":1,}",
        "[",
        "]",
        "{",
        "[}",
        "\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "1 2",
        "[1]]",
        "'a'",
        "\"\xff\"",
        "\"\xc3\"",
        "\"\xed\xa0\x80\"",
        "\"\xc0\x80\"",
        "\"\xf4\x90\x80\x80\"",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(leat_json_check(good[i], strlen(good[i]), NULL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(leat_json_check(bad[i], strlen(bad[i]), NULL));
    char deep[2 * LEAT_JSON_DEPTH + 2];
    memset(deep, '[', sizeof deep / 2);
    memset(deep + sizeof deep / 2, ']', sizeof deep / 2);
    assert_false(leat_json_check(deep, sizeof deep, NULL));
    assert_true(leat_json_check(deep + 1, sizeof deep - 2, NULL));
}
