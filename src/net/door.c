/* Each of the door's threads has a loop, a list of connections and the listening socket; nothing is shared between them
 * but counts. A connection goes through these states:
 *
 *     greeting ── TLS is being agreed upon
 *     reading ─── a head is coming, or none is
 *     asked ───── the handler has the request; what comes meanwhile waits in the socket
 *     writing ─── the answer goes out; then reading again
 *
 * A connection whose other end has gone while the handler has its request stays until the answer comes: the request is
 * part of it. */
#include "net/door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "net/loop.h"

#define THREADS      2u
#define GREET_NS     (5 * LEAT_S) /* for a handshake and a head */
#define IDLE_NS      (90 * LEAT_S)
#define STUCK_NS     (10 * LEAT_S) /* no byte of an answer is taken */
#define ACCEPT_PAUSE (100 * LEAT_MS)
#define TURN_BYTES   (1u << 20) /* written for one connection before others have their turn */
#define BACKLOG      256
#define CLOSE_NS     (30 * LEAT_S) /* handlers answer within seconds */
#define ANSWER_HEAD  256u

enum state { GREETING, READING, ASKED, WRITING };

struct desk;

struct connection {
    struct leat_watch watch; /* first member */
    struct leat_timer deadline;
    struct desk *desk;
    struct connection *prev, *next; /* of the desk: the oldest first */
    enum state state;
    bool trusted; /* it has shown a good token */
    bool gone;    /* its other end, or it was pushed out */
    SSL *ssl;
    char head[LEAT_DOOR_HEAD];
    size_t head_n;
    struct leat_door_request request;
    char top[ANSWER_HEAD];
    size_t top_n, top_at;
    uint64_t from, to; /* of the data that goes out; `from` is where it stands */
    uint64_t began;
};

/* One of the threads. */
struct desk {
    struct leat_door *door;
    struct leat_loop *loop;
    struct leat_watch listening;
    struct leat_timer listen_again;
    struct connection *first, *last;
    uint32_t connections, strangers;
    bool ending;
    bool empty; /* hold the door's mu */
};

struct leat_door {
    struct leat_door_opts opts;
    SSL_CTX *tls;
    int fd;
    struct desk desks[THREADS];
    pthread_mutex_t mu;
    pthread_cond_t cond;
    _Atomic uint64_t open, accepted, refused, pushed, turned_away; /* relaxed: statistics */
};

static void count(_Atomic uint64_t *n)
{
    atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

/* Connections */

static void tell_empty(struct desk *k)
{
    if (!k->ending || k->first)
        return;
    pthread_mutex_lock(&k->door->mu);
    k->empty = true;
    pthread_cond_signal(&k->door->cond);
    pthread_mutex_unlock(&k->door->mu);
}

/* The socket goes at once, the rest when the handler has given the request back. */
static void hang_up(struct connection *c)
{
    struct desk *k = c->desk;
    if (!c->gone) {
        c->gone = true;
        leat_loop_disarm(k->loop, &c->deadline);
        leat_loop_unwatch(k->loop, &c->watch);
        SSL_free(c->ssl);
        c->ssl = NULL;
        close(c->watch.fd);
    }
    if (c->state == ASKED)
        return;
    struct leat_door_request *r = &c->request;
    if (c->state == WRITING && r->sent)
        r->sent(r->sent_user, c->from - c->began);
    *(c->prev ? &c->prev->next : &k->first) = c->next;
    *(c->next ? &c->next->prev : &k->last) = c->prev;
    k->connections--;
    k->strangers -= !c->trusted;
    atomic_fetch_sub_explicit(&k->door->open, 1, memory_order_relaxed);
    explicit_bzero(c, sizeof *c);
    free(c);
    tell_empty(k);
}

static void on_deadline(struct leat_timer *timer)
{
    hang_up((struct connection *)((char *)timer - offsetof(struct connection, deadline)));
}

static bool wait_for(struct connection *c, uint32_t events)
{
    return leat_loop_watch(c->desk->loop, &c->watch, events, NULL) == LEAT_OK;
}

static void give_time(struct connection *c, uint64_t ns)
{
    leat_loop_arm(c->desk->loop, &c->deadline, leat_after(ns));
}

/* What OpenSSL wants before it can go on; 0: it cannot. */
static uint32_t wanted(struct connection *c, int rc)
{
    int why = SSL_get_error(c->ssl, rc);
    bool hung_up = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    ERR_clear_error();
    if (why == SSL_ERROR_SSL && !hung_up) /* bytes that mean nothing */
        count(&c->desk->door->refused);
    return why == SSL_ERROR_WANT_READ ? EPOLLIN : why == SSL_ERROR_WANT_WRITE ? EPOLLOUT : 0;
}

/* How many bytes went one way or the other; 0: not now, and *events is what to wait for; -1: never. */
static ssize_t move_bytes(struct connection *c, bool out, char *data, size_t n, bool more, uint32_t *events)
{
    ssize_t done;
    if (c->ssl) {
        int most = n < (1u << 30) ? (int)n : 1 << 30;
        ERR_clear_error();
        int rc = out ? SSL_write(c->ssl, data, most) : SSL_read(c->ssl, data, most);
        if (rc > 0)
            return rc;
        *events = wanted(c, rc);
        return *events ? 0 : -1;
    }
    done = out ? send(c->watch.fd, data, n, MSG_NOSIGNAL | (more ? MSG_MORE : 0)) : recv(c->watch.fd, data, n, 0);
    if (done > 0)
        return done;
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) {
        *events = out ? EPOLLOUT : EPOLLIN;
        return 0;
    }
    return -1;
}

/* Writing */

static void go_on_reading(struct connection *c);

static void finish_answer(struct connection *c)
{
    struct leat_door_request *r = &c->request;
    bool last = r->head.close || r->code == 403 || r->code == 400;
    if (r->sent)
        r->sent(r->sent_user, c->to - c->began);
    r->sent = NULL;
    c->state = READING;
    c->head_n = 0;
    if (last) {
        shutdown(c->watch.fd, SHUT_WR);
        hang_up(c);
        return;
    }
    give_time(c, IDLE_NS);
    go_on_reading(c);
}

static void go_on_writing(struct connection *c)
{
    struct leat_door_request *r = &c->request;
    uint64_t turn = 0;
    uint32_t events = EPOLLOUT;
    while (turn < TURN_BYTES && (c->top_at < c->top_n || c->from < c->to)) {
        bool top = c->top_at < c->top_n;
        /* SSL_write and send take it as const; one function for both directions does not. */
        char *at = top ? c->top + c->top_at : (char *)(uintptr_t)(r->data + c->from);
        size_t left = top ? c->top_n - c->top_at : (size_t)(c->to - c->from);
        left = left < TURN_BYTES ? left : TURN_BYTES;
        ssize_t n = move_bytes(c, true, at, left, top && c->from < c->to, &events);
        if (n < 0) {
            hang_up(c);
            return;
        }
        if (n == 0)
            break;
        if (top)
            c->top_at += (size_t)n;
        else
            c->from += (uint64_t)n;
        turn += (uint64_t)n;
    }
    if (c->top_at == c->top_n && c->from == c->to) {
        finish_answer(c);
        return;
    }
    if (turn)
        give_time(c, STUCK_NS);
    if (!wait_for(c, events))
        hang_up(c);
}

static const char *reason(unsigned code)
{
    switch (code) {
    case 200:
        return "OK";
    case 206:
        return "Partial Content";
    case 400:
        return "Bad Request";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 409:
        return "Conflict";
    case 416:
        return "Range Not Satisfiable";
    default:
        return "Service Unavailable";
    }
}

/* On the connection's thread: the request is the door's again. */
static void begin_answer(struct connection *c)
{
    struct leat_door_request *r = &c->request;
    char range[80] = "";
    c->state = WRITING;
    c->from = c->began = 0;
    c->to = r->data ? r->data_n : 0;
    if (r->data && r->code == 200 && r->head.ranged) {
        if (r->head.last >= r->data_n) {
            r->code = 416;
            c->to = 0;
        } else {
            r->code = 206;
            c->from = c->began = r->head.first;
            c->to = r->head.last + 1;
            snprintf(range, sizeof range, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", c->from,
                     c->to - 1, r->data_n);
        }
    }
    c->top_at = 0;
    c->top_n = (size_t)snprintf(c->top, sizeof c->top, "HTTP/1.1 %u %s\r\nContent-Length: %" PRIu64 "\r\n%s\r\n",
                                r->code, reason(r->code), c->to - c->from, range);
    if (c->gone) {
        hang_up(c);
        return;
    }
    give_time(c, STUCK_NS);
    go_on_writing(c);
}

static void on_answered(struct leat_task *task)
{
    begin_answer((struct connection *)((char *)task - offsetof(struct connection, request.back)));
}

void leat_door_answer(struct leat_door_request *r, unsigned code, const void *data, uint64_t n,
                      void (*sent)(void *user, uint64_t bytes), void *user)
{
    struct connection *c = (struct connection *)((char *)r - offsetof(struct connection, request));
    r->code = code;
    r->data = data;
    r->data_n = n;
    r->sent = sent;
    r->sent_user = user;
    r->back.run = on_answered;
    leat_loop_post(c->desk->loop, &r->back);
}

/* Reading */

static void refuse(struct connection *c, unsigned code)
{
    count(&c->desk->door->refused);
    c->request.code = code;
    c->request.data = NULL;
    c->request.sent = NULL;
    begin_answer(c);
}

static void take_head(struct connection *c)
{
    const struct leat_door_opts *o = &c->desk->door->opts;
    struct leat_error err;
    if (leat_door_read_head(c->head, c->head_n, &c->request.head, &err) != LEAT_OK) {
        refuse(c, 400);
        return;
    }
    if (!o->known(o->user, c->request.head.token)) {
        refuse(c, 403);
        return;
    }
    c->desk->strangers -= !c->trusted;
    c->trusted = true;
    c->state = ASKED;
    leat_loop_disarm(c->desk->loop, &c->deadline);
    leat_loop_unwatch(c->desk->loop, &c->watch); /* what else it says waits */
    o->asked(o->user, &c->request);
}

/* What follows a head would be the next one: peers send none before they have an answer, and who does is refused. */
static void go_on_reading(struct connection *c)
{
    uint32_t events = EPOLLIN;
    for (;;) {
        ssize_t n = 0;
        if (c->head_n < sizeof c->head)
            n = move_bytes(c, false, c->head + c->head_n, sizeof c->head - c->head_n, false, &events);
        else
            n = -1;
        if (n < 0) {
            hang_up(c);
            return;
        }
        if (n == 0)
            break;
        if (!c->head_n)
            give_time(c, GREET_NS);
        c->head_n += (size_t)n;
        if (c->head_n >= 4 && memcmp(c->head + c->head_n - 4, "\r\n\r\n", 4) == 0) {
            take_head(c);
            return;
        }
    }
    if (!wait_for(c, events))
        hang_up(c);
}

static void go_on_greeting(struct connection *c)
{
    ERR_clear_error();
    int rc = SSL_accept(c->ssl);
    if (rc == 1) {
        c->state = READING;
        go_on_reading(c);
        return;
    }
    uint32_t events = wanted(c, rc);
    if (!events || !wait_for(c, events))
        hang_up(c);
}

static void on_ready(struct leat_watch *watch, uint32_t events)
{
    struct connection *c = (struct connection *)watch;
    (void)events;
    if (c->state == GREETING)
        go_on_greeting(c);
    else if (c->state == READING)
        go_on_reading(c);
    else if (c->state == WRITING)
        go_on_writing(c);
}

/* Accepting */

static bool has_spoken(const struct connection *c)
{
    return c->head_n || (c->ssl && BIO_number_read(SSL_get_rbio(c->ssl)));
}

/* The oldest that nobody would miss: of strangers those that have said nothing first, since a member speaks at once; or
 * of all that say nothing now. */
static void push_out(struct desk *k, bool stranger)
{
    struct connection *oldest = NULL;
    for (struct connection *c = k->first; c; c = c->next) {
        bool quiet = c->state == READING && !c->head_n;
        if (c->gone || (stranger ? c->trusted : !quiet))
            continue;
        oldest = oldest ? oldest : c;
        if (stranger && has_spoken(c))
            continue;
        oldest = c;
        break;
    }
    if (!oldest)
        return;
    count(&k->door->pushed);
    hang_up(oldest);
}

static void welcome(struct desk *k, int fd)
{
    const struct leat_door_opts *o = &k->door->opts;
    if (k->strangers >= o->strangers_max)
        push_out(k, true);
    if (k->connections >= o->connections_max)
        push_out(k, false);
    bool full = k->connections >= o->connections_max;
    struct connection *c = full ? NULL : calloc(1, sizeof *c);
    SSL *ssl = c && k->door->tls ? SSL_new(k->door->tls) : NULL;
    if (!c || (k->door->tls && (!ssl || SSL_set_fd(ssl, fd) != 1))) {
        if (full)
            count(&k->door->turned_away);
        SSL_free(ssl);
        free(c);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    c->desk = k;
    c->ssl = ssl;
    c->state = ssl ? GREETING : READING;
    c->watch.fd = fd;
    c->watch.ready = on_ready;
    c->deadline.fire = on_deadline;
    c->prev = k->last;
    *(k->last ? &k->last->next : &k->first) = c;
    k->last = c;
    k->connections++;
    k->strangers++;
    count(&k->door->open);
    count(&k->door->accepted);
    give_time(c, GREET_NS);
    if (!wait_for(c, EPOLLIN))
        hang_up(c);
}

static void on_connection(struct leat_watch *watch, uint32_t events)
{
    struct desk *k = (struct desk *)((char *)watch - offsetof(struct desk, listening));
    (void)events;
    for (unsigned i = 0; i < 16; i++) { /* then the connections that there are have a turn */
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            welcome(k, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            leat_loop_unwatch(k->loop, watch); /* else the loop would turn without rest */
            leat_loop_arm(k->loop, &k->listen_again, leat_after(ACCEPT_PAUSE));
        }
        return;
    }
}

static void on_listen_again(struct leat_timer *timer)
{
    struct desk *k = (struct desk *)((char *)timer - offsetof(struct desk, listen_again));
    if (leat_loop_watch(k->loop, &k->listening, EPOLLIN, NULL) != LEAT_OK)
        leat_loop_arm(k->loop, timer, leat_after(ACCEPT_PAUSE));
}

/* Opening and closing */

leat_status leat_door_bind(const char *address, unsigned *port, int *out, struct leat_error *err)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at = {.four.sin_family = AF_INET};
    socklen_t n = sizeof at.four;
    at.four.sin_port = htons((uint16_t)*port);
    if (inet_pton(AF_INET, address, &at.four.sin_addr) != 1) {
        at.six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)*port)};
        n = sizeof at.six;
        if (inet_pton(AF_INET6, address, &at.six.sin6_addr) != 1)
            return leat_fail(err, LEAT_INVALID, "'%.80s' is not a numeric address", address);
    }
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return leat_fail_errno(err, errno, "cannot make a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, &at.any, n) < 0 || getsockname(fd, &at.any, &n) < 0) {
        leat_status rc = leat_fail_errno(err, errno, "cannot serve peers at %.80s port %u", address, *port);
        close(fd);
        return rc;
    }
    *port = ntohs(at.any.sa_family == AF_INET ? at.four.sin_port : at.six.sin6_port);
    *out = fd;
    return LEAT_OK;
}

static bool use_keys(SSL_CTX *tls, const char *cert_pem, const char *key_pem)
{
    BIO *cert_bio = BIO_new_mem_buf(cert_pem, -1);
    BIO *key_bio = BIO_new_mem_buf(key_pem, -1);
    X509 *cert = cert_bio ? PEM_read_bio_X509(cert_bio, NULL, NULL, NULL) : NULL;
    EVP_PKEY *key = key_bio ? PEM_read_bio_PrivateKey(key_bio, NULL, NULL, NULL) : NULL;
    bool ok = cert && key && SSL_CTX_use_certificate(tls, cert) == 1 && SSL_CTX_use_PrivateKey(tls, key) == 1 &&
              SSL_CTX_check_private_key(tls) == 1;
    X509_free(cert);
    EVP_PKEY_free(key);
    BIO_free(cert_bio);
    BIO_free(key_bio);
    ERR_clear_error();
    return ok;
}

/* TLS 1.3 only: both ends are ours. AES-128 is a quarter cheaper than what OpenSSL would choose first. */
static leat_status open_tls(struct leat_door *d, const struct leat_door_opts *o, struct leat_error *err)
{
    if (!o->cert_pem)
        return LEAT_OK;
    d->tls = SSL_CTX_new(TLS_server_method());
    if (!d->tls)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for TLS");
    SSL_CTX_set_mode(d->tls,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(d->tls, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(d->tls, 0);
    SSL_CTX_set_session_cache_mode(d->tls, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_set_min_proto_version(d->tls, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(d->tls, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") != 1 ||
        !use_keys(d->tls, o->cert_pem, o->key_pem))
        return leat_fail(err, LEAT_TLS, "the key that peers are served with cannot be used");
    return LEAT_OK;
}

static void begin_desk(void *arg)
{
    struct desk *k = arg;
    on_listen_again(&k->listen_again);
}

static void end_desk(void *arg)
{
    struct desk *k = arg;
    struct connection *next;
    leat_loop_disarm(k->loop, &k->listen_again);
    leat_loop_unwatch(k->loop, &k->listening);
    k->ending = true;
    for (struct connection *c = k->first; c; c = next) {
        next = c->next;
        if (!c->gone)
            hang_up(c);
    }
    tell_empty(k);
}

leat_status leat_door_open(const struct leat_door_opts *opts, int fd, struct leat_door **out, struct leat_error *err)
{
    struct leat_door *d = calloc(1, sizeof *d);
    if (!d)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a server of chunks");
    d->opts = *opts;
    d->opts.cert_pem = d->opts.key_pem = NULL;
    d->opts.connections_max = opts->connections_max ? opts->connections_max : 1024;
    d->opts.strangers_max = opts->strangers_max ? opts->strangers_max : 64;
    d->fd = -1;
    pthread_mutex_init(&d->mu, NULL);
    leat_cond_init(&d->cond);
    leat_status rc = open_tls(d, opts, err);
    for (unsigned i = 0; rc == LEAT_OK && i < THREADS; i++) {
        struct desk *k = &d->desks[i];
        k->door = d;
        k->listening.fd = fd;
        k->listening.ready = on_connection;
        k->listen_again.fire = on_listen_again;
        rc = leat_loop_open("leat-peers", &k->loop, err);
    }
    if (rc == LEAT_OK && listen(fd, BACKLOG) < 0)
        rc = leat_fail_errno(err, errno, "cannot listen for peers");
    if (rc != LEAT_OK) {
        leat_door_close(d, 0);
        return rc;
    }
    d->fd = fd;
    for (unsigned i = 0; i < THREADS; i++)
        leat_loop_call(d->desks[i].loop, begin_desk, &d->desks[i]);
    *out = d;
    return LEAT_OK;
}

/* False: it was not by then. */
static bool await_empty(struct desk *k, uint64_t until_ns)
{
    struct leat_door *d = k->door;
    pthread_mutex_lock(&d->mu);
    while (!k->empty && leat_left(until_ns))
        leat_cond_wait(&d->cond, &d->mu, until_ns);
    bool empty = k->empty;
    pthread_mutex_unlock(&d->mu);
    return empty;
}

bool leat_door_close(struct leat_door *d, uint64_t patience_ns)
{
    uint64_t until_ns = leat_after(patience_ns ? patience_ns : CLOSE_NS);
    bool empty = true;
    if (!d)
        return true;
    for (unsigned i = 0; i < THREADS; i++) {
        if (d->desks[i].loop)
            leat_loop_call(d->desks[i].loop, end_desk, &d->desks[i]);
    }
    if (d->fd >= 0)
        close(d->fd); /* now: another door may be opened there, whether or not all requests are answered here */
    d->fd = -1;
    for (unsigned i = 0; i < THREADS; i++)
        empty = (!d->desks[i].loop || await_empty(&d->desks[i], until_ns)) && empty;
    if (!empty)
        return false;
    for (unsigned i = 0; i < THREADS; i++)
        leat_loop_close(d->desks[i].loop);
    SSL_CTX_free(d->tls);
    pthread_cond_destroy(&d->cond);
    pthread_mutex_destroy(&d->mu);
    free(d);
    return true;
}

void leat_door_stats(const struct leat_door *d, struct leat_door_stats *out)
{
    out->connections = atomic_load_explicit(&d->open, memory_order_relaxed);
    out->accepted = atomic_load_explicit(&d->accepted, memory_order_relaxed);
    out->refused = atomic_load_explicit(&d->refused, memory_order_relaxed);
    out->turned_away = atomic_load_explicit(&d->turned_away, memory_order_relaxed);
    out->pushed = atomic_load_explicit(&d->pushed, memory_order_relaxed);
}
