/* Sections and chunks of a dataset on a slow and faulty server, read by many threads. */
#include "dataset/sections.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "dataset/dataset.h"
#include "dataset/pack.h"
#include "store_bench.h"
#include "unit.h"

#define FIELDS  60u /* rows so wide that this many samples make more runs than are kept */
#define SAMPLES 90000u
#define RUN     (1u << 20)
#define READERS 6u
#define DELAY   (200 * LEAT_MS)

static char folder[64];

/* The server: what it does to requests for keys that hold `only`, and how many there were. */
static struct {
    _Atomic(const char *) only;
    _Atomic uint64_t delay_ns;
    atomic_int flips; /* answers still to be damaged; below 0: all */
    atomic_uint code; /* 0: a proper answer */
    atomic_uint requests;
    atomic_uint alone;    /* this many are answered by themselves; the others wait … */
    atomic_uint together; /* … until this many have been there at once */
    atomic_uint now;
    atomic_uint peak;
} bucket;

static bool flip_now(void)
{
    int left = bucket.flips;
    return left && (left < 0 || atomic_fetch_sub(&bucket.flips, 1) > 0);
}

static void wait_for_others(unsigned number)
{
    if (number <= bucket.alone)
        return;
    unsigned now = ++bucket.now;
    for (unsigned peak = bucket.peak; peak < now && !atomic_compare_exchange_weak(&bucket.peak, &peak, now);)
        continue;
    for (uint64_t deadline = leat_after(60 * LEAT_S); bucket.peak < bucket.together && leat_left(deadline);)
        leat_sleep_until(leat_after(LEAT_MS));
    bucket.now--;
}

static bool serve(struct peer_request *r, void *user)
{
    (void)user;
    static const char start[] = "/bucket/";
    char path[512];
    snprintf(path, sizeof path, "%s/%.400s", folder, r->target + sizeof start - 1);
    const char *only = bucket.only;
    bool mine = only && strstr(path, only);
    unsigned number = mine ? ++bucket.requests : 0;
    if (mine && bucket.delay_ns)
        leat_sleep_until(leat_after(bucket.delay_ns));
    if (mine)
        wait_for_others(number);
    if (mine && bucket.code)
        return peer_answer(r, bucket.code, "<Error><Code>Odd</Code></Error>");
    return peer_file(r, path, mine && flip_now() ? 7 : -1, 0, "\"t\"");
}

static void pack_samples(void)
{
    struct leat_home home;
    struct leat_error err;
    struct leat_schema schema = {0};
    struct leat_pack *pack;
    struct leat_value values[FIELDS] = {0};
    uint8_t id[LEAT_SHA256_SIZE];
    char path[128];
    snprintf(path, sizeof path, "%s/ds", folder);
    assert_ok(leat_home_open(path, NULL, &home, &err), err);
    for (unsigned i = 0; i < FIELDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        assert_ok(leat_schema_add(&schema, name, LEAT_FIELD_INT, NULL, &err), err);
    }
    struct leat_pack_opts opts = {.schema = &schema, .chunk_bytes = 4 << 20, .id = "pack"};
    assert_ok(leat_pack_open(&home, &opts, &pack, &err), err);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        for (unsigned k = 0; k < FIELDS; k++)
            values[k].number = (int64_t)i * FIELDS + k;
        assert_ok(leat_pack_add(pack, key, strlen(key), values, &err), err);
    }
    assert_ok(leat_pack_finish(pack, id, &err), err);
    leat_pack_close(pack);
    leat_home_close(&home);
}

static struct peer *peer;

static struct leat_dataset *open_dataset(void)
{
    struct leat_dataset *d = NULL;
    struct leat_error err;
    struct leat_store_opts opts = {.endpoint_url = peer_url(peer), .anonymous = true, .attempts = 1};
    assert_ok(leat_dataset_open("s3://bucket/ds", &opts, NULL, &d, &err), err);
    bucket.requests = 0;
    return d;
}

static void healthy(void)
{
    bucket.only = "/sections/";
    bucket.delay_ns = 0;
    bucket.flips = 0;
    bucket.code = 0;
    bucket.requests = 0;
    bucket.alone = 0;
    bucket.together = 0;
    bucket.peak = 0;
}

/* Threads that read a row each */

struct reader {
    struct leat_dataset *dataset;
    uint64_t sample;
    leat_status status;
    struct leat_error err;
    bool wrong;
};

/* Whether the sample's own numbers are in its row. */
static bool is_row(const struct leat_dataset *d, uint64_t sample, const uint8_t *row)
{
    const struct leat_schema *schema = &leat_dataset_root(d)->schema;
    for (uint32_t i = 0; i < FIELDS; i++) {
        int64_t v;
        memcpy(&v, row + schema->fields[i].cell_at, sizeof v);
        if (v != (int64_t)(sample * FIELDS + i))
            return false;
    }
    return true;
}

static void *read_row(void *arg)
{
    struct reader *r = arg;
    uint8_t row[FIELDS * 16];
    r->status = leat_dataset_row(r->dataset, r->sample, row, &r->err);
    r->wrong = r->status == LEAT_OK && !is_row(r->dataset, r->sample, row);
    return NULL;
}

static void read_together(struct reader *readers, unsigned n)
{
    pthread_t threads[64];
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_row, &readers[i]), 0);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < n; i++)
        assert_false(readers[i].wrong);
}

/* The first sample whose row lies in a run, and only there. */
static uint64_t sample_of_run(const struct leat_dataset *d, uint64_t run)
{
    uint32_t row = leat_dataset_root(d)->schema.row_bytes;
    return (run * RUN + row - 1) / row;
}

TEST(different_runs_are_read_side_by_side)
{
    struct reader readers[READERS];
    healthy();
    struct leat_dataset *d = open_dataset();
    assert_true(leat_root_section(leat_dataset_root(d), LEAT_SECTION_SAMPLES)->size > READERS * RUN);
    bucket.together = READERS;
    for (unsigned i = 0; i < READERS; i++)
        readers[i] = (struct reader){.dataset = d, .sample = sample_of_run(d, i)};
    read_together(readers, READERS);
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(readers[i].status, LEAT_OK);
    assert_int_equal(bucket.requests, READERS);
    assert_int_equal(bucket.peak, READERS);
    leat_dataset_close(d);
}

TEST(same_run_is_fetched_once)
{
    struct reader readers[32];
    healthy();
    struct leat_dataset *d = open_dataset();
    bucket.delay_ns = DELAY;
    for (unsigned i = 0; i < COUNT(readers); i++)
        readers[i] = (struct reader){.dataset = d, .sample = sample_of_run(d, 1) + i};
    read_together(readers, COUNT(readers));
    read_together(readers, COUNT(readers)); /* and is kept */
    for (unsigned i = 0; i < COUNT(readers); i++)
        assert_int_equal(readers[i].status, LEAT_OK);
    assert_int_equal(bucket.requests, 1);
    leat_dataset_close(d);
}

TEST(damaged_run_is_fetched_once_more)
{
    struct reader reader;
    healthy();
    struct leat_dataset *d = open_dataset();
    for (int flips = 1; flips <= 2; flips++) {
        reader = (struct reader){.dataset = d, .sample = sample_of_run(d, (uint64_t)flips)};
        bucket.flips = flips;
        bucket.requests = 0;
        read_together(&reader, 1);
        assert_int_equal(bucket.requests, 2);
        assert_int_equal(reader.status, flips == 1 ? LEAT_OK : LEAT_CORRUPT);
    }
    assert_non_null(strstr(reader.err.text, "ds/leat/sections/"));
    read_together(&reader, 1); /* nothing bad was kept */
    assert_int_equal(reader.status, LEAT_OK);
    leat_dataset_close(d);
}

/* One fails; those who waited for it try for themselves, together. */
TEST(failed_run_fails_for_all_within_two_times)
{
    struct reader readers[16];
    healthy();
    struct leat_dataset *d = open_dataset();
    bucket.delay_ns = DELAY;
    bucket.code = 403;
    bucket.alone = 1;
    bucket.together = 2; /* who tried one after the other would never be two */
    for (unsigned i = 0; i < COUNT(readers); i++)
        readers[i] = (struct reader){.dataset = d, .sample = sample_of_run(d, 2) + i};
    read_together(readers, COUNT(readers));
    for (unsigned i = 0; i < COUNT(readers); i++)
        assert_int_equal(readers[i].status, LEAT_DENIED);
    assert_in_range(bucket.requests, 2, COUNT(readers));
    assert_true(bucket.peak >= 2);
    bucket.code = 0;
    read_together(readers, COUNT(readers));
    for (unsigned i = 0; i < COUNT(readers); i++)
        assert_int_equal(readers[i].status, LEAT_OK);
    leat_dataset_close(d);
}

/* More threads than runs that are kept, over more runs than that. */
static void *read_rows_at_random(void *arg)
{
    struct reader *r = arg;
    uint8_t row[FIELDS * 16];
    for (unsigned i = 0; i < 50 && r->status == LEAT_OK; i++) {
        uint64_t sample = (r->sample + i * 7919ull) % SAMPLES;
        r->status = leat_dataset_row(r->dataset, sample, row, &r->err);
        r->wrong |= r->status == LEAT_OK && !is_row(r->dataset, sample, row);
    }
    return NULL;
}

TEST(crowd_of_readers_gets_its_own_rows)
{
    pthread_t threads[40];
    struct reader readers[COUNT(threads)];
    healthy();
    struct leat_dataset *d = open_dataset();
    bucket.delay_ns = 5 * LEAT_MS;
    bucket.flips = 1;
    assert_true(leat_root_section(leat_dataset_root(d), LEAT_SECTION_SAMPLES)->size > 40ull * RUN);
    for (unsigned i = 0; i < COUNT(threads); i++) {
        readers[i] = (struct reader){.dataset = d, .sample = i * 397};
        assert_int_equal(pthread_create(&threads[i], NULL, read_rows_at_random, &readers[i]), 0);
    }
    for (unsigned i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        if (readers[i].status != LEAT_OK)
            fail_msg("%s", readers[i].err.text);
        assert_false(readers[i].wrong);
    }
    assert_true(bucket.requests > 40); /* some runs made room for others */
    leat_dataset_close(d);
}

TEST(damaged_chunk_is_fetched_once_more_then_named)
{
    struct leat_error err;
    struct leat_chunk chunk;
    void *data = NULL;
    healthy();
    struct leat_dataset *d = open_dataset();
    bucket.only = "/chunks/";
    bucket.flips = 1;
    assert_ok(leat_dataset_load(d, 1, &data, &chunk, &err), err);
    assert_int_equal(chunk.samples, leat_dataset_root(d)->counts[1]);
    assert_int_equal(bucket.requests, 2);
    free(data);
    char name[LEAT_NAME_MAX];
    leat_name_chunk(leat_root_chunk_name(leat_dataset_root(d), 1), name);
    bucket.flips = -1;
    bucket.requests = 0;
    assert_fails(leat_dataset_load(d, 1, &data, &chunk, &err), err, LEAT_CORRUPT, name);
    assert_int_equal(bucket.requests, 2);
    leat_dataset_close(d);
}

static void begin(void)
{
    folder_make(folder);
    pack_samples();
    peer = peer_open(serve, NULL);
}

static void end(void)
{
    peer_close(peer);
    folder_remove(folder);
}

TEST_GROUP(begin, end);
