/* An HTTP/1.1 server, plain or TLS, on libmicrohttpd.
 *
 * Every connection has a thread of its own, in which all calls of the handler for that connection run: they
 * may block (disk, pacing, waiting), and nobody else waits for them. Handlers of different connections run
 * at the same time. What arrives is handed over raw: the path and the query are not decoded. */
#ifndef LEAT_NET_SERVER_H
#define LEAT_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct leat_server;
struct leat_request; /* one request and its answer; lives until `end` returns */

struct leat_server_handler {
    /* The headers are in. May answer already: the body is then read and dropped (or never sent, where the
     * client asked with "Expect: 100-continue"). */
    void (*start)(struct leat_request *x, void *user);
    void (*body)(struct leat_request *x, const void *data, size_t n, void *user); /* not after an answer */
    void (*finish)(struct leat_request *x, void *user); /* the body is in; must answer. Not after an answer. */
    /* After each `start`: the answer was sent (whole) or the connection broke. Frees what is in the state. */
    void (*end)(struct leat_request *x, bool whole, void *user);
    void *user;
};

struct leat_server_options {
    const char *bind; /* numeric address; NULL: 127.0.0.1 */
    unsigned port;    /* 0: one that is free */
    const char *tls_cert_pem;
    const char *tls_key_pem;  /* both or neither */
    unsigned connections_max; /* further ones wait in the backlog; 0: 1000 */
    unsigned idle_timeout_s;  /* no byte moves for this long: the connection is closed; 0: 60 */
    struct leat_server_handler handler;
};

leat_status leat_server_open(const struct leat_server_options *options, struct leat_server **out,
                             struct leat_error *err);

/* Breaks all connections, waits for handlers to return (leat_request_wait returns at once) and frees the server.
 * NULL is allowed. */
void leat_server_close(struct leat_server *s);

unsigned leat_server_port(const struct leat_server *s);
const char *leat_server_url(const struct leat_server *s); /* "http://127.0.0.1:8080" */

struct leat_server_connections {
    uint64_t open;
    uint64_t peak;
    uint64_t total;
};
struct leat_server_connections leat_server_connections(struct leat_server *s);
void leat_server_reset_connections(struct leat_server *s); /* peak: those open now; total: likewise */

/* The request. Strings live as long as it does. Its server is there even before leat_server_open has returned. */
struct leat_server *leat_request_server(const struct leat_request *x);
const char *leat_request_method(const struct leat_request *x);
const char *leat_request_path(const struct leat_request *x);  /* as sent, up to '?' */
const char *leat_request_query(const struct leat_request *x); /* as sent, after '?'; "" when there is none */
const char *leat_request_header(const struct leat_request *x, const char *name); /* the first; NULL: none */
bool leat_request_local(const struct leat_request *x);                           /* the client is on this machine */

/* All headers in the order sent. */
typedef void leat_request_header_each(const char *name, const char *value, void *user);
void leat_request_headers(const struct leat_request *x, leat_request_header_each *each, void *user);

void leat_request_set_state(struct leat_request *x, void *state);
void *leat_request_state(const struct leat_request *x);

/* The answer: headers first, then one of the replies. A second reply, or one after a drop, is ignored.
 * A header with a line break in it is left out. */
void leat_request_add_header(struct leat_request *x, const char *name, const char *value);
void leat_request_reply(struct leat_request *x, unsigned status, const void *body, size_t n); /* copies */

/* n bytes from offset of a file, by sendfile where there is no TLS. Takes fd, whatever happens. */
void leat_request_reply_file(struct leat_request *x, unsigned status, int fd, uint64_t offset, uint64_t n);

/* n bytes from a callback, which may block: it returns how many it wrote (at most max, at least 1) or -1 to
 * break the connection. `at` counts from 0. `block` is what `max` will be at most. */
struct leat_server_stream {
    ssize_t (*read)(void *state, uint64_t at, char *out, size_t max);
    void (*free)(void *state); /* may be NULL */
    void *state;
    size_t block;
};
void leat_request_reply_stream(struct leat_request *x, unsigned status, uint64_t n,
                               const struct leat_server_stream *stream);

bool leat_request_replied(const struct leat_request *x);
uint64_t leat_request_sent(const struct leat_request *x); /* in `end`: body bytes that went out */

/* No answer: the connection is closed, or with `reset` broken off at once (RST). Also inside a stream's read. */
void leat_request_drop(struct leat_request *x, bool reset);

/* Blocks until the deadline; false when the server is stopping. */
bool leat_request_wait(struct leat_request *x, uint64_t deadline_ns);

/* The same, but also ends, with false, when the client closed its side. */
bool leat_request_wait_client(struct leat_request *x, uint64_t deadline_ns);

#endif
