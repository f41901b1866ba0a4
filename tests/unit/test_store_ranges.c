/* Answers to a range that say 200: those of a part in all but the number, those of the whole, and those that lie. */
#include <inttypes.h>

#include "store/store.h"
#include "store_bench.h"
#include "unit.h"

#define SIZE (256 << 10)

static char data[SIZE];

/* As "rclone serve s3" answers; an object of user's size. */
static bool serve_under_200(struct peer_request *r, void *user)
{
    uint64_t n = *(const uint64_t *)user;
    if (strcmp(r->method, "HEAD") == 0)
        return peer_say(r, "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: %" PRIu64 "\r\n\r\n", n);
    if (!r->has_range || r->first >= n)
        return peer_answer(r, r->has_range ? 416 : 500, "");
    uint64_t last = r->last < n ? r->last : n - 1;
    peer_say(r,
             "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: %" PRIu64 "\r\nContent-Range: bytes %" PRIu64
             "-%" PRIu64 "/%" PRIu64 "\r\n\r\n",
             last + 1 - r->first, r->first, last, n);
    return peer_send(r, data + r->first, (size_t)(last + 1 - r->first));
}

TEST(a_range_under_200_that_fits_to_the_byte_is_a_part)
{
    static const struct {
        uint64_t size, offset, length, got;
    } cases[] = {
        {SIZE, 0, 1, 1},       {SIZE, 0, 100, 100},        {SIZE, 5, 100, 100}, {SIZE, SIZE - 1, 1, 1},
        {SIZE, 0, SIZE, SIZE}, {SIZE, SIZE - 10, 100, 10}, {100, 0, 4096, 100}, {1, 0, 1, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct leat_error err;
        uint64_t size = cases[i].size;
        char *into = calloc(1, SIZE);
        assert_non_null(into);
        struct peer *peer = peer_open(serve_under_200, &size);
        struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
        struct leat_store_op op = {.verb = LEAT_STORE_GET,
                                   .key = "key",
                                   .offset = cases[i].offset,
                                   .length = cases[i].length,
                                   .into = into,
                                   .short_ok = true};
        assert_ok(leat_store_run(store, &op, &err), err);
        assert_int_equal(op.attempts, 1);
        assert_int_equal(op.got, cases[i].got);
        assert_memory_equal(into, data + cases[i].offset, op.got);
        free(into);
        leat_store_close(store);
        peer_close(peer);
    }
}

/* The first 64 KiB come before the size is known. Taken for the whole, the object would be cut there in silence. */
TEST(an_object_is_not_cut_where_a_first_part_says_200)
{
    static const uint64_t sizes[] = {1, 65535, 65536, 65537, SIZE};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct leat_error err;
        uint64_t size = sizes[i];
        struct leat_object object;
        struct peer *peer = peer_open(serve_under_200, &size);
        struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
        char *got = NULL;
        size_t n = 0;
        assert_ok(leat_store_load(store, "key", SIZE, &got, &n, &object, &err), err);
        assert_int_equal(n, size);
        assert_int_equal(object.size, size);
        assert_memory_equal(got, data, n);
        free(got);
        leat_store_close(store);
        peer_close(peer);
    }
}

/* Answers to bytes 100-199 of an object of SIZE bytes; the body is as long as Content-Length says, or chunked. */
static const struct lie {
    const char *head;
    uint64_t first, n;
} lies[] = {
    {"Content-Range: bytes 100-199/*\r\nContent-Length: 100\r\n", 100, 100},             /* of how much? */
    {"Content-Range: bytes 100-199/262144\r\nTransfer-Encoding: chunked\r\n", 100, 100}, /* how long? */
    {"Content-Range: bytes 100-199/262144\r\nContent-Length: 200\r\n", 100, 200},
    {"Content-Range: bytes 100-199/262144\r\nContent-Length: 99\r\n", 100, 99},
    {"Content-Range: bytes 100-199/262144\r\nContent-Length: 262144\r\n", 0, SIZE}, /* the whole after all */
    {"Content-Range: bytes 99-198/262144\r\nContent-Length: 100\r\n", 99, 100},
    {"Content-Range: bytes 0-99/262144\r\nContent-Length: 100\r\n", 0, 100},
    {"Content-Range: bytes 0-199/262144\r\nContent-Length: 200\r\n", 0, 200}, /* not to be cut out of that, either */
    {"Content-Range: bytes 100-198/262144\r\nContent-Length: 99\r\n", 100, 99},
    {"Content-Range: bytes 100-200/262144\r\nContent-Length: 101\r\n", 100, 101},
    {"Content-Range: bytes 0-262143/262144\r\nContent-Length: 200\r\n", 0, 200},
    {"Content-Range: bytes */262144\r\nContent-Length: 200\r\n", 0, 200},
    {"Content-Range: bytes 100-199\r\nContent-Length: 200\r\n", 0, 200}, /* not well-formed */
    {"Content-Range: \r\nContent-Length: 200\r\n", 0, 200},
    {"Content-Range: bytes 100-199/262144, bytes 100-199/262144\r\nContent-Length: 100\r\n", 100, 100},
    {"Content-Range: bytes 0-99/262144\r\nContent-Range: bytes 100-199/262144\r\nContent-Length: 100\r\n", 0, 100},
    {"Content-Range: bytes 100-199/262144\r\nContent-Range: what\r\nContent-Length: 200\r\n", 0, 200},
    {"Content-Range: bytes 100-199/262144\r\nContent-Range: bytes */262144\r\nContent-Length: 100\r\n", 100, 100},
    {"Content-Range: bytes 100-199/262144\r\nContent-Length: 100\r\nContent-Encoding: gzip\r\n", 100, 100},
};

static bool serve_lie(struct peer_request *r, void *user)
{
    const struct lie *lie = user;
    if (r->number > 1)
        return peer_object(r, data, SIZE, "\"x\"");
    peer_say(r, "HTTP/1.1 200 OK\r\nETag: \"x\"\r\n%s\r\n", lie->head);
    bool chunked = strstr(lie->head, "chunked") != NULL;
    if (chunked)
        peer_say(r, "%" PRIx64 "\r\n", lie->n);
    peer_send(r, data + lie->first, lie->n);
    return !chunked || peer_say(r, "\r\n0\r\n\r\n");
}

TEST(a_range_under_200_with_any_doubt_is_refused_and_tried_again)
{
    for (size_t i = 0; i < COUNT(lies); i++) {
        struct leat_error err;
        char into[100] = "";
        struct lie lie = lies[i];
        struct peer *peer = peer_open(serve_lie, &lie);
        struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
        struct leat_store_op op = {
            .verb = LEAT_STORE_GET, .key = "key", .offset = 100, .length = 100, .into = into, .short_ok = true};
        assert_ok(leat_store_run(store, &op, &err), err);
        if (op.attempts != 2)
            fail_msg("taken: %s", lie.head);
        assert_int_equal(op.got, 100);
        assert_memory_equal(into, data + 100, 100);
        leat_store_close(store);
        peer_close(peer);
    }
}

/* Broken off after 40 of 100 bytes, then continued with If-Match, as with a 206. */
static bool serve_broken(struct peer_request *r, void *user)
{
    static const char *const tags[] = {"\"x\"", "\"y\""};
    bool changed = *(const bool *)user;
    if (r->number == 1) {
        peer_say(r, "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 100\r\n"
                    "Content-Range: bytes 100-199/262144\r\n\r\n");
        peer_send(r, data + 100, 40);
        return false;
    }
    if (r->first != 140 || !strstr(r->head, "\"x\""))
        return peer_answer(r, 400, "");
    peer_say(r,
             "HTTP/1.1 200 OK\r\nETag: %s\r\nContent-Length: 60\r\n"
             "Content-Range: bytes 140-199/262144\r\n\r\n",
             tags[changed]);
    return peer_send(r, data + 140, 60);
}

TEST(a_broken_range_under_200_is_continued_and_never_mixed)
{
    for (int changed = 0; changed < 2; changed++) {
        struct leat_error err;
        char into[100];
        bool change = changed;
        struct peer *peer = peer_open(serve_broken, &change);
        struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
        if (changed) {
            assert_fails(leat_store_get(store, "key", 100, 100, into, NULL, &err), err, LEAT_CHANGED, "changed");
        } else {
            assert_ok(leat_store_get(store, "key", 100, 100, into, NULL, &err), err);
            assert_memory_equal(into, data + 100, 100);
        }
        leat_store_close(store);
        peer_close(peer);
    }
}

static bool serve_all_with_a_range(struct peer_request *r, void *user)
{
    (void)user;
    peer_say(r, "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: %d\r\nContent-Range: bytes 0-%d/%d\r\n\r\n", SIZE,
             SIZE - 1, SIZE);
    return peer_send(r, data, SIZE);
}

TEST(the_whole_object_that_says_so_twice_is_still_the_whole)
{
    struct leat_error err;
    char into[100];
    struct peer *peer = peer_open(serve_all_with_a_range, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    assert_ok(leat_store_get(store, "key", 1000, 100, into, NULL, &err), err);
    assert_memory_equal(into, data + 1000, 100);
    leat_store_close(store);
    peer_close(peer);
}

/* A link that is signed for GET only: the object is looked at by its first byte. */
static bool serve_no_head(struct peer_request *r, void *user)
{
    if (strcmp(r->method, "HEAD") == 0)
        return peer_say(r, "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
    return serve_under_200(r, user);
}

static bool serve_other_byte(struct peer_request *r, void *user)
{
    (void)user;
    if (strcmp(r->method, "HEAD") == 0)
        return peer_say(r, "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
    peer_say(r, "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 10\r\nContent-Range: bytes 0-0/262144\r\n\r\n");
    return peer_send(r, data, 10);
}

TEST(a_web_objects_size_is_seen_by_its_first_byte_under_200)
{
    struct leat_error err;
    struct leat_object object;
    uint64_t size = SIZE;
    struct peer *peer = peer_open(serve_no_head, &size);
    struct leat_store *store = bench_open(peer_url(peer), NULL);
    assert_ok(leat_store_stat(store, "/key", &object, &err), err);
    assert_int_equal(object.size, SIZE);
    assert_int_equal(peer_requests(peer), 2);
    leat_store_close(store);
    peer_close(peer);
    peer = peer_open(serve_other_byte, NULL);
    store = bench_open(peer_url(peer), NULL);
    assert_fails(leat_store_stat(store, "/key", &object, &err), err, LEAT_UNSUPPORTED, "how long");
    leat_store_close(store);
    peer_close(peer);
}

static void begin(void)
{
    bench_fill(data, sizeof data, 1);
}

TEST_GROUP(begin, NULL);
