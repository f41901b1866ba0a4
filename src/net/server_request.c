#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/server_impl.h"

#define FILE_BLOCK ((size_t)128 << 10)  /* of a file sent over TLS */
#define SMALL_FILE ((uint64_t)64 << 10) /* up to here one send with the headers beats sendfile */

int leat_request_socket(const struct leat_request *x)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static uint64_t bytes_acked(const struct leat_request *x)
{
    struct tcp_info info;
    socklen_t n = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(leat_request_socket(x), IPPROTO_TCP, TCP_INFO, &info, &n) != 0)
        return 0;
    return info.tcpi_bytes_acked;
}

struct leat_server *leat_request_server(const struct leat_request *x)
{
    return x->server;
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

void leat_request_unwatch(struct leat_request *x)
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

static void reply_small_file(struct leat_request *x, unsigned status, int fd, uint64_t offset, size_t n)
{
    char *data = malloc(n);
    size_t got = 0;
    ssize_t more = 1;
    while (data && got < n && more > 0) {
        more = pread(fd, data + got, n - got, (off_t)(offset + got));
        got += more > 0 ? (size_t)more : 0;
    }
    close(fd);
    if (got < n) {
        free(data);
        leat_request_drop(x, false); /* no memory, or the file became shorter */
        return;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(n, data, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(data);
    set_response(x, status, n, response);
    x->streamed = n;
}

void leat_request_reply_file(struct leat_request *x, unsigned status, int fd, uint64_t offset, uint64_t n)
{
    if (leat_request_replied(x) || n == 0) {
        close(fd);
        leat_request_reply(x, status, "", 0);
        return;
    }
    if (n <= SMALL_FILE) {
        reply_small_file(x, status, fd, offset, (size_t)n);
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
        connect(leat_request_socket(x), &none, sizeof none);
    }
}

static bool wait_for(struct leat_request *x, uint64_t deadline_ns, bool client)
{
    struct pollfd p[2] = {{.fd = x->server->stop_fd, .events = POLLIN},
                          {.fd = client ? leat_request_socket(x) : -1, .events = POLLRDHUP}};
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
