/* The feed over a server and a disk that misbehave: every chunk arrives checked or one event says why not, damage is
 * fetched again and then named, and closing waits for what is on its way. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "fail_alloc.h"
#include "feed_bench.h"
#include "unit.h"

#define SAMPLES     240u
#define CHUNK_BYTES (200u << 10)
#define VALUE       (20u << 10)
#define LARGE       (11u << 19) /* comes in ranges when it may */

TEST(every_chunk_comes_from_the_bucket_right_and_once)
{
    struct bench *b = open_bench("ds", 0);
    struct leat_source_stats stats;
    for (uint32_t i = 0; i < b->root->chunks; i++)
        fetch(b, i, plain);
    leat_source_stats(b->source, &stats);
    assert_int_equal(stats.coming, b->root->chunks);
    await_events(b, b->root->chunks);
    for (uint32_t i = 0; i < b->root->chunks; i++) {
        assert_int_equal(b->fates[i], ARRIVED);
        assert_right(b, i, VALUE);
    }
    assert_int_equal(bucket.requests, b->root->chunks);
    leat_source_stats(b->source, &stats);
    assert_int_equal(stats.coming, 0);
    assert_int_equal(stats.corrupt + stats.failed, 0);
    assert_false(leat_feed_store(b->feed, &b->chunks[0])); /* there is no disk */
    close_bench(b);
}

TEST(dropped_chunk_comes_again_into_the_memory_of_another)
{
    struct bench *b = open_bench("large", 0);
    assert_int_equal(bring(b, 0, plain), ARRIVED);
    assert_int_equal(bring(b, 1, plain), ARRIVED);
    for (unsigned round = 0; round < 4; round++) {
        uint32_t out = round % 2;
        leat_feed_drop(b->feed, &b->chunks[out]);
        if (round == 3)
            leat_feed_trim(b->feed);
        assert_int_equal(bring(b, 2 + round, plain), ARRIVED);
        assert_int_equal(bring(b, out, plain), ARRIVED);
        assert_right(b, 2 + round, LARGE / 4);
        assert_right(b, out, LARGE / 4);
    }
    close_bench(b);
}

TEST(hurried_chunk_comes_in_ranges)
{
    struct bench *b = open_bench("large", 0);
    struct leat_sched_fetch how = {.ranges = 3, .urgent = true};
    assert_int_equal(bring(b, 0, how), ARRIVED);
    assert_int_equal(bucket.requests, 3);
    assert_right(b, 0, LARGE / 4);
    close_bench(b);
}

TEST(damage_on_the_way_is_fetched_again)
{
    struct bench *b = open_bench("ds", 0);
    struct leat_source_stats stats;
    bucket.flips = 1;
    assert_int_equal(bring(b, 3, plain), ARRIVED);
    assert_right(b, 3, VALUE);
    assert_int_equal(bucket.requests, 2);
    leat_source_stats(b->source, &stats);
    assert_int_equal(stats.corrupt, 1);
    assert_int_equal(stats.failed, 0);
    close_bench(b);
}

TEST(damage_in_the_bucket_is_named_after_two_reads_and_can_be_mended)
{
    struct bench *b = open_bench("ds", 0);
    struct leat_source_stats stats;
    char name[LEAT_NAME_MAX];
    leat_name_chunk(leat_root_chunk_name(b->root, 3), name);
    for (unsigned way = 0; way < 2; way++) { /* other bytes, another length */
        bucket.requests = 0;
        bucket.flips = way ? 0 : -1;
        bucket.cut = way;
        assert_int_equal(bring(b, 3, plain), FAILED);
        assert_int_equal(leat_feed_error(&b->chunks[3])->status, LEAT_CORRUPT);
        if (!strstr(leat_feed_error(&b->chunks[3])->text, name))
            fail_msg("no name in: %s", leat_feed_error(&b->chunks[3])->text);
        assert_int_equal(bucket.requests, 2);
        leat_source_stats(b->source, &stats);
        assert_int_equal(stats.corrupt, 2 * (way + 1));
        assert_int_equal(stats.failed, way + 1);
    }
    bucket.cut = false;
    assert_int_equal(bring(b, 3, plain), ARRIVED);
    assert_right(b, 3, VALUE);
    close_bench(b);
}

TEST(refused_and_missing_chunks_fail_with_the_reason)
{
    static const struct {
        unsigned code;
        leat_status status;
    } cases[] = {{404, LEAT_NOT_FOUND}, {403, LEAT_DENIED}};
    struct bench *b = open_bench("ds", 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        bucket.code = cases[i].code;
        bucket.requests = 0;
        assert_int_equal(bring(b, 1, plain), FAILED);
        assert_int_equal(leat_feed_error(&b->chunks[1])->status, cases[i].status);
        assert_int_equal(bucket.requests, 1);
    }
    bucket.code = 0;
    assert_int_equal(bring(b, 1, plain), ARRIVED);
    close_bench(b);
}

TEST(stored_chunk_comes_from_disk_without_a_request)
{
    struct bench *b = open_bench("ds", 64 << 20);
    for (uint32_t i = 0; i < FEW; i++) {
        assert_int_equal(bring(b, i, plain), ARRIVED);
        assert_int_equal(keep(b, i), STORED);
        assert_non_null(b->chunks[i].user);
        leat_feed_drop(b->feed, &b->chunks[i]);
        assert_null(b->chunks[i].user); /* a large disk holds more chunks than memory holds what is known of them */
    }
    leat_feed_trim(b->feed);
    bucket.requests = 0;
    for (uint32_t i = 0; i < FEW; i++) {
        assert_int_equal(bring(b, i, disk_read), ARRIVED);
        assert_right(b, i, VALUE);
    }
    assert_int_equal(bucket.requests, 0);
    leat_feed_drop(b->feed, &b->chunks[0]);
    leat_feed_forget(b->feed, &b->chunks[0]);
    assert_int_equal(bring(b, 0, disk_read), LOST);
    assert_int_equal(b->err.status, LEAT_NOT_FOUND);
    assert_null(b->chunks[0].user);
    assert_int_equal(bring(b, 0, plain), ARRIVED);
    close_bench(b);
}

static void flip_on_disk(const struct bench *b)
{
    char path[128];
    struct stat st;
    disk_segment_file(b->dir, path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    for (off_t at = 0; at < st.st_size; at += 4096) { /* heads of entries too */
        uint8_t byte;
        if (pread(fd, &byte, 1, at + 2000) != 1)
            break;
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, at + 2000), 1);
    }
    close(fd);
}

TEST(damage_on_disk_is_lost_and_the_bucket_has_it)
{
    struct bench *b = open_bench("ds", 64 << 20);
    struct leat_source_stats stats;
    assert_int_equal(bring(b, 2, plain), ARRIVED);
    assert_int_equal(keep(b, 2), STORED);
    leat_feed_drop(b->feed, &b->chunks[2]);
    flip_on_disk(b);
    assert_int_equal(bring(b, 2, disk_read), LOST);
    assert_int_equal(b->err.status, LEAT_CORRUPT);
    leat_source_stats(b->source, &stats);
    assert_int_equal(stats.corrupt + stats.failed, 0); /* not the bucket's fault */
    assert_int_equal(bring(b, 2, plain), ARRIVED);
    assert_right(b, 2, VALUE);
    close_bench(b);
}

/* The disk's own checksum is right, but the bytes are not the chunk's. */
TEST(other_bytes_under_a_chunks_name_are_lost)
{
    struct bench *b = open_bench("ds", 64 << 20);
    struct leat_error err;
    char *data = malloc(b->chunks[0].bytes);
    assert_non_null(data);
    bench_fill(data, b->chunks[0].bytes, 77);
    assert_ok(disk_run(b->disk, LEAT_DISK_WRITE, b->chunks[0].name, data, b->chunks[0].bytes, &err), err);
    free(data);
    assert_int_equal(bring(b, 0, disk_read), LOST);
    assert_int_equal(b->err.status, LEAT_CORRUPT);
    close_bench(b);
}

TEST(what_does_not_fit_the_disk_is_not_stored)
{
    struct bench *b = open_bench("ds", 1 << 20);
    unsigned stored = 0;
    for (uint32_t i = 0; i < FEW; i++) {
        assert_int_equal(bring(b, i, plain), ARRIVED);
        enum fate fate = keep(b, i);
        stored += fate == STORED;
        if (fate != STORED)
            assert_int_equal(b->err.status, LEAT_NO_SPACE);
        assert_right(b, i, VALUE); /* still there */
    }
    assert_in_range(stored, 1, FEW - 1);
    close_bench(b);
}

TEST(closing_a_source_cancels_what_would_take_for_ever)
{
    for (unsigned round = 0; round < 10; round++) {
        struct bench *b = open_bench("ds", 0);
        bucket.never = true;
        for (uint32_t i = 0; i < FEW; i++)
            fetch(b, i, plain);
        if (round % 2)
            usleep(3000 * round);
        leat_source_close(b->source, on_closed, b);
        assert_int_equal(b->closed, 0);
        assert_false(try_fetch(b, FEW - 1, plain)); /* nothing begins any more */
        await_events(b, FEW);
        assert_int_equal(b->closed, 1);
        for (uint32_t i = 0; i + 1 < FEW; i++)
            assert_int_equal(b->fates[i], CANCELLED);
        b->source = NULL;
        b->closed = 0;
        close_bench(b);
    }
}

TEST(closing_a_source_in_the_middle_ends_every_chunk_once)
{
    for (unsigned round = 0; round < 12; round++) {
        struct bench *b = open_bench("ds", 64 << 20);
        for (uint32_t i = 0; i < FEW / 2; i++) {
            assert_int_equal(bring(b, i, plain), ARRIVED);
            assert_int_equal(keep(b, i), STORED);
            leat_feed_drop(b->feed, &b->chunks[i]);
        }
        bucket.flips = round % 2; /* one would be fetched again; two may be of the same chunk */
        unsigned before = b->events;
        for (uint32_t i = 0; i < FEW; i++)
            fetch(b, i, i < FEW / 2 ? disk_read : plain);
        usleep(400 * round);
        leat_source_close(b->source, on_closed, b);
        await_events(b, before + FEW);
        assert_int_equal(b->closed, 1);
        for (uint32_t i = 0; i < FEW; i++) {
            assert_true(b->fates[i] == ARRIVED || (i >= FEW / 2 && b->fates[i] == CANCELLED));
            if (b->fates[i] == ARRIVED)
                assert_right(b, i, VALUE);
        }
        b->source = NULL;
        b->closed = 0;
        close_bench(b);
    }
}

TEST(disk_that_is_closed_gives_back_what_has_not_begun)
{
    struct bench *b = open_bench("ds", 64 << 20);
    for (uint32_t i = 0; i < FEW; i++) {
        assert_int_equal(bring(b, i, plain), ARRIVED);
        assert_int_equal(keep(b, i), STORED);
        leat_feed_drop(b->feed, &b->chunks[i]);
    }
    unsigned before = b->events;
    for (uint32_t i = 0; i < FEW; i++)
        fetch(b, i, disk_read);
    leat_disk_close(b->disk);
    b->disk = NULL;
    await_events(b, before + FEW);
    for (uint32_t i = 0; i < FEW; i++)
        assert_true(b->fates[i] == ARRIVED || b->fates[i] == LOST);
    close_bench(b);
}

/* Every allocation of beginning fails in turn: an action says that it cannot be begun and nothing follows, or it ends
 * as if nothing had happened. */
TEST(allocations_that_fail_begin_nothing)
{
    struct bench *b = open_bench("ds", 64 << 20);
    unsigned refused[2] = {0};
    assert_int_equal(bring(b, 1, plain), ARRIVED);
    assert_int_equal(keep(b, 1), STORED);
    for (unsigned way = 0; way < 4; way++) { /* bucket, disk; one fails, all after it fail */
        struct leat_sched_fetch how = way % 2 ? disk_read : plain;
        uint32_t number = way % 2;
        bool failing = true;
        for (long n = 0; failing; n++) {
            assert_true(n < 1000);
            leat_feed_gone(b->feed, &b->chunks[number]);
            leat_feed_trim(b->feed);
            fail_alloc_at(n, way >= 2);
            bool begun = try_fetch(b, number, how);
            failing = fail_alloc_stop();
            refused[number] += !begun;
            if (begun) {
                await_events(b, b->events + 1);
                assert_int_equal(b->fates[number], ARRIVED);
                assert_right(b, number, VALUE);
            } else {
                assert_true(failing);
                assert_false(turn(b, 0));
            }
        }
    }
    assert_true(refused[0] >= 4 && refused[1] >= 4);
    fail_alloc_at(0, true);
    assert_false(leat_feed_store(b->feed, &b->chunks[0]));
    fail_alloc_stop();
    close_bench(b);
}

/* … and when there is none to fetch a damaged chunk again, that it is damaged is what is said. */
TEST(no_memory_to_fetch_again_leaves_the_first_error)
{
    struct bench *b = open_bench("ds", 0);
    bucket.flips = -1;
    fetch(b, 5, plain);
    pthread_mutex_lock(&b->locked.mu);
    for (uint64_t end = leat_after(60 * LEAT_S); !b->locked.first && leat_left(end) > 0;)
        leat_cond_wait(&b->locked.cond, &b->locked.mu, end);
    pthread_mutex_unlock(&b->locked.mu);
    fail_alloc_at(0, true);
    turn(b, 0);
    assert_true(fail_alloc_stop());
    assert_int_equal(b->fates[5], FAILED);
    assert_int_equal(leat_feed_error(&b->chunks[5])->status, LEAT_CORRUPT);
    assert_int_equal(bucket.requests, 1);
    close_bench(b);
}

static void begin(void)
{
    feed_bench_begin();
    pack_samples("ds", SAMPLES, CHUNK_BYTES, VALUE);
    pack_samples("large", 24, LARGE, LARGE / 4);
}

static void end(void)
{
    feed_bench_end();
}

TEST_GROUP(begin, end);
