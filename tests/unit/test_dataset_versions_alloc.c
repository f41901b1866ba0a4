/* Memory runs out at every single allocation of selecting, adding, comparing and looking for garbage: a clean error
 * each time, nothing leaked, and nothing published that lacks something. */
#include "dataset/add.h"
#include "dataset/dataset.h"
#include "dataset/diff.h"
#include "dataset/filter.h"
#include "dataset/gc.h"
#include "dataset/pack.h"
#include "dataset/publish.h"
#include "dataset/selection.h"
#include "fail_alloc.h"
#include "store_bench.h"
#include "unit.h"

#define SAMPLES 40u

static char folder[64];
static char names[] = "{\"names\": [\"cat\", \"dog\"]}";

static leat_status pack(const char *id, uint32_t first, struct leat_dataset *add_to, struct leat_error *err)
{
    struct leat_home home = {0};
    struct leat_schema schema = {0};
    struct leat_pack *p = NULL;
    uint8_t sha[LEAT_SHA256_SIZE];
    leat_status rc = leat_home_open(folder, NULL, &home, err);
    if (rc == LEAT_OK)
        rc = leat_schema_add(&schema, "text", LEAT_FIELD_STRING, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_schema_add(&schema, "cls", LEAT_FIELD_INT, names, err);
    struct leat_pack_opts opts = {.schema = &schema, .chunk_bytes = 4096, .publish = {.add_to = add_to}, .memory = 100};
    snprintf((char *)opts.id, sizeof opts.id, "%s", id);
    if (add_to) {
        opts.publish.name = "more";
        opts.publish.keep_current = true;
        opts.publish.replace = true;
    }
    if (rc == LEAT_OK)
        rc = leat_pack_open(&home, &opts, &p, err);
    for (uint32_t i = first; rc == LEAT_OK && i < first + SAMPLES; i++) {
        char key[16];
        char text[200];
        snprintf(key, sizeof key, "%u", i);
        snprintf(text, sizeof text, "%0180u", i);
        struct leat_value values[2] = {{.data = text, .size = strlen(text)}, {.number = i % 2}};
        rc = leat_pack_add(p, key, strlen(key), values, err);
    }
    if (rc == LEAT_OK)
        rc = leat_pack_finish(p, sha, err);
    leat_pack_close(p);
    leat_home_close(&home);
    return rc;
}

static leat_status choose(struct leat_dataset *d, struct leat_filter *f, struct leat_selection_builder *b,
                          struct leat_error *err)
{
    uint64_t sample = 0;
    leat_status rc = LEAT_OK;
    for (uint32_t c = 0; rc == LEAT_OK && c < leat_dataset_root(d)->chunks; c++) {
        struct leat_slice s = {0};
        rc = leat_slice_open(d, c, leat_filter_wants(f), &s, err);
        for (uint32_t i = 0; rc == LEAT_OK && i < leat_dataset_root(d)->counts[c]; i++) {
            bool fits = false;
            rc = leat_filter_match(f, &s, i, sample++, &fits, err);
            leat_selection_set(b, c, i, fits);
        }
        leat_slice_close(&s);
    }
    return rc;
}

static leat_status store(struct leat_selection_builder *b, struct leat_error *err)
{
    struct leat_home home = {0};
    struct leat_publish publish;
    struct leat_selection_files files = {0};
    struct leat_publish_opts opts = {.name = "some", .keep_current = true, .replace = true};
    char name[LEAT_NAME_MAX];
    leat_status rc = leat_home_open(folder, NULL, &home, err);
    if (rc == LEAT_OK)
        rc = leat_publish_begin(&home, &opts, &publish, err);
    if (rc == LEAT_OK)
        rc = leat_selection_write(b, &files, err);
    if (rc == LEAT_OK) {
        leat_name_section(files.section_name, name);
        rc = leat_home_put(&home, name, files.section.data, files.section.len, err);
    }
    if (rc == LEAT_OK)
        rc = leat_publish_root(&home, &files.root, &files.pointer, &publish, err);
    leat_selection_files_free(&files);
    leat_home_close(&home);
    return rc;
}

static leat_status select_samples(void *user, struct leat_error *err)
{
    (void)user;
    static const char *const patterns[] = {"*"};
    char keys[] = "1\n3\n5\n7\n39\n12\n";
    struct leat_dataset *d = NULL;
    struct leat_filter *f = NULL;
    struct leat_selection_builder *b = NULL;
    struct leat_filter_opts opts = {.where = "cls == 'dog' and text != 'x'",
                                    .patterns = patterns,
                                    .patterns_n = 1,
                                    .keys = keys,
                                    .keys_n = sizeof keys - 1,
                                    .numbers = "0:39",
                                    .fraction = 1};
    leat_status rc = leat_dataset_open(folder, NULL, NULL, &d, err);
    if (rc == LEAT_OK)
        rc = leat_filter_open(d, &opts, &f, err);
    if (rc == LEAT_OK)
        rc = leat_selection_builder_open(leat_dataset_root(d), &b, err);
    if (rc == LEAT_OK)
        rc = choose(d, f, b, err);
    if (rc == LEAT_OK)
        assert_int_equal(leat_selection_total(b), 4);
    if (rc == LEAT_OK)
        rc = store(b, err);
    leat_selection_builder_close(b);
    leat_filter_close(f);
    leat_dataset_close(d);
    return rc;
}

static leat_status open_selection(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_dataset *d = NULL;
    char url[128];
    uint64_t sample;
    uint64_t count;
    snprintf(url, sizeof url, "%s?name=some", folder);
    leat_status rc = leat_dataset_open(url, NULL, NULL, &d, err);
    if (rc == LEAT_OK)
        rc = leat_dataset_find(d, "5", 1, &sample, &count, err);
    if (rc == LEAT_OK)
        assert_int_equal(sample, 2);
    leat_dataset_close(d);
    return rc;
}

static leat_status add_samples(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_dataset *d = NULL;
    leat_status rc = leat_dataset_open(folder, NULL, NULL, &d, err);
    if (rc == LEAT_OK)
        rc = pack("other", SAMPLES, d, err);
    leat_dataset_close(d);
    return rc;
}

static leat_status compare(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_dataset *d[2] = {NULL, NULL};
    struct leat_diff diff = {0};
    struct leat_diff_progress progress = {0};
    struct leat_diff_opts opts = {.bytes = true};
    char url[128];
    snprintf(url, sizeof url, "%s?name=more", folder);
    leat_status rc = leat_dataset_open(folder, NULL, NULL, &d[0], err);
    if (rc == LEAT_OK)
        rc = leat_dataset_open(url, NULL, NULL, &d[1], err);
    if (rc == LEAT_OK)
        rc = leat_diff(d[0], d[1], &opts, &progress, &diff, err);
    if (rc == LEAT_OK)
        assert_int_equal(diff.added, SAMPLES);
    leat_diff_free(&diff);
    leat_dataset_close(d[0]);
    leat_dataset_close(d[1]);
    return rc;
}

static leat_status look_for_garbage(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_home home = {0};
    struct leat_gc g = {0};
    struct leat_gc_opts opts = {.before_s = INT64_MAX};
    leat_status rc = leat_home_open(folder, NULL, &home, err);
    if (rc == LEAT_OK)
        rc = leat_gc_look(&home, &opts, &g, err);
    if (rc == LEAT_OK)
        assert_int_equal(g.n, 0);
    leat_gc_free(&g);
    leat_home_close(&home);
    return rc;
}

TEST(selecting)
{
    struct leat_error err;
    assert_true(fail_alloc_each(select_samples, NULL) > 30);
    assert_ok(select_samples(NULL, &err), err);
    assert_true(fail_alloc_each(open_selection, NULL) > 10);
}

TEST(adding_and_comparing)
{
    struct leat_error err;
    assert_true(fail_alloc_each(add_samples, NULL) > 30);
    assert_ok(add_samples(NULL, &err), err);
    assert_true(fail_alloc_each(compare, NULL) > 20);
}

TEST(looking_for_garbage)
{
    assert_true(fail_alloc_each(look_for_garbage, NULL) > 10);
}

static void begin(void)
{
    struct leat_error err;
    folder_make(folder);
    assert_ok(pack("first", 0, NULL, &err), err);
}

static void end(void)
{
    folder_remove(folder);
}

TEST_GROUP(begin, end);
