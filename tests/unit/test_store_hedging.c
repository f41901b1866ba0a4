/* Second requests for reads that are late: a bucket whose server answers some requests seconds late. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "store_bench.h"
#include "unit.h"

#define SIZE  4096u
#define USUAL 200u
#define LATE  LEAT_NEVER /* until the other side hangs up */

static char old_data[SIZE];
static char new_data[SIZE];

struct server {
    atomic_uint slow; /* requests for "slow" so far: the first is late */
    bool half;        /* … in the middle of its body rather than before its head */
    bool changes;     /* and is of an older version than the rest */
    bool all_slow;    /* the second is late, too */
    uint64_t late_ns;
};

/* Whether the other side has hung up meanwhile. */
static bool wait_late(const struct peer_request *r, uint64_t ns)
{
    for (uint64_t until = leat_after(ns); leat_left(until) && !peer_closing(r->peer);) {
        char byte;
        if (recv(r->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
            return false;
        usleep(2000);
    }
    return !peer_closing(r->peer);
}

static bool serve(struct peer_request *r, void *user)
{
    struct server *s = user;
    bool slow = strstr(r->target, "slow") != NULL;
    unsigned turn = slow ? s->slow++ : 0;
    bool late = slow && (turn == 0 || s->all_slow);
    const char *data = s->changes && late ? old_data : new_data;
    const char *etag = s->changes && late ? "\"old\"" : "\"new\"";
    if (!late)
        return peer_object(r, data, SIZE, etag);
    if (!s->half)
        return wait_late(r, s->late_ns) && peer_object(r, data, SIZE, etag);
    peer_say(r,
             "HTTP/1.1 206 Part\r\nETag: %s\r\nContent-Type: text/odd\r\nContent-Range: bytes "
             "0-%u/%u\r\nContent-Length: %u\r\n\r\n",
             etag, SIZE - 1, SIZE, SIZE);
    peer_send(r, data, SIZE / 2);
    return wait_late(r, s->late_ns) && peer_send(r, data + SIZE / 2, SIZE / 2);
}

/* One that knows how long reads take, and may send a second request: on a loaded machine usual reads are late by
 * themselves, and use up the 2 % that may be. */
static struct leat_store *open_used(struct peer *peer, enum leat_store_hedge hedge)
{
    struct leat_error err;
    struct leat_store_stats stats = {0};
    char into[SIZE];
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){.hedge = hedge});
    for (unsigned i = 0; i < USUAL || (stats.hedges + 2) * 50 > i; i++) {
        assert_ok(leat_store_get(store, "usual", 0, SIZE, into, NULL, &err), err);
        assert_memory_equal(into, new_data, SIZE);
        leat_store_stats(store, &stats);
    }
    return store;
}

TEST(what_is_late_comes_by_a_second_request)
{
    for (int half = 0; half < 2; half++) {
        struct server s = {.half = half, .late_ns = LATE};
        struct leat_error err;
        struct leat_store_stats before;
        struct leat_store_stats stats;
        char into[SIZE] = {0};
        struct peer *peer = peer_open(serve, &s);
        struct leat_store *store = open_used(peer, LEAT_HEDGE_ON);
        leat_store_stats(store, &before);
        assert_ok(leat_store_get(store, "slow", 0, SIZE, into, NULL, &err), err);
        assert_memory_equal(into, new_data, SIZE);
        leat_store_stats(store, &stats);
        assert_int_equal(stats.hedges, before.hedges + 1);
        assert_true(stats.hedges_won >= 1);
        assert_true(stats.hedged_bytes == stats.hedges * SIZE);
        assert_true(stats.hedges * 50 <= stats.operations);
        assert_int_equal(stats.operations, before.operations + 1);
        assert_int_equal(stats.failures, 0);
        leat_store_close(store);
        peer_close(peer);
    }
}

TEST(nothing_is_asked_twice_where_that_is_off)
{
    struct server s = {.late_ns = 300 * LEAT_MS};
    struct leat_error err;
    struct leat_store_stats stats;
    char into[SIZE];
    struct peer *peer = peer_open(serve, &s);
    struct leat_store *store = open_used(peer, LEAT_HEDGE_OFF);
    assert_ok(leat_store_get(store, "slow", 0, SIZE, into, NULL, &err), err);
    leat_store_stats(store, &stats);
    assert_int_equal(stats.hedges, 0);
    assert_int_equal(s.slow, 1);
    leat_store_close(store);
    peer_close(peer);
}

/* The object was replaced between the two requests: half of each must never be taken for one. */
TEST(an_answer_is_of_one_version_whichever_wins)
{
    struct server s = {.half = true, .changes = true, .late_ns = LATE};
    struct leat_error err;
    char into[SIZE] = {0};
    struct peer *peer = peer_open(serve, &s);
    struct leat_store *store = open_used(peer, LEAT_HEDGE_ON);
    struct leat_object object;
    struct leat_store_op op = {.verb = LEAT_STORE_GET, .key = "slow", .length = SIZE, .into = into, .object = &object};
    assert_ok(leat_store_run(store, &op, &err), err); /* half of the old one had come */
    assert_string_equal(object.etag, "\"new\"");
    assert_memory_equal(into, new_data, SIZE);
    leat_store_close(store);
    peer_close(peer);

    s = (struct server){.half = true, .changes = true, .late_ns = 400 * LEAT_MS};
    peer = peer_open(serve, &s);
    store = open_used(peer, LEAT_HEDGE_ON);
    assert_ok(leat_store_get(store, "slow", 0, SIZE, into, "\"old\"", &err), err); /* the second one is refused */
    assert_memory_equal(into, old_data, SIZE);
    leat_store_close(store);
    peer_close(peer);
}

/* What an answer's head says of an object is written as it comes: two heads must not meet there. */
TEST(attributes_are_those_of_one_answer)
{
    struct server s = {.half = true, .late_ns = 500 * LEAT_MS};
    struct leat_error err;
    struct leat_buf found;
    char into[SIZE];
    struct peer *peer = peer_open(serve, &s);
    struct leat_store *store = open_used(peer, LEAT_HEDGE_ON);
    struct leat_store_op op = {.verb = LEAT_STORE_GET, .key = "slow", .length = SIZE, .into = into, .found = &found};
    leat_buf_init(&found, 4096);
    assert_ok(leat_store_run(store, &op, &err), err);
    assert_string_equal(found.data, "content-type: text/odd\n");
    leat_buf_free(&found);
    leat_store_close(store);
    peer_close(peer);
}

TEST(reads_with_a_second_request_are_cancelled_and_closed_at_any_moment)
{
    for (unsigned i = 0; i < 24; i++) {
        struct server s = {.half = i & 1, .all_slow = i & 2, .late_ns = LATE};
        char into[SIZE];
        struct peer *peer = peer_open(serve, &s);
        struct leat_store *store = open_used(peer, LEAT_HEDGE_ON);
        struct bench_op b = {.op = {.verb = LEAT_STORE_GET, .key = "slow", .length = SIZE, .into = into}};
        b.op.done = bench_on_done;
        b.op.err = &b.err;
        leat_store_submit(store, &b.op);
        usleep(1000 * (5 + 2 * i)); /* before, at and after the second request */
        if (i % 3)
            leat_store_cancel(store, &b.op);
        leat_store_close(store);
        bench_wait(&b);
        assert_int_equal(b.done, 1);
        if (b.op.status == LEAT_OK)
            assert_memory_equal(into, new_data, SIZE);
        else
            assert_int_equal(b.op.status, LEAT_CANCELLED);
        peer_close(peer);
    }
}

static void begin(void)
{
    bench_fill(old_data, sizeof old_data, 1);
    bench_fill(new_data, sizeof new_data, 2);
}

TEST_GROUP(begin, NULL);
