/* Chunks that are made of recipes, fed from a server that misbehaves: the recipe comes first, then the pieces; damage
 * and change are told apart, and nothing is left when the source is closed at any moment. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "dataset/index.h"
#include "fail_alloc.h"
#include "feed_bench.h"
#include "unit.h"

#define CHUNKS 10u
#define PER    12u
#define ODD    "\"00112233445566778899aabbccddeeff\"" /* looks like an MD5 */
#define VALUE  (6u << 10)
#define NOTE   (12u << 10) /* in the recipe: the section must be more than what opening reads of it */

static void put_object(const char *key, uint32_t seed)
{
    uint8_t data[VALUE];
    bench_fill(data, sizeof data, seed);
    FILE *f = fopen(path_in(folder, key), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, sizeof data, f), sizeof data);
    fclose(f);
}

/* Objects and their index; keys are the seeds of the values. The server calls every ETag "t". */
static void index_samples(const char *name, const char *pin)
{
    struct leat_home home;
    struct leat_error err;
    struct leat_schema schema = {0};
    struct leat_index *x;
    struct leat_recipe_builder *b;
    uint8_t id[LEAT_SHA256_SIZE];
    uint32_t source;
    char note[NOTE];
    memset(note, 'n', sizeof note);
    assert_ok(leat_home_open(path_in(folder, name), NULL, &home, &err), err);
    assert_ok(leat_schema_add(&schema, "data", LEAT_FIELD_BYTES, NULL, &err), err);
    assert_ok(leat_schema_add(&schema, "note", LEAT_FIELD_STRING, NULL, &err), err);
    struct leat_index_opts opts = {.schema = &schema, .id = "index", .chunks = CHUNKS};
    assert_ok(leat_index_open(&home, &opts, &x, &err), err);
    assert_ok(leat_index_source(x, "s3://bucket", &source, &err), err);
    assert_ok(leat_recipe_builder_open(&schema, &b, &err), err);
    for (uint32_t i = 0; i < CHUNKS * PER; i++) {
        char key[16];
        char object[32];
        snprintf(key, sizeof key, "%u", i);
        snprintf(object, sizeof object, "objects/%u", i);
        put_object(object, i);
        struct leat_recipe_place place = {.key = object, .length = VALUE, .object_bytes = VALUE, .pin = pin};
        struct leat_value values[2] = {{.elsewhere = true, .size = VALUE}, {.data = note, .size = sizeof note}};
        assert_ok(leat_recipe_place(b, &place, &values[0].at, &err), err);
        assert_ok(leat_recipe_add(b, key, strlen(key), values, &err), err);
        if (i % PER == PER - 1)
            assert_ok(leat_index_put(x, b, source, i / PER, 0, &err), err);
    }
    assert_ok(leat_index_finish(x, id, &err), err);
    leat_recipe_builder_close(b);
    leat_index_close(x);
    leat_home_close(&home);
}

static void assert_says(const struct bench *b, uint32_t number, leat_status status, const char *part)
{
    const struct leat_error *err = leat_feed_error(&b->chunks[number]);
    if (err->status != status || !strstr(err->text, part))
        fail_msg("'%s' (%s) is not %s and '%s'", err->text, leat_status_name(err->status), leat_status_name(status),
                 part);
}

TEST(every_chunk_is_made_of_its_objects)
{
    struct bench *b = open_bench("ds", 0);
    for (uint32_t i = 0; i < CHUNKS; i++)
        fetch(b, i, plain);
    await_events(b, CHUNKS);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        assert_int_equal(b->fates[i], ARRIVED);
        assert_right(b, i, VALUE);
    }
    assert_int_equal(bucket.requests, CHUNKS * PER);
    assert_int_equal(bucket.recipes, CHUNKS);
    close_bench(b);
}

static uint32_t recipes_kept(const struct bench *b, uint64_t *bytes)
{
    uint32_t kept = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < CHUNKS; i++) {
        size_t n;
        if (!b->chunks[i].user || !leat_feed_recipe(&b->chunks[i], &n))
            continue;
        kept++;
        *bytes += n;
    }
    return kept;
}

/* Those of three chunks are, whichever they are; when one of them goes the next to come takes its place. */
TEST(recipes_are_kept_as_far_as_there_is_room)
{
    struct bench *b = open_bench("ds", 0);
    uint64_t most = 0;
    uint64_t bytes;
    size_t n;
    for (uint32_t i = 0; i < 3; i++)
        most += leat_dataset_recipe_bytes(b->dataset, i);
    leat_source_keep_recipes(b->source, most);
    for (uint32_t i = 0; i < CHUNKS; i++)
        assert_int_equal(bring(b, i, plain), ARRIVED);
    assert_int_equal(recipes_kept(b, &bytes), 3);
    assert_int_equal(bytes, most);
    for (uint32_t i = 0; i < CHUNKS; i++)
        assert_right(b, i, VALUE);
    for (uint32_t round = 0; round < 5; round++) { /* and is given back each time */
        leat_feed_drop(b->feed, &b->chunks[0]);
        assert_null(leat_feed_recipe(&b->chunks[0], &n));
        assert_int_equal(recipes_kept(b, &bytes), 2);
        assert_int_equal(bring(b, 0, plain), ARRIVED);
        assert_int_equal(recipes_kept(b, &bytes), 3);
    }
    leat_feed_drop(b->feed, &b->chunks[9]);
    assert_int_equal(bring(b, 9, plain), ARRIVED);
    assert_int_equal(recipes_kept(b, &bytes), 3);
    assert_true(bytes <= most);
    close_bench(b);
}

TEST(a_damaged_recipe_comes_again_and_is_then_named)
{
    struct bench *b = open_bench("ds", 0);
    struct leat_source_stats stats;
    bucket.recipe_flips = 1;
    assert_int_equal(bring(b, 9, plain), ARRIVED);
    assert_right(b, 9, VALUE);
    assert_int_equal(bucket.recipes, 2);
    leat_source_stats(b->source, &stats);
    assert_int_equal(stats.corrupt, 1);
    leat_feed_drop(b->feed, &b->chunks[9]);
    bucket.recipe_flips = -1;
    bucket.recipes = bucket.requests = 0;
    assert_int_equal(bring(b, 9, plain), FAILED);
    assert_says(b, 9, LEAT_CORRUPT, "the recipe of chunk 9");
    assert_int_equal(bucket.recipes, 2);
    assert_int_equal(bucket.requests, 0);
    close_bench(b);
}

TEST(other_data_than_at_first_come_again_and_are_then_a_change)
{
    struct bench *b = open_bench("bare", 0);
    assert_int_equal(bring(b, 4, plain), ARRIVED); /* whatever comes first is learned */
    leat_feed_drop(b->feed, &b->chunks[4]);
    bucket.flips = 1;
    assert_int_equal(bring(b, 4, plain), ARRIVED);
    assert_right(b, 4, VALUE);
    leat_feed_drop(b->feed, &b->chunks[4]);
    put_object("objects/50", 1000); /* as long as before */
    bucket.requests = 0;
    assert_int_equal(bring(b, 4, plain), FAILED);
    assert_says(b, 4, LEAT_CHANGED, "index it again");
    assert_int_equal(bucket.requests, 2 * PER);
    put_object("objects/50", 50);
    assert_int_equal(bring(b, 4, plain), ARRIVED);
    assert_right(b, 4, VALUE);
    close_bench(b);
}

TEST(an_object_of_another_length_or_none_is_named_at_once)
{
    struct bench *b = open_bench("ds", 0);
    bucket.cut = true;
    assert_int_equal(bring(b, 2, plain), FAILED);
    assert_says(b, 2, LEAT_CHANGED, "objects/");
    bucket.cut = false;
    assert_int_equal(bucket.recipes, 1); /* it is not damage: nothing is fetched again */
    bucket.code = 404;
    assert_int_equal(bring(b, 2, plain), FAILED);
    assert_says(b, 2, LEAT_NOT_FOUND, "objects/");
    bucket.code = 0;
    assert_int_equal(bring(b, 2, plain), ARRIVED);
    assert_right(b, 2, VALUE);
    close_bench(b);
}

TEST(a_made_chunk_comes_from_disk_without_a_request)
{
    struct bench *b = open_bench("bare", 64 << 20);
    assert_int_equal(bring(b, 3, plain), ARRIVED);
    assert_int_equal(keep(b, 3), STORED);
    leat_feed_drop(b->feed, &b->chunks[3]);
    bucket.requests = bucket.recipes = 0;
    assert_int_equal(bring(b, 3, disk_read), ARRIVED);
    assert_right(b, 3, VALUE);
    assert_int_equal(bucket.requests + bucket.recipes, 0);
    close_bench(b);
}

TEST(closing_at_any_moment_ends_every_chunk_once)
{
    for (unsigned round = 0; round < 16; round++) {
        struct bench *b = open_bench("ds", 0);
        bucket.never = round % 4 == 1;
        bucket.never_recipe = round % 4 == 2;
        bucket.recipe_flips = round % 4 == 3; /* one: two may be of the same recipe */
        for (uint32_t i = 0; i < FEW; i++)
            fetch(b, i, plain);
        for (uint64_t end = leat_after(500 * LEAT_US * round); leat_left(end) > 0;)
            turn(b, leat_left(end));
        unsigned before = b->events;
        leat_source_close(b->source, on_closed, b);
        await_events(b, FEW);
        assert_true(before <= FEW);
        assert_int_equal(b->closed, 1);
        for (uint32_t i = 0; i < FEW; i++) {
            assert_true(b->fates[i] == ARRIVED || b->fates[i] == CANCELLED);
            if (b->fates[i] == ARRIVED)
                assert_right(b, i, VALUE);
        }
        b->source = NULL;
        b->closed = 0;
        close_bench(b);
    }
}

/* Every allocation fails in turn, of beginning, on the worker and on the way back: no memory is said, or nothing
 * begins.
 */
TEST(allocations_that_fail_are_said)
{
    struct bench *b = open_bench("ds", 0);
    unsigned refused = 0;
    unsigned failed = 0;
    bool failing = true;
    for (long n = 0; failing; n++) {
        assert_true(n < 3000);
        leat_feed_gone(b->feed, &b->chunks[1]);
        leat_feed_trim(b->feed);
        fail_alloc_anywhere_at(n, false);
        bool begun = try_fetch(b, 1, plain);
        if (begun)
            await_events(b, b->events + 1);
        failing = fail_alloc_stop();
        refused += !begun;
        if (begun && b->fates[1] == FAILED) {
            failed++;
            assert_true(failing);
        } else if (begun) {
            assert_int_equal(b->fates[1], ARRIVED);
            assert_right(b, 1, VALUE);
        }
    }
    assert_true(refused >= 4 && failed >= 3);
    close_bench(b);
}

/* Another machine, which has made the chunks: files of the same server. */

static void write_peer(const char *kind, uint32_t number, const void *data, size_t n, size_t flip)
{
    char name[64];
    snprintf(name, sizeof name, "peer/%s-%u", kind, number);
    FILE *f = fopen(path_in(folder, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    if (flip) {
        assert_int_equal(fseek(f, (long)(n - flip), SEEK_SET), 0);
        fputc('?', f);
    }
    fclose(f);
}

/* Makes the machine's chunks and recipes; `flip`: one byte from the end of a chunk is another, 0: none. */
static void make_peer(const char *name, size_t flip)
{
    struct bench *b = open_bench(name, 0);
    leat_source_keep_recipes(b->source, UINT64_MAX);
    for (uint32_t i = 0; i < FEW; i++) {
        size_t n;
        assert_int_equal(bring(b, i, plain), ARRIVED);
        const void *recipe = leat_feed_recipe(&b->chunks[i], &n);
        assert_non_null(recipe);
        write_peer("recipe", i, recipe, n, 0);
        write_peer("chunk", i, leat_feed_bytes(&b->chunks[i]), (size_t)b->chunks[i].bytes, flip);
    }
    close_bench(b);
}

static struct leat_store *machine;

static void ask_machine(struct bench *b, uint32_t number)
{
    b->peer.store = machine;
    b->peer.who = b;
    b->peer.late_ns = LEAT_NEVER;
    snprintf(b->peer.key, sizeof b->peer.key, "/bucket/peer/chunk-%u", number);
    snprintf(b->peer.recipe, sizeof b->peer.recipe, "/bucket/peer/recipe-%u", number);
}

static enum fate bring_from_machine(struct bench *b, uint32_t number)
{
    ask_machine(b, number);
    return bring(b, number, plain);
}

static void open_machine(void)
{
    struct leat_url url;
    struct leat_error err;
    bucket.etag = "\"t\"";
    assert_ok(leat_url_parse(peer_url(bucket.peer), &url, &err), err);
    assert_ok(leat_store_open(&url, &(struct leat_store_opts){.attempts = 1}, &machine, &err), err);
    leat_url_free(&url);
}

static void close_machine(void)
{
    bucket.etag = "\"t\"";
    leat_store_close(machine);
}

TEST_WITH(open_machine, close_machine, what_a_machine_has_made_needs_no_bucket)
{
    make_peer("bare", 0);
    struct bench *b = open_bench("bare", 0);
    for (unsigned round = 0; round < 2; round++) { /* the second time its checksums are known */
        assert_int_equal(bring_from_machine(b, 2), ARRIVED);
        assert_right(b, 2, VALUE);
        assert_true(leat_feed_by_peer(&b->chunks[2]));
        assert_int_equal(bucket.requests + bucket.recipes, 0);
        assert_int_equal(b->peered, round + 1);
        assert_int_equal(b->judged, LEAT_OK);
        leat_feed_drop(b->feed, &b->chunks[2]);
        assert_int_equal(unlink(path_in(folder, round ? "peer/chunk-2" : "peer/recipe-2")), 0);
    }
    close_bench(b);
}

TEST_WITH(open_machine, close_machine, a_recipe_that_is_gone_there_comes_from_the_bucket)
{
    make_peer("bare", 0);
    assert_int_equal(unlink(path_in(folder, "peer/recipe-3")), 0);
    struct bench *b = open_bench("bare", 0);
    assert_int_equal(bring_from_machine(b, 3), ARRIVED);
    assert_right(b, 3, VALUE);
    assert_true(leat_feed_by_peer(&b->chunks[3]));
    assert_int_equal(bucket.recipes, 1);
    assert_int_equal(bucket.requests, 0);
    leat_feed_drop(b->feed, &b->chunks[3]);
    assert_int_equal(unlink(path_in(folder, "peer/recipe-4")), 0);
    bucket.recipe_flips = 1; /* which is not the machine's fault */
    assert_int_equal(bring_from_machine(b, 4), ARRIVED);
    assert_right(b, 4, VALUE);
    assert_false(leat_feed_by_peer(&b->chunks[4]));
    assert_int_equal(b->judged, LEAT_NOT_FOUND);
    close_bench(b);
}

TEST_WITH(open_machine, close_machine, other_bytes_than_the_bucket_has_are_a_lie)
{
    bucket.etag = ODD "\r\nx-amz-server-side-encryption: aws:kms";
    make_peer("odd", 7);
    struct bench *b = open_bench("odd", 0);
    assert_int_equal(bring_from_machine(b, 5), ARRIVED);
    assert_right(b, 5, VALUE);
    assert_false(leat_feed_by_peer(&b->chunks[5]));
    assert_int_equal(b->peered, 1);
    assert_int_equal(b->judged, LEAT_CORRUPT);
    close_bench(b);
}

TEST_WITH(open_machine, close_machine, etags_that_are_no_digests_accuse_nobody)
{
    bucket.etag = ODD "\r\nx-amz-server-side-encryption: aws:kms";
    make_peer("odd", 0);
    struct bench *b = open_bench("odd", 0);
    assert_int_equal(bring_from_machine(b, 5), ARRIVED);
    assert_right(b, 5, VALUE);
    assert_false(leat_feed_by_peer(&b->chunks[5])); /* the bucket had to tell */
    assert_int_equal(b->judged, LEAT_NOT_FOUND);
    assert_int_equal(bring_from_machine(b, 6), ARRIVED); /* … once */
    assert_right(b, 6, VALUE);
    assert_true(leat_feed_by_peer(&b->chunks[6]));
    assert_int_equal(b->peered, 2);
    assert_int_equal(b->judged, LEAT_OK);
    close_bench(b);
}

/* One that says nothing: it would be waited for until it counts as dead. */
TEST_WITH(open_machine, close_machine, a_machine_that_is_late_is_not_waited_for)
{
    struct bench *b = open_bench("ds", 0);
    uint64_t at = leat_after(50 * LEAT_MS);
    ask_machine(b, 1);
    snprintf(b->peer.key, sizeof b->peer.key, "/bucket/peer/never");
    b->peer.late_ns = at;
    fetch(b, 1, plain);
    assert_int_equal(leat_source_hurry(b->source, at - 1), at);
    assert_int_equal(b->late, 0);
    assert_int_equal(leat_source_hurry(b->source, at), LEAT_NEVER); /* not allowed */
    assert_int_equal(b->late, 1);
    b->peer.late_ns = at;
    fetch(b, 2, plain);
    b->may_hurry = true;
    assert_int_equal(leat_source_hurry(b->source, at), LEAT_NEVER); /* and once for each */
    assert_int_equal(b->late, 2);
    await_events(b, 1);
    assert_int_equal(b->fates[2], ARRIVED);
    assert_int_equal(b->fates[1], NOTHING); /* still asked for there */
    assert_right(b, 2, VALUE);
    assert_false(leat_feed_by_peer(&b->chunks[2]));
    assert_int_equal(b->judged, LEAT_CANCELLED);
    close_bench(b);
}

TEST_WITH(open_machine, close_machine, closing_while_a_machine_is_asked_ends_every_chunk_once)
{
    bucket.etag = ODD "\r\nx-amz-server-side-encryption: aws:kms";
    make_peer("odd", 0);
    for (unsigned round = 0; round < 16; round++) {
        struct bench *b = open_bench("odd", 0);
        for (uint32_t i = 0; i < FEW; i++) {
            ask_machine(b, i);
            fetch(b, i, plain);
        }
        for (uint64_t end = leat_after(500 * LEAT_US * round); leat_left(end) > 0;)
            turn(b, leat_left(end));
        leat_source_close(b->source, on_closed, b);
        await_events(b, FEW);
        assert_int_equal(b->closed, 1);
        assert_int_equal(b->peered, FEW); /* who was asked is let go, once */
        for (uint32_t i = 0; i < FEW; i++)
            assert_true(b->fates[i] == ARRIVED || b->fates[i] == CANCELLED);
        b->source = NULL;
        b->closed = 0;
        close_bench(b);
    }
}

TEST_WITH(open_machine, close_machine, allocations_that_fail_beside_a_machine_are_said)
{
    make_peer("ds", 0);
    unsigned refused = 0;
    unsigned elsewhere = 0;
    bool failing = true;
    for (long n = 0; failing; n++) {
        struct bench *b = open_bench("ds", 0); /* a new one: no checksum is known */
        assert_true(n < 3000);
        ask_machine(b, 1);
        fail_alloc_anywhere_at(n, false);
        bool begun = try_fetch(b, 1, plain);
        if (begun)
            await_events(b, b->events + 1);
        failing = fail_alloc_stop();
        refused += !begun;
        assert_int_equal(b->peered, begun);
        if (begun && b->fates[1] == ARRIVED) {
            assert_right(b, 1, VALUE);
            elsewhere += !leat_feed_by_peer(&b->chunks[1]);
        } else {
            assert_true(failing);
        }
        close_bench(b);
    }
    assert_true(refused >= 3 && elsewhere >= 3);
}

static void begin(void)
{
    feed_bench_begin();
    assert_int_equal(mkdir(path_in(folder, "objects"), 0700), 0);
    assert_int_equal(mkdir(path_in(folder, "peer"), 0700), 0);
    index_samples("ds", "\"t\"");
    index_samples("bare", NULL);
    index_samples("odd", ODD);
}

static void end(void)
{
    feed_bench_end();
}

TEST_GROUP(begin, end);
