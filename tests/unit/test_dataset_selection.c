/* Selections: which samples count, looked up both ways, and what damaged ones say. */
#include "dataset/selection.h"

#include "base/bytes.h"
#include "base/random.h"
#include "unit.h"

#define CHUNKS 7u

static const uint32_t sizes[CHUNKS] = {1, 64, 100, 5000, 63, 65, 512};

static struct leat_buf root_bytes;
static struct leat_root root;

static void make_root(void)
{
    struct leat_error err;
    struct leat_schema schema = {0};
    struct leat_packing packings[2] = {{"first", 3}, {"second", CHUNKS - 3}};
    struct leat_root_chunk chunks[CHUNKS] = {0};
    assert_ok(leat_schema_add(&schema, "cls", LEAT_FIELD_INT, NULL, &err), err);
    for (uint32_t c = 0; c < CHUNKS; c++)
        chunks[c] = (struct leat_root_chunk){.samples = sizes[c], .size = 1000, .sum = c, .name = {(uint8_t)c}};
    struct leat_root_parts parts = {
        .schema = &schema, .packings = packings, .packings_n = 2, .chunks = chunks, .chunks_n = CHUNKS};
    leat_buf_init(&root_bytes, LEAT_ROOT_MAX);
    assert_ok(leat_root_write(&parts, &root_bytes, &err), err);
    assert_ok(leat_root_read(root_bytes.data, root_bytes.len, &root, &err), err);
}

/* How samples are chosen: by a draw, with chunks of which none and all count. */
static bool chosen(uint32_t seed, uint32_t chunk, uint32_t index)
{
    if ((seed + chunk) % 5 == 0)
        return false;
    if ((seed + chunk) % 5 == 1)
        return true;
    return leat_random_u64(seed, chunk, index) % 16 < seed % 16;
}

static struct leat_selection_files make(uint32_t seed)
{
    struct leat_error err;
    struct leat_selection_builder *b;
    struct leat_selection_files f;
    assert_ok(leat_selection_builder_open(&root, &b, &err), err);
    for (uint32_t c = 0; c < CHUNKS; c++) {
        for (uint32_t i = 0; i < sizes[c]; i++)
            leat_selection_set(b, c, i, chosen(seed, c, i));
    }
    assert_ok(leat_selection_write(b, &f, &err), err);
    leat_selection_builder_close(b);
    return f;
}

static leat_status read_copy(const void *data, size_t n, const struct leat_root *of, struct leat_selection **out,
                             struct leat_error *err)
{
    void *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    return leat_selection_read(copy, n, of, out, err);
}

TEST(every_sample_that_counts_is_found_both_ways)
{
    for (uint32_t seed = 1; seed < 60; seed++) {
        struct leat_error err;
        struct leat_root selected;
        struct leat_selection *s = NULL;
        struct leat_selection_files f = make(seed);
        assert_ok(leat_root_read(f.root.data, f.root.len, &selected, &err), err);
        assert_ok(read_copy(f.section.data, f.section.len, &selected, &s, &err), err);
        uint64_t total = 0;
        for (uint32_t c = 0; c < CHUNKS; c++) {
            uint32_t n = 0;
            for (uint32_t i = 0; i < sizes[c]; i++) {
                uint32_t rank;
                assert_int_equal(leat_selection_rank(s, c, i, &rank), chosen(seed, c, i));
                if (!chosen(seed, c, i))
                    continue;
                assert_int_equal(rank, n);
                assert_int_equal(leat_selection_index(s, c, n++), i);
            }
            assert_int_equal(leat_selection_counts(s)[c], n);
            total += n;
        }
        assert_int_equal(selected.selected, total);
        assert_int_equal(selected.samples, root.samples);
        leat_selection_free(s);
        leat_selection_files_free(&f);
    }
}

TEST(content_id_tells_selections_apart)
{
    struct leat_selection_files a = make(3);
    struct leat_selection_files b = make(3);
    struct leat_selection_files c = make(4);
    assert_memory_equal(a.pointer.id, b.pointer.id, LEAT_SHA256_SIZE);
    assert_memory_not_equal(a.pointer.id, c.pointer.id, LEAT_SHA256_SIZE);
    assert_memory_not_equal(a.pointer.id, root.id, LEAT_SHA256_SIZE);
    leat_selection_files_free(&a);
    leat_selection_files_free(&b);
    leat_selection_files_free(&c);
}

TEST(selection_of_a_selection_replaces_it)
{
    struct leat_error err;
    struct leat_root selected;
    struct leat_selection_builder *b;
    struct leat_selection_files first = make(3);
    struct leat_selection_files second;
    struct leat_selection_files plain = {0};
    assert_ok(leat_root_read(first.root.data, first.root.len, &selected, &err), err);
    for (int from = 0; from < 2; from++) {
        assert_ok(leat_selection_builder_open(from ? &selected : &root, &b, &err), err);
        leat_selection_set(b, 3, 77, true);
        assert_ok(leat_selection_write(b, from ? &second : &plain, &err), err);
        leat_selection_builder_close(b);
    }
    assert_int_equal(second.root.len, plain.root.len);
    assert_memory_equal(second.root.data, plain.root.data, plain.root.len);
    leat_selection_files_free(&first);
    leat_selection_files_free(&second);
    leat_selection_files_free(&plain);
}

TEST(empty_selection_is_refused)
{
    struct leat_error err;
    struct leat_selection_builder *b;
    struct leat_selection_files f;
    assert_ok(leat_selection_builder_open(&root, &b, &err), err);
    assert_int_equal(leat_selection_write(b, &f, &err), LEAT_INVALID);
    leat_selection_files_free(&f);
    leat_selection_builder_close(b);
}

TEST(damaged_selection_is_refused_at_every_bit_and_length)
{
    struct leat_error err;
    struct leat_root selected;
    struct leat_selection *s = NULL;
    struct leat_selection_files f = make(2);
    assert_ok(leat_root_read(f.root.data, f.root.len, &selected, &err), err);
    for (size_t n = 0; n < f.section.len; n++)
        assert_int_equal(read_copy(f.section.data, n, &selected, &s, &err), LEAT_CORRUPT);
    for (size_t bit = 0; bit < f.section.len * 8; bit++) {
        size_t at = bit / 8;
        size_t packing = at >= 48 ? (at - 48) % 24 : 0;
        bool spare = (at >= 40 && at < 48) || (at >= 48 && at < 96 && packing >= 20) || (at >= 124 && at < 128);
        f.section.data[at] = (char)(f.section.data[at] ^ 1 << bit % 8);
        leat_status rc = read_copy(f.section.data, f.section.len, &selected, &s, &err);
        if (spare) {
            assert_int_equal(rc, LEAT_OK);
            leat_selection_free(s);
        } else {
            assert_int_equal(rc, at >= 8 && at < 12 ? LEAT_VERSION : LEAT_CORRUPT);
        }
        f.section.data[at] = (char)(f.section.data[at] ^ 1 << bit % 8);
    }
    leat_selection_files_free(&f);
}

TEST(root_that_hides_its_selection_is_corrupt)
{
    struct leat_error err;
    struct leat_root out;
    struct leat_selection_files f = make(3);
    leat_put_u64((uint8_t *)f.root.data + 24, 0);
    assert_int_equal(leat_root_read(f.root.data, f.root.len, &out, &err), LEAT_CORRUPT);
    assert_non_null(strstr(err.text, "selection"));
    leat_put_u64((uint8_t *)f.root.data + 24, 1);
    leat_put_u64((uint8_t *)f.root.data + 120, root.samples + 1);
    assert_int_equal(leat_root_read(f.root.data, f.root.len, &out, &err), LEAT_CORRUPT);
    leat_put_u64((uint8_t *)root_bytes.data + 24, 1);
    assert_int_equal(leat_root_read(root_bytes.data, root_bytes.len, &out, &err), LEAT_CORRUPT);
    leat_put_u64((uint8_t *)root_bytes.data + 24, 0);
    leat_selection_files_free(&f);
}

static void begin(void)
{
    make_root();
}

static void end(void)
{
    leat_buf_free(&root_bytes);
}

TEST_GROUP(begin, end);
