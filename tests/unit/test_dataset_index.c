/* Indexing files of a folder and reading them back as a dataset, through the real file store. */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "dataset/dataset.h"
#include "dataset/index.h"
#include "dataset/pack.h"
#include "store_bench.h"
#include "unit.h"

#define FILES 23u
#define PER   5u /* in a chunk */

struct place {
    char files[64];
    char dir[64];
    struct leat_home home;
    struct leat_store *store;
    struct leat_schema schema;
};
static struct place place;

static size_t file_size(uint32_t i)
{
    return i == 7 ? 0 : 100 + 977 * i % 5000;
}

static void fill(uint32_t i, uint8_t *data)
{
    for (size_t k = 0; k < file_size(i); k++)
        data[k] = (uint8_t)(i * 31 + k);
}

static const char *file_path(const struct place *p, uint32_t i)
{
    char name[16];
    snprintf(name, sizeof name, "%03u.bin", i);
    return path_in(p->files, name);
}

static void setup(void)
{
    struct place *p = &place;
    struct leat_error err;
    *p = (struct place){0};
    folder_make(p->files);
    folder_make(p->dir);
    assert_ok(leat_home_open(p->dir, NULL, &p->home, &err), err);
    p->store = bench_open_files();
    assert_ok(leat_schema_add(&p->schema, "data", LEAT_FIELD_BYTES, NULL, &err), err);
    assert_ok(leat_schema_add(&p->schema, "cls", LEAT_FIELD_INT, NULL, &err), err);
    for (uint32_t i = 0; i < FILES; i++) {
        uint8_t data[8192];
        fill(i, data);
        write_file(file_path(p, i), data, file_size(i));
    }
}

static void teardown(void)
{
    struct place *p = &place;
    leat_home_close(&p->home);
    leat_store_close(p->store);
    folder_remove(p->dir);
    folder_remove(p->files);
}

static void add_file(struct place *p, struct leat_recipe_builder *b, uint32_t i, bool pinned)
{
    struct leat_object object;
    struct leat_error err;
    struct leat_value values[2] = {{.elsewhere = true, .size = file_size(i)}, {.number = i}};
    char key[16];
    snprintf(key, sizeof key, "k%u", i);
    assert_ok(leat_store_stat(p->store, file_path(p, i), &object, &err), err);
    struct leat_recipe_place where = {
        .key = file_path(p, i), .length = object.size, .object_bytes = object.size, .pin = pinned ? object.etag : NULL};
    assert_ok(leat_recipe_place(b, &where, &values[0].at, &err), err);
    assert_ok(leat_recipe_add(b, key, strlen(key), values, &err), err);
}

static uint64_t sum_of(uint32_t first)
{
    uint8_t all[PER * 8192];
    size_t n = 0;
    for (uint32_t i = first; i < first + PER && i < FILES; i++) {
        fill(i, all + n);
        n += file_size(i);
    }
    return leat_xxh3(all, n);
}

static void index_all(struct place *p, bool pinned, bool summed)
{
    struct leat_index_opts opts = {.schema = &p->schema, .id = "index", .publish.replace = true};
    struct leat_index *x;
    struct leat_recipe_builder *b;
    struct leat_error err;
    uint8_t id[LEAT_SHA256_SIZE];
    uint32_t source;
    uint32_t chunk = 0;
    assert_ok(leat_index_open(&p->home, &opts, &x, &err), err);
    assert_ok(leat_index_source(x, p->files, &source, &err), err);
    assert_ok(leat_recipe_builder_open(&p->schema, &b, &err), err);
    for (uint32_t i = 0; i < FILES; i++) {
        add_file(p, b, i, pinned);
        if (i % PER == PER - 1 || i == FILES - 1) {
            assert_ok(leat_index_put(x, b, source, chunk, summed ? sum_of(chunk * PER) : 0, &err), err);
            chunk++;
        }
    }
    assert_ok(leat_index_finish(x, id, &err), err);
    leat_recipe_builder_close(b);
    leat_index_close(x);
}

static struct leat_dataset *open_dataset(const struct place *p)
{
    struct leat_dataset *d;
    struct leat_error err;
    assert_ok(leat_dataset_open(p->dir, NULL, NULL, &d, &err), err);
    return d;
}

static void check_chunk(struct leat_dataset *d, uint32_t c)
{
    struct leat_error err;
    struct leat_chunk chunk;
    void *bytes;
    assert_ok(leat_dataset_load(d, c, &bytes, &chunk, &err), err);
    for (uint32_t i = 0; i < chunk.samples; i++) {
        uint8_t data[8192];
        uint32_t number = c * PER + i;
        struct leat_cell cell = leat_chunk_cell(&chunk, i, 0);
        fill(number, data);
        assert_int_equal(cell.size, file_size(number));
        assert_memory_equal(leat_chunk_data(&chunk, &cell), data, cell.size);
        assert_int_equal(leat_chunk_cell(&chunk, i, 1).number, number);
    }
    free(bytes);
}

TEST_WITH(setup, teardown, files_that_stay_where_they_are_are_a_dataset)
{
    struct place *p = &place;
    struct leat_error err;
    uint64_t sample;
    uint64_t count;
    struct leat_buf key;
    leat_buf_init(&key, 100);
    index_all(p, true, true);
    struct leat_dataset *d = open_dataset(p);
    const struct leat_root *root = leat_dataset_root(d);
    assert_true(leat_root_indexed(root));
    assert_int_equal(root->samples, FILES);
    assert_int_equal(root->chunks, (FILES + PER - 1) / PER);
    for (uint32_t c = 0; c < root->chunks; c++) {
        assert_int_equal(root->sums[c], sum_of(c * PER));
        check_chunk(d, c);
    }
    assert_ok(leat_dataset_find(d, "k11", 3, &sample, &count, &err), err);
    assert_int_equal(sample, 11);
    assert_ok(leat_dataset_key(d, 7, &key, &err), err);
    assert_string_equal(key.data, "k7");
    for (uint32_t i = 0; i < root->sections_n; i++)
        assert_ok(leat_dataset_check_section(d, &root->sections[i], &err), err);
    assert_int_equal(leat_dataset_sources(d)->n, 1);
    assert_string_equal(leat_dataset_sources(d)->urls[0], "file:///");
    leat_buf_free(&key);
    leat_dataset_close(d);
}

/* Chunk 1 holds file 6. */
static void replace_file(struct place *p, size_t n)
{
    uint8_t data[8192] = {0};
    write_file(file_path(p, 6), data, n);
}

static void load_fails(struct leat_dataset *d, leat_status status, const char *says)
{
    struct leat_error err;
    struct leat_chunk chunk;
    void *bytes;
    assert_fails(leat_dataset_load(d, 1, &bytes, &chunk, &err), err, status, says);
    assert_non_null(strstr(err.text, "index it again"));
    check_chunk(d, 0);
}

TEST_WITH(setup, teardown, a_changed_object_is_named_and_never_mixed_in)
{
    struct place *p = &place;
    index_all(p, true, false);
    struct leat_dataset *d = open_dataset(p);
    replace_file(p, file_size(6)); /* as long as before: the pin tells */
    load_fails(d, LEAT_CHANGED, "006.bin");
    replace_file(p, file_size(6) + 1);
    load_fails(d, LEAT_CHANGED, "006.bin");
    unlink(file_path(p, 6));
    load_fails(d, LEAT_NOT_FOUND, "006.bin");
    leat_dataset_close(d);
}

TEST_WITH(setup, teardown, without_pins_lengths_tell)
{
    struct place *p = &place;
    index_all(p, false, false);
    struct leat_dataset *d = open_dataset(p);
    replace_file(p, file_size(6) + 1);
    load_fails(d, LEAT_CHANGED, "006.bin");
    replace_file(p, file_size(6) - 1);
    load_fails(d, LEAT_CHANGED, "006.bin");
    leat_dataset_close(d);
}

TEST_WITH(setup, teardown, without_pins_the_checksum_of_the_first_arrival_tells)
{
    struct place *p = &place;
    index_all(p, false, false);
    struct leat_dataset *d = open_dataset(p);
    check_chunk(d, 1);
    check_chunk(d, 1);
    replace_file(p, file_size(6));
    load_fails(d, LEAT_CHANGED, "005.bin");
    leat_dataset_close(d);
}

TEST_WITH(setup, teardown, without_pins_the_checksum_in_the_snapshot_tells)
{
    struct place *p = &place;
    index_all(p, false, true);
    replace_file(p, file_size(6));
    struct leat_dataset *d = open_dataset(p);
    load_fails(d, LEAT_CHANGED, "005.bin");
    leat_dataset_close(d);
}

TEST_WITH(setup, teardown, an_index_of_relative_paths_is_refused)
{
    struct place *p = &place;
    struct leat_index_opts opts = {.schema = &p->schema, .id = "index"};
    struct leat_recipe_place where = {.key = "000.bin", .length = 4, .object_bytes = 100};
    struct leat_value values[2] = {{.elsewhere = true, .size = 4}, {0}};
    struct leat_index *x;
    struct leat_recipe_builder *b;
    struct leat_error err;
    uint32_t source;
    assert_ok(leat_index_open(&p->home, &opts, &x, &err), err);
    assert_ok(leat_recipe_builder_open(&p->schema, &b, &err), err);
    assert_ok(leat_recipe_place(b, &where, &values[0].at, &err), err);
    assert_ok(leat_recipe_add(b, "k", 1, values, &err), err);
    assert_fails(leat_index_put(x, b, 0, 0, 0, &err), err, LEAT_INVALID, "no source 0");
    assert_ok(leat_index_source(x, "/tmp", &source, &err), err);
    assert_ok(leat_recipe_place(b, &where, &values[0].at, &err), err);
    assert_ok(leat_recipe_add(b, "k", 1, values, &err), err);
    assert_fails(leat_index_put(x, b, source, 0, 0, &err), err, LEAT_INVALID, "'000.bin' is relative");
    leat_recipe_builder_close(b);
    leat_index_close(x);
}

TEST_WITH(setup, teardown, a_missing_chunk_is_noticed_at_the_end)
{
    struct place *p = &place;
    struct leat_index_opts opts = {.schema = &p->schema, .id = "index"};
    struct leat_index *x;
    struct leat_recipe_builder *b;
    struct leat_error err;
    uint8_t id[LEAT_SHA256_SIZE];
    uint32_t source;
    assert_ok(leat_index_open(&p->home, &opts, &x, &err), err);
    assert_ok(leat_index_source(x, p->files, &source, &err), err);
    assert_ok(leat_recipe_builder_open(&p->schema, &b, &err), err);
    add_file(p, b, 0, true);
    assert_ok(leat_index_put(x, b, source, 1, 0, &err), err);
    assert_fails(leat_index_finish(x, id, &err), err, LEAT_NOT_FOUND, "chunk 0 is missing");
    leat_recipe_builder_close(b);
    leat_index_close(x);
}

TEST_WITH(setup, teardown, an_index_cannot_be_rebuilt)
{
    struct place *p = &place;
    uint8_t id[LEAT_SHA256_SIZE];
    struct leat_error err;
    index_all(p, true, true);
    assert_fails(leat_pack_rebuild(&p->home, NULL, 0, NULL, NULL, id, &err), err, LEAT_UNSUPPORTED, "index it again");
}
