/* Writing an object from front to back, in one piece or in parts. */

#include "store/upload.h"

#include "fail_alloc.h"
#include "store_bench.h"
#include "unit.h"

#define SIZE 100000u
#define PART 7000u /* files take parts of any size */

static char folder[64];
static struct leat_store *files;
static char data[SIZE];

static void open_all(void)
{
    folder_make(folder);
    files = bench_open_files();
    bench_fill(data, sizeof data, 1);
}

static void close_all(void)
{
    leat_store_close(files);
    folder_remove(folder);
}

/* Adds `size` bytes in steps that fit nothing, and finishes. */
static leat_status write_all(const char *key, uint64_t size, uint64_t part, struct leat_error *err)
{
    struct leat_upload *u = NULL;
    leat_status rc = leat_upload_open(files, key, size, part, &u, err);
    for (uint64_t at = 0; rc == LEAT_OK && at < size;) {
        uint64_t step = size - at < 1 + at % 9999 ? size - at : 1 + at % 9999;
        rc = leat_upload_add(u, data + at, (size_t)step, err);
        at += step;
    }
    if (rc == LEAT_OK)
        rc = leat_upload_finish(u, err);
    leat_upload_close(u);
    return rc;
}

TEST_WITH(open_all, close_all, what_is_added_is_there_in_the_end)
{
    const uint64_t sizes[] = {0, 1, PART - 1, PART, PART + 1, 5 * PART, SIZE};
    struct leat_error err;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *found;
        size_t n;
        assert_ok(write_all(path_in(folder, "x"), sizes[i], PART, &err), err);
        assert_ok(leat_store_load(files, path_in(folder, "x"), SIZE, &found, &n, NULL, &err), err);
        assert_int_equal(n, sizes[i]);
        assert_memory_equal(found, data, n);
        free(found);
    }
    assert_int_equal(bench_leftovers(folder), 0);
}

TEST_WITH(open_all, close_all, what_is_not_finished_leaves_nothing)
{
    struct leat_upload *u;
    struct leat_error err;
    struct leat_object object;
    assert_ok(leat_upload_open(files, path_in(folder, "x"), SIZE, PART, &u, &err), err);
    assert_ok(leat_upload_add(u, data, 3 * PART, &err), err);
    assert_int_equal(leat_upload_finish(u, &err), LEAT_INTERNAL); /* bytes are missing */
    leat_upload_close(u);
    assert_int_equal(leat_store_stat(files, path_in(folder, "x"), &object, &err), LEAT_NOT_FOUND);
    assert_ok(leat_upload_open(files, path_in(folder, "x"), 10, PART, &u, &err), err);
    assert_int_equal(leat_upload_add(u, data, 11, &err), LEAT_INTERNAL); /* more than was said */
    leat_upload_close(u);
    assert_int_equal(bench_leftovers(folder), 0);
}

TEST_WITH(open_all, close_all, a_place_that_cannot_be_written_is_said)
{
    struct leat_error err;
    assert_ok(leat_store_put(files, path_in(folder, "file"), "x", 1, NULL, &err), err);
    assert_int_not_equal(write_all(path_in(folder, "file/x"), SIZE, PART, &err), LEAT_OK);
    assert_int_not_equal(write_all(path_in(folder, "file/x"), 10, PART, &err), LEAT_OK);
}

static leat_status scenario(void *user, struct leat_error *err)
{
    (void)user;
    return write_all("/tmp/leat-test-upload-memory", SIZE, PART, err);
}

TEST_WITH(open_all, close_all, without_memory_it_is_said)
{
    assert_true(fail_alloc_each(scenario, NULL) > 6);
    assert_ok(leat_store_delete(files, "/tmp/leat-test-upload-memory", NULL), (struct leat_error){0});
}
