/* The HTTP client against a server on real sockets. Calls are made on the loop's thread; the tests wait outside. */
#include "net/http.h"

#include <inttypes.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "peer.h"
#include "unit_place.h"

struct bench {
    struct leat_loop *loop;
    struct leat_http *http;
    struct peer *peer;
    char url[256];
};

static void open_bench(struct bench *b, peer_handler *handler, void *user)
{
    struct leat_error err;
    *b = (struct bench){.peer = peer_open(handler, user)};
    assert_ok(leat_loop_open("test-http", &b->loop, &err), err);
    struct leat_http_opts opts = {.loop = b->loop};
    assert_ok(leat_http_open(&opts, &b->http, &err), err);
    snprintf(b->url, sizeof b->url, "%s/object", peer_url(b->peer));
}

static void close_client(void *user)
{
    struct bench *b = user;
    leat_http_close(b->http);
}

static void close_bench(struct bench *b)
{
    leat_loop_call(b->loop, close_client, b);
    leat_loop_close(b->loop);
    peer_close(b->peer);
}

/* A call and who waits for it. */
struct trial {
    struct leat_http_call call; /* first member */
    struct bench *bench;
    atomic_uint done;
    void *user;
};

static void on_done(struct leat_http_call *call)
{
    struct trial *t = (struct trial *)call;
    t->done++;
}

static void start_call(void *user)
{
    struct trial *t = user;
    if (!t->call.method)
        t->call.method = "GET";
    if (!t->call.url)
        t->call.url = t->bench->url;
    if (!t->call.deadline_ns)
        t->call.deadline_ns = LEAT_NEVER;
    t->call.done = on_done;
    leat_http_start(t->bench->http, &t->call);
    assert_int_equal(t->done, 0); /* never from within */
}

static void cancel_call(void *user)
{
    struct trial *t = user;
    if (!t->done)
        leat_http_cancel(t->bench->http, &t->call);
}

static void wait_done(struct trial *t)
{
    if (!wait_until(&t->done, 1))
        fail_msg("a call did not end within a minute");
}

static void run_call(struct trial *t)
{
    leat_loop_call(t->bench->loop, start_call, t);
    wait_done(t);
}

static char data[1 << 20];

static void fill_data(void)
{
    struct leat_rng rng = leat_rng(7, 0);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)leat_rng_u32(&rng);
}

static bool serve_object(struct peer_request *r, void *user)
{
    (void)user;
    return peer_object(r, data, sizeof data, "\"tag\"");
}

#define CALLS 400
#define PIECE 2048

static bool serve_together(struct peer_request *r, void *user)
{
    struct peer *peer = r->peer;
    (void)user;
    /* Answers come when all requests are there: the client must have them in flight together. */
    for (uint64_t deadline = leat_after(60 * LEAT_S); peer_peak(peer) < CALLS && leat_left(deadline); usleep(1000))
        ;
    return peer_object(r, data, sizeof data, "\"tag\"");
}

struct many {
    struct trial trial[CALLS];
    char range[CALLS][64];
    const char *headers[CALLS];
    char into[CALLS][PIECE];
};

TEST(hundreds_of_calls_are_in_flight_from_one_thread)
{
    struct bench b;
    struct many *m = calloc(1, sizeof *m);
    assert_non_null(m);
    open_bench(&b, serve_together, NULL);
    for (unsigned i = 0; i < CALLS; i++) {
        snprintf(m->range[i], sizeof m->range[i], "Range: bytes=%u-%u", i * PIECE, i * PIECE + PIECE - 1);
        m->headers[i] = m->range[i];
        m->trial[i].bench = &b;
        m->trial[i].call.headers = &m->headers[i];
        m->trial[i].call.headers_n = 1;
        m->trial[i].call.into = m->into[i];
        m->trial[i].call.into_n = PIECE;
        leat_loop_call(b.loop, start_call, &m->trial[i]);
    }
    for (unsigned i = 0; i < CALLS; i++) {
        wait_done(&m->trial[i]);
        assert_ok(m->trial[i].call.status, m->trial[i].call.err);
        assert_int_equal(m->trial[i].call.head.code, 206);
        assert_int_equal(m->trial[i].call.got, PIECE);
        assert_memory_equal(m->into[i], data + (size_t)i * PIECE, PIECE);
        assert_string_equal(m->trial[i].call.head.etag, "\"tag\"");
    }
    assert_int_equal(peer_peak(b.peer), CALLS);
    close_bench(&b);
    free(m);
}

TEST(connections_are_used_again)
{
    struct bench b;
    open_bench(&b, serve_object, NULL);
    char *into = malloc(sizeof data);
    assert_non_null(into);
    for (int i = 0; i < 20; i++) {
        struct trial t = {.bench = &b, .call = {.into = into, .into_n = sizeof data}};
        run_call(&t);
        assert_ok(t.call.status, t.call.err);
        assert_memory_equal(into, data, sizeof data);
    }
    assert_int_equal(peer_requests(b.peer), 20);
    assert_int_equal(peer_peak(b.peer), 1);
    free(into);
    close_bench(&b);
}

TEST(an_answer_larger_than_the_buffer_is_an_error_and_writes_nothing_behind_it)
{
    struct bench b;
    char into[1001];
    open_bench(&b, serve_object, NULL);
    into[1000] = 'x';
    struct trial t = {.bench = &b, .call = {.into = into, .into_n = 1000}};
    run_call(&t);
    assert_int_equal(t.call.status, LEAT_SERVER);
    assert_non_null(strstr(t.call.err.text, "longer than the 1000 bytes"));
    assert_int_equal(into[1000], 'x');
    assert_true(t.call.got <= 1000);
    close_bench(&b);
}

static bool accept_cut(struct leat_http_call *call)
{
    call->skip = 5000;
    call->cut = true;
    return true;
}

TEST(an_answer_can_be_skipped_and_cut)
{
    struct bench b;
    char into[1000];
    open_bench(&b, serve_object, NULL);
    struct trial t = {.bench = &b, .call = {.into = into, .into_n = sizeof into, .accept = accept_cut}};
    run_call(&t);
    assert_ok(t.call.status, t.call.err);
    assert_int_equal(t.call.got, sizeof into);
    assert_memory_equal(into, data + 5000, sizeof into);
    close_bench(&b);
}

static bool refuse_all(struct leat_http_call *call)
{
    leat_fail(&call->err, LEAT_CHANGED, "not this one");
    return false;
}

static bool serve_head_only(struct peer_request *r, void *user)
{
    (void)user;
    peer_say(r, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nETag: \"x\"\r\n\r\n");
    peer_wait_gone(r);
    return false;
}

TEST(a_refused_answer_ends_with_its_head)
{
    struct bench b;
    char into[10];
    open_bench(&b, serve_head_only, NULL);
    struct trial t = {.bench = &b, .call = {.into = into, .into_n = sizeof into, .accept = refuse_all}};
    run_call(&t);
    assert_int_equal(t.call.status, LEAT_CHANGED);
    assert_string_equal(t.call.err.text, "not this one");
    close_bench(&b);
}

static bool serve_endless_text(struct peer_request *r, void *user)
{
    unsigned code = *(const unsigned *)user;
    peer_say(r, "HTTP/1.1 %u Answer\r\nTransfer-Encoding: chunked\r\n\r\n", code);
    while (peer_say(r, "400\r\n%01024d\r\n", 7))
        ;
    return false;
}

TEST(text_without_end_is_cut_for_errors_and_refused_for_answers)
{
    for (unsigned code = 200; code <= 500; code += 300) {
        struct bench b;
        open_bench(&b, serve_endless_text, &code);
        struct trial t = {.bench = &b, .call = {.text_max = 5000}};
        run_call(&t);
        assert_int_equal(t.call.status, code == 200 ? LEAT_LIMIT : LEAT_OK);
        assert_true(t.call.text.len <= 5000);
        assert_int_equal(t.call.head.code, code);
        leat_buf_free(&t.call.text);
        close_bench(&b);
    }
}

static bool serve_with_trailer(struct peer_request *r, void *user)
{
    (void)user;
    return peer_say(r, "HTTP/1.1 100 Continue\r\nETag: \"wrong\"\r\n\r\nHTTP/1.1 200 OK\r\nETag: \"right\"\r\n"
                       "Transfer-Encoding: chunked\r\nTrailer: ETag\r\n\r\n5\r\nhello\r\n0\r\nETag: \"late\"\r\n"
                       "HTTP/1.1: 200\r\nETag: \"of no new answer\"\r\n\r\n");
}

TEST(what_stands_before_and_behind_the_answer_does_not_change_its_head)
{
    struct bench b;
    char into[5];
    open_bench(&b, serve_with_trailer, NULL);
    struct trial t = {.bench = &b, .call = {.into = into, .into_n = sizeof into}};
    run_call(&t);
    assert_ok(t.call.status, t.call.err);
    assert_int_equal(t.call.head.code, 200);
    assert_string_equal(t.call.head.etag, "\"right\"");
    assert_memory_equal(into, "hello", 5);
    close_bench(&b);
}

static bool serve_twice(struct peer_request *r, void *user)
{
    return peer_say(r, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n%s\r\n\r\nhello", (const char *)user);
}

TEST(an_answer_that_says_two_things_of_its_bytes_is_none)
{
    static const char *const lines[] = {
        "Content-Length: 4", "ETag: \"a\"\r\nX: y\r\netag: \"b\"",
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nLast-Modified: Sun, 06 Nov 1994 08:49:38 GMT",
        "x-amz-version-id: 1\r\nx-amz-version-id: 2", "x-goog-generation: 1\r\nx-goog-generation: 2"};
    static const char *const same[] = {"Content-Length: 5", "ETag: \"a\"\r\nETag: \"a\""};
    for (size_t i = 0; i < COUNT(lines) + COUNT(same); i++) {
        struct bench b;
        char into[5];
        char text[160];
        bool good = i >= COUNT(lines);
        snprintf(text, sizeof text, "%s", good ? same[i - COUNT(lines)] : lines[i]);
        open_bench(&b, serve_twice, text);
        struct trial t = {.bench = &b, .call = {.into = into, .into_n = sizeof into}};
        run_call(&t);
        if (good)
            assert_ok(t.call.status, t.call.err);
        else
            assert_true(t.call.status == LEAT_SERVER && strstr(t.call.err.text, "that differ"));
        close_bench(&b);
    }
}

static bool serve_echo(struct peer_request *r, void *user)
{
    (void)user;
    peer_say(r, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nX-Method: %s\r\n\r\n", r->body_n, r->method);
    return strcmp(r->method, "HEAD") == 0 || !r->body_n || peer_send(r, r->body, r->body_n);
}

TEST(bodies_are_sent_whole_with_every_method)
{
    static const char *const methods[] = {"PUT", "POST", "DELETE"};
    struct bench b;
    open_bench(&b, serve_echo, NULL);
    char *into = malloc(sizeof data);
    assert_non_null(into);
    for (size_t i = 0; i < COUNT(methods); i++) {
        for (size_t n = 0; n <= sizeof data; n = n ? n * 64 : 1) {
            struct trial t = {.bench = &b, .call = {.method = methods[i], .body = data, .body_n = n, .into = into}};
            t.call.into_n = sizeof data;
            run_call(&t);
            assert_ok(t.call.status, t.call.err);
            assert_int_equal(t.call.got, n);
            assert_memory_equal(into, data, n);
        }
    }
    struct trial head = {.bench = &b, .call = {.method = "HEAD"}};
    run_call(&head);
    assert_ok(head.call.status, head.call.err);
    free(into);
    close_bench(&b);
}

static bool serve_nothing(struct peer_request *r, void *user)
{
    (void)user;
    peer_wait_gone(r);
    return false;
}

TEST(a_deadline_ends_a_call_that_is_not_answered)
{
    struct bench b;
    open_bench(&b, serve_nothing, NULL);
    uint64_t began = leat_now_ns();
    struct trial t = {.bench = &b, .call = {.deadline_ns = leat_after(200 * LEAT_MS)}};
    run_call(&t);
    assert_int_equal(t.call.status, LEAT_TIMEOUT);
    assert_true(leat_now_ns() - began >= 150 * LEAT_MS);
    struct trial late = {.bench = &b, .call = {.deadline_ns = began}};
    run_call(&late);
    assert_int_equal(late.call.status, LEAT_TIMEOUT);
    close_bench(&b);
}

/* Cancelling at random moments, from connecting to the last byte. */
TEST(cancelled_calls_end_once_whatever_they_were_doing)
{
    struct bench b;
    struct leat_rng rng = leat_rng(3, 0);
    open_bench(&b, serve_object, NULL);
    char *into = malloc(sizeof data);
    assert_non_null(into);
    unsigned cancelled = 0;
    for (int i = 0; i < 300; i++) {
        struct trial t = {.bench = &b, .call = {.into = into, .into_n = sizeof data, .fresh = i % 3 == 0}};
        leat_loop_call(b.loop, start_call, &t);
        if (i % 4)
            usleep(leat_rng_u32(&rng) % 2000);
        leat_loop_call(b.loop, cancel_call, &t);
        assert_int_equal(t.done, 1); /* before cancel returned */
        cancelled += t.call.status == LEAT_CANCELLED;
        if (t.call.status == LEAT_OK)
            assert_memory_equal(into, data, sizeof data);
        else
            assert_int_equal(t.call.status, LEAT_CANCELLED);
    }
    assert_true(cancelled > 10);
    struct trial last = {.bench = &b, .call = {.into = into, .into_n = sizeof data}};
    run_call(&last);
    assert_ok(last.call.status, last.call.err);
    assert_memory_equal(into, data, sizeof data);
    free(into);
    close_bench(&b);
}

static void cancel_both(struct leat_http_call *call, size_t n)
{
    struct trial *t = (struct trial *)call;
    struct trial *other = t->user;
    (void)n;
    if (!other->done)
        leat_http_cancel(t->bench->http, &other->call);
    leat_http_cancel(t->bench->http, call);
    assert_int_equal(t->done, 0); /* libcurl is at work: soon, but not now */
}

TEST(calls_can_be_cancelled_from_within_received)
{
    struct bench b;
    open_bench(&b, serve_object, NULL);
    char *into = malloc(2 * sizeof data);
    assert_non_null(into);
    for (int i = 0; i < 50; i++) {
        struct trial t = {.bench = &b, .call = {.into = into, .into_n = sizeof data, .received = cancel_both}};
        struct trial other = {.bench = &b, .call = {.into = into + sizeof data, .into_n = sizeof data}};
        t.user = &other;
        leat_loop_call(b.loop, start_call, &other);
        leat_loop_call(b.loop, start_call, &t);
        wait_done(&t);
        wait_done(&other);
        assert_int_equal(t.call.status, LEAT_CANCELLED);
        assert_true(other.call.status == LEAT_CANCELLED || other.call.status == LEAT_OK);
        assert_int_equal(t.done + other.done, 2);
    }
    free(into);
    close_bench(&b);
}

TEST(a_call_that_cannot_begin_is_reported_later_and_can_be_cancelled)
{
    struct bench b;
    open_bench(&b, serve_object, NULL);
    struct trial t = {.bench = &b, .call = {.url = "gopher://x/"}};
    run_call(&t);
    assert_int_not_equal(t.call.status, LEAT_OK);
    struct trial odd = {.bench = &b, .call = {.url = "http://"}};
    leat_loop_call(b.loop, start_call, &odd);
    leat_loop_call(b.loop, cancel_call, &odd);
    wait_done(&odd);
    assert_int_equal(odd.done, 1);
    close_bench(&b);
}

TEST(the_bundle_in_use_is_the_first_that_is_named)
{
    setenv("AWS_CA_BUNDLE", "/aws", 1);
    setenv("SSL_CERT_FILE", "/ssl", 1);
    unsetenv("LEAT_CA_BUNDLE");
    assert_string_equal(leat_http_ca_bundle(), "/aws");
    unsetenv("AWS_CA_BUNDLE");
    assert_string_equal(leat_http_ca_bundle(), "/ssl");
    setenv("LEAT_CA_BUNDLE", "/leat", 1);
    assert_string_equal(leat_http_ca_bundle(), "/leat");
    struct leat_error err;
    struct leat_loop *loop;
    struct leat_http *http;
    assert_ok(leat_loop_open("test-http", &loop, &err), err);
    struct leat_http_opts opts = {.loop = loop};
    assert_fails(leat_http_open(&opts, &http, &err), err, LEAT_NOT_FOUND, "/leat");
    leat_loop_close(loop);
    unsetenv("LEAT_CA_BUNDLE");
    unsetenv("SSL_CERT_FILE");
}

static void begin(void)
{
    fill_data();
}

TEST_GROUP(begin, NULL);
