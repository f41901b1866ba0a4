/* Ends without warning: kill -9 of a process that writes, and power cuts. The next one opens, finds all that was
 * finished, and never gets a wrong byte. An argument says how many times. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "cache/disk.h"
#include "disk_bench.h"
#include "fail_io.h"
#include "unit.h"

#define CHUNKS 64u
#define BUDGET (3u << 20)

static unsigned rounds = 12;
static char folder[64];

static uint64_t bytes_of(uint32_t seed)
{
    return 1 + (uint64_t)seed * 1237 % 90000;
}

/* What the child has done, in memory that outlives it. 0: nobody knows, 1: is there, 2: is not. */
static _Atomic uint8_t *marks;

static void write_for_ever(uint64_t round)
{
    struct leat_rng r = leat_rng(round, 3);
    struct leat_disk *d = disk_open(folder, BUDGET);
    struct leat_error err;
    for (;;) {
        uint32_t seed = (uint32_t)leat_rng_below(&r, CHUNKS);
        bool remove = leat_rng_below(&r, 3) == 0;
        marks[seed] = 0;
        if (remove)
            disk_remove_seed(d, seed, bytes_of(seed));
        else if (disk_write_seed(d, seed, bytes_of(seed), &err) == LEAT_OK)
            marks[seed] = 1;
    }
}

static uint32_t marked(void)
{
    uint32_t n = 0;
    for (uint32_t seed = 0; seed < CHUNKS; seed++)
        n += marks[seed] == 1;
    return n;
}

TEST(a_killed_writer_loses_only_what_was_unfinished)
{
    struct leat_error err;
    struct leat_disk_stats stats;
    struct leat_rng r = leat_rng(11, 12);
    uint32_t survived = 0;
    disk_folder(folder);
    marks = mmap(NULL, CHUNKS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(marks != MAP_FAILED);
    for (unsigned round = 0; round < rounds; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            write_for_ever(round);
            _exit(1);
        }
        /* A busy machine lets few writers get far in their milliseconds: the first has time for a chunk. */
        for (uint64_t end = leat_after(60 * LEAT_S); round == 0 && marked() < 2 && leat_now_ns() < end;)
            leat_sleep_until(leat_after(LEAT_MS));
        leat_sleep_until(leat_after((2 + leat_rng_below(&r, 25)) * LEAT_MS));
        assert_int_equal(kill(child, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status)); /* it had not failed by itself */

        struct leat_disk *d = disk_open(folder, BUDGET);
        uint32_t n = disk_count(d);
        assert_int_equal(disk_verify(d), n);
        for (uint32_t seed = 0; seed < CHUNKS; seed++) {
            if (marks[seed] == 1) {
                assert_ok(disk_read_seed(d, seed, bytes_of(seed), &err), err);
                survived++;
            }
        }
        leat_disk_stats(d, &stats);
        assert_int_equal(stats.damaged, 0);
        leat_disk_close(d);
    }
    assert_true(survived > 0);
    munmap((void *)(uintptr_t)marks, CHUNKS);
    disk_folder_remove(folder);
}

/* Every round writes and removes some chunks, loses power, and looks at what is there. Chunks of earlier rounds that
 * were not touched in this one had reached the disk: they must be there. */
TEST(a_power_cut_loses_only_what_had_not_reached_the_disk)
{
    struct leat_error err;
    struct leat_disk_stats stats;
    bool safe[CHUNKS] = {false};
    uint64_t damaged = 0;
    uint64_t kept = 0;
    disk_folder(folder);
    for (unsigned round = 0; round < rounds; round++) {
        struct leat_rng r = leat_rng(round, 5);
        struct leat_disk *d = disk_open(folder, BUDGET);
        fail_io_power_on();
        for (unsigned step = 0; step < 25; step++) {
            uint32_t seed = (uint32_t)leat_rng_below(&r, CHUNKS);
            safe[seed] = false;
            if (leat_rng_below(&r, 3) == 0)
                disk_remove_seed(d, seed, bytes_of(seed));
            else
                disk_write_seed(d, seed, bytes_of(seed), &err);
        }
        leat_disk_close(d);
        fail_io_power_cut(round);

        d = disk_open(folder, BUDGET);
        for (uint32_t seed = 0; seed < CHUNKS; seed++) {
            leat_status rc = disk_read_seed(d, seed, bytes_of(seed), &err); /* wrong bytes fail the test */
            if (rc != LEAT_OK && rc != LEAT_NOT_FOUND && rc != LEAT_CORRUPT)
                fail_msg("%s", err.text);
            if (safe[seed] && rc != LEAT_OK)
                fail_msg("round %u: chunk %u had reached the disk and is lost: %s", round, seed, err.text);
            safe[seed] = rc == LEAT_OK;
            kept += rc == LEAT_OK;
        }
        leat_disk_stats(d, &stats);
        damaged += stats.damaged;
        leat_disk_close(d);
    }
    assert_true(kept > rounds);
    assert_true(damaged > 0); /* else the cut cut nothing */
    disk_folder_remove(folder);
}

static void begin(void)
{
    rounds = (unsigned)unit_number(0, rounds);
}

TEST_GROUP(begin, NULL);
