/* Memory running out at every allocation of the disk cache, on whichever thread: an error or a chunk that is not
 * stored, nothing hangs, nothing is left behind, nothing wrong is read. (Leaks show under AddressSanitizer.) */
#include <unistd.h>

#include "cache/disk.h"
#include "cache/disk_index.h"
#include "cache/extents.h"
#include "disk_bench.h"
#include "fail_alloc.h"
#include "unit.h"

#define BYTES 5000u

static char folder[64];
static uint8_t *chunks[3];
static uint8_t names[3][32];

static leat_status open_and_close(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_disk *d = NULL;
    struct leat_disk_opts opts = {.dir = folder, .budget = 1 << 30};
    leat_status rc = leat_disk_open(&opts, &d, err);
    leat_disk_close(d);
    return rc;
}

TEST(opening_without_memory_is_an_error)
{
    struct leat_error err;
    disk_folder(folder);
    struct leat_disk *d = disk_open(folder, 0);
    for (int i = 0; i < 3; i++)
        assert_ok(disk_run(d, LEAT_DISK_WRITE, names[i], chunks[i], BYTES, &err), err);
    leat_disk_close(d);
    assert_true(fail_alloc_each(open_and_close, NULL) > 8);
    d = disk_open(folder, 0);
    assert_int_equal(disk_verify(d), 3);
    leat_disk_close(d);
    disk_folder_remove(folder);
}

TEST(writing_without_memory_stores_nothing_and_goes_on)
{
    struct leat_error err;
    static uint8_t got[BYTES];
    bool failed = true;
    long n = 0;
    for (; failed; n++) {
        disk_folder(folder);
        struct leat_disk *d = disk_open(folder, 0);
        fail_alloc_anywhere_at(n, n % 2);
        leat_status rc = disk_run(d, LEAT_DISK_WRITE, names[0], chunks[0], BYTES, &err);
        failed = fail_alloc_stop();
        assert_int_equal(rc, failed ? LEAT_NO_MEMORY : LEAT_OK);
        for (int i = 0; i < 3; i++)
            assert_ok(disk_run(d, LEAT_DISK_WRITE, names[i], chunks[i], BYTES, &err), err);
        for (int i = 0; i < 3; i++) {
            assert_ok(disk_run(d, LEAT_DISK_READ, names[i], got, BYTES, &err), err);
            assert_memory_equal(got, chunks[i], BYTES);
        }
        leat_disk_close(d);
        d = disk_open(folder, 0);
        assert_int_equal(disk_verify(d), 3);
        leat_disk_close(d);
        disk_folder_remove(folder);
    }
    assert_true(n > 4);
}

TEST(what_was_taken_can_be_given_back_without_memory)
{
    struct leat_extents x;
    uint64_t at[100];
    assert_true(leat_extents_init(&x, 10, 110));
    for (int i = 0; i < 100; i++)
        assert_true(leat_extents_take(&x, 1, &at[i]));
    fail_alloc_at(0, true);
    for (int i = 0; i < 100; i += 2)
        leat_extents_give(&x, at[i], 1);
    for (int i = 1; i < 100; i += 2)
        leat_extents_give(&x, at[i], 1);
    assert_false(fail_alloc_stop());
    assert_int_equal(leat_extents_longest(&x), 100);
    leat_extents_free(&x);
}

static void begin(void)
{
    for (uint32_t i = 0; i < 3; i++)
        chunks[i] = disk_chunk(i, BYTES, names[i]);
}

static void end(void)
{
    for (int i = 0; i < 3; i++)
        free(chunks[i]);
}

TEST_GROUP(begin, end);
