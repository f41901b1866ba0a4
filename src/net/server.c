#include "net/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/server_impl.h"

#define CONNECTIONS_MAX  1000
#define IDLE_TIMEOUT_S   60
#define THREAD_STACK     ((size_t)512 << 10)
#define CONNECTION_BYTES ((size_t)160 << 10) /* headers of a request, and the buffer its body arrives in */
#define HEADERS_MAX      ((size_t)64 << 10)  /* of an answer */
#define BACKLOG          1024
#define BODY_RATE        1000u /* bytes a second of a body that count as life */
#define SPARE            64    /* connections that are closed, but not yet for libmicrohttpd */

static void look_at_files(struct leat_server *s)
{
    pthread_mutex_lock(&s->locked.mu);
    for (struct leat_request *x = s->locked.files; x; x = x->next) {
        struct stat st;
        if (fstat(x->file, &st) == 0 && (uint64_t)st.st_size < x->file_end)
            shutdown(leat_request_socket(x), SHUT_RDWR);
    }
    pthread_mutex_unlock(&s->locked.mu);
}

/* A client that sends a byte now and then is never idle, and must not keep its place for ever: a head has two idle
 * times, a body comes at a kilobyte a second or more. */
static void look_at_slots(struct leat_server *s)
{
    uint64_t now = leat_now_ns();
    pthread_mutex_lock(&s->locked.mu);
    for (struct leat_server_slot *c = s->locked.slots; c; c = c->next) {
        uint64_t head = atomic_load_explicit(&c->head_ns, memory_order_relaxed);
        uint64_t body = atomic_load_explicit(&c->body_ns, memory_order_relaxed);
        bool busy = atomic_load_explicit(&c->busy, memory_order_relaxed);
        bool drips = head && now > head && now - head > 2 * s->idle_ns;
        if (body && !busy && now > body && now - body > s->idle_ns) {
            uint64_t bytes = atomic_exchange_explicit(&c->body_bytes, 0, memory_order_relaxed);
            drips |= bytes < BODY_RATE * (s->idle_ns / LEAT_S);
            atomic_compare_exchange_strong(&c->body_ns, &body, now);
        }
        if (drips)
            shutdown(c->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&s->locked.mu);
}

/* Connections are accepted here and not by libmicrohttpd, which would close those above the limit instead of leaving
 * them in the backlog. */
static void accept_one(struct leat_server *s, uint64_t *handed_over)
{
    struct sockaddr_storage address;
    socklen_t n = sizeof address;
    int fd = accept4(s->listener, (struct sockaddr *)&address, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        /* Whatever happens, the socket is libmicrohttpd's from here on. */
        *handed_over += MHD_add_connection(s->daemon, fd, (struct sockaddr *)&address, n) == MHD_YES;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        leat_log(LEAT_LOG_WARN, "cannot accept a connection now: %s", strerror(errno));
        leat_sleep_until(leat_after(100 * LEAT_MS));
    }
}

static bool has_room(struct leat_server *s, uint64_t *handed_over, bool patient)
{
    pthread_mutex_lock(&s->locked.mu);
    /* One that was lost on the way, without memory, must not take up room for ever. */
    if (patient && *handed_over > s->locked.started)
        *handed_over = s->locked.started;
    uint64_t on_the_way = *handed_over > s->locked.started ? *handed_over - s->locked.started : 0;
    bool room = s->locked.connections.open + on_the_way < s->connections_max;
    pthread_mutex_unlock(&s->locked.mu);
    return room;
}

static void *accept_all(void *arg)
{
    struct leat_server *s = arg;
    uint64_t handed_over = 0;
    uint64_t look_ns = leat_after(LEAT_S);
    for (;;) {
        bool late = leat_left(look_ns) == 0;
        bool room = has_room(s, &handed_over, late);
        if (late) {
            look_at_files(s);
            look_at_slots(s);
            look_ns = leat_after(LEAT_S);
        }
        struct pollfd p[2] = {{.fd = s->stop_fd, .events = POLLIN}, {.fd = room ? s->listener : -1, .events = POLLIN}};
        int n = poll(p, 2, room ? 1000 : 10);
        if (n > 0 && p[0].revents)
            return NULL;
        if (n > 0 && p[1].revents)
            accept_one(s, &handed_over);
    }
}

static struct leat_server_slot *slot_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void end_request(struct leat_request *x, bool whole)
{
    if (!x)
        return;
    struct leat_server_handler *h = &x->server->handler;
    if (x->started)
        h->end(x, whole, h->user);
    leat_request_unwatch(x);
    if (x->response)
        MHD_destroy_response(x->response);
    if (x->stream.free)
        x->stream.free(x->stream.state);
    leat_buf_free(&x->headers);
    free(x->target);
    free(x);
}

static void wait_for_body(struct leat_server_slot *c, bool wait)
{
    atomic_store_explicit(&c->head_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&c->body_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&c->body_ns, wait ? leat_now_ns() : 0, memory_order_relaxed);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode reason)
{
    struct leat_server_slot *c = slot_of(connection);
    (void)cls;
    end_request(*state, reason == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    *state = NULL;
    if (c) {
        c->request = NULL;
        wait_for_body(c, false);
        atomic_store_explicit(&c->head_ns, leat_now_ns(), memory_order_relaxed);
    }
}

/* The request line is in: the only place where libmicrohttpd shows the target as it was sent. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    struct leat_server_slot *c = slot_of(connection);
    struct leat_request *x = c ? calloc(1, sizeof *x) : NULL;
    if (!x)
        return NULL;
    x->server = cls;
    x->connection = connection;
    x->file = -1;
    leat_buf_init(&x->headers, HEADERS_MAX);
    x->target = strdup(target);
    if (!x->target) {
        free(x);
        return NULL;
    }
    char *mark = strchr(x->target, '?');
    if (mark)
        *mark = '\0';
    x->query = mark ? mark + 1 : "";
    end_request(c->request, false);
    c->request = x;
    return x;
}

/* Escapes stay as they are: a decoded NUL or '/' would change what the path means. */
static size_t keep_escapes(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    return strlen(text);
}

static enum MHD_Result queue(struct leat_request *x)
{
    if (x->dropped || !x->response)
        return MHD_NO;
    x->queued = true;
    enum MHD_Result result = MHD_queue_response(x->connection, x->status, x->response);
    MHD_destroy_response(x->response); /* the connection holds it */
    x->response = NULL;
    return result;
}

static bool expects_continue(const struct leat_request *x)
{
    const char *expect = leat_request_header(x, MHD_HTTP_HEADER_EXPECT);
    return expect && strcasecmp(expect, "100-continue") == 0;
}

struct lengths {
    unsigned given;
    bool chunked;
    unsigned hosts;
};

static enum MHD_Result count_length(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct lengths *l = cls;
    (void)kind;
    (void)value;
    l->given += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    l->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    l->chunked = l->chunked || strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
    return MHD_YES;
}

/* A body with two lengths can be two requests to somebody between client and server, and one with two hosts somebody
 * else's. */
static bool is_unambiguous(struct leat_request *x)
{
    struct lengths l = {0};
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, count_length, &l);
    return l.given + l.chunked <= 1 && l.hosts <= 1;
}

static void start(struct leat_server *s, struct leat_request *x, const char *method)
{
    x->method = method;
    if (is_unambiguous(x)) {
        x->started = true;
        s->handler.start(x, s->handler.user);
    } else {
        leat_request_add_header(x, MHD_HTTP_HEADER_CONNECTION, "close");
        leat_request_reply(x, MHD_HTTP_BAD_REQUEST, "", 0);
    }
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *n, void **state)
{
    struct leat_server *s = cls;
    struct leat_request *x = *state;
    (void)url;
    (void)version;
    struct leat_server_slot *c = slot_of(connection);
    if (!x || !c)
        return MHD_NO; /* no memory for it */
    if (!x->method) {
        wait_for_body(c, true);
        atomic_store_explicit(&c->busy, true, memory_order_relaxed);
        start(s, x, method);
        atomic_store_explicit(&c->busy, false, memory_order_relaxed);
        if (x->dropped)
            return MHD_NO;
        /* Answering before the body makes libmicrohttpd close the connection, and the kernel then resets it
         * if body bytes were on their way, which can destroy the answer: only where none are. */
        return x->response && expects_continue(x) ? queue(x) : MHD_YES;
    }
    if (*n) {
        atomic_fetch_add_explicit(&c->body_bytes, *n, memory_order_relaxed);
        atomic_store_explicit(&c->busy, true, memory_order_relaxed);
        if (!x->response)
            s->handler.body(x, data, *n, s->handler.user);
        atomic_store_explicit(&c->busy, false, memory_order_relaxed);
        *n = 0;
        return x->dropped ? MHD_NO : MHD_YES;
    }
    wait_for_body(c, false);
    if (!x->response)
        s->handler.finish(x, s->handler.user);
    return queue(x);
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct leat_server *s = cls;
    struct leat_server_connections *c = &s->locked.connections;
    struct leat_server_slot *own = *state;
    bool starts = code == MHD_CONNECTION_NOTIFY_STARTED;
    if (starts) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        own = calloc(1, sizeof *own); /* without it the connection's requests are refused */
        *state = own;
        if (own) {
            own->fd = info ? info->connect_fd : -1;
            own->head_ns = leat_now_ns();
        }
    } else if (own) {
        end_request(own->request, false);
    }
    pthread_mutex_lock(&s->locked.mu);
    if (own && starts) {
        own->next = s->locked.slots;
        if (own->next)
            own->next->prev = own;
        s->locked.slots = own;
    } else if (own) {
        *(own->prev ? &own->prev->next : &s->locked.slots) = own->next;
        if (own->next)
            own->next->prev = own->prev;
    }
    if (starts) {
        s->locked.started++;
        c->total++;
        c->open++;
        if (c->open > c->peak)
            c->peak = c->open;
    } else {
        c->open--;
    }
    pthread_mutex_unlock(&s->locked.mu);
    if (!starts) {
        free(own);
        *state = NULL;
    }
}

static void on_message(void *cls, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void on_message(void *cls, const char *format, va_list args)
{
    struct leat_server *s = cls;
    char line[sizeof s->first_message];
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\r\n")] = '\0';
    if (!s->opened && !*s->first_message)
        memcpy(s->first_message, line, sizeof line);
    else
        leat_log(LEAT_LOG_DEBUG, "http server: %s", line);
}

static leat_status listen_on(struct leat_server *s, const char *address, unsigned port, struct leat_error *err)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[8];
    int on = 1;
    snprintf(service, sizeof service, "%u", port);
    if (port > 65535 || getaddrinfo(address, service, &hints, &found) != 0)
        return leat_fail(err, LEAT_INVALID, "cannot listen on '%s' port %u: not a numeric address and a port", address,
                         port);
    s->listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listener < 0 || setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(s->listener, found->ai_addr, found->ai_addrlen) != 0 || listen(s->listener, BACKLOG) != 0) {
        int e = errno;
        freeaddrinfo(found);
        return leat_fail_errno(err, e, "cannot listen on %s port %u", address, port);
    }
    freeaddrinfo(found);
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound;
    socklen_t n = sizeof bound;
    memset(&bound, 0, sizeof bound);
    getsockname(s->listener, &bound.any, &n);
    bool v6 = bound.any.sa_family == AF_INET6;
    s->port = ntohs(v6 ? bound.v6.sin6_port : bound.v4.sin_port);
    snprintf(s->url, sizeof s->url, "%s://%s%s%s:%u", s->tls ? "https" : "http", v6 ? "[" : "", address, v6 ? "]" : "",
             s->port);
    return LEAT_OK;
}

static leat_status start_daemon(struct leat_server *s, const struct leat_server_options *o, struct leat_error *err)
{
    /* A thread a connection: handlers may block, and files go out by sendfile in pieces of 2 MiB, where a pool of
     * threads on epoll uses 128 KiB to be fair. Measured on two cores with curl as client (16 connections, 8 MiB
     * files): 1595 MB/s, against 1222 MB/s with epoll and two threads, and 1422 MB/s with nginx. */
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC |
                     MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)o->tls_cert_pem},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->tls_key_pem},
        {MHD_OPTION_END, 0, NULL},
    };
    /* Its threads inherit the mask: signals are for the main thread. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (s->tls)
        flags |= MHD_USE_TLS;
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_message, s, MHD_OPTION_CONNECTION_LIMIT,
        s->connections_max + SPARE, MHD_OPTION_CONNECTION_TIMEOUT,
        o->idle_timeout_s ? o->idle_timeout_s : IDLE_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK, MHD_OPTION_URI_LOG_CALLBACK,
        on_target, s, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_ARRAY, s->tls ? tls : tls + 2, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!s->daemon)
        return leat_fail(err, s->tls ? LEAT_TLS : LEAT_INTERNAL, "cannot start the HTTP server%s: %s",
                         s->tls ? " with this certificate and key" : "",
                         *s->first_message ? s->first_message : "no reason given");
    s->opened = true;
    return LEAT_OK;
}

leat_status leat_server_open(const struct leat_server_options *options, struct leat_server **out,
                             struct leat_error *err)
{
    leat_status rc;
    struct leat_server *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an HTTP server");
    s->handler = options->handler;
    s->tls = options->tls_cert_pem != NULL;
    s->connections_max = options->connections_max ? options->connections_max : CONNECTIONS_MAX;
    s->idle_ns = (options->idle_timeout_s ? options->idle_timeout_s : IDLE_TIMEOUT_S) * LEAT_S;
    s->listener = -1;
    pthread_mutex_init(&s->locked.mu, NULL);
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->stop_fd < 0) {
        rc = leat_fail_errno(err, errno, "cannot make an eventfd");
        goto fail;
    }
    if (s->tls && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        rc = leat_fail(err, LEAT_UNSUPPORTED, "this libmicrohttpd was built without TLS");
        goto fail;
    }
    rc = listen_on(s, options->bind ? options->bind : "127.0.0.1", options->port, err);
    if (rc != LEAT_OK)
        goto fail;
    rc = start_daemon(s, options, err);
    if (rc != LEAT_OK)
        goto fail;
    rc = leat_thread_start(&s->acceptor, "http-accept", accept_all, s, err);
    if (rc != LEAT_OK)
        goto fail;
    s->accepting = true;
    *out = s;
    return LEAT_OK;
fail:
    leat_server_close(s);
    return rc;
}

void leat_server_close(struct leat_server *s)
{
    if (!s)
        return;
    if (s->stop_fd >= 0)
        eventfd_write(s->stop_fd, 1);
    if (s->accepting)
        pthread_join(s->acceptor, NULL);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    if (s->listener >= 0)
        close(s->listener);
    if (s->stop_fd >= 0)
        close(s->stop_fd);
    pthread_mutex_destroy(&s->locked.mu);
    free(s);
}

unsigned leat_server_port(const struct leat_server *s)
{
    return s->port;
}

const char *leat_server_url(const struct leat_server *s)
{
    return s->url;
}

struct leat_server_connections leat_server_connections(struct leat_server *s)
{
    pthread_mutex_lock(&s->locked.mu);
    struct leat_server_connections c = s->locked.connections;
    pthread_mutex_unlock(&s->locked.mu);
    return c;
}

void leat_server_reset_connections(struct leat_server *s)
{
    pthread_mutex_lock(&s->locked.mu);
    s->locked.connections.peak = s->locked.connections.total = s->locked.connections.open;
    pthread_mutex_unlock(&s->locked.mu);
}
