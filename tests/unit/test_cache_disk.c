/* The disk tier: what is stored comes back right, now and after reopening, for its owner alone, within its budget. */
#include "cache/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
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

static void make_folder(void)
{
    disk_folder(folder);
}

static void remove_folder(void)
{
    disk_folder_remove(folder);
}

static const uint64_t sizes[] = {1, 511, 4095, 4096, 4097, 100000, 1 << 20, (1 << 20) + 1, 3000000};

TEST_WITH(make_folder, remove_folder, chunks_of_every_size_come_back_now_and_after_reopening)
{
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

TEST_WITH(make_folder, remove_folder, what_is_not_there_or_of_another_length_is_said)
{
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

TEST_WITH(make_folder, remove_folder, removed_chunks_are_gone_and_their_space_is_given_back)
{
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

TEST_WITH(make_folder, remove_folder, a_full_budget_refuses_and_room_made_is_room)
{
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

TEST_WITH(make_folder, remove_folder, a_budget_that_cannot_hold_a_chunk_is_refused)
{
    struct leat_error err;
    struct leat_disk *d = NULL;
    struct leat_disk_opts opts = {.dir = folder, .budget = 1000};
    assert_fails(leat_disk_open(&opts, &d, &err), err, LEAT_INVALID, "1000 bytes cannot hold a chunk");
    assert_null(d);
    d = disk_open(folder, 2u << 20);
    assert_int_equal(disk_write_seed(d, 1, 3u << 20, &err), LEAT_NO_SPACE); /* and no waiting for room */
    leat_disk_close(d);
}

TEST_WITH(make_folder, remove_folder, the_folder_is_made_private_with_its_parents)
{
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

TEST_WITH(make_folder, remove_folder, a_folder_that_others_can_reach_is_refused)
{
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

TEST_WITH(make_folder, remove_folder, somebody_elses_folder_or_link_is_refused)
{
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

TEST(the_default_folder_follows_the_environment)
{
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

/* --- several agents in one folder: a lock belongs to an open file, so two in one process are as good --- */

struct news {
    _Atomic uint32_t found;
    _Atomic uint64_t budget;
    _Atomic uint32_t shrunk;
};

static void on_found(void *user, const uint8_t name[32], uint64_t bytes)
{
    (void)name;
    (void)bytes;
    ((struct news *)user)->found++;
}

static void on_shrunk(void *user, uint64_t budget)
{
    struct news *n = user;
    n->budget = budget;
    n->shrunk++;
}

static struct leat_disk *open_with_news(uint64_t budget, struct news *news)
{
    struct leat_disk *d = NULL;
    struct leat_error err;
    struct leat_disk_opts opts = {
        .dir = folder, .budget = budget, .look_ns = 50 * LEAT_MS, .shrunk = on_shrunk, .found = on_found, .user = news};
    assert_ok(leat_disk_open(&opts, &d, &err), err);
    return d;
}

static bool found_one(void *user)
{
    return ((struct news *)user)->found >= 1;
}

static bool owns_two(void *user)
{
    struct leat_disk_stats stats;
    leat_disk_stats(user, &stats);
    return stats.segments == 2;
}

TEST_WITH(make_folder, remove_folder, agents_of_a_folder_read_each_others_chunks_and_inherit_them)
{
    struct leat_error err;
    struct news news = {0};
    struct leat_disk *a = disk_open(folder, 0);
    assert_ok(disk_write_seed(a, 1, 50000, &err), err);
    struct leat_disk *b = open_with_news(1 << 30, &news);
    assert_int_equal(disk_count(b), 1);
    assert_ok(disk_read_seed(b, 1, 50000, &err), err);
    assert_ok(disk_write_seed(b, 1, 50000, &err), err); /* it is there: nothing is written */
    assert_int_equal(disk_segment_count(folder), 1);
    assert_ok(disk_write_seed(b, 2, 50000, &err), err);
    assert_int_equal(disk_segment_count(folder), 2);

    assert_ok(disk_write_seed(a, 3, 50000, &err), err);
    assert_true(disk_wait(found_one, &news));
    assert_ok(disk_read_seed(b, 3, 50000, &err), err);

    disk_remove_seed(a, 1, 50000); /* under b's feet */
    while (disk_read_seed(b, 1, 50000, &err) == LEAT_OK)
        leat_sleep_until(leat_after(LEAT_MS));
    assert_int_equal(err.status, LEAT_NOT_FOUND);

    disk_remove_seed(b, 3, 50000); /* not b's to remove */
    assert_ok(disk_read_seed(a, 3, 50000, &err), err);

    leat_disk_close(a);
    assert_true(disk_wait(owns_two, b));
    assert_ok(disk_read_seed(b, 3, 50000, &err), err);
    assert_ok(disk_read_seed(b, 2, 50000, &err), err);
    leat_disk_close(b);
}

static bool budget_is_less(void *user)
{
    return ((struct news *)user)->budget && ((struct news *)user)->budget < 12u << 20;
}

TEST_WITH(make_folder, remove_folder, agents_of_a_folder_share_one_budget)
{
    struct leat_error err;
    struct news news = {0};
    struct leat_disk *a = disk_open(folder, 16u << 20);
    for (uint32_t i = 0; i < 6; i++)
        assert_ok(disk_write_seed(a, i, 1 << 20, &err), err);
    struct leat_disk *b = open_with_news(16u << 20, &news);
    uint64_t sum = leat_disk_budget(b);
    assert_true(sum > 15u << 20); /* a's chunks are visible: they count as used, not as lost */
    for (uint32_t i = 0; i < 6; i++)
        disk_remove_seed(b, i, 1 << 20); /* b forgets them; the bytes stay */
    assert_true(disk_wait(budget_is_less, &news));
    uint32_t n = 100;
    while (disk_write_seed(b, n, 1 << 20, &err) == LEAT_OK)
        n++;
    assert_int_equal(err.status, LEAT_NO_SPACE);
    assert_in_range(n - 100, 8, 10);
    assert_true(disk_allocated(folder) <= 16u << 20);
    leat_disk_close(a);
    leat_disk_close(b);
}

#define AGENTS 4u
#define SHARED (4u << 20)
#define PIECE  150000u
#define HEADS  (64u << 10) /* of a segment: its head, its table, the file system's own blocks */

static struct leat_disk *agents[AGENTS];
static _Atomic uint64_t most; /* bytes of the disk that were taken at any time */
static _Atomic uint32_t stored;

static void note_most(void)
{
    uint64_t now = disk_allocated(folder);
    uint64_t before = most;
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
        ;
}

/* Stores until there is no room, then replaces what it has, one by one. */
static void *fill(void *arg)
{
    uint32_t agent = (uint32_t)(uintptr_t)arg;
    struct leat_error err;
    uint32_t first = agent * 1000;
    uint32_t next = first;
    for (uint32_t i = 0; i < 40; i++) {
        if (disk_write_seed(agents[agent], next, PIECE, &err) == LEAT_OK)
            next++;
        else if (first < next)
            disk_remove_seed(agents[agent], first++, PIECE);
        note_most();
    }
    stored += next - agent * 1000;
    return NULL;
}

/* None of them looks at the folder in time to see by itself what the others have stored. */
TEST_WITH(make_folder, remove_folder, agents_that_write_at_once_keep_to_one_budget)
{
    pthread_t threads[AGENTS];
    struct leat_disk_opts opts = {.dir = folder, .budget = SHARED, .look_ns = 3600 * LEAT_S};
    struct leat_error err;
    most = stored = 0;
    for (uint32_t i = 0; i < AGENTS; i++)
        assert_ok(leat_disk_open(&opts, &agents[i], &err), err);
    for (uint32_t round = 0; round < 2; round++) { /* one after the other, then all at once */
        for (uintptr_t i = 0; i < AGENTS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, fill, (void *)i), 0);
            if (round == 0)
                pthread_join(threads[i], NULL);
        }
        for (uint32_t i = 0; i < AGENTS && round == 1; i++)
            pthread_join(threads[i], NULL);
        assert_in_range(most, SHARED / 2, SHARED + AGENTS * HEADS);
        for (uint32_t i = 0; i < AGENTS; i++) {
            assert_int_equal(disk_verify(agents[i]), disk_count(agents[i]));
            for (uint32_t k = 0; k < 40; k++)
                disk_remove_seed(agents[i], i * 1000 + k, PIECE);
        }
    }
    assert_true(stored > 2 * SHARED / PIECE);
    for (uint32_t i = 0; i < AGENTS; i++)
        leat_disk_close(agents[i]);
}

/* --- the folder changes under a running agent --- */

static bool is_empty(void *user)
{
    return disk_count(user) == 0;
}

TEST_WITH(make_folder, remove_folder, a_segment_that_is_removed_is_forgotten_and_another_one_made)
{
    struct leat_error err;
    struct news news = {0};
    struct leat_disk *d = open_with_news(1 << 30, &news);
    char file[128];
    assert_ok(disk_write_seed(d, 1, 50000, &err), err);
    disk_segment_file(folder, file);
    assert_int_equal(unlink(file), 0);
    assert_true(disk_wait(is_empty, d));
    assert_ok(disk_write_seed(d, 2, 50000, &err), err);
    assert_int_equal(disk_segment_count(folder), 1);
    assert_ok(disk_read_seed(d, 2, 50000, &err), err);
    leat_disk_close(d);
}

TEST_WITH(make_folder, remove_folder, a_folder_that_is_removed_is_made_again)
{
    struct leat_error err;
    struct news news = {0};
    struct stat st;
    struct leat_disk *d = open_with_news(1 << 30, &news);
    assert_ok(disk_write_seed(d, 1, 50000, &err), err);
    disk_folder_remove(folder);
    assert_true(disk_wait(is_empty, d));
    while (disk_write_seed(d, 2, 50000, &err) != LEAT_OK)
        leat_sleep_until(leat_after(10 * LEAT_MS));
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    leat_disk_close(d);
    d = disk_open(folder, 0);
    assert_ok(disk_read_seed(d, 2, 50000, &err), err);
    leat_disk_close(d);
}

static bool one_segment(void *user)
{
    return disk_segment_count(user) == 1;
}

TEST_WITH(make_folder, remove_folder, segments_that_nothing_is_in_any_more_are_removed)
{
    struct leat_error err;
    struct news news = {0};
    struct leat_disk *d = open_with_news(1 << 30, &news);
    for (uint32_t i = 0; i < 6; i++)
        assert_ok(disk_write_seed(d, i, 16u << 20, &err), err); /* three or four in a segment */
    assert_true(disk_segment_count(folder) >= 2);
    for (uint32_t i = 0; i < 6; i++)
        disk_remove_seed(d, i, 16u << 20);
    assert_true(disk_wait(one_segment, folder));
    leat_disk_close(d);
}

/* --- many at once --- */

#define STRESS_CHUNKS  24u
#define STRESS_THREADS 4u

static struct leat_disk *shared;
static uint32_t stress_steps = 400;

static void *stress(void *arg)
{
    struct leat_rng r = leat_rng((uint64_t)(uintptr_t)arg, 7);
    struct leat_error err;
    for (uint32_t i = 0; i < stress_steps; i++) {
        uint32_t seed = (uint32_t)leat_rng_below(&r, STRESS_CHUNKS);
        uint64_t bytes = 1000 + 7001 * seed;
        uint64_t what = leat_rng_below(&r, 4);
        leat_status rc = LEAT_OK;
        if (what == 0)
            disk_remove_seed(shared, seed, bytes);
        else if (what == 1)
            rc = disk_write_seed(shared, seed, bytes, &err);
        else
            rc = disk_read_seed(shared, seed, bytes, &err);
        if (rc != LEAT_OK && rc != LEAT_NOT_FOUND && rc != LEAT_NO_SPACE)
            fail_msg("%s", err.text);
    }
    return NULL;
}

TEST_WITH(make_folder, remove_folder, readers_writers_and_removals_at_once_never_mix_bytes)
{
    pthread_t threads[STRESS_THREADS];
    struct leat_disk_stats stats;
    shared = disk_open(folder, 1500000);
    for (uintptr_t i = 0; i < STRESS_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stress, (void *)(i + 1)), 0);
    for (uintptr_t i = 0; i < STRESS_THREADS; i++)
        pthread_join(threads[i], NULL);
    leat_disk_stats(shared, &stats);
    assert_int_equal(stats.damaged, 0);
    assert_true(stats.reads > 0 && stats.removed > 0 && stats.writes > 0);
    assert_true(stats.used <= 1500000);
    uint32_t n = disk_count(shared);
    leat_disk_close(shared);
    shared = disk_open(folder, 1500000);
    assert_int_equal(disk_count(shared), n);
    assert_int_equal(disk_verify(shared), n);
    leat_disk_stats(shared, &stats);
    assert_int_equal(stats.damaged, 0);
    leat_disk_close(shared);
}

static _Atomic uint32_t answered;

static void cancelled(struct leat_disk_op *op)
{
    assert_true(op->err.status == LEAT_OK || op->err.status == LEAT_CANCELLED);
    answered++;
}

TEST_WITH(make_folder, remove_folder, closing_answers_every_operation)
{
    struct leat_disk_op ops[64];
    static uint8_t data[40000];
    answered = 0;
    struct leat_disk *d = disk_open(folder, 0);
    for (uint32_t i = 0; i < COUNT(ops); i++) {
        ops[i] = (struct leat_disk_op){.kind = LEAT_DISK_WRITE, .data = data, .bytes = sizeof data, .done = cancelled};
        ops[i].name[0] = (uint8_t)i;
        leat_disk_submit(d, &ops[i]);
    }
    leat_disk_close(d);
    assert_int_equal(answered, COUNT(ops));
    leat_disk_close(NULL);
}
