/* Damage of every kind to the files of a disk cache: what is touched is dropped, the rest is there, nothing wrong is
 * delivered. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "cache/disk.h"
#include "disk_bench.h"
#include "unit.h"

static char folder[64];

static void make_folder(void)
{
    disk_folder(folder);
}

static void remove_folder(void)
{
    disk_folder_remove(folder);
}

static void damage(const char *file, off_t at, uint8_t flip)
{
    uint8_t byte;
    int fd = open(file, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= flip;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static off_t data_start(const char *file)
{
    uint8_t head[64];
    uint64_t at;
    int fd = open(file, O_RDONLY);
    assert_int_equal(pread(fd, head, sizeof head, 0), sizeof head);
    close(fd);
    memcpy(&at, head + 24, 8);
    return (off_t)at;
}

TEST_WITH(make_folder, remove_folder, a_flipped_bit_is_never_delivered)
{
    struct leat_error err;
    struct leat_disk_stats stats;
    char file[128];
    for (int i = 0; i < 40; i++) {
        struct leat_disk *d = disk_open(folder, 0);
        assert_ok(disk_write_seed(d, 1, 9000, &err), err);
        disk_segment_file(folder, file);
        damage(file, data_start(file) + 225 * i, (uint8_t)(1u << (i % 8)));
        assert_fails(disk_read_seed(d, 1, 9000, &err), err, LEAT_CORRUPT, "does not match its checksum");
        assert_int_equal(disk_read_seed(d, 1, 9000, &err), LEAT_NOT_FOUND);
        leat_disk_stats(d, &stats);
        assert_int_equal(stats.damaged, 1);
        assert_ok(disk_write_seed(d, 1, 9000, &err), err);
        assert_ok(disk_read_seed(d, 1, 9000, &err), err);
        disk_remove_seed(d, 1, 9000);
        leat_disk_close(d);
    }
}

TEST_WITH(make_folder, remove_folder, a_flipped_bit_in_the_table_loses_one_chunk_only)
{
    struct leat_error err;
    char file[128];
    for (unsigned byte = 0; byte < 64; byte++) {
        struct leat_disk *d = disk_open(folder, 0);
        for (uint32_t i = 0; i < 3; i++)
            assert_ok(disk_write_seed(d, i, 5000, &err), err);
        leat_disk_close(d);
        disk_segment_file(folder, file);
        damage(file, 4096 + 64 + byte, 0x10); /* the second entry */
        d = disk_open(folder, 0);
        assert_int_equal(disk_count(d), 2);
        assert_int_equal(disk_verify(d), 2);
        leat_disk_close(d);
        unlink(file);
    }
}

TEST_WITH(make_folder, remove_folder, a_damaged_head_costs_the_segment_and_nothing_else)
{
    struct leat_error err;
    char file[128];
    for (unsigned byte = 0; byte < 64; byte++) {
        struct leat_disk *d = disk_open(folder, 0);
        assert_ok(disk_write_seed(d, 1, 5000, &err), err);
        leat_disk_close(d);
        disk_segment_file(folder, file);
        damage(file, byte, 1);
        d = disk_open(folder, 0);
        assert_int_equal(disk_segment_count(folder), 0);
        assert_int_equal(disk_count(d), 0);
        assert_ok(disk_write_seed(d, 1, 5000, &err), err);
        assert_ok(disk_read_seed(d, 1, 5000, &err), err);
        leat_disk_close(d);
        while (disk_segment_count(folder)) {
            disk_segment_file(folder, file);
            unlink(file);
        }
    }
}

TEST_WITH(make_folder, remove_folder, a_truncated_segment_loses_what_was_cut_off_at_every_length)
{
    struct leat_error err;
    char file[128];
    static const off_t cuts[] = {0, 1, 63, 64, 4095, 4096, 4097, 4096 + 64, 4096 + 130, 8192, 20000};
    for (size_t i = 0; i < 2 * COUNT(cuts); i++) {
        struct leat_disk *d = disk_open(folder, 0);
        for (uint32_t k = 0; k < 3; k++)
            assert_ok(disk_write_seed(d, k, 5000, &err), err);
        bool running = i >= COUNT(cuts);
        if (!running)
            leat_disk_close(d);
        disk_segment_file(folder, file);
        off_t cut = cuts[i % COUNT(cuts)];
        assert_int_equal(truncate(file, cut < 20000 ? cut : data_start(file) + 8192 + 10), 0);
        if (!running)
            d = disk_open(folder, 0);
        uint32_t right = disk_verify(d);
        assert_int_equal(right, cut == 20000 ? 1 : 0);
        assert_ok(disk_write_seed(d, 9, 5000, &err), err);
        assert_ok(disk_read_seed(d, 9, 5000, &err), err);
        leat_disk_close(d);
        while (disk_segment_count(folder)) {
            disk_segment_file(folder, file);
            unlink(file);
        }
    }
}

TEST_WITH(make_folder, remove_folder, a_later_format_is_left_alone)
{
    struct leat_error err;
    char file[128];
    uint8_t head[64];
    struct leat_disk *d = disk_open(folder, 0);
    assert_ok(disk_write_seed(d, 1, 5000, &err), err);
    leat_disk_close(d);
    disk_segment_file(folder, file);
    int fd = open(file, O_RDWR);
    assert_int_equal(pread(fd, head, sizeof head, 0), sizeof head);
    head[8] = 2;
    uint64_t check = leat_xxh3(head, sizeof head - 8);
    memcpy(head + 56, &check, 8);
    assert_int_equal(pwrite(fd, head, sizeof head, 0), sizeof head);
    close(fd);
    d = disk_open(folder, 0);
    assert_int_equal(disk_count(d), 0);
    assert_int_equal(disk_segment_count(folder), 1);
    leat_disk_close(d);
}

/* The second chunk's bytes in the first one's place, and the first entry in the second one's. */
TEST_WITH(make_folder, remove_folder, swapped_blocks_and_entries_are_noticed)
{
    struct leat_error err;
    char file[128];
    uint8_t a[4096];
    uint8_t b[4096];
    struct leat_disk *d = disk_open(folder, 0);
    assert_ok(disk_write_seed(d, 1, 4096, &err), err);
    assert_ok(disk_write_seed(d, 2, 4096, &err), err);
    leat_disk_close(d);
    disk_segment_file(folder, file);
    int fd = open(file, O_RDWR);
    off_t at = data_start(file);
    assert_int_equal(pread(fd, a, 4096, at), 4096);
    assert_int_equal(pread(fd, b, 4096, at + 4096), 4096);
    assert_int_equal(pwrite(fd, b, 4096, at), 4096);
    assert_int_equal(pwrite(fd, a, 4096, at + 4096), 4096);
    d = disk_open(folder, 0);
    assert_int_equal(disk_count(d), 2);
    assert_int_equal(disk_verify(d), 0);
    leat_disk_close(d);

    d = disk_open(folder, 0);
    assert_ok(disk_write_seed(d, 1, 4096, &err), err);
    leat_disk_close(d);
    assert_int_equal(pread(fd, a, 64, 4096), 64);
    close(fd);
    unlink(file);
    d = disk_open(folder, 0);
    assert_ok(disk_write_seed(d, 2, 4096, &err), err);
    leat_disk_close(d);
    disk_segment_file(folder, file);
    fd = open(file, O_RDWR);
    assert_int_equal(pwrite(fd, a, 64, 4096 + 64), 64); /* an entry of another file */
    close(fd);
    d = disk_open(folder, 0);
    assert_int_equal(disk_count(d), 1);
    assert_ok(disk_read_seed(d, 2, 4096, &err), err);
    leat_disk_close(d);
}

/* A crash can undo the removal of a chunk in whose place another one was written since. */
TEST_WITH(make_folder, remove_folder, of_two_entries_for_one_place_the_newer_is_believed)
{
    struct leat_error err;
    char file[128];
    uint8_t old[64];
    struct leat_disk *d = disk_open(folder, 0);
    assert_ok(disk_write_seed(d, 1, 4096, &err), err);
    assert_ok(disk_write_seed(d, 2, 8192, &err), err);
    disk_segment_file(folder, file);
    int fd = open(file, O_RDWR);
    assert_int_equal(pread(fd, old, 64, 4096 + 64), 64);
    disk_remove_seed(d, 1, 4096);
    disk_remove_seed(d, 2, 8192);
    leat_disk_close(d);
    d = disk_open(folder, 0);
    assert_ok(disk_write_seed(d, 3, 12288, &err), err); /* over both */
    leat_disk_close(d);
    assert_int_equal(pwrite(fd, old, 64, 4096 + 64), 64);
    close(fd);
    d = disk_open(folder, 0);
    assert_int_equal(disk_count(d), 1);
    assert_ok(disk_read_seed(d, 3, 12288, &err), err);
    assert_ok(disk_write_seed(d, 4, 8192, &err), err);
    assert_ok(disk_read_seed(d, 3, 12288, &err), err);
    leat_disk_close(d);
}

TEST_WITH(make_folder, remove_folder, foreign_files_in_the_folder_are_left_alone)
{
    struct stat st;
    char path[160];
    static const char *const names[] = {"notes.txt", "0123456789abcdef.segment", "0123456789abcdeg.seg", "x.seg"};
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        close(open(path, O_CREAT | O_WRONLY, 0600));
    }
    snprintf(path, sizeof path, "%s/00112233445566aa.seg", folder);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    leat_disk_close(disk_open(folder, 0));
    assert_int_equal(lstat(path, &st), 0);
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(stat(path, &st), 0);
    }
}
