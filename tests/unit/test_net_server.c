#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/cert.h"
#include "net/server.h"
#include "unit.h"

/* A server that answers by path, and counts what its handler is told. */
struct echo {
    struct leat_server *server;
    _Atomic int starts;
    _Atomic int ends;
    _Atomic int whole;
    _Atomic uint64_t body;
    _Atomic uint64_t sent;
};

static ssize_t read_letters(void *state, uint64_t at, char *out, size_t max)
{
    const uint64_t *break_at = state;
    if (at >= *break_at)
        return -1;
    size_t n = max < *break_at - at ? max : (size_t)(*break_at - at);
    for (size_t i = 0; i < n; i++)
        out[i] = (char)('a' + (at + i) % 26);
    return (ssize_t)n;
}

static void add_value(const char *name, const char *value, void *user)
{
    leat_buf_printf(user, "%s=%s|", name, value);
}

static void on_start(struct leat_request *x, void *user)
{
    struct echo *e = user;
    e->starts++;
    leat_request_set_state(x, e);
    if (strcmp(leat_request_path(x), "/early") == 0)
        leat_request_reply(x, 403, "early", 5);
    else if (strcmp(leat_request_path(x), "/drop") == 0)
        leat_request_drop(x, false);
    else if (strcmp(leat_request_path(x), "/reset") == 0)
        leat_request_drop(x, true);
}

static void on_body(struct leat_request *x, const void *data, size_t n, void *user)
{
    struct echo *e = user;
    (void)data;
    assert_ptr_equal(leat_request_state(x), e);
    e->body += n;
}

static int file_of_letters(void)
{
    int fd = memfd_create("letters", MFD_CLOEXEC);
    for (int i = 0; i < 100000; i++) {
        char c = (char)('a' + i % 26);
        if (write(fd, &c, 1) != 1)
            abort();
    }
    return fd;
}

static void on_finish(struct leat_request *x, void *user)
{
    static uint64_t all = 100000;
    static uint64_t some = 1000;
    const char *path = leat_request_path(x);
    struct leat_buf out;
    (void)user;
    leat_buf_init(&out, 65536);
    leat_request_add_header(x, "X-Test", "yes");
    leat_request_add_header(x, "X-Bad", "a\r\nX-Injected: 1");
    if (strcmp(path, "/file") == 0) {
        leat_request_reply_file(x, 206, file_of_letters(), 10, 50000);
    } else if (strcmp(path, "/stream") == 0 || strcmp(path, "/broken") == 0) {
        struct leat_server_stream s = {read_letters, NULL, strcmp(path, "/stream") == 0 ? &all : &some, 4096};
        leat_request_reply_stream(x, 200, 100000, &s);
    } else if (strcmp(path, "/wait") == 0) {
        bool waited = leat_request_wait(x, LEAT_NEVER);
        leat_request_reply(x, 200, waited ? "waited" : "stopped", 6);
    } else {
        leat_buf_printf(&out, "%s %s?%s ", leat_request_method(x), path, leat_request_query(x));
        leat_request_headers(x, add_value, &out);
        leat_request_reply(x, 200, out.data, out.len);
        leat_request_reply(x, 500, "second", 6); /* ignored */
    }
    leat_buf_free(&out);
}

static void on_end(struct leat_request *x, bool whole, void *user)
{
    struct echo *e = user;
    e->sent += leat_request_sent(x);
    e->whole += whole;
    e->ends++;
}

static void open_echo(struct echo *e, const struct leat_server_options *more)
{
    struct leat_server_options o = more ? *more : (struct leat_server_options){0};
    struct leat_error err;
    o.handler = (struct leat_server_handler){on_start, on_body, on_finish, on_end, e};
    memset(e, 0, sizeof *e);
    if (leat_server_open(&o, &e->server, &err) != LEAT_OK)
        fail_msg("%s", err.text);
}

static int dial(const struct echo *e)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)leat_server_port(e->server))};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = 60};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* Sends text and reads until the server closes. -1: it broke off instead. */
static ssize_t talk(const struct echo *e, const char *text, char *out, size_t max)
{
    int fd = dial(e);
    size_t n = 0;
    ssize_t got = 1;
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    while (got > 0 && n + 1 < max) {
        got = recv(fd, out + n, max - 1 - n, 0);
        n += got > 0 ? (size_t)got : 0;
    }
    out[n] = '\0';
    close(fd);
    return got < 0 ? -1 : (ssize_t)n;
}

static const char *body_of(const char *answer)
{
    const char *p = strstr(answer, "\r\n\r\n");
    return p ? p + 4 : "";
}

static void wait_for_ends(struct echo *e, int n)
{
    uint64_t deadline = leat_after(60 * LEAT_S);
    while (e->ends < n) {
        assert_true(leat_left(deadline) > 0);
        leat_sleep_until(leat_after(LEAT_MS));
    }
}

TEST(requests_arrive_raw_and_answers_go_out_whole)
{
    static char out[200000];
    struct echo e;
    open_echo(&e, NULL);
    assert_true(talk(&e, "GET /a%2F%00b/../c?x=%41&y HTTP/1.1\r\nHost: h\r\nA: 1\r\na: 2\r\nConnection: close\r\n\r\n",
                     out, sizeof out) > 0);
    assert_string_equal(body_of(out), "GET /a%2F%00b/../c?x=%41&y Host=h|A=1|a=2|Connection=close|");
    assert_non_null(strstr(out, "X-Test: yes"));
    assert_null(strstr(out, "X-Injected"));
    assert_true(talk(&e, "GET /file HTTP/1.0\r\n\r\n", out, sizeof out) > 50000);
    assert_int_equal(strlen(body_of(out)), 50000);
    assert_memory_equal(body_of(out), "klmnopqrstuvwxyzab", 18);
    assert_true(talk(&e, "GET /stream HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", out, sizeof out) > 100000);
    assert_int_equal(strlen(body_of(out)), 100000);
    assert_true(talk(&e, "HEAD /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", out, sizeof out) > 0);
    assert_non_null(strstr(out, "Content-Length: 50000"));
    assert_string_equal(body_of(out), "");
    wait_for_ends(&e, 4);
    assert_int_equal(e.whole, 4);
    leat_server_close(e.server);
}

TEST(bodies_arrive_and_early_answers_spare_the_client_the_rest)
{
    static char out[65536];
    struct echo e;
    open_echo(&e, NULL);
    assert_true(talk(&e, "PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", out,
                     sizeof out) > 0);
    assert_int_equal(e.body, 5);
    assert_true(talk(&e, "PUT /early HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", out,
                     sizeof out) > 0);
    assert_string_equal(body_of(out), "early");
    assert_int_equal(e.body, 5); /* read over */
    assert_true(talk(&e, "PUT /early HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", out,
                     sizeof out) > 0);
    assert_memory_equal(out, "HTTP/1.1 403", 12); /* and no 100 before it */
    wait_for_ends(&e, 3);
    leat_server_close(e.server);
}

TEST(two_lengths_are_refused_before_the_handler)
{
    char out[4096];
    struct echo e;
    open_echo(&e, NULL);
    talk(&e, "PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", out, sizeof out);
    assert_memory_equal(out, "HTTP/1.1 400", 12);
    talk(&e, "PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", out,
         sizeof out);
    assert_memory_equal(out, "HTTP/1.1 400", 12);
    assert_int_equal(e.starts, 0);
    leat_server_close(e.server);
}

TEST(dropped_and_broken_answers_are_told)
{
    static char out[200000];
    struct echo e;
    open_echo(&e, NULL);
    assert_int_equal(talk(&e, "GET /drop HTTP/1.1\r\nHost: h\r\n\r\n", out, sizeof out), 0);
    assert_int_equal(talk(&e, "GET /reset HTTP/1.1\r\nHost: h\r\n\r\n", out, sizeof out), -1);
    assert_true(talk(&e, "GET /broken HTTP/1.1\r\nHost: h\r\n\r\n", out, sizeof out) > 0);
    assert_int_equal(strlen(body_of(out)), 1000);
    wait_for_ends(&e, 3);
    assert_int_equal(e.starts, 3);
    assert_int_equal(e.whole, 0);
    assert_int_equal(e.sent, 1000);
    leat_server_close(e.server);
}

TEST(closing_wakes_handlers_and_breaks_connections)
{
    struct echo e;
    open_echo(&e, NULL);
    static const char *const texts[] = {"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n", "GET /wait HT", "",
                                        "PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nab"};
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = dial(&e);
        assert_int_equal(send(fds[i], texts[i], strlen(texts[i]), MSG_NOSIGNAL), (ssize_t)strlen(texts[i]));
    }
    uint64_t deadline = leat_after(60 * LEAT_S);
    while (e.starts < 2 && leat_left(deadline))
        leat_sleep_until(leat_after(LEAT_MS));
    leat_server_close(e.server); /* one waits for ever, three for bytes that do not come */
    assert_int_equal(e.starts, 2);
    assert_int_equal(e.ends, 2);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

TEST(connections_are_counted)
{
    struct echo e;
    char out[4096];
    open_echo(&e, NULL);
    for (int i = 0; i < 3; i++)
        talk(&e, "GET / HTTP/1.0\r\n\r\n", out, sizeof out);
    int fd = dial(&e);
    uint64_t deadline = leat_after(60 * LEAT_S);
    struct leat_server_connections c = leat_server_connections(e.server);
    while ((c.total < 4 || c.open > 1) && leat_left(deadline)) {
        leat_sleep_until(leat_after(LEAT_MS));
        c = leat_server_connections(e.server);
    }
    assert_int_equal(c.total, 4);
    assert_int_equal(c.open, 1);
    leat_server_reset_connections(e.server);
    c = leat_server_connections(e.server);
    assert_int_equal(c.total, 1);
    assert_int_equal(c.peak, 1);
    close(fd);
    leat_server_close(e.server);
}

TEST(what_cannot_be_opened_says_why)
{
    struct echo e;
    struct leat_error err;
    struct leat_server *s = NULL;
    open_echo(&e, NULL);
    struct leat_server_options o = {.port = leat_server_port(e.server),
                                    .handler = {on_start, on_body, on_finish, on_end, &e}};
    assert_int_equal(leat_server_open(&o, &s, &err), LEAT_NETWORK);
    assert_non_null(strstr(err.text, "in use"));
    o.port = 0;
    o.bind = "not-an-address";
    assert_int_equal(leat_server_open(&o, &s, &err), LEAT_INVALID);
    o.bind = NULL;
    o.tls_cert_pem = "nonsense";
    o.tls_key_pem = "nonsense";
    assert_int_equal(leat_server_open(&o, &s, &err), LEAT_TLS);
    assert_null(s);
    leat_server_close(NULL);
    leat_server_close(e.server);
}

TEST(a_self_signed_certificate_opens_a_tls_server)
{
    struct echo e;
    char *cert;
    char *key;
    assert_int_equal(leat_cert_self_signed("127.0.0.1", &cert, &key, NULL), LEAT_OK);
    struct leat_server_options o = {.tls_cert_pem = cert, .tls_key_pem = key};
    open_echo(&e, &o);
    assert_memory_equal(leat_server_url(e.server), "https://127.0.0.1:", 18);
    leat_server_close(e.server);
    free(cert);
    free(key);
    assert_int_equal(leat_cert_self_signed("not an address", &cert, &key, NULL), LEAT_TLS);
}
