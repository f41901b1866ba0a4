/* Disks that are full, read-only, slow or broken: never a wrong byte, never a wait without end, and it goes on by
 * itself when they mend. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cache/disk.h"
#include "disk_bench.h"
#include "fail_io.h"
#include "unit.h"

static char folder[64];
static _Atomic uint64_t told_budget;
static _Atomic unsigned told;
static _Atomic unsigned warnings;
static char last_warning[512];

static void on_log(enum leat_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    snprintf(last_warning, sizeof last_warning, "%s", line);
    warnings++;
}

static void on_shrunk(void *user, uint64_t budget)
{
    (void)user;
    told_budget = budget;
    told++;
}

static void make_folder(void)
{
    disk_folder(folder);
    told = warnings = 0;
}

static void remove_folder(void)
{
    fail_io_reset();
    disk_folder_remove(folder);
}

static struct leat_disk *open_patient(uint64_t patience_ns)
{
    struct leat_disk *d = NULL;
    struct leat_error err;
    struct leat_disk_opts opts = {
        .dir = folder, .budget = 1 << 30, .patience_ns = patience_ns, .look_ns = 50 * LEAT_MS, .shrunk = on_shrunk};
    assert_ok(leat_disk_open(&opts, &d, &err), err);
    return d;
}

static struct leat_disk *open_quick(void)
{
    return open_patient(0);
}

static bool was_told(void *user)
{
    (void)user;
    return told > 0;
}

TEST_WITH(make_folder, remove_folder, a_full_disk_refuses_and_tells_the_budget)
{
    struct leat_error err;
    static const int full[] = {ENOSPC, EDQUOT};
    for (size_t i = 0; i < COUNT(full); i++) {
        struct leat_disk *d = open_quick();
        told = warnings = 0;
        assert_ok(disk_write_seed(d, 1, 50000, &err), err);
        fail_io(FAIL_IO_WRITE, full[i], 1, 4096); /* in the midst of the second chunk */
        assert_fails(disk_write_seed(d, 2, 3000000, &err), err, LEAT_NO_SPACE, "cannot write");
        assert_true(disk_wait(was_told, NULL));
        assert_int_equal(told_budget, leat_disk_footprint(50000));
        assert_int_equal(warnings, 1);
        assert_int_equal(disk_write_seed(d, 3, 3000000, &err), LEAT_NO_SPACE);
        assert_int_equal(warnings, 1);
        assert_ok(disk_read_seed(d, 1, 50000, &err), err);
        disk_remove_seed(d, 1, 50000); /* room made is room, if the disk takes it */
        fail_io_reset();
        assert_ok(disk_write_seed(d, 4, 50000, &err), err);
        disk_remove_seed(d, 4, 50000);
        leat_disk_close(d);
        d = open_quick();
        assert_int_equal(disk_count(d), 0);
        leat_disk_close(d);
    }
}

static bool budget_small(void *user)
{
    (void)user;
    return told_budget < 500u << 20;
}

static bool budget_whole(void *user)
{
    (void)user;
    return told_budget == 1u << 30;
}

TEST_WITH(make_folder, remove_folder, it_gives_way_when_the_file_system_fills_and_comes_back)
{
    struct leat_error err;
    struct leat_disk *d = open_quick();
    for (uint32_t i = 0; i < 4; i++)
        assert_ok(disk_write_seed(d, i, 1 << 20, &err), err);
    fail_io_free_space(0); /* less than the reserve: even what is stored is too much */
    told_budget = UINT64_MAX;
    assert_true(disk_wait(budget_small, NULL));
    assert_int_equal(leat_disk_budget(d), 0);
    assert_int_equal(disk_write_seed(d, 9, 1 << 20, &err), LEAT_NO_SPACE);
    assert_ok(disk_read_seed(d, 1, 1 << 20, &err), err);
    fail_io_free_space(400ull << 30);
    assert_true(disk_wait(budget_whole, NULL));
    assert_ok(disk_write_seed(d, 9, 1 << 20, &err), err);
    leat_disk_close(d);
}

TEST_WITH(make_folder, remove_folder, a_budget_beyond_the_free_space_is_cut_at_the_start)
{
    fail_io_free_space(2ull << 30);
    struct leat_disk_opts opts = {.dir = folder, .budget = 100ull << 30};
    struct leat_disk *d = NULL;
    struct leat_error err;
    assert_ok(leat_disk_open(&opts, &d, &err), err);
    assert_in_range(leat_disk_budget(d), 1ull << 30, 2ull << 30); /* less the reserve */
    leat_disk_close(d);
    opts.budget = 0;
    assert_ok(leat_disk_open(&opts, &d, &err), err);
    assert_in_range(leat_disk_budget(d), 512ull << 20, 1ull << 30); /* half of that */
    leat_disk_close(d);
}

TEST_WITH(make_folder, remove_folder, a_chunk_that_cannot_be_read_is_dropped)
{
    struct leat_error err;
    struct leat_disk_stats stats;
    struct leat_disk *d = open_quick();
    for (uint32_t i = 0; i < 8; i++)
        assert_ok(disk_write_seed(d, i, 20000, &err), err);
    fail_io(FAIL_IO_READ, EIO, 0, 4096);
    assert_fails(disk_read_seed(d, 0, 20000, &err), err, LEAT_IO, "cannot read");
    fail_io_reset();
    assert_int_equal(disk_read_seed(d, 0, 20000, &err), LEAT_NOT_FOUND);
    assert_ok(disk_read_seed(d, 1, 20000, &err), err);

    /* One bad block is no bad disk; three in a row are, and then nobody waits for it. */
    fail_io(FAIL_IO_READ, EIO, 0, 4096);
    for (uint32_t i = 1; i < 4; i++)
        assert_int_equal(disk_read_seed(d, i, 20000, &err), LEAT_IO);
    fail_io_reset();
    assert_int_equal(disk_read_seed(d, 5, 20000, &err), LEAT_IO);
    leat_disk_stats(d, &stats);
    assert_true(stats.failed);
    assert_int_equal(stats.errors, 4);
    assert_int_equal(warnings, 1);
    leat_disk_close(d);
}

TEST_WITH(make_folder, remove_folder, a_chunk_that_could_not_be_written_is_not_published)
{
    struct leat_error err;
    struct leat_disk_stats stats;
    struct leat_disk *d = open_quick();
    assert_ok(disk_write_seed(d, 1, 20000, &err), err);
    fail_io(FAIL_IO_WRITE, EIO, 0, 4096);
    assert_fails(disk_write_seed(d, 2, 20000, &err), err, LEAT_IO, "cannot write");
    fail_io(FAIL_IO_WRITE, EIO, 0, 0); /* the entry neither */
    assert_int_equal(disk_write_seed(d, 3, 20000, &err), LEAT_IO);
    fail_io_reset();
    assert_ok(disk_write_seed(d, 4, 20000, &err), err); /* into another file: one bad block is no bad disk */
    fail_io(FAIL_IO_WRITE, EIO, 0, 0);
    for (uint32_t i = 5; i < 8; i++)
        assert_int_equal(disk_write_seed(d, i, 20000, &err), LEAT_IO);
    fail_io_reset();
    assert_int_equal(disk_write_seed(d, 8, 20000, &err), LEAT_IO); /* it rests */
    leat_disk_stats(d, &stats);
    assert_true(stats.failed);
    assert_int_equal(stats.used, 2 * leat_disk_footprint(20000));
    assert_ok(disk_read_seed(d, 1, 20000, &err), err);
    assert_ok(disk_read_seed(d, 4, 20000, &err), err);
    leat_disk_close(d);
    d = open_quick();
    assert_int_equal(disk_count(d), 2);
    assert_int_equal(disk_verify(d), 2);
    leat_disk_close(d);
}

TEST_WITH(make_folder, remove_folder, a_read_only_disk_is_read_and_not_asked_twice)
{
    struct leat_error err;
    struct leat_disk *d = open_quick();
    assert_ok(disk_write_seed(d, 1, 20000, &err), err);
    fail_io(FAIL_IO_WRITE, EROFS, 0, 0);
    fail_io(FAIL_IO_MAKE, EROFS, 0, 0);
    assert_fails(disk_write_seed(d, 2, 20000, &err), err, LEAT_DENIED, "cannot");
    fail_io_reset();
    assert_int_equal(disk_write_seed(d, 3, 20000, &err), LEAT_DENIED); /* at once, and said once */
    assert_int_equal(warnings, 1);
    assert_ok(disk_read_seed(d, 1, 20000, &err), err);
    leat_disk_close(d);
}

struct slow {
    struct leat_disk_op op;
    _Atomic unsigned done;
};

static void on_slow(struct leat_disk_op *op)
{
    ((struct slow *)op)->done++;
}

static bool all_done(void *user)
{
    struct slow *ops = user;
    for (int i = 0; i < 12; i++) {
        if (!ops[i].done)
            return false;
    }
    return true;
}

static void submit_all(struct leat_disk *d, struct slow *ops, enum leat_disk_kind kind, uint8_t **data)
{
    for (uint32_t i = 0; i < 12; i++) {
        ops[i] = (struct slow){.op = {.kind = kind, .bytes = 20000, .done = on_slow}};
        free(disk_chunk(i, 20000, ops[i].op.name));
        ops[i].op.data = data[i];
        leat_disk_submit(d, &ops[i].op);
    }
}

static bool answers_again(void *user)
{
    struct leat_disk_stats stats;
    leat_disk_stats(user, &stats);
    return !stats.failed;
}

static bool counts_what_is_there(void *user)
{
    struct leat_disk_stats stats;
    leat_disk_stats(user, &stats);
    return stats.used == stats.chunks * leat_disk_footprint(20000);
}

/* Twelve operations on a disk that hangs: all are answered in time, and their memory is not touched afterwards. */
TEST_WITH(make_folder, remove_folder, a_disk_that_hangs_is_left_alone_and_taken_back)
{
    struct leat_error err;
    struct leat_disk_stats stats;
    struct slow ops[12];
    uint8_t *data[12];
    uint8_t name[32];
    for (int kind = LEAT_DISK_READ; kind <= LEAT_DISK_WRITE; kind++) {
        struct leat_disk *d = open_patient(LEAT_S);
        for (uint32_t i = 0; i < 12; i++) {
            data[i] = disk_chunk(i, 20000, name);
            if (kind == LEAT_DISK_READ)
                assert_ok(disk_write_seed(d, i, 20000, &err), err);
        }
        fail_io_hang(kind == LEAT_DISK_READ ? FAIL_IO_READ : FAIL_IO_WRITE, true);
        submit_all(d, ops, (enum leat_disk_kind)kind, data);
        assert_true(disk_wait(all_done, ops)); /* while it hangs */
        for (uint32_t i = 0; i < 12; i++) {
            assert_int_equal(ops[i].op.err.status, LEAT_TIMEOUT);
            memset(data[i], 0x77, 20000);
        }
        assert_int_equal(disk_read_seed(d, 99, 20000, &err), LEAT_TIMEOUT);
        leat_disk_stats(d, &stats);
        assert_true(stats.failed && stats.timeouts >= 12);
        fail_io_reset();
        assert_true(disk_wait(answers_again, d));
        for (uint32_t i = 0; i < 12; i++) {
            for (uint32_t k = 0; k < 20000; k++)
                assert_int_equal(data[i][k], 0x77);
            assert_int_equal(ops[i].done, 1);
        }
        if (kind == LEAT_DISK_READ)
            assert_int_equal(disk_verify(d), 12);
        assert_ok(disk_write_seed(d, 50, 20000, &err), err);
        assert_int_equal(disk_verify(d), disk_count(d));
        assert_true(disk_wait(counts_what_is_there, d)); /* when the last of the workers is back */
        for (uint32_t i = 0; i < 12; i++) {
            disk_remove_seed(d, i, 20000);
            free(data[i]);
        }
        disk_remove_seed(d, 50, 20000);
        leat_disk_close(d);
    }
}

static bool a_write_hangs(void *user)
{
    return fail_io_hanging(FAIL_IO_WRITE) > 0;
}

TEST_WITH(make_folder, remove_folder, a_chunk_is_not_seen_before_it_is_whole)
{
    struct slow op = {.op = {.kind = LEAT_DISK_WRITE, .bytes = 20000, .done = on_slow}};
    struct leat_error err;
    struct leat_disk *d = disk_open(folder, 0);
    assert_ok(disk_write_seed(d, 1, 20000, &err), err);
    op.op.data = disk_chunk(2, 20000, op.op.name);
    fail_io(FAIL_IO_WRITE, 0, 0, 4096);
    fail_io_hang(FAIL_IO_WRITE, true); /* the chunks; entries would pass */
    leat_disk_submit(d, &op.op);
    assert_true(disk_wait(a_write_hangs, NULL));
    struct leat_disk *other = disk_open(folder, 0);
    assert_int_equal(disk_count(other), 1);
    leat_disk_close(other);
    fail_io_reset();
    while (!op.done)
        leat_sleep_until(leat_after(LEAT_MS));
    other = disk_open(folder, 0);
    assert_int_equal(disk_count(other), 2);
    leat_disk_close(other);
    leat_disk_close(d);
    free(op.op.data);
}

static bool little_allocated(void *user)
{
    return disk_allocated(user) < 70u << 20;
}

/* Where there are no holes, space comes back by whole segments. */
TEST_WITH(make_folder, remove_folder, without_holes_the_budget_holds_all_the_same)
{
    struct leat_error err;
    struct leat_disk *d = NULL;
    struct leat_disk_opts opts = {.dir = folder, .budget = 100u << 20, .look_ns = 50 * LEAT_MS};
    fail_io(FAIL_IO_PUNCH, EOPNOTSUPP, 0, 0);
    assert_ok(leat_disk_open(&opts, &d, &err), err);
    for (uint32_t i = 0; i < 20; i++)
        assert_ok(disk_write_seed(d, i, 4u << 20, &err), err);
    for (uint32_t i = 0; i < 20; i++) {
        if (i != 3 && i != 18) /* one chunk is left in each segment */
            disk_remove_seed(d, i, 4u << 20);
    }
    assert_ok(disk_write_seed(d, 30, 4u << 20, &err), err);
    assert_ok(disk_read_seed(d, 30, 4u << 20, &err), err);
    assert_false(disk_allocated(folder) < 70u << 20);
    fail_io_free_space(0);
    assert_true(disk_wait(little_allocated, folder));
    fail_io_reset();
    leat_disk_close(d);
}

TEST_WITH(make_folder, remove_folder, without_direct_reads_it_works_through_the_page_cache)
{
    struct leat_error err;
    struct leat_disk_stats stats;
    fail_io(FAIL_IO_DIRECT, EINVAL, 0, 0);
    struct leat_disk *d = open_quick();
    for (uint32_t i = 0; i < 4; i++)
        assert_ok(disk_write_seed(d, i, 3000000 + i, &err), err);
    assert_int_equal(disk_verify(d), 4);
    leat_disk_stats(d, &stats);
    assert_false(stats.direct);
    leat_disk_close(d);
    fail_io_reset();
    d = open_quick(); /* and the other way finds the same */
    assert_int_equal(disk_verify(d), 4);
    leat_disk_close(d);
}

TEST_WITH(make_folder, remove_folder, a_folder_in_memory_is_said_to_be_that)
{
    struct statfs s;
    struct leat_error err;
    struct leat_disk *d = NULL;
    char in_memory[64] = "/dev/shm/leat-disk-XXXXXX";
    if (statfs("/dev/shm", &s) < 0 || s.f_type != 0x01021994 || !mkdtemp(in_memory))
        skip();
    struct leat_disk_opts opts = {.dir = in_memory, .budget = 16u << 20};
    assert_ok(leat_disk_open(&opts, &d, &err), err);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "is in memory (tmpfs)"));
    assert_ok(disk_write_seed(d, 1, 100000, &err), err);
    assert_ok(disk_read_seed(d, 1, 100000, &err), err);
    leat_disk_close(d);
    disk_folder_remove(in_memory);
}

static void begin(void)
{
    leat_log_open(LEAT_LOG_WARN, on_log, NULL);
}

TEST_GROUP(begin, NULL);
