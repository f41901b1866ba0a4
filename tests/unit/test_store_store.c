/* The engine behind every store: limits, retries, cancelling, closing. */
#include "store/store.h"

#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "store_bench.h"
#include "unit.h"

#define SIZE (256 << 10)

static char data[SIZE];

static bool serve_object(struct peer_request *r, void *user)
{
    (void)user;
    return peer_object(r, data, sizeof data, "\"tag\"");
}

#define AT_ONCE 5u

/* Answers when as many requests have been there together as there may be, and a moment later, when more could be. */
static bool serve_together(struct peer_request *r, void *user)
{
    for (uint64_t end = leat_after(60 * LEAT_S); peer_peak(r->peer) < AT_ONCE && leat_left(end);)
        usleep(1000);
    usleep(3000);
    return serve_object(r, user);
}

static bool serve_nothing(struct peer_request *r, void *user)
{
    (void)user;
    peer_wait_gone(r);
    return false;
}

static bool serve_503(struct peer_request *r, void *user)
{
    (void)user;
    return peer_answer(r, 503, "<Error><Code>SlowDown</Code></Error>");
}

/* `n` GETs of the first bytes of an object. */
static struct bench_op *submit_gets(struct leat_store *store, const char *key, unsigned n, size_t length)
{
    struct bench_op *ops = calloc(n, sizeof *ops);
    assert_non_null(ops);
    for (unsigned i = 0; i < n; i++) {
        ops[i].op = (struct leat_store_op){.verb = LEAT_STORE_GET,
                                           .key = key,
                                           .length = length,
                                           .into = malloc(length),
                                           .err = &ops[i].err,
                                           .done = bench_on_done};
        assert_non_null(ops[i].op.into);
        leat_store_submit(store, &ops[i].op);
    }
    return ops;
}

static void free_ops(struct bench_op *ops, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(ops[i].done, 1);
        free(ops[i].op.into);
    }
    free(ops);
}

TEST(requests_in_flight_stay_at_the_number_set)
{
    struct peer *peer = peer_open(serve_together, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.connections = AT_ONCE});
    struct bench_op *ops = submit_gets(store, "key", 100, 1000);
    for (unsigned i = 0; i < 100; i++) {
        bench_wait(&ops[i]);
        assert_ok(ops[i].op.status, ops[i].err);
        assert_memory_equal(ops[i].op.into, data, 1000);
    }
    assert_int_equal(peer_requests(peer), 100);
    assert_int_equal(peer_peak(peer), AT_ONCE);
    struct leat_store_stats stats;
    leat_store_close(store);
    store = bench_open_bucket(peer, (struct leat_store_opts){0});
    leat_store_stats(store, &stats);
    assert_int_equal(stats.operations, 0);
    leat_store_close(store);
    free_ops(ops, 100);
    peer_close(peer);
}

#define QUEUED 20u

/* Notes what arrives in which order; the first request is answered when all others wait behind it. */
struct arrivals {
    atomic_bool all_wait;
    char target[QUEUED + 4][16];
};

static bool serve_noting(struct peer_request *r, void *user)
{
    struct arrivals *a = user;
    if (r->number <= COUNT(a->target))
        snprintf(a->target[r->number - 1], sizeof a->target[0], "%.15s", strrchr(r->target, '/') + 1);
    while (!a->all_wait && !peer_closing(r->peer))
        usleep(1000);
    return serve_object(r, NULL);
}

TEST(urgent_operations_go_first_and_keep_their_order)
{
    struct arrivals a = {.all_wait = false};
    struct peer *peer = peer_open(serve_noting, &a);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.connections = 1});
    struct bench_op *ops = submit_gets(store, "later", QUEUED, 10);
    struct bench_op hurry[3] = {0};
    static const char *const keys[] = {"now0", "now1", "now2"};
    char into[3][10];
    for (unsigned i = 0; i < 3; i++) {
        hurry[i].op = (struct leat_store_op){.verb = LEAT_STORE_GET,
                                             .key = keys[i],
                                             .length = 10,
                                             .into = into[i],
                                             .urgent = true,
                                             .done = bench_on_done};
        leat_store_submit(store, &hurry[i].op);
    }
    struct bench_op last = {.op = {.verb = LEAT_STORE_GET, .key = "", .done = bench_on_done}};
    leat_store_submit(store, &last.op); /* refused at once: all before it have been submitted */
    bench_wait(&last);
    a.all_wait = true;
    for (unsigned i = 0; i < QUEUED; i++)
        bench_wait(&ops[i]);
    assert_string_equal(a.target[0], "later"); /* was on its way already */
    for (unsigned i = 0; i < 3; i++)
        assert_string_equal(a.target[1 + i], keys[i]);
    assert_string_equal(a.target[4], "later");
    assert_int_equal(peer_requests(peer), QUEUED + 3);
    leat_store_close(store);
    free_ops(ops, QUEUED);
    peer_close(peer);
}

/* This many urgent requests of a length are on their way together from the start. */
static void check_hurry(unsigned n, uint32_t length)
{
    struct arrivals a = {.all_wait = false};
    struct peer *peer = peer_open(serve_noting, &a);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    struct bench_op *ops = calloc(n, sizeof *ops);
    char *into = malloc((size_t)n * length);
    for (unsigned i = 0; i < n; i++) {
        ops[i].op = (struct leat_store_op){.verb = LEAT_STORE_GET,
                                           .key = "now",
                                           .length = length,
                                           .into = into + (size_t)i * length,
                                           .short_ok = true,
                                           .urgent = true,
                                           .done = bench_on_done};
        leat_store_submit(store, &ops[i].op);
    }
    for (uint64_t end = leat_after(60 * LEAT_S); peer_now(peer) < n; usleep(1000))
        assert_true(leat_left(end) > 0);
    a.all_wait = true;
    for (unsigned i = 0; i < n; i++)
        bench_wait(&ops[i]);
    leat_store_close(store);
    peer_close(peer);
    free(ops);
    free(into);
}

TEST(urgent_operations_are_all_in_flight_at_once)
{
    check_hurry(LEAT_STORE_HURRY, 10);
    check_hurry(LEAT_STORE_HURRY, 1u << 20);
    check_hurry(64, 512u << 10);                /* small ones: as many as have the same bytes … */
    check_hurry(LEAT_PACE_HURRY_SMALL, 100000); /* … and not more than that */
}

TEST(a_burst_of_503_halves_the_requests_in_flight)
{
    struct peer *peer = peer_open(serve_503, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.attempts = 2});
    struct leat_store_stats before;
    struct leat_store_stats after;
    struct bench_op *first = submit_gets(store, "key", 1, 10);
    bench_wait(first);
    leat_store_stats(store, &before);
    struct bench_op *ops = submit_gets(store, "key", 60, 10);
    for (unsigned i = 0; i < 60; i++)
        bench_wait(&ops[i]);
    leat_store_stats(store, &after);
    assert_true(after.in_flight_max <= before.in_flight_max);
    assert_true(after.in_flight_max <= 4); /* it begins with 8 */
    assert_true(after.in_flight_max >= 1);
    assert_true(after.throttled >= 60);
    assert_int_equal(after.in_flight, 0);
    leat_store_close(store);
    free_ops(first, 1);
    free_ops(ops, 60);
    peer_close(peer);
}

#define STORM 300

TEST(a_server_that_only_says_503_gets_no_storm)
{
    struct peer *peer = peer_open(serve_503, NULL);
    struct leat_store *store =
        bench_open_bucket(peer, (struct leat_store_opts){.connections = 50, .timeout_ns = 3 * LEAT_S});
    uint64_t began = leat_now_ns();
    struct bench_op *ops = submit_gets(store, "key", STORM, 10);
    for (unsigned i = 0; i < STORM; i++) {
        bench_wait(&ops[i]);
        /* or, on a busy machine, while it was asked */
        assert_true(ops[i].op.status == LEAT_THROTTLED || ops[i].op.status == LEAT_TIMEOUT);
        assert_non_null(strstr(ops[i].err.text, "s3://bucket/key"));
    }
    /* Each is asked once; retries come from a budget of 64 that regains ten a second. */
    unsigned asked = peer_requests(peer);
    if (asked > STORM + 64 + 10 * ((leat_now_ns() - began) / LEAT_S + 1))
        fail_msg("%u requests for %u operations", asked, STORM);
    free_ops(ops, STORM);
    /* Those that gave up have left the budget to those that come after them. */
    ops = submit_gets(store, "key", 1, 10);
    bench_wait(ops);
    assert_true(ops[0].op.attempts > 1);
    free_ops(ops, 1);
    leat_store_close(store);
    peer_close(peer);
}

#define OUTAGE 150u /* requests: each operation has failed once, many twice */

static bool serve_after_outage(struct peer_request *r, void *user)
{
    (void)user;
    return r->number <= OUTAGE ? serve_503(r, NULL) : serve_object(r, NULL);
}

TEST(operations_recover_soon_after_an_outage)
{
    struct peer *peer = peer_open(serve_after_outage, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.connections = 100, .attempts = 100});
    struct bench_op *ops = submit_gets(store, "key", 100, 10);
    for (unsigned i = 0; i < 100; i++) {
        bench_wait(&ops[i]); /* which gives up after a minute */
        assert_ok(ops[i].op.status, ops[i].err);
    }
    leat_store_close(store);
    free_ops(ops, 100);
    peer_close(peer);
}

struct script {
    unsigned codes[8]; /* answers in turn; 0: the object */
};

static bool serve_script(struct peer_request *r, void *user)
{
    const struct script *s = user;
    unsigned code = r->number <= COUNT(s->codes) ? s->codes[r->number - 1] : 0;
    return code ? peer_answer(r, code, "") : serve_object(r, NULL);
}

TEST(what_passes_is_retried_and_what_does_not_is_not)
{
    static const struct {
        unsigned code;
        leat_status status; /* when it lasts */
        unsigned requests;  /* when it happens once */
    } cases[] = {
        {500, LEAT_SERVER, 2},      {502, LEAT_SERVER, 2},  {503, LEAT_THROTTLED, 2}, {429, LEAT_THROTTLED, 2},
        {408, LEAT_NETWORK, 2},     {403, LEAT_DENIED, 1},  {401, LEAT_DENIED, 1},    {404, LEAT_NOT_FOUND, 1},
        {410, LEAT_NOT_FOUND, 1},   {412, LEAT_CHANGED, 1}, {400, LEAT_INVALID, 1},   {405, LEAT_INVALID, 1},
        {501, LEAT_UNSUPPORTED, 1}, {409, LEAT_BUSY, 1},    {507, LEAT_NO_SPACE, 1},  {418, LEAT_INVALID, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct leat_error err;
        char into[10];
        struct script once = {.codes = {cases[i].code}};
        struct peer *peer = peer_open(serve_script, &once);
        struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
        leat_status rc = leat_store_get(store, "key", 0, 10, into, NULL, &err);
        if (rc != (cases[i].requests == 2 ? LEAT_OK : cases[i].status) || peer_requests(peer) != cases[i].requests)
            fail_msg("after one %u: %s after %u requests", cases[i].code, leat_status_name(rc), peer_requests(peer));
        leat_store_close(store);
        peer_close(peer);
        struct script lasting = {.codes = {cases[i].code, cases[i].code, cases[i].code}};
        peer = peer_open(serve_script, &lasting);
        store = bench_open_bucket(peer, (struct leat_store_opts){.attempts = 2});
        assert_int_equal(leat_store_get(store, "key", 0, 10, into, NULL, &err), cases[i].status);
        leat_store_close(store);
        peer_close(peer);
    }
}

TEST(an_operation_ends_at_its_deadline_whatever_happens)
{
    struct leat_error err;
    char into[10];
    struct peer *peer = peer_open(serve_nothing, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.timeout_ns = 300 * LEAT_MS});
    uint64_t began = leat_now_ns();
    assert_fails(leat_store_get(store, "key", 0, 10, into, NULL, &err), err, LEAT_TIMEOUT, "s3://bucket/key");
    uint64_t took = leat_now_ns() - began;
    assert_true(took >= 250 * LEAT_MS); /* and nothing else would end it */
    leat_store_close(store);
    peer_close(peer);
}

/* Threads that submit, wait a moment and cancel, over and over. */
struct canceller {
    struct leat_store *store;
    const char *key;
    uint64_t seed;
    unsigned rounds;
    unsigned cancelled;
    unsigned finished;
    bool wrong;
};

static void *cancel_at_random(void *arg)
{
    struct canceller *c = arg;
    struct leat_rng rng = leat_rng(c->seed, 0);
    char *into = malloc(SIZE);
    for (unsigned i = 0; i < c->rounds; i++) {
        struct bench_op b = {.op = {.verb = LEAT_STORE_GET, .key = c->key, .into = into, .done = bench_on_done}};
        b.op.offset = leat_rng_u32(&rng) % 1000;
        b.op.length = 1 + leat_rng_u32(&rng) % (SIZE - 1000);
        b.op.err = &b.err;
        leat_store_submit(c->store, &b.op);
        if (i % 3)
            usleep(leat_rng_u32(&rng) % 600);
        leat_store_cancel(c->store, &b.op);
        bench_wait(&b);
        leat_store_cancel(c->store, &b.op); /* one that was given back is left alone */
        c->wrong |= b.done != 1;
        if (b.op.status == LEAT_OK) {
            c->finished++;
            c->wrong |= b.op.got != b.op.length || memcmp(into, data + b.op.offset, b.op.length) != 0;
        } else {
            c->cancelled++;
            c->wrong |= b.op.status != LEAT_CANCELLED || b.err.status != LEAT_CANCELLED;
        }
    }
    free(into);
    return NULL;
}

static void cancel_from_many_threads(struct leat_store *store, const char *key, unsigned rounds)
{
    pthread_t threads[4];
    struct canceller c[4];
    unsigned cancelled = 0;
    unsigned finished = 0;
    for (unsigned i = 0; i < 4; i++) {
        c[i] = (struct canceller){.store = store, .key = key, .seed = i + 1, .rounds = rounds};
        assert_int_equal(pthread_create(&threads[i], NULL, cancel_at_random, &c[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_false(c[i].wrong);
        cancelled += c[i].cancelled;
        finished += c[i].finished;
    }
    assert_int_equal(cancelled + finished, 4 * rounds);
    struct leat_store_stats stats;
    leat_store_stats(store, &stats);
    assert_int_equal(stats.operations, 4 * rounds);
    assert_int_equal(stats.failures, cancelled);
    assert_int_equal(stats.in_flight, 0);
    struct leat_error err;
    char *into = malloc(SIZE);
    assert_ok(leat_store_get(store, key, 0, SIZE, into, NULL, &err), err); /* and it still works */
    assert_memory_equal(into, data, SIZE);
    free(into);
}

TEST(reads_of_a_bucket_are_cancelled_at_any_moment)
{
    struct peer *peer = peer_open(serve_object, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.connections = 3});
    cancel_from_many_threads(store, "key", 400);
    leat_store_close(store);
    peer_close(peer);
}

TEST(reads_of_files_are_cancelled_at_any_moment)
{
    struct leat_error err;
    char folder[64];
    struct leat_store *store = bench_open_files();
    const char *path = path_in(folder_make(folder), "file");
    assert_ok(leat_store_put(store, path, data, SIZE, NULL, &err), err);
    leat_store_close(store);
    store = bench_open_files();
    char kept[4096];
    snprintf(kept, sizeof kept, "%s", path);
    cancel_from_many_threads(store, kept, 1000);
    leat_store_close(store);
    folder_remove(folder);
}

TEST(closing_gives_back_everything_in_flight)
{
    for (unsigned round = 0; round < 20; round++) {
        struct peer *peer = peer_open(round % 2 ? serve_nothing : serve_503, NULL);
        struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.connections = 10});
        struct bench_op *ops = submit_gets(store, "key", 100, 1000);
        while (round % 3 && !peer_requests(peer))
            usleep(100);
        leat_store_close(store);
        for (unsigned i = 0; i < 100; i++)
            assert_int_equal(ops[i].op.status, LEAT_CANCELLED);
        free_ops(ops, 100);
        peer_close(peer);
    }
}

/* done() that asks for more, and cancels its neighbours. */
struct busy {
    struct bench_op ops[20];
    struct leat_store *store;
    atomic_uint more;
};

static void cancel_neighbours(struct leat_store_op *op)
{
    struct bench_op *b = (struct bench_op *)op;
    struct busy *busy = b->user;
    b->done++;
    for (unsigned i = 0; i < COUNT(busy->ops); i++) {
        if (!busy->ops[i].done)
            leat_store_cancel(busy->store, &busy->ops[i].op);
    }
    if (busy->more++ < 5) { /* submits itself once more: closing has to give that back too */
        b->done = 0;
        leat_store_submit(busy->store, op);
    }
}

TEST(done_may_cancel_others_and_submit_again_while_the_store_closes)
{
    char into[10];
    struct peer *peer = peer_open(serve_nothing, NULL);
    for (unsigned round = 0; round < 20; round++) {
        struct busy busy = {.store = bench_open_bucket(peer, (struct leat_store_opts){.connections = 7})};
        for (unsigned i = 0; i < COUNT(busy.ops); i++) {
            busy.ops[i].user = &busy;
            busy.ops[i].op = (struct leat_store_op){
                .verb = LEAT_STORE_GET, .key = "key", .length = 10, .into = into, .done = cancel_neighbours};
            leat_store_submit(busy.store, &busy.ops[i].op);
        }
        usleep(round * 200);
        leat_store_close(busy.store);
        for (unsigned i = 0; i < COUNT(busy.ops); i++)
            assert_int_equal(busy.ops[i].done, 1);
    }
    peer_close(peer);
}

static void cancel_itself(struct leat_store_op *op, size_t n)
{
    struct bench_op *b = (struct bench_op *)op;
    (void)n;
    leat_store_cancel(b->user, op);
}

TEST(an_operation_can_be_cancelled_from_its_own_progress)
{
    struct peer *peer = peer_open(serve_object, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    char *into = malloc(SIZE);
    for (int i = 0; i < 30; i++) {
        struct bench_op b = {.user = store,
                             .op = {.verb = LEAT_STORE_GET,
                                    .key = "key",
                                    .length = SIZE,
                                    .into = into,
                                    .moved = cancel_itself,
                                    .done = bench_on_done}};
        leat_store_submit(store, &b.op);
        bench_wait(&b);
        assert_int_equal(b.op.status, LEAT_CANCELLED);
    }
    leat_store_close(store);
    free(into);
    peer_close(peer);
}

static bool stop_now(void *user)
{
    atomic_uint *asked = user;
    return ++*asked > 2;
}

TEST(a_waiting_call_ends_when_it_is_told_to_stop)
{
    struct leat_error err;
    char into[10];
    atomic_uint asked = 0;
    struct peer *peer = peer_open(serve_nothing, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.stop = stop_now, .stop_user = &asked});
    assert_int_equal(leat_store_get(store, "key", 0, 10, into, NULL, &err), LEAT_CANCELLED);
    struct leat_list *list;
    struct leat_list_entry entry;
    bool end = false;
    assert_ok(leat_store_list_open(store, "", true, &list, &err), err);
    assert_int_equal(leat_store_list_next(list, &entry, &end, &err), LEAT_CANCELLED);
    assert_int_equal(leat_store_list_next(list, &entry, &end, &err), LEAT_CANCELLED); /* and not the end */
    leat_store_list_close(list);
    assert_ok(leat_store_list_open(store, "", true, &list, &err), err);
    leat_store_list_close(list); /* with its first page on the way */
    leat_store_close(store);
    peer_close(peer);
}

struct sized {
    size_t n;
};

static bool serve_sized(struct peer_request *r, void *user)
{
    size_t n = ((struct sized *)user)->n;
    if (n)
        return peer_object(r, data, n, "\"tag\"");
    if (strcmp(r->method, "HEAD") == 0)
        return peer_say(r, "HTTP/1.1 200 OK\r\nETag: \"empty\"\r\nContent-Length: 0\r\n\r\n");
    return peer_say(r, "HTTP/1.1 416 Range\r\nContent-Length: 0\r\nContent-Range: bytes */0\r\n\r\n");
}

TEST(objects_of_any_size_are_loaded_whole)
{
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, SIZE};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct leat_error err;
        struct sized sized = {.n = sizes[i]};
        struct leat_object object;
        struct peer *peer = peer_open(serve_sized, &sized);
        struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
        char *got = NULL;
        size_t n = 1;
        assert_ok(leat_store_load(store, "key", SIZE, &got, &n, &object, &err), err);
        assert_int_equal(n, sizes[i]);
        assert_memory_equal(got, data, n);
        assert_int_equal(got[n], '\0');
        assert_int_equal(object.size, n);
        assert_int_equal(peer_requests(peer), sizes[i] > 65536 ? 2 : 1);
        free(got);
        if (sizes[i] > 1)
            assert_fails(leat_store_load(store, "key", sizes[i] - 1, &got, &n, NULL, &err), err, LEAT_LIMIT, "key");
        leat_store_close(store);
        peer_close(peer);
    }
}

static bool serve_unknown_total(struct peer_request *r, void *user)
{
    (void)user;
    peer_say(r,
             "HTTP/1.1 206 Part\r\nETag: \"x\"\r\nContent-Range: bytes %" PRIu64 "-%" PRIu64 "/*\r\n"
             "Content-Length: %" PRIu64 "\r\n\r\n",
             r->first, r->last, r->last + 1 - r->first);
    return peer_send(r, data + r->first, (size_t)(r->last + 1 - r->first));
}

TEST(an_object_whose_end_is_not_known_is_not_loaded_as_if_it_were)
{
    struct leat_error err;
    struct peer *peer = peer_open(serve_unknown_total, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    char *got;
    size_t n;
    assert_fails(leat_store_load(store, "key", SIZE, &got, &n, NULL, &err), err, LEAT_UNSUPPORTED, "how long");
    char into[100];
    assert_ok(leat_store_get(store, "key", 5, 100, into, NULL, &err), err); /* a range of it is fine */
    assert_memory_equal(into, data + 5, 100);
    leat_store_close(store);
    peer_close(peer);
}

static bool serve_more_than_said(struct peer_request *r, void *user)
{
    (void)user;
    if (r->number > 1)
        return peer_object(r, data, 10, "\"x\"");
    return peer_say(r, "HTTP/1.1 206 Part\r\nETag: \"x\"\r\nContent-Range: bytes 0-9/10\r\n"
                       "Transfer-Encoding: chunked\r\n\r\nf\r\n012345678901234\r\n0\r\n\r\n");
}

TEST(an_answer_longer_than_the_range_it_names_is_not_taken)
{
    struct leat_error err;
    char into[100];
    struct peer *peer = peer_open(serve_more_than_said, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    struct leat_store_op op = {.verb = LEAT_STORE_GET, .key = "key", .length = 100, .into = into, .short_ok = true};
    assert_ok(leat_store_run(store, &op, &err), err);
    assert_int_equal(op.attempts, 2);
    assert_int_equal(op.got, 10);
    assert_memory_equal(into, data, 10);
    leat_store_close(store);
    peer_close(peer);
}

TEST(what_a_store_cannot_do_is_refused_without_a_request)
{
    struct leat_error err;
    struct leat_list *list;
    char into[1];
    struct peer *peer = peer_open(serve_object, NULL);
    struct leat_store *web = bench_open(peer_url(peer), NULL);
    assert_fails(leat_store_put(web, "/x", "x", 1, NULL, &err), err, LEAT_UNSUPPORTED, "only be read");
    assert_fails(leat_store_delete(web, "/x", &err), err, LEAT_UNSUPPORTED, "only be read");
    assert_fails(leat_store_list_open(web, "/", true, &list, &err), err, LEAT_UNSUPPORTED, "web server");
    leat_store_close(web);
    struct leat_store *bucket = bench_open_bucket(peer, (struct leat_store_opts){0});
    assert_fails(leat_store_get(bucket, "", 0, 1, into, NULL, &err), err, LEAT_INVALID, "names a bucket");
    assert_fails(leat_store_delete(bucket, "", &err), err, LEAT_INVALID, "names a bucket");
    leat_store_close(bucket);
    leat_store_close(NULL);
    assert_int_equal(peer_requests(peer), 0);
    peer_close(peer);
}

static void begin(void)
{
    bench_fill(data, sizeof data, 1);
}

TEST_GROUP(begin, NULL);
