/* The disk tier: what is stored comes back right, now and after reopening, for its owner alone, within its budget. */
#include "cache/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "cache/segment.h"
#include "disk_bench.h"
#include "unit.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    disk_folder(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    disk_folder_remove(folder);
    return 0;
}

static const uint64_t sizes[] = {1, 511, 4095, 4096, 4097, 100000, 1 << 20, (1 << 20) + 1, 3000000};

static void chunks_of_every_size_come_back_now_and_after_reopening(void **state)
{
    (void)state;
    struct leat_error err;
    struct leat_disk *d = disk_open(folder, 0);
    for (uint32_t i = 0; i < COUNT(sizes); i++)
        assert_ok(disk_write_seed(d, i, sizes[i], &err), err);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(disk_count(d), COUNT(sizes));
        for (uint32_t i = 0; i < COUNT(sizes); i++)
            assert_ok(disk_read_seed(d, i, sizes[i], &err), err);
        leat_disk_close(d);
        d = disk_open(folder, 0);
    }
    struct leat_disk_stats stats;
    leat_disk_stats(d, &stats);
    assert_int_equal(stats.damaged, 0);
    assert_int_equal(stats.chunks, COUNT(sizes));
    assert_int_equal(stats.segments, 1);
    leat_disk_close(d);
}

static void what_is_not_there_or_of_another_length_is_said(void **state)
{
    (void)state;
    struct leat_error err;
    struct leat_disk *d = disk_open(folder, 0);
    uint8_t name[32];
    uint8_t *data = disk_chunk(1, 5000, name);
    assert_fails(disk_run(d, LEAT_DISK_READ, name, data, 5000, &err), err, LEAT_NOT_FOUND, "not in the disk cache");
    assert_ok(disk_run(d, LEAT_DISK_WRITE, name, data, 5000, &err), err);
    assert_fails(disk_run(d, LEAT_DISK_READ, name, data, 4999, &err), err, LEAT_INVALID, "5000");
    assert_fails(disk_run(d, LEAT_DISK_WRITE, (const uint8_t[32]){1}, data, 0, &err), err, LEAT_INVALID, "0 bytes");
    free(data);
    leat_disk_close(d);
}

static bool all_free(void *user)
{
    return disk_allocated(user) < 1 << 20;
}

static void removed_chunks_are_gone_and_their_space_is_given_back(void **state)
{
    (void)state;
    struct leat_error err;
    struct leat_disk *d = disk_open(folder, 0);
    struct leat_disk_stats stats;
    for (uint32_t i = 0; i < 8; i++)
        assert_ok(disk_write_seed(d, i, 1 << 20, &err), err);
    assert_true(disk_allocated(folder) >= 8u << 20);
    leat_disk_stats(d, &stats);
    assert_int_equal(stats.used, 8 * leat_disk_footprint(1 << 20));
    for (uint32_t i = 0; i < 8; i++)
        disk_remove_seed(d, i, 1 << 20);
    disk_remove_seed(d, 99, 1 << 20); /* never there */
    assert_int_equal(disk_count(d), 0);
    assert_true(disk_wait(all_free, folder));
    assert_int_equal(disk_read_seed(d, 0, 1 << 20, &err), LEAT_NOT_FOUND);
    leat_disk_stats(d, &stats);
    assert_int_equal(stats.used, 0);
    assert_int_equal(stats.removed, 8);
    leat_disk_close(d);
    d = disk_open(folder, 0);
    assert_int_equal(disk_count(d), 0);
    leat_disk_close(d);
}

static void a_full_budget_refuses_and_room_made_is_room(void **state)
{
    (void)state;
    struct leat_error err;
    struct leat_disk *d = disk_open(folder, 4u << 20);
    uint64_t bytes = 1000000;
    uint32_t n = 0;
    while (disk_write_seed(d, n, bytes, &err) == LEAT_OK)
        n++;
    assert_int_equal(err.status, LEAT_NO_SPACE);
    assert_int_equal(n, (4u << 20) / leat_disk_footprint(bytes));
    assert_int_equal(leat_disk_budget(d), 4u << 20);
    disk_remove_seed(d, 0, bytes);
    assert_ok(disk_write_seed(d, n, bytes, &err), err);
    for (uint32_t i = 1; i <= n; i++)
        assert_ok(disk_read_seed(d, i, bytes, &err), err);
    leat_disk_close(d);
}

static void a_budget_that_cannot_hold_a_chunk_is_refused(void **state)
{
    (void)state;
    struct leat_error err;
    struct leat_disk *d = NULL;
    struct leat_disk_opts opts = {.dir = folder, .budget = 1000};
    assert_fails(leat_disk_open(&opts, &d, &err), err, LEAT_INVALID, "1000 bytes cannot hold a chunk");
    assert_null(d);
    d = disk_open(folder, 2u << 20);
    assert_int_equal(disk_write_seed(d, 1, 3u << 20, &err), LEAT_NO_SPACE); /* and no waiting for room */
    leat_disk_close(d);
}

static void the_folder_is_made_private_with_its_parents(void **state)
{
    (void)state;
    struct leat_error err;
    struct stat st;
    char path[160];
    snprintf(path, sizeof path, "%s/a/b", folder);
    struct leat_disk *d = disk_open(path, 0);
    assert_ok(disk_write_seed(d, 1, 10, &err), err);
    leat_disk_close(d);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    char file[128];
    disk_segment_file(path, file);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    disk_folder_remove(path);
    snprintf(path, sizeof path, "%s/a", folder);
    rmdir(path);
}

static void a_folder_that_others_can_reach_is_refused(void **state)
{
    (void)state;
    struct leat_error err;
    struct leat_disk *d = NULL;
    struct leat_disk_opts opts = {.dir = folder, .budget = 1 << 30};
    static const mode_t open_modes[] = {0755, 0710, 0701, 0770, 0777};
    for (size_t i = 0; i < COUNT(open_modes); i++) {
        assert_int_equal(chmod(folder, open_modes[i]), 0);
        assert_fails(leat_disk_open(&opts, &d, &err), err, LEAT_DENIED, "chmod 700");
    }
    chmod(folder, 0700);
    opts.dir = "";
    assert_fails(leat_disk_open(&opts, &d, &err), err, LEAT_INVALID, "no name");
    char path[160];
    snprintf(path, sizeof path, "%s/file", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    opts.dir = path;
    assert_fails(leat_disk_open(&opts, &d, &err), err, LEAT_NOT_FOUND, "file");
}

static void somebody_elses_folder_or_link_is_refused(void **state)
{
    (void)state;
    struct leat_error err;
    struct leat_disk *d = NULL;
    if (geteuid() != 0)
        skip(); /* only root can make things that are somebody else's */
    char target[160];
    char link[160];
    snprintf(target, sizeof target, "%s/target", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(mkdir(target, 0700), 0);
    assert_int_equal(symlink(target, link), 0);
    struct leat_disk_opts opts = {.dir = link, .budget = 1 << 30};
    assert_ok(leat_disk_open(&opts, &d, &err), err); /* a link of one's own is a wish */
    leat_disk_close(d);
    assert_int_equal(lchown(link, 12345, 12345), 0);
    assert_fails(leat_disk_open(&opts, &d, &err), err, LEAT_DENIED, "symbolic link");
    unlink(link);
    opts.dir = target;
    assert_int_equal(chown(target, 12345, 12345), 0);
    assert_fails(leat_disk_open(&opts, &d, &err), err, LEAT_DENIED, "another user (12345)");
}

static void the_default_folder_follows_the_environment(void **state)
{
    (void)state;
    struct leat_error err;
    char dir[LEAT_DISK_PATH];
    setenv("LEAT_CACHE_DIR", "/x/y", 1);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    setenv("HOME", "/home/u", 1);
    assert_ok(leat_disk_default_dir(dir, &err), err);
    assert_string_equal(dir, "/x/y");
    setenv("LEAT_CACHE_DIR", "", 1);
    assert_ok(leat_disk_default_dir(dir, &err), err);
    assert_string_equal(dir, "/xdg/leat");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_ok(leat_disk_default_dir(dir, &err), err);
    assert_string_equal(dir, "/home/u/.cache/leat");
    unsetenv("HOME");
    assert_fails(leat_disk_default_dir(dir, &err), err, LEAT_INVALID, "LEAT_CACHE_DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
        IN_A_FOLDER(chunks_of_every_size_come_back_now_and_after_reopening),
        IN_A_FOLDER(what_is_not_there_or_of_another_length_is_said),
        IN_A_FOLDER(removed_chunks_are_gone_and_their_space_is_given_back),
        IN_A_FOLDER(a_full_budget_refuses_and_room_made_is_room),
        IN_A_FOLDER(a_budget_that_cannot_hold_a_chunk_is_refused),
        IN_A_FOLDER(the_folder_is_made_private_with_its_parents),
        IN_A_FOLDER(a_folder_that_others_can_reach_is_refused),
        IN_A_FOLDER(somebody_elses_folder_or_link_is_refused),
        cmocka_unit_test(the_default_folder_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
