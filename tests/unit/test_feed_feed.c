/* The feed over a real file store: chunks come checked, corrupt ones are fetched again and then named. */
#include "feed/feed.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "dataset/pack.h"
#include "net/loop.h"
#include "unit.h"

#define SAMPLES 400u
#define LARGE   (11u << 19) /* chunks of this size come in ranges when somebody waits for them */

struct fixture {
    char dir[64];
    struct leat_dataset *dataset;
    struct leat_loop *loop;
    struct leat_pool *pool;
    struct leat_cache *cache;
    struct leat_feed *feed;
    _Atomic uint32_t changes;
    _Atomic bool closed;
    void (*act)(struct fixture *f); /* on the loop */
    enum leat_feed_state state;
    struct leat_error err;
    uint32_t chunk;
    uint32_t together;
    bool ok;
};

static uint64_t next_use(void *user, uint32_t chunk)
{
    (void)user;
    return chunk; /* the last ones go first */
}

static void later(void *user, struct leat_task *task)
{
    leat_pool_add(((struct fixture *)user)->pool, task);
}

static void back(void *user, struct leat_task *task)
{
    leat_loop_post(((struct fixture *)user)->loop, task);
}

static void changed(void *user)
{
    atomic_fetch_add(&((struct fixture *)user)->changes, 1);
}

static void on_closed(void *user)
{
    atomic_store(&((struct fixture *)user)->closed, true);
}

static void pack_samples(struct fixture *f, uint32_t samples, uint32_t chunk_bytes)
{
    struct leat_home home;
    struct leat_error err;
    struct leat_schema schema = {0};
    struct leat_pack *pack;
    uint8_t id[LEAT_SHA256_SIZE];
    size_t size = (size_t)chunk_bytes * 3 / 80;
    char *data = malloc(size);
    assert_non_null(data);
    assert_ok(leat_home_open(f->dir, NULL, &home, &err), err);
    assert_ok(leat_schema_add(&schema, "data", LEAT_FIELD_BYTES, NULL, &err), err);
    struct leat_pack_opts opts = {.schema = &schema, .chunk_bytes = chunk_bytes, .id = "pack"};
    assert_ok(leat_pack_open(&home, &opts, &pack, &err), err);
    for (uint32_t i = 0; i < samples; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        memset(data, (int)i, size);
        struct leat_value value = {.data = data, .size = size};
        assert_ok(leat_pack_add(pack, key, strlen(key), &value, &err), err);
    }
    assert_ok(leat_pack_finish(pack, id, &err), err);
    leat_pack_close(pack);
    leat_home_close(&home);
    free(data);
}

static struct fixture *open_feed_of(uint64_t budget, uint32_t samples, uint32_t chunk_bytes)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct leat_error err;
    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/leat-feed-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    pack_samples(f, samples, chunk_bytes);
    assert_ok(leat_dataset_open(f->dir, NULL, NULL, &f->dataset, &err), err);
    assert_ok(leat_loop_open("test", &f->loop, &err), err);
    assert_ok(leat_pool_open("test", 2, &f->pool, &err), err);
    assert_ok(leat_cache_open(budget, &f->cache, &err), err);
    struct leat_feed_opts opts = {
        .dataset = f->dataset,
        .cache = f->cache,
        .next_use = next_use,
        .later = later,
        .back = back,
        .changed = changed,
        .user = f,
    };
    assert_ok(leat_feed_open(&opts, &f->feed, &err), err);
    return f;
}

static struct fixture *open_feed(uint64_t budget)
{
    return open_feed_of(budget, SAMPLES, 8000);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void act(void *arg)
{
    struct fixture *f = arg;
    f->act(f);
}

static void on_loop(struct fixture *f, void (*what)(struct fixture *f))
{
    f->act = what;
    leat_loop_call(f->loop, act, f);
}

static void close_it(struct fixture *f)
{
    leat_feed_close(f->feed, on_closed, f);
}

static void close_feed(struct fixture *f)
{
    on_loop(f, close_it);
    for (uint64_t end = leat_after(10 * LEAT_S); !atomic_load(&f->closed); leat_sleep_until(leat_after(LEAT_MS)))
        assert_true(leat_left(end) > 0);
    assert_int_equal(leat_cache_used(f->cache), 0);
    leat_loop_close(f->loop);
    leat_pool_close(f->pool);
    leat_cache_close(f->cache);
    leat_dataset_close(f->dataset);
    nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
}

static void pin(struct fixture *f)
{
    f->ok = leat_feed_pin(f->feed, f->chunk, 0, f->together);
}

static void unpin(struct fixture *f)
{
    leat_feed_unpin(f->feed, f->chunk);
}

static void look(struct fixture *f)
{
    const struct leat_chunk *chunk = NULL;
    f->state = leat_feed_look(f->feed, f->chunk, &chunk, &f->err);
    f->ok = chunk && chunk->samples > 0;
}

static void await(struct fixture *f, uint32_t chunk, enum leat_feed_state wanted)
{
    f->chunk = chunk;
    uint64_t end = leat_after(10 * LEAT_S);
    do {
        on_loop(f, look);
        assert_true(leat_left(end) > 0);
        leat_sleep_until(leat_after(LEAT_MS));
    } while (f->state == LEAT_FEED_COMING);
    assert_int_equal(f->state, wanted);
}

static void pinned_chunks_come_whole(void **state)
{
    (void)state;
    struct fixture *f = open_feed(1 << 20);
    uint32_t chunks = leat_dataset_root(f->dataset)->chunks;
    assert_true(chunks > 10);
    for (f->chunk = 0; f->chunk < chunks; f->chunk++) {
        on_loop(f, pin);
        assert_true(f->ok);
    }
    for (uint32_t i = 0; i < chunks; i++) {
        await(f, i, LEAT_FEED_READY);
        assert_true(f->ok);
    }
    assert_int_equal(atomic_load(&f->changes), chunks);
    struct leat_feed_stats stats;
    leat_feed_stats(f->feed, &stats);
    assert_int_equal(stats.fetched_chunks, chunks);
    assert_int_equal(stats.coming, 0);
    close_feed(f); /* with everything pinned */
}

static void full_cache_has_no_room_until_something_is_unpinned(void **state)
{
    (void)state;
    struct fixture *f = open_feed(20000); /* two chunks */
    for (f->chunk = 0; f->chunk < 2; f->chunk++) {
        on_loop(f, pin);
        assert_true(f->ok);
    }
    f->chunk = 2;
    on_loop(f, pin);
    assert_false(f->ok);
    await(f, 0, LEAT_FEED_READY);
    await(f, 1, LEAT_FEED_READY);
    f->chunk = 1;
    on_loop(f, unpin);
    f->chunk = 2;
    on_loop(f, pin);
    assert_true(f->ok);
    await(f, 2, LEAT_FEED_READY);
    f->chunk = 1;
    on_loop(f, look);
    assert_int_equal(f->state, LEAT_FEED_ABSENT);
    close_feed(f);
}

/* Flips a bit in the middle of a chunk's file. */
static void flip(struct fixture *f, uint32_t chunk)
{
    char name[LEAT_NAME_MAX];
    char path[512];
    uint8_t byte;
    leat_name_chunk(leat_root_chunk_name(leat_dataset_root(f->dataset), chunk), name);
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    chmod(path, 0600);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, 4000), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, 4000), 1);
    close(fd);
}

static void corrupt_chunk_is_fetched_again_then_named_and_can_be_repaired(void **state)
{
    (void)state;
    struct fixture *f = open_feed(1 << 20);
    struct leat_feed_stats stats;
    flip(f, 3);
    f->chunk = 3;
    on_loop(f, pin);
    assert_true(f->ok);
    await(f, 3, LEAT_FEED_FAILED);
    assert_int_equal(f->err.status, LEAT_CORRUPT);
    char name[LEAT_NAME_MAX];
    leat_name_chunk(leat_root_chunk_name(leat_dataset_root(f->dataset), 3), name);
    assert_non_null(strstr(f->err.text, name));
    leat_feed_stats(f->feed, &stats);
    assert_int_equal(stats.corrupt, 2);
    on_loop(f, unpin); /* forgets it */
    on_loop(f, look);
    assert_int_equal(f->state, LEAT_FEED_ABSENT);
    flip(f, 3);
    on_loop(f, pin);
    await(f, 3, LEAT_FEED_READY);
    close_feed(f);
}

static void close_while_chunks_are_coming_waits_for_them(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct fixture *f = open_feed(1 << 20);
        for (f->chunk = 0; f->chunk < 10; f->chunk++)
            on_loop(f, pin);
        close_feed(f);
    }
}

static uint64_t requests_of(const struct fixture *f)
{
    struct leat_store_stats stats;
    leat_store_stats(leat_dataset_home(f->dataset)->store, &stats);
    return stats.requests;
}

/* A chunk that somebody waits for comes in ranges of a mebibyte or more, and never more than 32 for all of them. */
static void waited_for_chunks_come_in_ranges_and_others_in_one(void **state)
{
    (void)state;
    static const struct {
        uint32_t together;
        uint32_t requests;
    } cases[] = {{0, 1}, {1, 5}, {2, 5}, {10, 3}, {16, 2}, {17, 1}, {1000, 1}};
    struct fixture *f = open_feed_of(64 << 20, 240, LARGE);
    assert_true(leat_dataset_root(f->dataset)->chunks >= COUNT(cases));
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        uint64_t before = requests_of(f);
        f->chunk = i;
        f->together = cases[i].together;
        on_loop(f, pin);
        assert_true(f->ok);
        await(f, i, LEAT_FEED_READY);
        assert_int_equal(requests_of(f) - before, cases[i].requests);
    }
    struct leat_feed_stats stats;
    leat_feed_stats(f->feed, &stats);
    assert_int_equal(stats.fetched_chunks, COUNT(cases));
    assert_int_equal(stats.corrupt, 0); /* the checksum is over all of it */
    assert_int_equal(stats.coming, 0);
    close_feed(f);
}

static void corrupt_range_is_noticed_and_the_whole_chunk_fetched_again(void **state)
{
    (void)state;
    struct fixture *f = open_feed_of(64 << 20, 60, LARGE);
    struct leat_feed_stats stats;
    uint64_t before = requests_of(f);
    flip(f, 1);
    f->chunk = 1;
    f->together = 1;
    on_loop(f, pin);
    await(f, 1, LEAT_FEED_FAILED);
    assert_int_equal(f->err.status, LEAT_CORRUPT);
    leat_feed_stats(f->feed, &stats);
    assert_int_equal(stats.corrupt, 2);
    assert_int_equal(requests_of(f) - before, 5 + 1);
    close_feed(f);
}

static void missing_chunk_fails_once_with_all_its_ranges(void **state)
{
    (void)state;
    struct fixture *f = open_feed_of(64 << 20, 60, LARGE);
    struct leat_feed_stats stats;
    char name[LEAT_NAME_MAX];
    char path[512];
    leat_name_chunk(leat_root_chunk_name(leat_dataset_root(f->dataset), 0), name);
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    assert_int_equal(unlink(path), 0);
    f->chunk = 0;
    f->together = 1;
    on_loop(f, pin);
    await(f, 0, LEAT_FEED_FAILED);
    assert_int_equal(f->err.status, LEAT_NOT_FOUND);
    assert_int_equal(atomic_load(&f->changes), 1);
    leat_feed_stats(f->feed, &stats);
    assert_int_equal(stats.failed, 1);
    assert_int_equal(stats.coming, 0);
    close_feed(f);
}

static void close_while_ranges_are_coming_waits_for_them(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct fixture *f = open_feed_of(64 << 20, 60, LARGE);
        f->together = 2;
        for (f->chunk = 0; f->chunk < 2; f->chunk++)
            on_loop(f, pin);
        close_feed(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_chunks_come_whole),
        cmocka_unit_test(full_cache_has_no_room_until_something_is_unpinned),
        cmocka_unit_test(corrupt_chunk_is_fetched_again_then_named_and_can_be_repaired),
        cmocka_unit_test(close_while_chunks_are_coming_waits_for_them),
        cmocka_unit_test(waited_for_chunks_come_in_ranges_and_others_in_one),
        cmocka_unit_test(corrupt_range_is_noticed_and_the_whole_chunk_fetched_again),
        cmocka_unit_test(missing_chunk_fails_once_with_all_its_ranges),
        cmocka_unit_test(close_while_ranges_are_coming_waits_for_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
