/* The feed over a server and a disk that misbehave: every chunk arrives checked or one event says why not, damage is
 * fetched again and then named, and closing waits for what is on its way. */
#include "feed/feed.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "dataset/pack.h"
#include "disk_bench.h"
#include "fail_alloc.h"
#include "store_bench.h"
#include "unit.h"

#define SAMPLES     240u
#define CHUNK_BYTES (200u << 10)
#define VALUE       (20u << 10)
#define LARGE       (11u << 19) /* comes in ranges when it may */
#define FEW         8u

static char folder[64];

/* The server, and what it does to requests for chunks. */
static struct {
    struct peer *peer;
    atomic_int flips;  /* answers still to be damaged; below 0: all */
    atomic_uint code;  /* 0: a proper answer */
    atomic_bool never; /* answers when the other side has hung up */
    atomic_bool cut;   /* objects are a byte shorter */
    atomic_uint requests;
} bucket;

static bool flip_now(void)
{
    int left = bucket.flips;
    return left && (left < 0 || atomic_fetch_sub(&bucket.flips, 1) > 0);
}

static bool serve(struct peer_request *r, void *user)
{
    static const char start[] = "/bucket/";
    char path[512];
    (void)user;
    snprintf(path, sizeof path, "%s/%.400s", folder, r->target + sizeof start - 1);
    bool mine = strstr(path, "/chunks/") != NULL;
    bucket.requests += mine;
    if (mine && bucket.never) {
        peer_wait_gone(r);
        return false;
    }
    if (mine && bucket.code)
        return peer_answer(r, bucket.code, "<Error><Code>Odd</Code></Error>");
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return peer_answer(r, 404, "<Error><Code>NoSuchKey</Code></Error>");
    size_t n = (size_t)st.st_size;
    char *data = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        return false;
    if (mine && flip_now())
        data[(r->has_range ? r->first : 0) + 4000] ^= 4;
    bool ok = peer_object(r, data, n - (mine && bucket.cut), "\"t\"");
    munmap(data, n);
    return ok;
}

static void pack_samples(const char *name, uint32_t samples, uint32_t chunk_bytes, size_t value_bytes)
{
    struct leat_home home;
    struct leat_error err;
    struct leat_schema schema = {0};
    struct leat_pack *pack;
    uint8_t id[LEAT_SHA256_SIZE];
    char *data = malloc(value_bytes);
    assert_non_null(data);
    assert_ok(leat_home_open(bench_path(folder, name), NULL, &home, &err), err);
    assert_ok(leat_schema_add(&schema, "data", LEAT_FIELD_BYTES, NULL, &err), err);
    struct leat_pack_opts opts = {.schema = &schema, .chunk_bytes = chunk_bytes, .id = "pack"};
    assert_ok(leat_pack_open(&home, &opts, &pack, &err), err);
    for (uint32_t i = 0; i < samples; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        bench_fill(data, value_bytes, i);
        struct leat_value value = {.data = data, .size = value_bytes};
        assert_ok(leat_pack_add(pack, key, strlen(key), &value, &err), err);
    }
    assert_ok(leat_pack_finish(pack, id, &err), err);
    leat_pack_close(pack);
    leat_home_close(&home);
    free(data);
}

/* A feed whose thread is the test's own: tasks that come back wait until it runs them. */

enum fate { NOTHING, ARRIVED, FAILED, CANCELLED, LOST, STORED, NOT_STORED };

struct bench {
    struct leat_dataset *dataset;
    const struct leat_root *root;
    struct leat_pool *pool;
    char dir[64];
    struct leat_disk *disk;
    struct leat_feed *feed;
    struct leat_source *source;
    struct {
        pthread_mutex_t mu;
        pthread_cond_t cond;
        struct leat_task *first, **last;
    } locked;
    struct leat_sched_chunk *chunks; /* by number */
    enum fate *fates;
    struct leat_error err; /* of the disk, the last */
    unsigned events;
    unsigned closed;
    bool inside; /* a call of the feed's functions */
};

static void later(void *user, struct leat_task *task)
{
    leat_pool_add(((struct bench *)user)->pool, task);
}

static void back(void *user, struct leat_task *task)
{
    struct bench *b = user;
    pthread_mutex_lock(&b->locked.mu);
    task->next = NULL;
    *b->locked.last = task;
    b->locked.last = &task->next;
    pthread_cond_signal(&b->locked.cond);
    pthread_mutex_unlock(&b->locked.mu);
}

static void note(struct bench *b, const struct leat_sched_chunk *c, enum fate fate, const struct leat_error *err)
{
    assert_false(b->inside);
    b->fates[c - b->chunks] = fate;
    b->events++;
    if (err)
        b->err = *err;
}

static void on_arrived(void *user, struct leat_sched_chunk *c)
{
    note(user, c, ARRIVED, NULL);
}

static void on_failed(void *user, struct leat_sched_chunk *c)
{
    note(user, c, FAILED, NULL);
}

static void on_cancelled(void *user, struct leat_sched_chunk *c)
{
    note(user, c, CANCELLED, NULL);
}

static void on_lost(void *user, struct leat_sched_chunk *c, const struct leat_error *err)
{
    note(user, c, LOST, err);
}

static void on_stored(void *user, struct leat_sched_chunk *c, const struct leat_error *err)
{
    note(user, c, err->status == LEAT_OK ? STORED : NOT_STORED, err);
}

static void on_closed(void *user)
{
    ((struct bench *)user)->closed++;
}

static struct bench *open_bench(const char *name, uint64_t disk)
{
    struct bench *b = calloc(1, sizeof *b);
    struct leat_error err;
    char url[64];
    assert_non_null(b);
    bucket.flips = 0;
    bucket.code = 0;
    bucket.never = bucket.cut = false;
    snprintf(url, sizeof url, "s3://bucket/%s", name);
    struct leat_store_opts opts = {.endpoint_url = peer_url(bucket.peer), .anonymous = true, .attempts = 1};
    assert_ok(leat_dataset_open(url, &opts, NULL, &b->dataset, &err), err);
    b->root = leat_dataset_root(b->dataset);
    assert_true(b->root->chunks >= FEW);
    assert_ok(leat_pool_open("test", 2, &b->pool, &err), err);
    disk_folder(b->dir);
    if (disk)
        b->disk = disk_open(b->dir, disk);
    pthread_mutex_init(&b->locked.mu, NULL);
    leat_cond_init(&b->locked.cond);
    b->locked.last = &b->locked.first;
    struct leat_feed_opts feed = {
        .disk = b->disk,
        .later = later,
        .back = back,
        .arrived = on_arrived,
        .failed = on_failed,
        .cancelled = on_cancelled,
        .lost = on_lost,
        .stored = on_stored,
        .user = b,
    };
    assert_ok(leat_feed_open(&feed, &b->feed, &err), err);
    assert_ok(leat_source_open(b->feed, b->dataset, &b->source, &err), err);
    b->chunks = calloc(b->root->chunks, sizeof *b->chunks);
    b->fates = calloc(b->root->chunks, sizeof *b->fates);
    assert_non_null(b->chunks);
    assert_non_null(b->fates);
    for (uint32_t i = 0; i < b->root->chunks; i++) {
        memcpy(b->chunks[i].name, leat_root_chunk_name(b->root, i), LEAT_SCHED_NAME);
        b->chunks[i].bytes = b->root->sizes[i];
    }
    bucket.requests = 0;
    return b;
}

/* Runs what has come back, waiting for it; false: nothing came for so long. */
static bool turn(struct bench *b, uint64_t wait_ns)
{
    uint64_t end = leat_after(wait_ns);
    pthread_mutex_lock(&b->locked.mu);
    while (!b->locked.first && leat_left(end) > 0)
        leat_cond_wait(&b->locked.cond, &b->locked.mu, end);
    struct leat_task *task = b->locked.first;
    b->locked.first = NULL;
    b->locked.last = &b->locked.first;
    pthread_mutex_unlock(&b->locked.mu);
    bool any = task != NULL;
    while (task) {
        struct leat_task *next = task->next;
        task->run(task);
        task = next;
    }
    return any;
}

static void await_events(struct bench *b, unsigned wanted)
{
    while (b->events < wanted)
        if (!turn(b, 20 * LEAT_S))
            fail_msg("%u events of %u after 20 s", b->events, wanted);
    assert_false(turn(b, 0)); /* one each, and no more */
    assert_int_equal(b->events, wanted);
}

static void close_bench(struct bench *b)
{
    leat_source_close(b->source, on_closed, b);
    while (!b->closed)
        assert_true(turn(b, 20 * LEAT_S));
    leat_disk_close(b->disk);
    turn(b, 0);
    for (uint32_t i = 0; i < b->root->chunks; i++)
        leat_feed_gone(b->feed, &b->chunks[i]);
    leat_feed_close(b->feed);
    leat_pool_close(b->pool);
    assert_null(b->locked.first);
    leat_dataset_close(b->dataset);
    disk_folder_remove(b->dir);
    pthread_cond_destroy(&b->locked.cond);
    pthread_mutex_destroy(&b->locked.mu);
    free(b->chunks);
    free(b->fates);
    free(b);
}

static bool try_fetch(struct bench *b, uint32_t number, struct leat_sched_fetch how)
{
    how.number = number;
    b->fates[number] = NOTHING;
    b->inside = true;
    bool ok = leat_feed_fetch(b->source, &b->chunks[number], &how);
    b->inside = false;
    return ok;
}

static void fetch(struct bench *b, uint32_t number, struct leat_sched_fetch how)
{
    assert_true(try_fetch(b, number, how));
}

/* Fetches it and waits; what became of it. */
static enum fate bring(struct bench *b, uint32_t number, struct leat_sched_fetch how)
{
    fetch(b, number, how);
    await_events(b, b->events + 1);
    return b->fates[number];
}

static enum fate keep(struct bench *b, uint32_t number)
{
    b->inside = true;
    assert_true(leat_feed_store(b->feed, &b->chunks[number]));
    b->inside = false;
    await_events(b, b->events + 1);
    return b->fates[number];
}

/* Its samples are those that were packed: keys are the seeds of their values. */
static void assert_right(struct bench *b, uint32_t number, size_t value_bytes)
{
    const struct leat_chunk *chunk = leat_feed_chunk(&b->chunks[number]);
    char *expected = malloc(value_bytes);
    assert_non_null(expected);
    assert_true(chunk->samples > 0);
    for (uint32_t i = 0; i < chunk->samples; i++) {
        size_t key_n;
        char key[16] = {0};
        const char *at = leat_chunk_key(chunk, i, &key_n);
        assert_true(key_n < sizeof key);
        memcpy(key, at, key_n);
        bench_fill(expected, value_bytes, strtoull(key, NULL, 10));
        struct leat_cell cell = leat_chunk_cell(chunk, i, 0);
        assert_int_equal(cell.size, value_bytes);
        assert_memory_equal(leat_chunk_data(chunk, &cell), expected, value_bytes);
    }
    free(expected);
}

static const struct leat_sched_fetch plain = {.ranges = 1};
static const struct leat_sched_fetch disk_read = {.from_disk = true};

static void every_chunk_comes_from_the_bucket_right_and_once(void **state)
{
    (void)state;
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

static void dropped_chunk_comes_again_into_the_memory_of_another(void **state)
{
    (void)state;
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

static void hurried_chunk_comes_in_ranges(void **state)
{
    (void)state;
    struct bench *b = open_bench("large", 0);
    struct leat_sched_fetch how = {.ranges = 3, .urgent = true};
    assert_int_equal(bring(b, 0, how), ARRIVED);
    assert_int_equal(bucket.requests, 3);
    assert_right(b, 0, LARGE / 4);
    close_bench(b);
}

static void damage_on_the_way_is_fetched_again(void **state)
{
    (void)state;
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

static void damage_in_the_bucket_is_named_after_two_reads_and_can_be_mended(void **state)
{
    (void)state;
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

static void refused_and_missing_chunks_fail_with_the_reason(void **state)
{
    (void)state;
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

static void stored_chunk_comes_from_disk_without_a_request(void **state)
{
    (void)state;
    struct bench *b = open_bench("ds", 64 << 20);
    for (uint32_t i = 0; i < FEW; i++) {
        assert_int_equal(bring(b, i, plain), ARRIVED);
        assert_int_equal(keep(b, i), STORED);
        leat_feed_drop(b->feed, &b->chunks[i]);
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

static void damage_on_disk_is_lost_and_the_bucket_has_it(void **state)
{
    (void)state;
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
static void other_bytes_under_a_chunks_name_are_lost(void **state)
{
    (void)state;
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

static void what_does_not_fit_the_disk_is_not_stored(void **state)
{
    (void)state;
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

static void closing_a_source_cancels_what_would_take_for_ever(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 10; round++) {
        struct bench *b = open_bench("ds", 0);
        bucket.never = true;
        for (uint32_t i = 0; i < FEW; i++)
            fetch(b, i, plain);
        if (round % 2)
            usleep(3000 * round);
        uint64_t begun = leat_now_ns();
        leat_source_close(b->source, on_closed, b);
        assert_int_equal(b->closed, 0);
        assert_false(try_fetch(b, FEW - 1, plain)); /* nothing begins any more */
        await_events(b, FEW);
        assert_int_equal(b->closed, 1);
        assert_true(leat_now_ns() - begun < 5 * LEAT_S);
        for (uint32_t i = 0; i + 1 < FEW; i++)
            assert_int_equal(b->fates[i], CANCELLED);
        b->source = NULL;
        b->closed = 0;
        close_bench(b);
    }
}

static void closing_a_source_in_the_middle_ends_every_chunk_once(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 12; round++) {
        struct bench *b = open_bench("ds", 64 << 20);
        for (uint32_t i = 0; i < FEW / 2; i++) {
            assert_int_equal(bring(b, i, plain), ARRIVED);
            assert_int_equal(keep(b, i), STORED);
            leat_feed_drop(b->feed, &b->chunks[i]);
        }
        bucket.flips = round % 3; /* some would be fetched again */
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

static void disk_that_is_closed_gives_back_what_has_not_begun(void **state)
{
    (void)state;
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
static void allocations_that_fail_begin_nothing(void **state)
{
    (void)state;
    struct bench *b = open_bench("ds", 64 << 20);
    unsigned refused[2] = {0};
    assert_int_equal(bring(b, 1, plain), ARRIVED);
    assert_int_equal(keep(b, 1), STORED);
    for (unsigned way = 0; way < 4; way++) { /* bucket, disk; one fails, all behind it fail */
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
static void no_memory_to_fetch_again_leaves_the_first_error(void **state)
{
    (void)state;
    struct bench *b = open_bench("ds", 0);
    bucket.flips = -1;
    fetch(b, 5, plain);
    pthread_mutex_lock(&b->locked.mu);
    for (uint64_t end = leat_after(20 * LEAT_S); !b->locked.first && leat_left(end) > 0;)
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

int main(void)
{
    bench_clean_environment();
    bench_folder(folder);
    bucket.peer = peer_open(serve, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chunk_comes_from_the_bucket_right_and_once),
        cmocka_unit_test(dropped_chunk_comes_again_into_the_memory_of_another),
        cmocka_unit_test(hurried_chunk_comes_in_ranges),
        cmocka_unit_test(damage_on_the_way_is_fetched_again),
        cmocka_unit_test(damage_in_the_bucket_is_named_after_two_reads_and_can_be_mended),
        cmocka_unit_test(refused_and_missing_chunks_fail_with_the_reason),
        cmocka_unit_test(stored_chunk_comes_from_disk_without_a_request),
        cmocka_unit_test(damage_on_disk_is_lost_and_the_bucket_has_it),
        cmocka_unit_test(other_bytes_under_a_chunks_name_are_lost),
        cmocka_unit_test(what_does_not_fit_the_disk_is_not_stored),
        cmocka_unit_test(closing_a_source_cancels_what_would_take_for_ever),
        cmocka_unit_test(closing_a_source_in_the_middle_ends_every_chunk_once),
        cmocka_unit_test(disk_that_is_closed_gives_back_what_has_not_begun),
        cmocka_unit_test(allocations_that_fail_begin_nothing),
        cmocka_unit_test(no_memory_to_fetch_again_leaves_the_first_error),
    };
    pack_samples("ds", SAMPLES, CHUNK_BYTES, VALUE);
    pack_samples("large", 24, LARGE, LARGE / 4);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    peer_close(bucket.peer);
    bench_remove(folder);
    return failed;
}
