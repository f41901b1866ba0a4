/* Recipes: what is built is what is read, for every way in which bytes can lie elsewhere, and nothing that is damaged
 * becomes a chunk. */

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/layout.h"
#include "dataset/recipe.h"
#include "dataset/sources.h"
#include "unit.h"

static const uint8_t PACK[LEAT_PACK_ID_BYTES] = "a packing";

struct bench {
    struct leat_schema made;
    struct leat_schema schema; /* as it is read */
    struct leat_buf encoded;
    struct leat_recipe_builder *builder;
    struct leat_buf out;
    uint64_t size;
};
static struct bench bench;

static void setup(void)
{
    struct bench *b = &bench;
    struct leat_error err;
    *b = (struct bench){0};
    assert_ok(leat_schema_add(&b->made, "img", LEAT_FIELD_IMAGE, NULL, &err), err);
    assert_ok(leat_schema_add(&b->made, "text", LEAT_FIELD_STRING, NULL, &err), err);
    assert_ok(leat_schema_add(&b->made, "cls", LEAT_FIELD_INT, NULL, &err), err);
    leat_buf_init(&b->encoded, LEAT_SCHEMA_MAX);
    leat_buf_init(&b->out, LEAT_CHUNK_MAX);
    assert_ok(leat_schema_write(&b->made, &b->encoded, &err), err);
    assert_ok(leat_schema_read(b->encoded.data, b->encoded.len, &b->schema, &err), err);
    assert_ok(leat_recipe_builder_open(&b->made, &b->builder, &err), err);
}

static void teardown(void)
{
    struct bench *b = &bench;
    leat_recipe_builder_close(b->builder);
    leat_buf_free(&b->encoded);
    leat_buf_free(&b->out);
}

static uint64_t place(struct bench *b, const char *key, uint64_t offset, uint64_t length, uint64_t object_bytes,
                      const char *pin)
{
    struct leat_recipe_place p = {
        .key = key, .offset = offset, .length = length, .object_bytes = object_bytes, .pin = pin};
    struct leat_error err;
    uint64_t at = UINT64_MAX;
    assert_ok(leat_recipe_place(b->builder, &p, &at, &err), err);
    return at;
}

/* A sample whose image lies elsewhere and whose text is in the recipe. */
static void add(struct bench *b, const char *key, uint64_t at, size_t size, const char *text, int64_t cls)
{
    struct leat_value values[3] = {{.elsewhere = true, .at = at, .size = size, .image.width = 7},
                                   {.data = text, .size = strlen(text)},
                                   {.number = cls}};
    struct leat_error err;
    assert_ok(leat_recipe_add(b->builder, key, strlen(key), values, &err), err);
}

static struct leat_recipe finish(struct bench *b, struct leat_pieces *pieces)
{
    struct leat_recipe r;
    struct leat_error err;
    uint64_t expected = leat_recipe_size(b->builder);
    assert_ok(leat_recipe_finish(b->builder, 3, PACK, 5, 9, &b->out, &b->size, &err), err);
    assert_int_equal(b->size, expected);
    assert_ok(leat_recipe_read(b->out.data, b->out.len, &b->schema, &r, &err), err);
    assert_int_equal(r.lead_bytes + r.data_bytes, b->size);
    assert_int_equal(r.source, 3);
    assert_ok(leat_recipe_pieces(&r, pieces, &err), err);
    assert_int_equal(pieces->bytes, r.data_bytes);
    return r;
}

TEST_WITH(setup, teardown, a_recipe_and_its_pieces_make_a_chunk_like_any_other)
{
    struct bench *b = &bench;
    struct leat_error err;
    struct leat_pieces pieces;
    struct leat_chunk c;
    struct leat_chunk lead;
    size_t n;
    add(b, "a", place(b, "train/a.jpg", 0, 5, 5, "\"one\""), 5, "words", -4);
    add(b, "", place(b, "train/b.jpg", 0, 3, 3, NULL), 3, "", 8);
    add(b, "c", place(b, "train/c.jpg", 0, 0, 0, "\"empty\""), 0, "c", 9);
    struct leat_recipe r = finish(b, &pieces);
    assert_int_equal(r.samples, 3);
    assert_int_equal(r.data_bytes, 8);
    assert_int_equal(pieces.n, 2); /* nothing has to be fetched for an empty object */
    assert_string_equal(pieces.list[0].key, "train/a.jpg");
    assert_string_equal(pieces.list[0].pin, "\"one\"");
    assert_int_equal(pieces.list[0].object_bytes, 5);
    assert_string_equal(pieces.list[1].key, "train/b.jpg");
    assert_null(pieces.list[1].pin);
    uint8_t *chunk = malloc(b->size);
    leat_recipe_lead(&r, &b->schema, chunk);
    memcpy(chunk + r.lead_bytes, "JPEG1png", 8);
    assert_ok(leat_chunk_read(chunk, b->size, &c, &err), err);
    assert_int_equal(c.lead_bytes, r.lead_bytes);
    assert_int_equal(c.lead_bytes % 8, 0);
    assert_int_equal(c.number, 5);
    assert_int_equal(c.total, 9);
    assert_memory_equal(c.pack, PACK, sizeof c.pack);
    struct leat_cell cell = leat_chunk_cell(&c, 0, 0);
    assert_int_equal(cell.image.width, 7);
    assert_memory_equal(leat_chunk_data(&c, &cell), "JPEG1", 5);
    cell = leat_chunk_cell(&c, 1, 0);
    assert_memory_equal(leat_chunk_data(&c, &cell), "png", 3);
    cell = leat_chunk_cell(&c, 2, 0);
    assert_int_equal(cell.size, 0);
    cell = leat_chunk_cell(&c, 0, 1);
    assert_memory_equal(leat_chunk_data(&c, &cell), "words", 5);
    assert_int_equal(leat_chunk_cell(&c, 0, 2).number, -4);
    assert_memory_equal(leat_chunk_key(&c, 2, &n), "c", 1);
    /* The lead alone has rows and keys. */
    assert_ok(leat_chunk_read_lead(chunk, r.lead_bytes, &lead, &err), err);
    assert_int_equal(lead.size, b->size);
    assert_memory_equal(lead.rows, c.rows, 3 * c.schema.row_bytes);
    assert_fails(leat_chunk_read_lead(chunk, r.lead_bytes + 8, &lead, &err), err, LEAT_CORRUPT, "lead");
    for (size_t cut = 0; cut < r.lead_bytes; cut++)
        assert_int_equal(leat_chunk_read_lead(chunk, cut, &lead, &err), LEAT_CORRUPT);
    leat_pieces_free(&pieces);
    free(chunk);
}

TEST_WITH(setup, teardown, neighbours_in_one_object_are_one_piece)
{
    struct bench *b = &bench;
    struct leat_pieces pieces;
    uint64_t whole = 10u << 20;
    assert_int_equal(place(b, "s.tar", 512, 1000, whole, "\"t\""), 0);
    assert_int_equal(place(b, "s.tar", 2048, 100, whole, "\"t\""), 1536); /* a header lies between */
    assert_int_equal(place(b, "s.tar", 600, 50, whole, "\"t\""), 88);     /* inside */
    assert_int_equal(place(b, "s.tar", 2100, 100, whole, "\"t\""), 1588); /* overlaps its end */
    uint64_t end = 2200;
    assert_int_equal(place(b, "s.tar", end + LEAT_RECIPE_GAP, 8, whole, "\"t\""), end - 512 + LEAT_RECIPE_GAP);
    end += LEAT_RECIPE_GAP + 8;
    uint64_t bytes = end - 512;
    assert_int_equal(place(b, "s.tar", end + LEAT_RECIPE_GAP + 1, 8, whole, "\"t\""), bytes); /* too far */
    assert_int_equal(place(b, "s.tar", 512, 8, whole, "\"t\""), bytes + 8);                   /* before it */
    assert_int_equal(place(b, "s.tar", 520, 8, whole, "\"other\""), bytes + 16);              /* another pin */
    assert_int_equal(place(b, "t.tar", 528, 8, whole, "\"other\""), bytes + 24);              /* another object */
    add(b, "k", bytes + 24, 8, "", 0);
    finish(b, &pieces);
    assert_int_equal(pieces.n, 5);
    assert_int_equal(pieces.list[0].offset, 512);
    assert_int_equal(pieces.list[0].length, bytes);
    assert_int_equal(pieces.list[1].offset, end + LEAT_RECIPE_GAP + 1);
    assert_string_equal(pieces.list[2].key, "s.tar");
    assert_string_equal(pieces.list[3].pin, "\"other\"");
    assert_string_equal(pieces.list[4].key, "t.tar");
    assert_int_equal(pieces.list[4].object_bytes, whole);
    leat_pieces_free(&pieces);
}

TEST_WITH(setup, teardown, what_cannot_be_is_refused_when_it_is_noted)
{
    struct bench *b = &bench;
    struct leat_error err;
    uint64_t at;
    struct leat_value far[3] = {{.elsewhere = true, .at = UINT32_MAX, .size = 1}, {.data = "", .size = 0}, {0}};
    struct leat_recipe_place beyond = {.key = "x", .offset = 5, .length = 6, .object_bytes = 10};
    struct leat_recipe_place nameless = {.key = "", .length = 1, .object_bytes = 10};
    struct leat_recipe_place huge = {.key = "x", .length = 1ull << 32, .object_bytes = 1ull << 40};
    assert_fails(leat_recipe_place(b->builder, &beyond, &at, &err), err, LEAT_INVALID, "'x' has 10 bytes");
    assert_fails(leat_recipe_place(b->builder, &nameless, &at, &err), err, LEAT_INVALID, "key");
    assert_fails(leat_recipe_place(b->builder, &huge, &at, &err), err, LEAT_LIMIT, "4 GiB");
    assert_fails(leat_recipe_add(b->builder, "k", 1, far, &err), err, LEAT_LIMIT, "'img'");
    far[0].at = 4;
    assert_ok(leat_recipe_add(b->builder, "k", 1, far, &err), err);
    place(b, "x", 0, 4, 10, NULL);
    assert_fails(leat_recipe_finish(b->builder, 0, PACK, 0, 1, &b->out, &b->size, &err), err, LEAT_INVALID,
                 "byte 5 of the pieces");
    /* The whole chunk counts, not only what the recipe holds. */
    place(b, "y", 0, UINT32_MAX - 4000, 1ull << 33, NULL);
    struct leat_value large[3] = {{.elsewhere = true, .at = 0, .size = 1}, {.data = b->encoded.data, .size = 0}, {0}};
    char text[4096] = "";
    large[1].data = text;
    large[1].size = sizeof text;
    assert_fails(leat_recipe_add(b->builder, "k", 1, large, &err), err, LEAT_LIMIT, "4 GiB");
}

TEST_WITH(setup, teardown, a_stored_chunk_holds_all_of_its_values)
{
    struct bench *b = &bench;
    struct leat_chunk_builder *chunk;
    struct leat_error err;
    struct leat_value values[3] = {{.elsewhere = true, .at = 0, .size = 4}, {.data = "", .size = 0}, {0}};
    assert_ok(leat_chunk_builder_open(&b->made, &chunk, &err), err);
    assert_ok(leat_chunk_builder_add(chunk, "k", 1, values, &err), err);
    assert_fails(leat_chunk_builder_finish(chunk, PACK, 0, 1, &b->out, &err), err, LEAT_INVALID,
                 "must hold all of its values");
    leat_chunk_builder_close(chunk);
}

/* What may be read of bytes that are not a recipe: an error, or a recipe that can be followed. */
static leat_status follow(const struct bench *b, const void *data, size_t n, struct leat_error *err)
{
    struct leat_recipe r;
    struct leat_pieces pieces;
    leat_status rc = leat_recipe_read(data, n, &b->schema, &r, err);
    if (rc != LEAT_OK)
        return rc;
    uint8_t *lead = malloc(r.lead_bytes);
    uint64_t bytes = 0;
    leat_recipe_lead(&r, &b->schema, lead);
    assert_ok(leat_recipe_pieces(&r, &pieces, err), *err);
    for (uint32_t i = 0; i < pieces.n; i++) {
        assert_true(strlen(pieces.list[i].key) > 0);
        bytes += pieces.list[i].length;
    }
    assert_int_equal(bytes, r.data_bytes);
    leat_pieces_free(&pieces);
    free(lead);
    return LEAT_OK;
}

TEST_WITH(setup, teardown, a_damaged_recipe_is_corrupt_or_harmless_at_every_byte)
{
    struct bench *b = &bench;
    struct leat_pieces pieces;
    struct leat_error err;
    add(b, "a", place(b, "train/a.jpg", 0, 5, 5, "\"one\""), 5, "words", 4);
    add(b, "b", place(b, "train/b.jpg", 2, 3, 9, NULL), 3, "", 8);
    finish(b, &pieces);
    leat_pieces_free(&pieces);
    for (size_t cut = 0; cut < b->out.len; cut++)
        assert_int_equal(follow(b, b->out.data, cut, &err), LEAT_CORRUPT);
    for (size_t at = 0; at < b->out.len; at++) {
        static const uint8_t flips[] = {0x01, 0x80, 0xff};
        for (size_t k = 0; k < COUNT(flips); k++) {
            b->out.data[at] = (char)(b->out.data[at] ^ flips[k]);
            leat_status rc = follow(b, b->out.data, b->out.len, &err);
            assert_true(rc == LEAT_OK || rc == LEAT_CORRUPT || rc == LEAT_VERSION);
            b->out.data[at] = (char)(b->out.data[at] ^ flips[k]);
        }
    }
    leat_put_u64(b->out.data + LAYOUT_NEEDS_AT, 4);
    assert_fails(follow(b, b->out.data, b->out.len, &err), err, LEAT_VERSION, "the recipe needs a newer Leat");
}

TEST_WITH(setup, teardown, a_builder_is_empty_after_it_was_finished)
{
    struct bench *b = &bench;
    struct leat_pieces first;
    struct leat_pieces second;
    uint8_t sha[2][LEAT_SHA256_SIZE];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(leat_recipe_samples(b->builder), 0);
        add(b, "a", place(b, "a.jpg", 0, 5, 5, "\"one\""), 5, "words", 4);
        finish(b, i ? &second : &first);
        leat_sha256(b->out.data, b->out.len, sha[i]);
    }
    assert_memory_equal(sha[0], sha[1], sizeof sha[0]);
    leat_pieces_free(&first);
    leat_pieces_free(&second);
}

TEST(a_source_is_the_store_of_an_address)
{
    static const char *const cases[][2] = {
        {"s3://bucket/train/0001.jpg", "s3://bucket"},
        {"s3://bucket", "s3://bucket"},
        {"/data/x", "file:///"},
        {"file:///data/x", "file:///"},
        {"data/x", "file:///"},
        {"https://h:81/x", "https://h:81"},
    };
    struct leat_sources_list list = {0};
    struct leat_sources_list again = {0};
    struct leat_error err;
    struct leat_buf bytes;
    leat_buf_init(&bytes, LEAT_SOURCES_BYTES);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *url;
        uint32_t number;
        assert_ok(leat_source_url(cases[i][0], &url, &err), err);
        assert_string_equal(url, cases[i][1]);
        assert_ok(leat_sources_list_add(&list, url, &number, &err), err);
        assert_string_equal(list.urls[number], url);
        free(url);
    }
    assert_int_equal(list.n, 3);
    assert_ok(leat_sources_list_write(&list, &bytes, &err), err);
    assert_ok(leat_sources_list_read(bytes.data, bytes.len, &again, &err), err);
    assert_int_equal(again.n, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_string_equal(again.urls[i], list.urls[i]);
    leat_sources_list_free(&again);
    for (size_t cut = 0; cut < bytes.len; cut++) {
        assert_fails(leat_sources_list_read(bytes.data, cut, &again, &err), err, LEAT_CORRUPT, "sources");
        leat_sources_list_free(&again);
    }
    bytes.data[12] = 1; /* needs of the first */
    assert_fails(leat_sources_list_read(bytes.data, bytes.len, &again, &err), err, LEAT_VERSION, "newer Leat");
    leat_sources_list_free(&again);
    for (uint32_t i = list.n; i < LEAT_SOURCES_MAX; i++) {
        char url[32];
        uint32_t number;
        snprintf(url, sizeof url, "s3://b%u", i);
        assert_ok(leat_sources_list_add(&list, url, &number, &err), err);
    }
    uint32_t number;
    assert_fails(leat_sources_list_add(&list, "s3://more", &number, &err), err, LEAT_LIMIT, "256");
    assert_ok(leat_sources_list_add(&list, "s3://bucket", &number, &err), err);
    leat_sources_list_free(&list);
    leat_buf_free(&bytes);
}
