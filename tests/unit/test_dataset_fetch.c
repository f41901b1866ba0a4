/* Pieces come whole however they are cut, a fetch ends once, and its first failure ends it. */
#include "dataset/fetch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "store_bench.h"
#include "unit.h"

#define MIB    (1u << 20)
#define SIZE   (34u * MIB) /* 32 ranges of the least length and more */
#define PIECES 3000u

static char *object; /* what every key of the server has */

/* "/bucket/missing" is not there, "/bucket/never" answers when the other side has hung up. */
static bool serve(struct peer_request *r, void *user)
{
    (void)user;
    if (strstr(r->target, "missing"))
        return peer_answer(r, 404, "<Error><Code>NoSuchKey</Code></Error>");
    if (strstr(r->target, "never")) {
        peer_wait_gone(r);
        return false;
    }
    return peer_object(r, object, SIZE, "\"tag\"");
}

/* A fetch that counts its ends. */
struct watched {
    struct leat_fetch *fetch;
    atomic_uint done;
    struct leat_error err;
    bool free_inside;
};

static void on_done(void *user, const struct leat_error *err)
{
    struct watched *w = user;
    if (err)
        w->err = *err;
    if (w->free_inside)
        leat_fetch_free(w->fetch);
    w->done++;
}

static void start(struct watched *w, struct leat_fetch_opts opts)
{
    struct leat_error err;
    opts.done = on_done;
    opts.user = w;
    assert_ok(leat_fetch_start(&opts, &w->fetch, &err), err);
}

static void wait_done(const struct watched *w)
{
    if (!wait_until(&w->done, 1))
        fail_msg("a fetch did not end within a minute");
}

static struct leat_pieces one_piece(struct leat_piece *piece)
{
    return (struct leat_pieces){.list = piece, .n = 1, .bytes = piece->length};
}

TEST(every_number_of_ranges_gives_the_same_bytes)
{
    struct peer *peer = peer_open(serve, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    struct leat_piece piece = {.key = "key", .offset = 3, .length = 33 * MIB + 7, .object_bytes = SIZE};
    struct leat_pieces pieces = one_piece(&piece);
    char *into = malloc(pieces.bytes);
    static const uint32_t numbers[] = {0, 1, 2, 3, 16, 32, 33};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        uint32_t ranges = numbers[i];
        struct leat_error err;
        struct leat_fetch_opts opts = {
            .store = store, .pieces = &pieces, .into = into, .ranges = ranges, .urgent = ranges % 2};
        unsigned before = peer_requests(peer);
        memset(into, 0, pieces.bytes);
        assert_ok(leat_fetch_run(&opts, &err), err);
        assert_memory_equal(into, object + 3, pieces.bytes);
        assert_int_equal(peer_requests(peer) - before, ranges ? ranges : 1);
    }
    free(into);
    leat_store_close(store);
    peer_close(peer);
}

TEST(ranges_are_never_shorter_than_the_least)
{
    static const struct {
        uint64_t length;
        unsigned requests;
    } cases[] = {{0, 1}, {1, 1}, {MIB, 1}, {2 * MIB - 1, 1}, {2 * MIB, 2}, {5 * MIB + 1, 5}};
    struct peer *peer = peer_open(serve, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    char *into = malloc(6 * MIB);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct leat_error err;
        struct leat_piece piece = {.key = "key", .length = cases[i].length};
        struct leat_pieces pieces = one_piece(&piece);
        struct leat_fetch_opts opts = {.store = store, .pieces = &pieces, .into = into, .ranges = 32};
        unsigned before = peer_requests(peer);
        assert_ok(leat_fetch_run(&opts, &err), err);
        assert_memory_equal(into, object, cases[i].length);
        assert_int_equal(peer_requests(peer) - before, cases[i].requests);
    }
    free(into);
    leat_store_close(store);
    peer_close(peer);
}

/* Thousands of short pieces with a few long ones among them. */
static struct leat_pieces make_list(uint64_t seed)
{
    static const char *const keys[] = {"a", "b/c", "d e"};
    struct leat_rng rng = leat_rng(seed, 0);
    struct leat_pieces pieces = {.list = calloc(PIECES, sizeof *pieces.list), .n = PIECES};
    assert_non_null(pieces.list);
    for (uint32_t i = 0; i < PIECES; i++) {
        struct leat_piece *p = &pieces.list[i];
        p->key = keys[leat_rng_u32(&rng) % COUNT(keys)];
        p->offset = leat_rng_u32(&rng) % MIB;
        p->length = i % 1000 == 7 ? 3 * MIB + i : leat_rng_u32(&rng) % 500;
        p->object_bytes = i % 2 ? SIZE : 0;
        p->pin = i % 3 ? "\"tag\"" : NULL;
        pieces.bytes += p->length;
    }
    return pieces;
}

static void assert_list(const struct leat_pieces *pieces, const char *into)
{
    for (uint32_t i = 0; i < pieces->n; i++) {
        assert_memory_equal(into, object + pieces->list[i].offset, pieces->list[i].length);
        into += pieces->list[i].length;
    }
}

TEST(many_small_pieces_come_in_order_and_few_at_a_time)
{
    struct peer *peer = peer_open(serve, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.connections = 200});
    for (uint32_t ranges = 0; ranges < 2 * PIECES; ranges += PIECES + 40) {
        struct leat_error err;
        struct leat_pieces pieces = make_list(ranges + 1);
        char *into = calloc(1, pieces.bytes);
        struct leat_fetch_opts opts = {.store = store, .pieces = &pieces, .into = into, .ranges = ranges};
        unsigned before = peer_requests(peer);
        assert_ok(leat_fetch_run(&opts, &err), err);
        assert_list(&pieces, into);
        unsigned sent = peer_requests(peer) - before;
        assert_in_range(sent, PIECES, ranges > PIECES ? ranges : PIECES);
        assert_true(ranges ? sent > PIECES : sent == PIECES);
        free(into);
        leat_pieces_free(&pieces);
    }
    assert_in_range(peer_peak(peer), 2, 64);
    leat_store_close(store);
    peer_close(peer);
}

enum { FETCHES = 4, EACH = 400, LINES = 8 };

/* Requests for "0" to "3", and how many of later fetches there were when a fetch had only its last ones to come: each
 * line may be late with one. */
struct turns {
    pthread_mutex_t mu;
    unsigned came[FETCHES];
    unsigned later[FETCHES];
};

static bool serve_counting(struct peer_request *r, void *user)
{
    struct turns *t = user;
    unsigned i = (unsigned)(strrchr(r->target, '/')[1] - '0');
    pthread_mutex_lock(&t->mu);
    if (++t->came[i] == EACH - LINES) {
        for (unsigned k = i + 1; k < FETCHES; k++)
            t->later[i] += t->came[k];
    }
    pthread_mutex_unlock(&t->mu);
    return serve(r, NULL);
}

/* Chunks of many small objects: the oldest is there first, instead of all of them in the end. */
TEST(fetches_end_one_after_the_other)
{
    struct turns turns = {.mu = PTHREAD_MUTEX_INITIALIZER};
    struct peer *peer = peer_open(serve_counting, &turns);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.connections = LINES});
    struct leat_piece list[FETCHES][EACH];
    struct leat_pieces pieces[FETCHES];
    static const char *const keys[FETCHES] = {"0", "1", "2", "3"};
    struct watched fetches[FETCHES] = {0};
    char into[FETCHES][EACH];
    for (uint32_t i = 0; i < FETCHES; i++) {
        pieces[i] = (struct leat_pieces){.list = list[i], .n = EACH, .bytes = EACH};
        for (uint32_t k = 0; k < EACH; k++)
            list[i][k] = (struct leat_piece){.key = keys[i], .offset = k, .length = 1};
    }
    for (uint32_t i = 0; i < FETCHES; i++)
        start(&fetches[i], (struct leat_fetch_opts){.store = store, .pieces = &pieces[i], .into = into[i]});
    for (uint32_t i = 0; i < FETCHES; i++) {
        wait_done(&fetches[i]);
        leat_fetch_free(fetches[i].fetch);
        assert_memory_equal(into[i], object, EACH);
        assert_int_equal(turns.came[i], EACH);
        assert_true(turns.later[i] < 100); /* those of the next have begun */
    }
    leat_store_close(store);
    peer_close(peer);
}

TEST(no_pieces_are_there_at_once)
{
    struct leat_store *store = bench_open_files();
    struct leat_pieces pieces = {0};
    struct leat_error err;
    struct leat_fetch_opts opts = {.store = store, .pieces = &pieces, .ranges = 8};
    assert_ok(leat_fetch_run(&opts, &err), err);
    leat_store_close(store);
}

TEST(object_of_another_length_is_corrupt)
{
    static const struct {
        uint64_t offset;
        uint64_t length;
        uint64_t object_bytes;
        const char *says;
    } cases[] = {
        {0, SIZE + 1, SIZE + 1, "shorter than the snapshot says"},
        {SIZE - 10, 11, 0, "shorter than the snapshot says"},
        {SIZE, 5, 0, "shorter than the snapshot says"},
        {SIZE + 100, 5, SIZE + 105, "shorter than the snapshot says"},
        {0, 100, SIZE - 1, "longer than the snapshot says: it has 35651584 bytes instead of 35651583"},
        {100, 100, SIZE + 1, "shorter than the snapshot says: it has 35651584 bytes instead of 35651585"},
    };
    char folder[64];
    char path[128];
    struct peer *peer = peer_open(serve, NULL);
    struct leat_store *stores[2] = {bench_open_bucket(peer, (struct leat_store_opts){0}), bench_open_files()};
    folder_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    struct leat_error err;
    assert_ok(leat_store_put(stores[1], path, object, SIZE, NULL, &err), err);
    char *into = malloc(SIZE + 1);
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        size_t c = i / 2;
        struct leat_piece piece = {.key = i % 2 ? path : "key",
                                   .offset = cases[c].offset,
                                   .length = cases[c].length,
                                   .object_bytes = cases[c].object_bytes};
        struct leat_pieces pieces = one_piece(&piece);
        struct leat_fetch_opts opts = {.store = stores[i % 2], .pieces = &pieces, .into = into, .ranges = 16};
        assert_fails(leat_fetch_run(&opts, &err), err, LEAT_CORRUPT, cases[c].says);
        assert_non_null(strstr(err.text, piece.key));
    }
    free(into);
    leat_store_close(stores[0]);
    leat_store_close(stores[1]);
    folder_remove(folder);
    peer_close(peer);
}

TEST(piece_of_another_version_is_changed)
{
    struct peer *peer = peer_open(serve, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    char into[20];
    struct leat_error err;
    struct leat_piece list[2] = {{.key = "a", .length = 10, .pin = "\"tag\""},
                                 {.key = "b", .length = 10, .pin = "\"other\""}};
    struct leat_pieces pieces = {.list = list, .n = 2, .bytes = 20};
    struct leat_fetch_opts opts = {.store = store, .pieces = &pieces, .into = into};
    assert_fails(leat_fetch_run(&opts, &err), err, LEAT_CHANGED, "s3://bucket/b");
    leat_store_close(store);
    peer_close(peer);
}

TEST(first_failure_ends_what_would_take_for_ever)
{
    struct peer *peer = peer_open(serve, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.connections = 8});
    enum { N = 40 }; /* more than are in flight: some run, some wait in the queue */
    struct leat_piece list[N];
    char into[N];
    struct leat_error err;
    for (unsigned i = 0; i < N; i++)
        list[i] = (struct leat_piece){.key = i == 5 ? "missing" : "never", .length = 1};
    struct leat_pieces pieces = {.list = list, .n = N, .bytes = N};
    struct leat_fetch_opts opts = {.store = store, .pieces = &pieces, .into = into};
    assert_fails(leat_fetch_run(&opts, &err), err, LEAT_NOT_FOUND, "missing"); /* the others are never answered */
    assert_true(peer_requests(peer) <= 8);
    leat_store_close(store);
    peer_close(peer);
}

TEST(cancelled_fetch_ends_once)
{
    struct peer *peer = peer_open(serve, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.connections = 4});
    struct leat_piece piece = {.key = "never", .length = 20 * MIB};
    struct leat_pieces pieces = one_piece(&piece);
    char *into = malloc(pieces.bytes);
    for (unsigned round = 0; round < 20; round++) {
        struct watched w = {0};
        start(&w, (struct leat_fetch_opts){.store = store, .pieces = &pieces, .into = into, .ranges = 10});
        if (round % 2)
            usleep(5000);
        leat_fetch_cancel(w.fetch);
        leat_fetch_cancel(w.fetch);
        wait_done(&w);
        leat_fetch_cancel(w.fetch); /* one that has ended is left alone */
        assert_int_equal(w.err.status, LEAT_CANCELLED);
        assert_int_equal(w.done, 1);
        leat_fetch_free(w.fetch);
    }
    free(into);
    leat_store_close(store);
    peer_close(peer);
}

struct canceller {
    struct leat_store *store;
    uint64_t seed;
    unsigned ended[2]; /* whole, cancelled */
    bool wrong;
};

static void *cancel_at_random(void *arg)
{
    struct canceller *c = arg;
    struct leat_rng rng = leat_rng(c->seed, 0);
    char *into = malloc(8 * MIB);
    for (unsigned i = 0; i < 150; i++) {
        struct watched w = {0};
        struct leat_piece list[3] = {{.key = "a", .length = leat_rng_u32(&rng) % (4 * MIB)},
                                     {.key = "b", .length = 10},
                                     {.key = "c", .length = leat_rng_u32(&rng) % (3 * MIB)}};
        struct leat_pieces pieces = {.list = list, .n = 3};
        for (unsigned k = 0; k < 3; k++)
            pieces.bytes += list[k].length;
        start(&w, (struct leat_fetch_opts){
                      .store = c->store, .pieces = &pieces, .into = into, .ranges = i % 9, .urgent = i % 2});
        if (i % 3)
            usleep(leat_rng_u32(&rng) % 4000);
        leat_fetch_cancel(w.fetch);
        wait_done(&w);
        leat_fetch_free(w.fetch);
        c->wrong |= w.done != 1 || (w.err.status != LEAT_OK && w.err.status != LEAT_CANCELLED);
        c->wrong |= w.err.status == LEAT_OK && memcmp(into, object, list[0].length) != 0;
        c->ended[w.err.status != LEAT_OK]++;
    }
    free(into);
    return NULL;
}

TEST(cancelling_from_many_threads_loses_nothing)
{
    struct peer *peer = peer_open(serve, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    pthread_t threads[4];
    struct canceller c[4];
    for (unsigned i = 0; i < 4; i++) {
        c[i] = (struct canceller){.store = store, .seed = i};
        assert_int_equal(pthread_create(&threads[i], NULL, cancel_at_random, &c[i]), 0);
    }
    unsigned cancelled = 0;
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_false(c[i].wrong);
        cancelled += c[i].ended[1];
    }
    assert_true(cancelled > 0);
    leat_store_close(store);
    peer_close(peer);
}

TEST(closing_the_store_ends_a_fetch)
{
    struct peer *peer = peer_open(serve, NULL);
    struct leat_piece piece = {.key = "never", .length = 20 * MIB};
    struct leat_pieces pieces = one_piece(&piece);
    char *into = malloc(pieces.bytes);
    for (unsigned round = 0; round < 20; round++) {
        struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.connections = 3});
        struct watched w = {0};
        start(&w, (struct leat_fetch_opts){.store = store, .pieces = &pieces, .into = into, .ranges = 10});
        if (round % 2)
            usleep(2000);
        leat_store_close(store);
        assert_int_equal(w.done, 1);
        assert_int_equal(w.err.status, LEAT_CANCELLED);
        leat_fetch_free(w.fetch);
    }
    free(into);
    peer_close(peer);
}

TEST(fetch_may_be_freed_where_it_ends)
{
    static const char *const keys[] = {"key", "missing"};
    struct peer *peer = peer_open(serve, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    char *into = malloc(4 * MIB);
    for (size_t i = 0; i < COUNT(keys); i++) {
        struct watched w = {.free_inside = true};
        struct leat_piece piece = {.key = keys[i], .length = 4 * MIB};
        struct leat_pieces pieces = one_piece(&piece);
        start(&w, (struct leat_fetch_opts){.store = store, .pieces = &pieces, .into = into, .ranges = 4});
        wait_done(&w);
        assert_int_equal(w.err.status, i ? LEAT_NOT_FOUND : LEAT_OK);
    }
    free(into);
    leat_store_close(store);
    peer_close(peer);
}

static bool stop_when_asked_again(void *user)
{
    return atomic_fetch_add((atomic_uint *)user, 1) >= 2;
}

TEST(stop_ends_a_wait)
{
    struct peer *peer = peer_open(serve, NULL);
    atomic_uint asked = 0;
    struct leat_store *store =
        bench_open_bucket(peer, (struct leat_store_opts){.stop = stop_when_asked_again, .stop_user = &asked});
    struct leat_piece piece = {.key = "never", .length = 4};
    struct leat_pieces pieces = one_piece(&piece);
    char into[4];
    struct leat_error err;
    struct leat_fetch_opts opts = {.store = store, .pieces = &pieces, .into = into};
    assert_fails(leat_fetch_run(&opts, &err), err, LEAT_CANCELLED, "cancelled");
    leat_store_close(store);
    peer_close(peer);
}

static void begin(void)
{
    object = malloc(SIZE);
    bench_fill(object, SIZE, 1);
}

static void end(void)
{
    free(object);
}

TEST_GROUP(begin, end);
