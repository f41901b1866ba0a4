#include "net/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

#define CONNECTIONS_MAX  1000
#define IDLE_TIMEOUT_S   60
#define THREAD_STACK     ((size_t)512 << 10)
#define CONNECTION_BYTES ((size_t)160 << 10) /* headers of a request, and the buffer its body arrives in */
#define HEADERS_MAX      ((size_t)64 << 10)  /* of an answer */
#define FILE_BLOCK       ((size_t)128 << 10) /* of a file sent over TLS */
#define BACKLOG          1024

struct leat_server {
    struct leat_server_handler handler; /* constant after open */
    bool tls;
    int listener;
    int stop_fd; /* readable once the server is stopping */
    struct MHD_Daemon *daemon;
    unsigned port;
    char url[100];
    pthread_t watcher;
    bool watching;
    _Atomic bool opened;
    char last_message[200]; /* of libmicrohttpd, while opening */

    struct {
        pthread_mutex_t mu;
        pthread_cond_t stop_changed;
        bool stopping;
        struct leat_request *files; /* those that send a file */
        struct leat_server_connections connections;
    } locked;
};

struct leat_request {
    struct leat_server *server;
    struct MHD_Connection *connection;
    char *target; /* "path\0query" */
    const char *query;
    const char *method;
    void *state;
    bool started;
    bool dropped;
    struct leat_buf headers; /* of the answer: "name\0value\0" … */

    struct MHD_Response *response; /* not yet queued */
    bool queued;
    unsigned status;
    uint64_t planned;
    uint64_t streamed; /* taken from the stream */
    uint64_t acked_before;
    struct leat_server_stream stream;

    int file; /* borrowed from the response; -1: none */
    uint64_t file_end;
    struct leat_request *next; /* under the server's lock */
    struct leat_request *prev;
};

static int socket_of(const struct leat_request *x)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static uint64_t bytes_acked(const struct leat_request *x)
{
    struct tcp_info info;
    socklen_t n = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(socket_of(x), IPPROTO_TCP, TCP_INFO, &info, &n) != 0)
        return 0;
    return info.tcpi_bytes_acked;
}

const char *leat_request_method(const struct leat_request *x)
{
    return x->method;
}

const char *leat_request_path(const struct leat_request *x)
{
    return x->target;
}

const char *leat_request_query(const struct leat_request *x)
{
    return x->query;
}

const char *leat_request_header(const struct leat_request *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

bool leat_request_local(const struct leat_request *x)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info ? info->client_addr : NULL;
    if (a && a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    if (a && a->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
    }
    return false;
}

struct each_header {
    leat_request_header_each *each;
    void *user;
};

static enum MHD_Result each_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct each_header *e = cls;
    (void)kind;
    e->each(name, value ? value : "", e->user);
    return MHD_YES;
}

void leat_request_headers(const struct leat_request *x, leat_request_header_each *each, void *user)
{
    struct each_header e = {each, user};
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, each_header, &e);
}

void leat_request_set_state(struct leat_request *x, void *state)
{
    x->state = state;
}

void *leat_request_state(const struct leat_request *x)
{
    return x->state;
}

void leat_request_add_header(struct leat_request *x, const char *name, const char *value)
{
    leat_buf_add(&x->headers, name, strlen(name) + 1);
    leat_buf_add(&x->headers, value, strlen(value) + 1);
}

bool leat_request_replied(const struct leat_request *x)
{
    return x->response || x->queued || x->dropped;
}

unsigned leat_request_status(const struct leat_request *x)
{
    return x->dropped && !x->queued ? 0 : x->status;
}

uint64_t leat_request_planned(const struct leat_request *x)
{
    return x->planned;
}

uint64_t leat_request_sent(const struct leat_request *x)
{
    if (x->file < 0 || !x->queued)
        return x->streamed;
    /* The kernel sent the file and only it knows how much; the headers, some 300 bytes, count as well. */
    uint64_t acked = bytes_acked(x) - x->acked_before;
    return acked < x->planned ? acked : x->planned;
}

/* Takes a finished response, or NULL when it could not be made. */
static void set_response(struct leat_request *x, unsigned status, uint64_t n, struct MHD_Response *response)
{
    const char *end = x->headers.data + x->headers.len;
    if (!response || x->headers.failed) {
        leat_request_drop(x, false);
        if (response)
            MHD_destroy_response(response);
        return;
    }
    for (const char *name = x->headers.data; name < end;) {
        const char *value = name + strlen(name) + 1;
        MHD_add_response_header(response, name, value);
        name = value + strlen(value) + 1;
    }
    x->response = response;
    x->status = status;
    x->planned = n;
}

void leat_request_reply(struct leat_request *x, unsigned status, const void *body, size_t n)
{
    if (leat_request_replied(x))
        return;
    /* libmicrohttpd only reads a buffer that it is told to copy. */
    void *data = (void *)(uintptr_t)body;
    set_response(x, status, n, MHD_create_response_from_buffer(n, data, MHD_RESPMEM_MUST_COPY));
    x->streamed = n;
}

static ssize_t read_stream(void *cls, uint64_t at, char *out, size_t max)
{
    struct leat_request *x = cls;
    ssize_t n = x->stream.read(x->stream.state, at, out, max);
    if (n <= 0)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    x->streamed += (uint64_t)n;
    return n;
}

void leat_request_reply_stream(struct leat_request *x, unsigned status, uint64_t n,
                               const struct leat_server_stream *stream)
{
    struct MHD_Response *response;
    if (leat_request_replied(x)) {
        if (stream->free)
            stream->free(stream->state);
        return;
    }
    x->stream = *stream;
    if (n == 0)
        response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    else
        response = MHD_create_response_from_callback(n, stream->block, read_stream, x, NULL);
    set_response(x, status, n, response);
}

struct file_stream {
    int fd;
    uint64_t offset;
};

static ssize_t read_file(void *state, uint64_t at, char *out, size_t max)
{
    struct file_stream *f = state;
    return pread(f->fd, out, max, (off_t)(f->offset + at));
}

static void free_file(void *state)
{
    struct file_stream *f = state;
    close(f->fd);
    free(f);
}

static void stream_file(struct leat_request *x, unsigned status, int fd, uint64_t offset, uint64_t n)
{
    struct file_stream *f = malloc(sizeof *f);
    if (!f) {
        close(fd);
        leat_request_drop(x, false);
        return;
    }
    *f = (struct file_stream){fd, offset};
    struct leat_server_stream stream = {read_file, free_file, f, n < FILE_BLOCK ? (size_t)n : FILE_BLOCK};
    leat_request_reply_stream(x, status, n, &stream);
}

/* A file that shrinks while the kernel sends it makes sendfile return 0 for ever, and libmicrohttpd call it for
 * ever. So files being sent are looked at once a second, and the connection of a short one is broken. */
static void watch_file(struct leat_request *x)
{
    struct leat_server *s = x->server;
    pthread_mutex_lock(&s->locked.mu);
    x->next = s->locked.files;
    if (x->next)
        x->next->prev = x;
    s->locked.files = x;
    pthread_mutex_unlock(&s->locked.mu);
}

static void unwatch_file(struct leat_request *x)
{
    struct leat_server *s = x->server;
    if (x->file < 0)
        return;
    pthread_mutex_lock(&s->locked.mu);
    if (x->prev)
        x->prev->next = x->next;
    else
        s->locked.files = x->next;
    if (x->next)
        x->next->prev = x->prev;
    pthread_mutex_unlock(&s->locked.mu);
}

static void *watch(void *arg)
{
    struct leat_server *s = arg;
    pthread_mutex_lock(&s->locked.mu);
    while (!s->locked.stopping) {
        for (struct leat_request *x = s->locked.files; x; x = x->next) {
            struct stat st;
            if (fstat(x->file, &st) == 0 && (uint64_t)st.st_size < x->file_end)
                shutdown(socket_of(x), SHUT_RDWR);
        }
        leat_cond_wait(&s->locked.stop_changed, &s->locked.mu, leat_after(LEAT_S));
    }
    pthread_mutex_unlock(&s->locked.mu);
    return NULL;
}

void leat_request_reply_file(struct leat_request *x, unsigned status, int fd, uint64_t offset, uint64_t n)
{
    if (leat_request_replied(x) || n == 0) {
        close(fd);
        leat_request_reply(x, status, "", 0);
        return;
    }
    if (x->server->tls) {
        stream_file(x, status, fd, offset, n);
        return;
    }
    struct MHD_Response *response = MHD_create_response_from_fd_at_offset64(n, fd, offset);
    if (!response)
        close(fd);
    set_response(x, status, n, response);
    if (!x->response)
        return;
    x->file = fd;
    x->file_end = offset + n;
    x->acked_before = bytes_acked(x);
    watch_file(x);
}

void leat_request_drop(struct leat_request *x, bool reset)
{
    x->dropped = true;
    if (reset) {
        /* Disconnecting sends the RST now; a close with SO_LINGER would come after libmicrohttpd's shutdown,
         * which already sent a FIN. */
        struct sockaddr none = {.sa_family = AF_UNSPEC};
        connect(socket_of(x), &none, sizeof none);
    }
}

static bool wait_for(struct leat_request *x, uint64_t deadline_ns, bool client)
{
    struct pollfd p[2] = {{.fd = x->server->stop_fd, .events = POLLIN},
                          {.fd = client ? socket_of(x) : -1, .events = POLLRDHUP}};
    for (;;) {
        uint64_t left = leat_left(deadline_ns);
        struct timespec t = leat_timespec(left);
        int n = ppoll(p, 2, left == LEAT_NEVER ? NULL : &t, NULL);
        if (n > 0)
            return false;
        if (n == 0 && leat_left(deadline_ns) == 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

bool leat_request_wait(struct leat_request *x, uint64_t deadline_ns)
{
    return wait_for(x, deadline_ns, false);
}

bool leat_request_wait_client(struct leat_request *x, uint64_t deadline_ns)
{
    return wait_for(x, deadline_ns, true);
}

/* The request line is in: the only place where libmicrohttpd shows the target as it was sent. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    struct leat_request *x = calloc(1, sizeof *x);
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
    return x;
}

/* Escapes stay as they are: a decoded NUL or '/' would change what the path means. */
static size_t keep_escapes(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    return strlen(text);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode reason)
{
    struct leat_server *s = cls;
    struct leat_request *x = *state;
    (void)connection;
    if (!x)
        return;
    *state = NULL;
    if (x->started)
        s->handler.end(x, reason == MHD_REQUEST_TERMINATED_COMPLETED_OK, s->handler.user);
    unwatch_file(x);
    if (x->response)
        MHD_destroy_response(x->response);
    if (x->stream.free)
        x->stream.free(x->stream.state);
    leat_buf_free(&x->headers);
    free(x->target);
    free(x);
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

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *n, void **state)
{
    struct leat_server *s = cls;
    struct leat_request *x = *state;
    (void)connection;
    (void)url;
    (void)version;
    if (!x)
        return MHD_NO; /* no memory for it */
    if (!x->started) {
        x->started = true;
        x->method = method;
        s->handler.start(x, s->handler.user);
        if (x->dropped)
            return MHD_NO;
        /* Answering before the body makes libmicrohttpd close the connection, and the kernel then resets it
         * if body bytes were on their way, which can destroy the answer: only where none are. */
        return x->response && expects_continue(x) ? queue(x) : MHD_YES;
    }
    if (*n) {
        if (!x->response)
            s->handler.body(x, data, *n, s->handler.user);
        *n = 0;
        return x->dropped ? MHD_NO : MHD_YES;
    }
    if (!x->response)
        s->handler.finish(x, s->handler.user);
    return queue(x);
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct leat_server *s = cls;
    struct leat_server_connections *c = &s->locked.connections;
    (void)connection;
    (void)state;
    pthread_mutex_lock(&s->locked.mu);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        c->total++;
        c->open++;
        if (c->open > c->peak)
            c->peak = c->open;
    } else {
        c->open--;
    }
    pthread_mutex_unlock(&s->locked.mu);
}

static void on_message(void *cls, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void on_message(void *cls, const char *format, va_list args)
{
    struct leat_server *s = cls;
    char line[sizeof s->last_message];
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\r\n")] = '\0';
    if (!s->opened)
        memcpy(s->last_message, line, sizeof line);
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
    struct sockaddr_storage bound = {0};
    socklen_t n = sizeof bound;
    getsockname(s->listener, (struct sockaddr *)&bound, &n);
    bool v6 = bound.ss_family == AF_INET6;
    s->port =
        ntohs(v6 ? ((const struct sockaddr_in6 *)&bound)->sin6_port : ((const struct sockaddr_in *)&bound)->sin_port);
    snprintf(s->url, sizeof s->url, "%s://%s%s%s:%u", s->tls ? "https" : "http", v6 ? "[" : "", address, v6 ? "]" : "",
             s->port);
    return LEAT_OK;
}

static leat_status start_daemon(struct leat_server *s, const struct leat_server_options *o, struct leat_error *err)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)o->tls_cert_pem},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->tls_key_pem},
        {MHD_OPTION_END, 0, NULL},
    };
    if (s->tls)
        flags |= MHD_USE_TLS;
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_message, s, MHD_OPTION_LISTEN_SOCKET,
        s->listener, MHD_OPTION_CONNECTION_LIMIT, o->connections_max ? o->connections_max : CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, o->idle_timeout_s ? o->idle_timeout_s : IDLE_TIMEOUT_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, s, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, s,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_ARRAY,
        s->tls ? tls : tls + 2, MHD_OPTION_END);
    if (!s->daemon)
        return leat_fail(err, s->tls ? LEAT_TLS : LEAT_INTERNAL, "cannot start the HTTP server: %s",
                         *s->last_message ? s->last_message : "no reason given");
    s->opened = true;
    s->listener = -1; /* the daemon closes it */
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
    s->listener = -1;
    pthread_mutex_init(&s->locked.mu, NULL);
    leat_cond_init(&s->locked.stop_changed);
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
    rc = leat_thread_start(&s->watcher, "http-watch", watch, s, err);
    if (rc != LEAT_OK)
        goto fail;
    s->watching = true;
    rc = start_daemon(s, options, err);
    if (rc != LEAT_OK)
        goto fail;
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
    pthread_mutex_lock(&s->locked.mu);
    s->locked.stopping = true;
    pthread_cond_broadcast(&s->locked.stop_changed);
    pthread_mutex_unlock(&s->locked.mu);
    if (s->stop_fd >= 0)
        eventfd_write(s->stop_fd, 1);
    if (s->watching)
        pthread_join(s->watcher, NULL);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    if (s->listener >= 0)
        close(s->listener);
    if (s->stop_fd >= 0)
        close(s->stop_fd);
    pthread_cond_destroy(&s->locked.stop_changed);
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
