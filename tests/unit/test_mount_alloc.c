/* Memory runs out at every single allocation of showing a dataset as files and reading all of them: an error each time,
 * never other bytes, nothing leaked. */
#include <unistd.h>

#include "dataset/dataset.h"
#include "fail_alloc.h"
#include "leat/dataset.h"
#include "leat/writer.h"
#include "mount/files.h"
#include "unit_place.h"

#define SAMPLES 40u
#define VALUE   500u

static uint8_t byte_of(uint64_t sample)
{
    return (uint8_t)('a' + sample % 26);
}

static void make_dataset(void)
{
    static const struct leat_packer_field field = {
        .size = sizeof field, .name = "x", .type = LEAT_DATA_BYTES, .zstd = 1};
    struct leat_packer_opts o = {
        .size = sizeof o, .url = unit_place, .fields = &field, .fields_n = 1, .chunk_bytes = 4096};
    struct leat_packer *packer = NULL;
    char id[65];
    struct leat_error err;
    place_open();
    assert_ok(leat_packer_open(&o, &packer, &err), err);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        char key[20];
        char data[VALUE];
        memset(data, byte_of(i), sizeof data);
        snprintf(key, sizeof key, "d%d/%d", (int)(i % 3), (int)i);
        struct leat_packer_value v = {.size = sizeof v, .data = data, .bytes = VALUE};
        assert_ok(leat_packer_add(packer, i ? key : "..", i ? strlen(key) : 2, &v, &err), err);
    }
    assert_ok(leat_packer_finish(packer, id, &err), err);
    leat_packer_close(packer);
}

static void count_up(void *user, const char *why)
{
    assert_non_null(why);
    ++*(unsigned *)user;
}

static void pass_over(void *user, const char *why)
{
    (void)user, (void)why;
}

static leat_status read_each(struct leat_files *f, struct leat_error *err)
{
    const struct leat_tree *t = leat_files_tree(f);
    leat_status rc = LEAT_OK;
    for (uint64_t i = 0; rc == LEAT_OK && i < leat_tree_files(t); i++) {
        uint64_t ino = LEAT_TREE_ROOT + leat_tree_folders(t) + i;
        struct leat_files_part part;
        rc = leat_files_read(f, ino, 100, 1000, &part, err);
        if (rc != LEAT_OK)
            break;
        assert_int_equal(part.n, VALUE - 100);
        for (size_t at = 0; at < part.n; at++)
            assert_int_equal(((const uint8_t *)part.data)[at], byte_of(leat_tree_file(t, ino).sample));
        leat_files_give(f, &part);
    }
    return rc;
}

static leat_status show_and_read(void *user, struct leat_error *err)
{
    struct leat_files *f = NULL;
    unsigned left_out = 0;
    struct leat_files_opts opts = {
        .dataset = user, .memory = 16 << 10, .left_out = count_up, .failed = pass_over, .user = &left_out};
    leat_status rc = leat_files_open(&opts, &f, err);
    if (rc == LEAT_OK) {
        assert_int_equal(left_out, 1);
        assert_int_equal(leat_files_left_out(f), 1);
        assert_int_equal(leat_tree_files(leat_files_tree(f)), SAMPLES - 1);
        assert_int_equal(leat_files_bytes(f), (SAMPLES - 1) * VALUE);
        rc = read_each(f, err);
    }
    leat_files_close(f);
    return rc;
}

TEST(files_are_read_right_or_not_at_all)
{
    struct leat_store_opts store = {0};
    struct leat_dataset *d = NULL;
    struct leat_error err;
    assert_ok(leat_dataset_open(unit_place, &store, NULL, &d, &err), err);
    assert_ok(show_and_read(d, &err), err);
    assert_true(fail_alloc_each(show_and_read, d) > 50);
    leat_dataset_close(d);
}

TEST_GROUP(make_dataset, place_close);
