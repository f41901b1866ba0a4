#include "peer.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

#define CONNECTIONS_MAX 4096

struct connection {
    struct peer *peer;
    pthread_t thread;
    int fd;
};

struct peer {
    peer_handler *handler;
    void *user;
    int listener;
    unsigned port;
    char url[64];
    pthread_t thread;
    atomic_bool closing;
    atomic_uint requests;
    atomic_uint now;
    atomic_uint peak;
    unsigned connections_n; /* accepting thread only */
    struct connection connections[CONNECTIONS_MAX];
};

unsigned peer_port(const struct peer *p)
{
    return p->port;
}

const char *peer_url(const struct peer *p)
{
    return p->url;
}

unsigned peer_requests(const struct peer *p)
{
    return p->requests;
}

unsigned peer_now(const struct peer *p)
{
    return p->now;
}

unsigned peer_peak(const struct peer *p)
{
    return p->peak;
}

bool peer_closing(const struct peer *p)
{
    return p->closing;
}

/* Waits until there is something to read or room to write; false when the peer closes. */
static bool wait_for(const struct peer *p, int fd, short events)
{
    while (!p->closing) {
        struct pollfd f = {.fd = fd, .events = events};
        if (poll(&f, 1, 50) > 0)
            return true;
    }
    return false;
}

bool peer_send(const struct peer_request *r, const void *data, size_t n)
{
    const char *p = data;
    while (n) {
        ssize_t sent = wait_for(r->peer, r->fd, POLLOUT) ? send(r->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
        if (sent < 0)
            return false;
        p += sent;
        n -= (size_t)sent;
    }
    return true;
}

bool peer_say(const struct peer_request *r, const char *format, ...)
{
    char text[8192];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return n > 0 && (size_t)n < sizeof text && peer_send(r, text, (size_t)n);
}

bool peer_object(const struct peer_request *r, const void *data, size_t n, const char *etag)
{
    uint64_t first = r->has_range ? r->first : 0;
    uint64_t last = r->has_range && r->last < n ? r->last : n - 1;
    if (r->has_range && first >= n)
        return peer_say(r, "HTTP/1.1 416 Range\r\nContent-Length: 0\r\nContent-Range: bytes */%zu\r\n\r\n", n);
    if (r->has_range)
        peer_say(r,
                 "HTTP/1.1 206 Partial\r\nETag: %s\r\nContent-Length: %" PRIu64 "\r\nContent-Range: bytes %" PRIu64
                 "-%" PRIu64 "/%zu\r\n\r\n",
                 etag, last + 1 - first, first, last, n);
    else
        peer_say(r, "HTTP/1.1 200 OK\r\nETag: %s\r\nContent-Length: %zu\r\n\r\n", etag, n);
    return strcmp(r->method, "HEAD") == 0 || peer_send(r, (const char *)data + first, (size_t)(last + 1 - first));
}

bool peer_answer(const struct peer_request *r, unsigned code, const char *text)
{
    return peer_say(r, "HTTP/1.1 %u Answer\r\nContent-Length: %zu\r\n\r\n", code, strlen(text)) &&
           (strcmp(r->method, "HEAD") == 0 || peer_send(r, text, strlen(text)));
}

void peer_wait_gone(const struct peer_request *r)
{
    char byte;
    while (wait_for(r->peer, r->fd, POLLIN) && recv(r->fd, &byte, 1, 0) > 0)
        ;
}

static size_t content_length(const char *head)
{
    const char *at = strcasestr(head, "\r\nContent-Length:");
    return at ? (size_t)strtoull(at + 17, NULL, 10) : 0;
}

/* What has arrived and was not read yet. Mapped, not allocated: some tests make allocations fail. */
#define STREAM_MAX (64u << 20)

struct stream {
    char *data;
    size_t n;
};

static bool read_more(struct connection *c, struct stream *s)
{
    ssize_t n = wait_for(c->peer, c->fd, POLLIN) ? recv(c->fd, s->data + s->n, STREAM_MAX - s->n - 1, 0) : -1;
    if (n <= 0)
        return false;
    s->n += (size_t)n;
    s->data[s->n] = '\0';
    return true;
}

static bool serve_one(struct connection *c, struct stream *s)
{
    struct peer *p = c->peer;
    char *end;
    while (!s->n || !(end = strstr(s->data, "\r\n\r\n"))) {
        if (!read_more(c, s))
            return false;
    }
    size_t head_n = (size_t)(end + 4 - s->data);
    size_t body_n = content_length(s->data);
    while (s->n < head_n + body_n) {
        if (!read_more(c, s))
            return false;
    }
    struct peer_request r = {.peer = p, .fd = c->fd, .head = s->data, .body = s->data + head_n, .body_n = body_n};
    const char *range = strcasestr(s->data, "\r\nRange: bytes=");
    r.has_range = range && sscanf(range + 15, "%" SCNu64 "-%" SCNu64, &r.first, &r.last) == 2;
    if (sscanf(s->data, "%15s %4095s", r.method, r.target) != 2)
        return false;
    r.number = atomic_fetch_add(&p->requests, 1) + 1;
    unsigned now = atomic_fetch_add(&p->now, 1) + 1;
    unsigned peak = p->peak;
    while (now > peak && !atomic_compare_exchange_weak(&p->peak, &peak, now))
        ;
    bool keep = p->handler(&r, p->user);
    atomic_fetch_sub(&p->now, 1);
    memmove(s->data, s->data + head_n + body_n, s->n - head_n - body_n + 1);
    s->n -= head_n + body_n;
    return keep;
}

static void *run_connection(void *arg)
{
    struct connection *c = arg;
    struct stream s = {
        .data = mmap(NULL, STREAM_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)};
    while (s.data != MAP_FAILED && !c->peer->closing && serve_one(c, &s))
        ;
    munmap(s.data, STREAM_MAX);
    shutdown(c->fd, SHUT_RDWR);
    return NULL;
}

static void *run_peer(void *arg)
{
    struct peer *p = arg;
    const int one = 1;
    while (wait_for(p, p->listener, POLLIN) && p->connections_n < CONNECTIONS_MAX) {
        struct connection *c = &p->connections[p->connections_n];
        c->peer = p;
        c->fd = accept(p->listener, NULL, NULL);
        if (c->fd < 0)
            continue;
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (pthread_create(&c->thread, NULL, run_connection, c) == 0)
            p->connections_n++;
        else
            close(c->fd);
    }
    return NULL;
}

struct peer *peer_open(peer_handler *handler, void *user)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    struct peer *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->handler = handler;
    p->user = user;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(p->listener >= 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(p->listener, 1024), 0);
    assert_int_equal(getsockname(p->listener, (struct sockaddr *)&a, &n), 0);
    p->port = ntohs(a.sin_port);
    snprintf(p->url, sizeof p->url, "http://127.0.0.1:%u", p->port);
    assert_int_equal(pthread_create(&p->thread, NULL, run_peer, p), 0);
    return p;
}

void peer_close(struct peer *p)
{
    if (!p)
        return;
    p->closing = true;
    pthread_join(p->thread, NULL);
    for (unsigned i = 0; i < p->connections_n; i++) {
        shutdown(p->connections[i].fd, SHUT_RDWR);
        pthread_join(p->connections[i].thread, NULL);
        close(p->connections[i].fd);
    }
    close(p->listener);
    free(p);
}
