/* A disk that answers after its caller has given up: an operation that was taken away, a cache that was closed. */
#include <dirent.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "cache/disk.h"
#include "disk_bench.h"
#include "fail_io.h"
#include "unit.h"

#define OPS   12u /* more than there are workers */
#define BYTES 20000u

static char folder[64];
static _Atomic uint32_t done;
static _Atomic bool closing, closed;
static _Atomic uint32_t late; /* callbacks after the closing */

/* Threads of disk caches in this process. A sanitizer has threads of its own. */
static uint32_t count_threads(void)
{
    uint32_t n = 0;
    struct dirent *e;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    while ((e = readdir(dir))) {
        char path[300];
        char name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fgets(name, sizeof name, f))
            n += strncmp(name, "leat-disk", 9) == 0;
        if (f)
            fclose(f);
    }
    closedir(dir);
    return n;
}

static bool threads_are_gone(void *user)
{
    return count_threads() <= *(uint32_t *)user;
}

static void begin(void)
{
    disk_folder(folder);
    done = late = 0;
    closing = closed = false;
}

static void end(void)
{
    uint32_t none = 0;
    fail_io_reset();
    assert_true(disk_wait(threads_are_gone, &none)); /* they come back and free what is left */
    disk_folder_remove(folder);
}

static void on_found(void *user, const uint8_t name[32], uint64_t bytes)
{
    (void)user;
    (void)name;
    (void)bytes;
    late += closed;
}

static struct leat_disk *open_patient(uint64_t patience_ns)
{
    struct leat_disk *d = NULL;
    struct leat_error err;
    struct leat_disk_opts opts = {
        .dir = folder, .budget = 1 << 30, .patience_ns = patience_ns, .look_ns = 20 * LEAT_MS, .found = on_found};
    assert_ok(leat_disk_open(&opts, &d, &err), err);
    return d;
}

static void on_done(struct leat_disk_op *op)
{
    (void)op;
    late += closed;
    done++;
}

static void submit_write(struct leat_disk *d, struct leat_disk_op *op, uint8_t name, void *data, uint64_t bytes)
{
    *op = (struct leat_disk_op){.kind = LEAT_DISK_WRITE, .name = {name}, .data = data, .bytes = bytes, .done = on_done};
    leat_disk_submit(d, op);
}

static bool is_done(void *user)
{
    return done == *(uint32_t *)user;
}

static bool hangs(void *user)
{
    return fail_io_hanging(*(enum fail_io_call *)user) > 0;
}

static bool nothing_used(void *user)
{
    struct leat_disk_stats stats;
    leat_disk_stats(user, &stats);
    return stats.used == 0;
}

/* The caller may do what it likes with its memory once it has been answered, though the disk is still at it. */
TEST_WITH(begin, end, an_operation_that_was_taken_away_is_not_looked_at_again)
{
    static uint8_t data[BYTES];
    static uint32_t one = 1;
    struct leat_error err;
    struct leat_disk *d = open_patient(200 * LEAT_MS);
    struct leat_disk_op *op = malloc(sizeof *op);
    assert_non_null(op);
    fail_io_hang(FAIL_IO_MAKE, true); /* the segment */
    submit_write(d, op, 1, data, sizeof data);
    assert_true(disk_wait(is_done, &one));
    assert_int_equal(op->err.status, LEAT_TIMEOUT);
    op->bytes = 1;
    free(op);
    fail_io_reset();
    assert_true(disk_wait(nothing_used, d)); /* what was reserved for it is given back, to the byte */
    assert_ok(disk_write_seed(d, 1, BYTES, &err), err);
    assert_int_equal(disk_count(d), 1);
    leat_disk_close(d);
}

static void submit_all(struct leat_disk *d, struct leat_disk_op ops[OPS], void *data, void (*on)(struct leat_disk_op *))
{
    for (uint32_t i = 0; i < OPS; i++) {
        ops[i] = (struct leat_disk_op){
            .kind = LEAT_DISK_WRITE, .name = {(uint8_t)(i + 1)}, .data = data, .bytes = BYTES, .done = on};
        leat_disk_submit(d, &ops[i]);
    }
}

TEST_WITH(begin, end, closing_does_not_wait_for_a_disk_that_hangs)
{
    static uint8_t data[BYTES];
    static enum fail_io_call write = FAIL_IO_WRITE;
    struct leat_disk_op ops[OPS];
    struct leat_disk *d = open_patient(LEAT_S);
    fail_io_hang(FAIL_IO_WRITE, true);
    submit_all(d, ops, data, on_done);
    assert_true(disk_wait(hangs, &write));
    leat_disk_close(d); /* returns while the disk hangs */
    closed = true;
    assert_int_equal(done, OPS);
    assert_true(fail_io_hanging(FAIL_IO_WRITE) > 0);
}

#define PATIENCE (300 * LEAT_MS)

/* On the watcher. Keeps it until the closing no longer waits for the workers, lets these come back, and sees them off.
 */
static void hold_watcher(struct leat_disk_op *op)
{
    static atomic_flag once = ATOMIC_FLAG_INIT;
    static uint32_t watcher = 1;
    on_done(op);
    if (!closing || atomic_flag_test_and_set(&once))
        return;
    leat_sleep_until(leat_after(3 * PATIENCE));
    fail_io_reset();
    assert_true(disk_wait(threads_are_gone, &watcher));
}

TEST_WITH(begin, end, the_last_worker_leaves_the_cache_to_the_watcher)
{
    static uint8_t data[BYTES];
    static enum fail_io_call write = FAIL_IO_WRITE;
    struct leat_disk_op ops[OPS];
    struct leat_disk *d = open_patient(PATIENCE);
    fail_io_hang(FAIL_IO_WRITE, true);
    submit_all(d, ops, data, hold_watcher);
    assert_true(disk_wait(hangs, &write));
    closing = true;
    leat_disk_close(d);
    closed = true;
    assert_int_equal(done, OPS);
}

/* No piece takes too long, all of them together do. */
TEST_WITH(begin, end, every_operation_is_answered_before_the_closing_returns)
{
    static enum fail_io_call write = FAIL_IO_WRITE;
    const uint64_t bytes = 20u << 20;
    struct leat_disk_op op;
    struct leat_disk *d = open_patient(PATIENCE);
    void *data = calloc(1, bytes);
    fail_io_delay(FAIL_IO_WRITE, PATIENCE / 3);
    submit_write(d, &op, 1, data, bytes);
    assert_true(disk_wait(hangs, &write));
    leat_disk_close(d);
    closed = true;
    assert_int_equal(done, 1);
    free(data);
}

TEST_WITH(begin, end, nothing_is_told_after_the_closing)
{
    static enum fail_io_call read = FAIL_IO_READ;
    struct leat_error err;
    struct leat_disk *other = disk_open(folder, 0);
    struct leat_disk *d = open_patient(PATIENCE);
    fail_io_hang(FAIL_IO_READ, true); /* the table of the other's segment */
    assert_ok(disk_write_seed(other, 1, BYTES, &err), err);
    assert_true(disk_wait(hangs, &read));
    leat_disk_close(d);
    closed = true;
    uint32_t others = 9; /* threads of the other cache */
    fail_io_reset();
    assert_true(disk_wait(threads_are_gone, &others));
    leat_disk_close(other);
    assert_int_equal(late, 0);
}

#define AGENTS 3u
#define EACH   6u
#define PIECE  150000u

static bool all_begun_or_refused(void *user)
{
    (void)user;
    return fail_io_hanging(FAIL_IO_WRITE) + done >= AGENTS * EACH;
}

/* Nothing of it is on the disk yet, and no agent looks at the folder meanwhile. */
TEST_WITH(begin, end, what_one_agent_is_about_to_store_counts_for_all)
{
    static uint8_t data[PIECE];
    static uint32_t all = AGENTS * EACH;
    struct leat_disk *agents[AGENTS];
    struct leat_disk_op ops[AGENTS * EACH];
    struct leat_disk_opts opts = {
        .dir = folder, .budget = 7 * leat_disk_footprint(PIECE), .look_ns = 3600 * LEAT_S, .patience_ns = 60 * LEAT_S};
    struct leat_error err;
    uint32_t stored = 0;
    for (uint32_t i = 0; i < AGENTS; i++)
        assert_ok(leat_disk_open(&opts, &agents[i], &err), err);
    fail_io(FAIL_IO_WRITE, 0, 0, 4096); /* chunks; reservations and entries pass */
    fail_io_hang(FAIL_IO_WRITE, true);
    for (uint32_t i = 0; i < AGENTS * EACH; i++)
        submit_write(agents[i % AGENTS], &ops[i], (uint8_t)i, data, sizeof data);
    assert_true(disk_wait(all_begun_or_refused, NULL));
    fail_io_reset();
    assert_true(disk_wait(is_done, &all));
    for (uint32_t i = 0; i < AGENTS * EACH; i++) {
        stored += ops[i].err.status == LEAT_OK;
        assert_true(ops[i].err.status == LEAT_OK || ops[i].err.status == LEAT_NO_SPACE);
    }
    assert_true(stored <= 7);
    for (uint32_t i = 0; i < AGENTS; i++) {
        assert_true(disk_count(agents[i]) <= stored);
        leat_disk_close(agents[i]);
    }
}
