#include "feed_bench.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "unit.h"

char folder[64];

struct bucket bucket = {.etag = "\"t\""};

static bool flip_now(atomic_int *flips)
{
    int left = *flips;
    return left && (left < 0 || atomic_fetch_sub(flips, 1) > 0);
}

static bool serve(struct peer_request *r, void *user)
{
    static const char start[] = "/bucket/";
    char path[512];
    (void)user;
    snprintf(path, sizeof path, "%s/%.400s", folder, r->target + sizeof start - 1);
    bool mine = strstr(path, "/chunks/") || strstr(path, "/objects/");
    bool recipe = strstr(path, "/sections/") != NULL;
    bucket.requests += mine;
    bucket.recipes += recipe;
    if (strstr(path, "/never") || (mine && bucket.never) || (recipe && bucket.never_recipe)) {
        peer_wait_gone(r);
        return false;
    }
    if (mine && bucket.code)
        return peer_answer(r, bucket.code, "<Error><Code>Odd</Code></Error>");
    bool flips = (mine && flip_now(&bucket.flips)) || (recipe && flip_now(&bucket.recipe_flips));
    return peer_file(r, path, flips ? 4000 : -1, mine && bucket.cut, bucket.etag);
}

void pack_samples(const char *name, uint32_t samples, uint32_t chunk_bytes, size_t value_bytes)
{
    struct leat_home home;
    struct leat_error err;
    struct leat_schema schema = {0};
    struct leat_pack *pack;
    uint8_t id[LEAT_SHA256_SIZE];
    char *data = malloc(value_bytes);
    assert_non_null(data);
    assert_ok(leat_home_open(path_in(folder, name), NULL, &home, &err), err);
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

static void on_peered(void *user, void *who, const struct leat_error *err, uint64_t bytes, uint64_t ns)
{
    struct bench *b = user;
    (void)bytes;
    (void)ns;
    assert_ptr_equal(who, b);
    b->peered++;
    b->judged = err ? err->status : LEAT_OK;
}

static bool on_late(void *user, void *who, uint64_t bytes)
{
    struct bench *b = user;
    assert_ptr_equal(who, b);
    assert_true(bytes > 0);
    b->late++;
    return b->may_hurry;
}

void on_closed(void *user)
{
    ((struct bench *)user)->closed++;
}

struct bench *open_bench(const char *name, uint64_t disk)
{
    struct bench *b = calloc(1, sizeof *b);
    struct leat_error err;
    char url[64];
    assert_non_null(b);
    bucket.flips = bucket.recipe_flips = 0;
    bucket.code = 0;
    bucket.never = bucket.never_recipe = bucket.cut = false;
    snprintf(url, sizeof url, "s3://bucket/%s", name);
    struct leat_store_opts opts = {
        .endpoint_url = peer_url(bucket.peer), .anonymous = true, .attempts = 1, .hedge = LEAT_HEDGE_OFF};
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
        .peered = on_peered,
        .late = on_late,
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
    bucket.requests = bucket.recipes = 0;
    return b;
}

/* Runs what has come back, waiting for it; false: nothing came for this long. */
bool turn(struct bench *b, uint64_t wait_ns)
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

void await_events(struct bench *b, unsigned wanted)
{
    while (b->events < wanted)
        if (!turn(b, 20 * LEAT_S))
            fail_msg("%u events of %u after 20 s", b->events, wanted);
    assert_false(turn(b, 0)); /* one each, and no more */
    assert_int_equal(b->events, wanted);
}

void close_bench(struct bench *b)
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

bool try_fetch(struct bench *b, uint32_t number, struct leat_sched_fetch how)
{
    how.number = number;
    b->fates[number] = NOTHING;
    b->inside = true;
    bool ok = leat_feed_fetch(b->source, &b->chunks[number], &how, b->peer.store ? &b->peer : NULL);
    b->inside = false;
    return ok;
}

void fetch(struct bench *b, uint32_t number, struct leat_sched_fetch how)
{
    assert_true(try_fetch(b, number, how));
}

/* Fetches it and waits; what became of it. */
enum fate bring(struct bench *b, uint32_t number, struct leat_sched_fetch how)
{
    fetch(b, number, how);
    await_events(b, b->events + 1);
    return b->fates[number];
}

enum fate keep(struct bench *b, uint32_t number)
{
    b->inside = true;
    assert_true(leat_feed_store(b->feed, &b->chunks[number]));
    b->inside = false;
    await_events(b, b->events + 1);
    return b->fates[number];
}

/* Its samples are those that were packed: keys are the seeds of their values. */
void assert_right(struct bench *b, uint32_t number, size_t value_bytes)
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

void feed_bench_begin(void)
{
    folder_make(folder);
    bucket.peer = peer_open(serve, NULL);
}

void feed_bench_end(void)
{
    peer_close(bucket.peer);
    folder_remove(folder);
}
