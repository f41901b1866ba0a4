/* Memory runs out at every single allocation of building chunks and snapshots and of reading a dataset: a clean error
 * each time, nothing leaked, and never a chunk that lacks something. */

#include "dataset/chunk.h"
#include "dataset/classes.h"
#include "dataset/dataset.h"
#include "dataset/index.h"
#include "dataset/learn.h"
#include "dataset/pack.h"
#include "dataset/snapshot.h"
#include "fail_alloc.h"
#include "store_bench.h"
#include "unit.h"

static leat_status add_samples(struct leat_chunk_builder *b, uint32_t first, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = first; rc == LEAT_OK && i < first + 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        struct leat_value value = {.data = key, .size = strlen(key)};
        rc = leat_chunk_builder_add(b, key, strlen(key), &value, err);
    }
    return rc;
}

static leat_status make_snapshot(void *user, struct leat_error *err)
{
    (void)user;
    static const uint8_t pack[LEAT_PACK_ID_BYTES] = "x";
    struct leat_schema schema = {0};
    struct leat_chunk_builder *b = NULL;
    struct leat_snapshot *s = NULL;
    struct leat_snapshot_files files = {0};
    struct leat_buf bytes;
    uint8_t sha[LEAT_SHA256_SIZE] = {0};
    leat_buf_init(&bytes, 1 << 20);
    leat_status rc = leat_schema_add(&schema, "data", LEAT_FIELD_BYTES, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_chunk_builder_open(&schema, &b, err);
    if (rc == LEAT_OK)
        rc = leat_snapshot_open(10, 100, &s, err); /* goes through a file, too */
    for (uint32_t c = 0; rc == LEAT_OK && c < 2; c++) {
        struct leat_chunk chunk;
        rc = add_samples(b, 20 * c, err);
        if (rc != LEAT_OK)
            assert_int_not_equal(leat_chunk_builder_finish(b, pack, c, 2, &bytes, NULL), LEAT_OK);
        if (rc == LEAT_OK)
            rc = leat_chunk_builder_finish(b, pack, c, 2, &bytes, err);
        if (rc == LEAT_OK)
            rc = leat_chunk_read(bytes.data, bytes.len, &chunk, err);
        if (rc == LEAT_OK)
            rc = leat_snapshot_add(s, &chunk, sha, err);
    }
    if (rc == LEAT_OK) {
        rc = leat_snapshot_write((const struct leat_snapshot *const *)&s, 1, &files, err);
        leat_snapshot_files_free(&files);
    }
    leat_snapshot_close(s);
    leat_chunk_builder_close(b);
    leat_buf_free(&bytes);
    return rc;
}

TEST(chunks_and_snapshots)
{
    assert_true(fail_alloc_each(make_snapshot, NULL) > 20);
}

static leat_status read_classes(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_schema schema = {0};
    struct leat_classes list = {0};
    struct leat_classes taken = {0};
    leat_status rc = leat_classes_read("a\nb\nc\n", 6, &list, err);
    if (rc == LEAT_OK)
        rc = leat_schema_add(&schema, "cls", LEAT_FIELD_INT, "{\"names\": [\"a\", \"b\"]}", err);
    if (rc == LEAT_OK)
        rc = leat_classes_of(&schema, &taken, err);
    leat_classes_close(&list);
    leat_classes_close(&taken);
    return rc;
}

TEST(lists_of_classes)
{
    assert_true(fail_alloc_each(read_classes, NULL) > 5);
}

static leat_status read_dataset(void *user, struct leat_error *err)
{
    struct leat_dataset *d = NULL;
    struct leat_chunk chunk;
    void *data = NULL;
    uint8_t row[64];
    struct leat_buf key;
    leat_buf_init(&key, 100);
    leat_status rc = leat_dataset_open(user, NULL, NULL, &d, err);
    if (rc == LEAT_OK)
        rc = leat_dataset_load(d, 0, &data, &chunk, err);
    if (rc == LEAT_OK)
        assert_int_equal(chunk.samples, 20);
    if (rc == LEAT_OK)
        rc = leat_dataset_row(d, 19, row, err);
    if (rc == LEAT_OK)
        rc = leat_dataset_key(d, 19, &key, err);
    if (rc == LEAT_OK && key.full)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a key");
    if (rc == LEAT_OK)
        assert_string_equal(key.data, "19");
    free(data);
    leat_buf_free(&key);
    leat_dataset_close(d);
    return rc;
}

TEST(reading_a_dataset)
{
    char folder[64];
    struct leat_home home;
    struct leat_error err;
    struct leat_schema schema = {0};
    struct leat_pack *pack;
    uint8_t id[LEAT_SHA256_SIZE];
    folder_make(folder);
    assert_ok(leat_home_open(folder, NULL, &home, &err), err);
    assert_ok(leat_schema_add(&schema, "data", LEAT_FIELD_BYTES, NULL, &err), err);
    struct leat_pack_opts opts = {.schema = &schema, .chunk_bytes = 1 << 20, .id = "pack"};
    assert_ok(leat_pack_open(&home, &opts, &pack, &err), err);
    for (uint32_t i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        struct leat_value value = {.data = key, .size = strlen(key)};
        assert_ok(leat_pack_add(pack, key, strlen(key), &value, &err), err);
    }
    assert_ok(leat_pack_finish(pack, id, &err), err);
    leat_pack_close(pack);
    leat_home_close(&home);
    assert_true(fail_alloc_each(read_dataset, folder) > 15);
    folder_remove(folder);
}

#define INDEXED 20u

/* Indexes the folder's files, each of which holds its own number. */
static leat_status index_files(void *user, struct leat_error *err)
{
    static const struct leat_publish_opts publish = {.replace = true};
    const char *folder = user;
    struct leat_home home = {0};
    struct leat_schema schema = {0};
    struct leat_index *x = NULL;
    struct leat_recipe_builder *b = NULL;
    uint8_t id[LEAT_SHA256_SIZE];
    uint32_t source = 0;
    leat_status rc = leat_home_open(folder, NULL, &home, err);
    if (rc == LEAT_OK)
        rc = leat_schema_add(&schema, "data", LEAT_FIELD_BYTES, NULL, err);
    struct leat_index_opts opts = {.schema = &schema, .id = "index", .publish = publish, .memory = 100};
    if (rc == LEAT_OK)
        rc = leat_index_open(&home, &opts, &x, err);
    if (rc == LEAT_OK)
        rc = leat_index_source(x, folder, &source, err);
    if (rc == LEAT_OK)
        rc = leat_recipe_builder_open(&schema, &b, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < INDEXED; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        struct leat_value value = {.elsewhere = true, .size = strlen(key)};
        struct leat_recipe_place place = {
            .key = path_in(folder, key), .length = value.size, .object_bytes = value.size};
        rc = leat_recipe_place(b, &place, &value.at, err);
        if (rc == LEAT_OK)
            rc = leat_recipe_add(b, key, strlen(key), &value, err);
        if (rc == LEAT_OK && i == INDEXED - 1)
            rc = leat_index_put(x, b, source, 0, 0, err);
    }
    if (rc == LEAT_OK)
        rc = leat_index_finish(x, id, err);
    leat_recipe_builder_close(b);
    leat_index_close(x);
    leat_home_close(&home);
    return rc;
}

static leat_status learn_sums(void *user, struct leat_error *err)
{
    struct leat_dataset *d = NULL;
    struct leat_chunk chunk;
    void *data = NULL;
    uint32_t n = 0;
    leat_status rc = leat_dataset_open(user, NULL, NULL, &d, err);
    if (rc == LEAT_OK)
        rc = leat_dataset_load(d, 0, &data, &chunk, err);
    if (rc == LEAT_OK)
        rc = leat_learn(d, &n, err);
    if (rc == LEAT_OK)
        assert_int_equal(n + (leat_dataset_root(d)->sums[0] != 0), 1);
    free(data);
    leat_dataset_close(d);
    return rc;
}

TEST(indexing_and_reading_an_index)
{
    char folder[64];
    struct leat_error err;
    folder_make(folder);
    for (uint32_t i = 0; i < INDEXED; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        FILE *f = fopen(path_in(folder, key), "w");
        assert_non_null(f);
        fputs(key, f);
        fclose(f);
    }
    assert_true(fail_alloc_each(index_files, folder) > 30);
    assert_ok(index_files(folder, &err), err);
    assert_true(fail_alloc_each(read_dataset, folder) > 20);
    assert_true(fail_alloc_each(learn_sums, folder) > 20);
    folder_remove(folder);
}
