/* Outputs of numbers, arrays, tokens, JSON and bytes, from a chunk whose values are compressed; and with no memory. */
#include <math.h>

#include "agent/ask.h"
#include "agent/outputs.h"
#include "base/bytes.h"
#include "fail_alloc.h"
#include "unit.h"

#define SAMPLES 12

#define ZSTD                                                                                                           \
    (struct leat_field_choice)                                                                                         \
    {                                                                                                                  \
        .zstd = true                                                                                                   \
    }
#define OPTIONAL                                                                                                       \
    (struct leat_field_choice)                                                                                         \
    {                                                                                                                  \
        .optional = true, .zstd = true                                                                                 \
    }

/* Rows of three float32, i of them, and as many tokens. */
static leat_status make_chunk(struct leat_buf *out, struct leat_error *err)
{
    static const uint8_t pack[LEAT_PACK_ID_BYTES] = {1};
    static const float numbers[3 * SAMPLES] = {1, 2, 3};
    static const uint16_t tokens[64 * SAMPLES] = {7, 8, 9};
    struct leat_schema s = {0};
    struct leat_chunk_builder *b = NULL;
    leat_status rc = leat_schema_add_as(&s, "rows", LEAT_FIELD_ARRAY, "{\"dtype\": \"float32\", \"shape\": [null, 3]}",
                                        OPTIONAL, err);
    if (rc == LEAT_OK)
        rc = leat_schema_add_as(&s, "map", LEAT_FIELD_ARRAY, "{\"dtype\": \"uint8\", \"shape\": [null, null]}", ZSTD,
                                err);
    if (rc == LEAT_OK)
        rc = leat_schema_add_as(&s, "t", LEAT_FIELD_TOKENS, "{\"dtype\": \"uint16\"}", ZSTD, err);
    if (rc == LEAT_OK)
        rc = leat_schema_add_as(&s, "meta", LEAT_FIELD_JSON, NULL, OPTIONAL, err);
    if (rc == LEAT_OK)
        rc = leat_schema_add(&s, "n", LEAT_FIELD_INT, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_schema_add(&s, "w", LEAT_FIELD_FLOAT, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_chunk_builder_open(&s, &b, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < SAMPLES; i++) {
        struct leat_value v[6] = {
            {.absent = i == 3, .data = numbers, .size = 12 * (size_t)i, .dims = {i, 3}},
            {.data = tokens, .size = 2 * (size_t)i * 20, .dims = {i * 2, 20}},
            {.data = tokens, .size = 128 * (size_t)i},
            {.absent = i % 2, .data = "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", .size = 54},
            {.number = (int64_t)i * 100},
            {.real = i / 2.0},
        };
        rc = leat_chunk_builder_add(b, "k", 1, v, err);
    }
    if (rc == LEAT_OK)
        rc = leat_chunk_builder_finish(b, pack, 0, 1, out, err);
    leat_chunk_builder_close(b);
    return rc;
}

static struct leat_output output(const char *name, uint32_t kind, const char *field, const char *words)
{
    return (struct leat_output){sizeof(struct leat_output), name, kind, 0, field, words};
}

enum { ROWS, MAP, WIDE, META, SHORT, REAL, SIZES, THERE, RAGGED, ALL };

static void ask_all(struct leat_output asked[ALL])
{
    asked[ROWS] = output("rows", LEAT_OUTPUT_ARRAY, "rows", "pad=4 value=-1 cut default=5");
    asked[MAP] = output("map", LEAT_OUTPUT_ARRAY, "map", NULL);
    asked[WIDE] = output("wide", LEAT_OUTPUT_TOKENS, "t", "dtype=int64 pad=70 cut");
    asked[META] = output("meta", LEAT_OUTPUT_JSON, "meta", "default={\"a\": 1}");
    asked[SHORT] = output("n", LEAT_OUTPUT_INT, "n", "dtype=uint16");
    asked[REAL] = output("w", LEAT_OUTPUT_FLOAT, "w", NULL);
    asked[SIZES] = output("sizes", LEAT_OUTPUT_LENGTH, "map", NULL);
    asked[THERE] = output("there", LEAT_OUTPUT_HAS, "rows", NULL);
    asked[RAGGED] = output("t", LEAT_OUTPUT_TOKENS, "t", "dtype=int32");
}

/* Writes all samples as a batch in which nothing fits the slot. */
static leat_status write_all(const struct leat_outputs *o, const struct leat_chunk *c, struct leat_slot_view *view,
                             struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < SAMPLES; i++) {
        struct leat_sample s = {.chunk = c, .index = i, .number = i, .valid = true};
        rc = leat_outputs_write(o, view, i, &s, NULL, err);
    }
    return rc;
}

static leat_status make_batch(void *user, struct leat_error *err)
{
    struct leat_buf bytes;
    struct leat_chunk c;
    struct leat_output asked[ALL];
    struct leat_outputs o = {0};
    struct leat_kept kept[ALL][SAMPLES] = {0};
    (void)user;
    leat_buf_init(&bytes, 1 << 20);
    ask_all(asked);
    leat_status rc = make_chunk(&bytes, err);
    if (rc == LEAT_OK)
        rc = leat_chunk_read(bytes.data, bytes.len, &c, err);
    if (rc == LEAT_OK)
        rc = leat_outputs_make(asked, ALL, &c.schema, SAMPLES, 64, &o, err);
    if (rc == LEAT_OK) {
        fail_alloc_pause(true);
        struct leat_slot_view view = {.slot = calloc(1, o.slot_bytes)};
        fail_alloc_pause(false);
        for (uint32_t k = 0; k < ALL; k++)
            view.kept[k] = kept[k];
        rc = write_all(&o, &c, &view, err);
        free(view.slot);
    }
    for (uint32_t k = 0; k < ALL * SAMPLES; k++)
        free(kept[k / SAMPLES][k % SAMPLES].data);
    leat_outputs_free(&o);
    leat_buf_free(&bytes);
    return rc;
}

TEST(no_memory_is_said_wherever_it_runs_out)
{
    assert_true(fail_alloc_each(make_batch, NULL) > 50);
}

static void check_sample(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t i)
{
    const char *at[ALL];
    for (uint32_t k = 0; k < ALL; k++)
        at[k] = view->slot + o->columns[k].offset + i * o->columns[k].stride;
    float rows[12];
    memcpy(rows, at[ROWS], sizeof rows);
    for (uint32_t k = 0; k < 12; k++) {
        float stored = k < 3 ? (float)(k + 1) : 0;
        assert_true(rows[k] == (i == 3 ? 5 : k / 3 < i ? stored : -1));
    }
    assert_int_equal(leat_get_u64(at[SIZES]), 2 * i);
    assert_int_equal(leat_get_u64(at[SIZES] + 8), 20);
    uint16_t number;
    memcpy(&number, at[SHORT], sizeof number);
    assert_int_equal(number, 100 * i);
    assert_int_equal(*at[THERE], i != 3);
    float real;
    memcpy(&real, at[REAL], sizeof real);
    assert_true(real == (float)i / 2);
    assert_int_equal(leat_get_u64(at[WIDE] + 8), i ? 8 : 0);
    assert_int_equal(leat_get_u64(at[WIDE] + 8 * 69), 0);
    const uint64_t *shape = (const uint64_t *)(view->slot + leat_ring_shape_at(&o->columns[MAP], SAMPLES, i));
    assert_true(shape[0] == 2 * i && shape[1] == 20);
    assert_int_equal(view->kept[MAP][i].bytes, 40 * i);
    assert_int_equal(view->kept[RAGGED][i].bytes, 256 * i);
    if (i)
        assert_int_equal(leat_get_u32((const uint8_t *)view->kept[RAGGED][i].data + 8), 9);
    assert_int_equal(view->kept[META][i].bytes, i % 2 ? 8 : 54);
    assert_memory_equal(view->kept[META][i].data, i % 2 ? "{\"a\": 1}" : "[1, 1, 1", 8);
}

TEST(columns_hold_what_the_chunk_does)
{
    struct leat_buf bytes;
    struct leat_chunk c;
    struct leat_output asked[ALL];
    struct leat_outputs o;
    struct leat_kept kept[ALL][SAMPLES] = {0};
    struct leat_slot_view view = {0};
    struct leat_error err;
    leat_buf_init(&bytes, 1 << 20);
    ask_all(asked);
    assert_ok(make_chunk(&bytes, &err), err);
    assert_ok(leat_chunk_read(bytes.data, bytes.len, &c, &err), err);
    assert_true(leat_chunk_cell(&c, 11, 2).zstd && leat_chunk_cell(&c, 11, 1).zstd);
    assert_ok(leat_outputs_make(asked, ALL, &c.schema, SAMPLES, 64, &o, &err), err);
    view.slot = malloc(o.slot_bytes);
    memset(view.slot, 0xee, o.slot_bytes); /* what another batch has left */
    for (uint32_t k = 0; k < ALL; k++)
        view.kept[k] = kept[k];
    assert_ok(write_all(&o, &c, &view, &err), err);
    for (uint32_t i = 0; i < SAMPLES; i++)
        check_sample(&o, &view, i);
    for (uint32_t k = 0; k < ALL * SAMPLES; k++)
        free(kept[k / SAMPLES][k % SAMPLES].data);
    free(view.slot);
    leat_outputs_free(&o);
    leat_buf_free(&bytes);
}

TEST(numbers_fit_their_type_or_are_refused)
{
    static const struct {
        const char *text;
        uint32_t dtype;
        bool fits;
    } rows[] = {
        {"0", LEAT_U8, true},
        {"255", LEAT_U8, true},
        {"256", LEAT_U8, false},
        {"-1", LEAT_U8, false},
        {"-128", LEAT_I8, true},
        {"-129", LEAT_I8, false},
        {"127", LEAT_I8, true},
        {"128", LEAT_I8, false},
        {"1", LEAT_BOOL, true},
        {"2", LEAT_BOOL, false},
        {"-1", LEAT_I64, true},
        {"1.5", LEAT_I64, false},
        {"1.5", LEAT_F16, true},
        {"nan", LEAT_F32, true},
        {"-inf", LEAT_BF16, true},
        {"nan", LEAT_I32, false},
        {"", LEAT_F32, false},
        {"x", LEAT_F32, false},
        {"1 2", LEAT_F32, false},
        {"true", LEAT_U8, false},
        {"[1]", LEAT_F64, false},
        {"-5", LEAT_U64, false},
        {"9223372036854775807", LEAT_U64, true},
        {"9223372036854775808", LEAT_I64, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t to[8];
        leat_status rc = leat_ask_number(rows[i].text, strlen(rows[i].text), rows[i].dtype, to, NULL);
        assert_int_equal(rc, rows[i].fits ? LEAT_OK : LEAT_INVALID);
    }
}

TEST(words_that_cannot_be_are_refused)
{
    static const struct {
        uint32_t kind;
        const char *words;
        const char *says;
    } rows[] = {
        {LEAT_OUTPUT_INT, "pad=3", "int has no setting 'pad'"},
        {LEAT_OUTPUT_HAS, "default=1", "it has: none"},
        {LEAT_OUTPUT_ARRAY, "cut", "needs pad"},
        {LEAT_OUTPUT_ARRAY, "value=3", "needs pad"},
        {LEAT_OUTPUT_ARRAY, "pad=", "'pad=' is not valid"},
        {LEAT_OUTPUT_ARRAY, "pad=3x", "is not valid"},
        {LEAT_OUTPUT_ARRAY, "pad=0", "is not valid"},
        {LEAT_OUTPUT_ARRAY, "pad=4294967296", "is not valid"},
        {LEAT_OUTPUT_ARRAY, "pad=1x1x1x1x1x1x1x1x1", "is not valid"},
        {LEAT_OUTPUT_ARRAY, "pad=3 pad=4", "is not valid"},
        {LEAT_OUTPUT_ARRAY, "pad=3 cut=1", "is not valid"},
        {LEAT_OUTPUT_TOKENS, "dtype=", "is not valid"},
        {LEAT_OUTPUT_TOKENS, "dtype=int64 words", "tokens has no setting"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct leat_output asked = output("x", rows[i].kind, "f", rows[i].words);
        struct leat_ask ask;
        struct leat_error err;
        assert_fails(leat_ask_read(&asked, leat_output_kind_find(rows[i].kind), &ask, &err), err, LEAT_INVALID,
                     rows[i].says);
    }
}
