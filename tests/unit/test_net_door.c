/* The server that machines of a job ask, by the client that asks it. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/cert.h"
#include "net/door.h"
#include "net/http.h"
#include "unit.h"

#define TOKEN "0123456789"
#define BYTES (3u << 20)

static char *cert, *key;
static char pin[LEAT_CERT_PIN];
static char *data;
static _Atomic uint64_t gone_out, ended, asked;

static bool is_known(void *user, const char *token)
{
    (void)user;
    return strcmp(token, TOKEN) == 0;
}

static void on_sent(void *user, uint64_t bytes)
{
    (void)user;
    gone_out += bytes;
    ended++;
}

static void on_asked(void *user, struct leat_door_request *r)
{
    (void)user;
    asked++;
    if (strcmp(r->head.path, "/data") == 0)
        leat_door_answer(r, 200, data, BYTES, on_sent, NULL);
    else
        leat_door_answer(r, strcmp(r->head.path, "/later") == 0 ? 409 : 404, NULL, 0, NULL, NULL);
}

static struct leat_door *open_door(bool tls, unsigned *port, uint32_t strangers)
{
    struct leat_door_opts opts = {.cert_pem = tls ? cert : NULL,
                                  .key_pem = tls ? key : NULL,
                                  .strangers_max = strangers,
                                  .known = is_known,
                                  .asked = on_asked};
    struct leat_door *d;
    struct leat_error err;
    int fd;
    *port = 0;
    assert_ok(leat_door_bind("127.0.0.1", port, &fd, &err), err);
    assert_ok(leat_door_open(&opts, fd, &d, &err), err);
    return d;
}

/* One request by the client; the call stays for a look. */
struct one {
    struct leat_loop *loop;
    struct leat_http *http;
    struct leat_http_call call;
    const char *pin;
    char url[80];
    const char *headers[2];
    size_t headers_n;
    char *into;
    _Atomic bool done;
    leat_status opened;
};

static void on_done(struct leat_http_call *call)
{
    ((struct one *)call->user)->done = true;
}

static void begin(void *arg)
{
    struct one *o = arg;
    struct leat_http_opts opts = {.loop = o->loop, .pin = o->pin, .connect_timeout_ns = 5 * LEAT_S};
    o->opened = o->http ? LEAT_OK : leat_http_open(&opts, &o->http, NULL);
    o->call = (struct leat_http_call){.method = "GET",
                                      .url = o->url,
                                      .headers = o->headers,
                                      .headers_n = o->headers_n,
                                      .into = o->into,
                                      .into_n = BYTES,
                                      .deadline_ns = leat_after(20 * LEAT_S),
                                      .direct = true,
                                      .done = on_done,
                                      .user = o};
    if (o->opened == LEAT_OK)
        leat_http_start(o->http, &o->call);
}

static void end(void *arg)
{
    leat_http_close(((struct one *)arg)->http);
}

static void ask(struct one *o)
{
    o->done = false;
    leat_loop_call(o->loop, begin, o);
    assert_int_equal(o->opened, LEAT_OK);
    while (!o->done)
        poll(NULL, 0, 1);
    leat_buf_free(&o->call.text);
}

static void open_one(struct one *o, bool tls, unsigned port, const char *path)
{
    struct leat_error err;
    *o = (struct one){.pin = tls ? pin : NULL, .headers = {"Authorization: Bearer " TOKEN, NULL}, .headers_n = 1};
    snprintf(o->url, sizeof o->url, "http%s://127.0.0.1:%u%s", tls ? "s" : "", port, path);
    o->into = malloc(BYTES);
    assert_ok(leat_loop_open("test", &o->loop, &err), err);
}

static void close_one(struct one *o)
{
    leat_loop_call(o->loop, end, o);
    leat_loop_close(o->loop);
    free(o->into);
}

static void answers(bool tls)
{
    unsigned port;
    struct leat_door *d = open_door(tls, &port, 0);
    struct one o;
    gone_out = ended = 0;
    open_one(&o, tls, port, "/data");
    for (int i = 0; i < 3; i++) { /* by one connection */
        memset(o.into, 0, BYTES);
        ask(&o);
        assert_int_equal(o.call.status, LEAT_OK);
        assert_int_equal(o.call.head.code, 200);
        assert_int_equal(o.call.got, BYTES);
        assert_memory_equal(o.into, data, BYTES);
    }
    o.headers[1] = "Range: bytes=1000-1048575";
    o.headers_n = 2;
    ask(&o);
    assert_int_equal(o.call.head.code, 206);
    assert_int_equal(o.call.head.range_total, BYTES);
    assert_int_equal(o.call.got, 1048576 - 1000);
    assert_memory_equal(o.into, data + 1000, 1048576 - 1000);
    o.headers[1] = "Range: bytes=0-3145728"; /* one too many */
    ask(&o);
    assert_int_equal(o.call.head.code, 416);
    o.headers_n = 1;
    snprintf(o.url, sizeof o.url, "http%s://127.0.0.1:%u/later", tls ? "s" : "", port);
    ask(&o);
    assert_int_equal(o.call.head.code, 409);
    struct leat_door_stats s;
    leat_door_stats(d, &s);
    assert_int_equal(s.accepted, 1);
    close_one(&o);
    assert_true(leat_door_close(d, 0));
    assert_int_equal(gone_out, 3ull * BYTES + 1048576 - 1000);
    assert_int_equal(ended, 5);
}

TEST(chunks_go_out_whole_and_in_ranges)
{
    answers(true);
    answers(false);
}

TEST(wrong_tokens_and_keys_get_nothing)
{
    unsigned port;
    struct leat_door *d = open_door(true, &port, 0);
    struct one o;
    char other[LEAT_CERT_PIN];
    char *other_cert;
    char *other_key;
    struct leat_error err;
    asked = 0;
    open_one(&o, true, port, "/data");
    o.headers[0] = "Authorization: Bearer 0123456788";
    ask(&o);
    assert_int_equal(o.call.head.code, 403);
    o.headers_n = 0;
    ask(&o);
    assert_int_equal(o.call.head.code, 403);
    close_one(&o);
    assert_ok(leat_cert_self_signed(NULL, &other_cert, &other_key, &err), err);
    assert_ok(leat_cert_pin(other_cert, other, &err), err);
    open_one(&o, true, port, "/data");
    o.pin = other;
    ask(&o);
    assert_int_equal(o.call.status, LEAT_TLS);
    assert_int_equal(o.call.head.code, 0);
    close_one(&o);
    assert_int_equal(asked, 0);
    free(other_cert);
    free(other_key);
    struct leat_door_stats s;
    leat_door_stats(d, &s);
    assert_int_equal(s.refused, 2);
    assert_true(leat_door_close(d, 0));
}

static int connect_to(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* A thousand connections that say nothing: the latest of them are held, and who has a token is served meanwhile. */
TEST(strangers_make_room_for_members)
{
    unsigned port;
    int fds[300];
    struct leat_door *d = open_door(true, &port, 16);
    struct leat_door_stats s;
    struct one o;
    for (size_t i = 0; i < COUNT(fds); i++)
        fds[i] = connect_to(port);
    open_one(&o, true, port, "/data");
    ask(&o);
    assert_int_equal(o.call.head.code, 200);
    leat_door_stats(d, &s);
    assert_true(s.connections <= 2 * 16 + 1);
    assert_true(s.pushed >= COUNT(fds) - 2 * 16);
    for (size_t i = 0; i < COUNT(fds); i++)
        close(fds[i]);
    ask(&o);
    assert_int_equal(o.call.head.code, 200);
    close_one(&o);
    assert_true(leat_door_close(d, 0));
}

TEST(garbage_is_refused)
{
    static const char *const sent[] = {"HELO\r\n\r\n", "POST /data HTTP/1.1\r\n\r\n",
                                       "GET /data HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
                                       "GET /data HTTP/1.1\r\nAuthorization: Basic a\r\n\r\n"};
    unsigned port;
    struct leat_door *d = open_door(false, &port, 0);
    for (size_t i = 0; i < COUNT(sent); i++) {
        char text[64] = "";
        int fd = connect_to(port);
        assert_int_equal(send(fd, sent[i], strlen(sent[i]), 0), strlen(sent[i]));
        assert_true(recv(fd, text, sizeof text - 1, MSG_WAITALL) > 12);
        assert_memory_equal(text, "HTTP/1.1 400", 12);
        close(fd);
    }
    char *much = malloc(64 << 10); /* a head without end */
    memset(much, 'a', 64 << 10);
    int fd = connect_to(port);
    send(fd, much, 64 << 10, MSG_NOSIGNAL);
    assert_true(recv(fd, much, 100, 0) <= 0);
    close(fd);
    free(much);
    assert_true(leat_door_close(d, 0));
}

/* Its memory is given back although nobody took all of it. */
TEST(a_reader_that_goes_away_lets_go)
{
    static const char request[] = "GET /data HTTP/1.1\r\nAuthorization: Bearer " TOKEN "\r\n\r\n";
    unsigned port;
    struct leat_door *d = open_door(false, &port, 0);
    ended = 0;
    for (int i = 0; i < 10; i++) {
        char some[1000];
        int fd = connect_to(port);
        assert_int_equal(send(fd, request, sizeof request - 1, 0), sizeof request - 1);
        assert_true(recv(fd, some, sizeof some, 0) > 0);
        close(fd);
    }
    for (int i = 0; i < 60000 && ended < 10; i++)
        poll(NULL, 0, 1);
    assert_int_equal(ended, 10);
    assert_true(leat_door_close(d, 0));
}

static struct leat_door_request *held;

static void on_asked_and_kept(void *user, struct leat_door_request *r)
{
    (void)user;
    held = r;
    asked++;
}

/* A handler that never answers holds nobody who closes; one that answers late finds its request as it was. */
TEST(closing_waits_for_no_handler_for_ever)
{
    static const char request[] = "GET /data HTTP/1.1\r\nAuthorization: Bearer " TOKEN "\r\n\r\n";
    struct leat_door_opts opts = {.known = is_known, .asked = on_asked_and_kept};
    struct leat_door *d;
    struct leat_error err;
    unsigned port = 0;
    int fd;
    asked = 0;
    assert_ok(leat_door_bind("127.0.0.1", &port, &fd, &err), err);
    assert_ok(leat_door_open(&opts, fd, &d, &err), err);
    int client = connect_to(port);
    assert_int_equal(send(client, request, sizeof request - 1, 0), sizeof request - 1);
    while (!asked)
        poll(NULL, 0, 1);
    assert_false(leat_door_close(d, 50 * LEAT_MS));
    int next; /* the same port is another door's already */
    assert_ok(leat_door_bind("127.0.0.1", &port, &next, &err), err);
    assert_int_equal(listen(next, 1), 0);
    close(next);
    leat_door_answer(held, 404, NULL, 0, NULL, NULL);
    assert_true(leat_door_close(d, 0)); /* so that nothing is left here */
    close(client);
}

static struct leat_door_request *busy[2];
static _Atomic uint32_t busy_n;

static void on_asked_and_busy(void *user, struct leat_door_request *r)
{
    (void)user;
    busy[busy_n++] = r;
    asked++; /* after it: who waits for this looks there */
}

/* Whether a connection to it, with a request, was taken. Who is turned away is told nothing. */
static bool is_taken(unsigned port, int *fd)
{
    static const char request[] = "GET /data HTTP/1.1\r\nAuthorization: Bearer " TOKEN "\r\n\r\n";
    uint64_t before = asked;
    char byte;
    *fd = connect_to(port);
    send(*fd, request, sizeof request - 1, MSG_NOSIGNAL);
    while (asked == before) {
        struct pollfd closed = {.fd = *fd, .events = POLLIN};
        if (poll(&closed, 1, 1) == 1)
            return recv(*fd, &byte, 1, 0) > 0;
    }
    return true;
}

/* One connection for each of two threads: when both wait for their handlers, the next is turned away and counted. */
TEST(more_connections_than_there_may_be_are_turned_away)
{
    struct leat_door_opts opts = {.connections_max = 1, .known = is_known, .asked = on_asked_and_busy};
    struct leat_door_stats s;
    struct leat_door *d;
    struct leat_error err;
    unsigned port = 0;
    unsigned turned = 0;
    int fd;
    int taken[2];
    asked = busy_n = 0;
    assert_ok(leat_door_bind("127.0.0.1", &port, &fd, &err), err);
    assert_ok(leat_door_open(&opts, fd, &d, &err), err);
    for (unsigned i = 0; i < 100; i++) { /* a thread that is full may be the one that accepts */
        if (is_taken(port, &fd)) {
            assert_in_range(asked, 1, 2);
            taken[asked - 1] = fd;
        } else {
            turned++;
            close(fd);
        }
    }
    leat_door_stats(d, &s);
    assert_true(turned >= 98);
    assert_int_equal(s.turned_away, turned);
    assert_int_equal(s.connections, asked);
    assert_int_equal(s.pushed, 0);
    uint64_t n = asked;
    for (uint64_t i = 0; i < n; i++)
        leat_door_answer(busy[i], 404, NULL, 0, NULL, NULL);
    char answer[13] = "";
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(recv(taken[i], answer, 12, MSG_WAITALL), 12);
        assert_string_equal(answer, "HTTP/1.1 404");
        close(taken[i]);
    }
    assert_true(leat_door_close(d, 0));
}

/* FAULTS 15: what is no TLS, or no TLS any more, is counted and its connection dropped. */
TEST(malformed_frames_are_counted_and_dropped)
{
    static const char sent[] = "\x16\x03\x01\x00\x05garbage, and then some more of it";
    unsigned port;
    char text[64];
    struct leat_door *d = open_door(true, &port, 0);
    struct leat_door_stats s;
    for (unsigned i = 0; i < 3; i++) {
        int fd = connect_to(port);
        assert_int_equal(send(fd, sent + i, sizeof sent - 1 - i, 0), sizeof sent - 1 - i);
        while (recv(fd, text, sizeof text, 0) > 0) /* an alert, at most */
            ;
        close(fd);
    }
    close(connect_to(port)); /* who only looks in is no fault */
    struct one o;
    open_one(&o, true, port, "/data");
    ask(&o);
    assert_int_equal(o.call.head.code, 200);
    close_one(&o);
    leat_door_stats(d, &s);
    assert_int_equal(s.refused, 3);
    assert_true(leat_door_close(d, 0));
}

static void set_up(void)
{
    struct leat_error err;
    data = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (char)(i * 31 + i / 251);
    assert_ok(leat_cert_self_signed(NULL, &cert, &key, &err), err);
    assert_ok(leat_cert_pin(cert, pin, &err), err);
}

static void tear_down(void)
{
    free(data);
    free(cert);
    free(key);
}

TEST_GROUP(set_up, tear_down);
