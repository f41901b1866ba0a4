/* The other end of a connection, for tests: an HTTP server on plain sockets, one thread a connection, whose handler
 * may do to a connection what servers should not. */
#ifndef LEAT_TESTS_PEER_H
#define LEAT_TESTS_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer;

struct peer_request {
    struct peer *peer;
    int fd;
    unsigned number; /* 1, 2, …: in the order they arrived */
    char method[16];
    char target[4096];
    bool has_range;
    uint64_t first; /* of the Range header */
    uint64_t last;
    const char *head; /* the whole head */
    const char *body;
    size_t body_n;
};

/* Answers; false: the connection is closed. */
typedef bool peer_handler(struct peer_request *request, void *user);

struct peer *peer_open(peer_handler *handler, void *user);
void peer_close(struct peer *peer); /* breaks connections and waits for their threads */
unsigned peer_port(const struct peer *peer);
const char *peer_url(const struct peer *peer); /* "http://127.0.0.1:PORT" */

unsigned peer_requests(const struct peer *peer);
unsigned peer_now(const struct peer *peer); /* handlers running */
unsigned peer_peak(const struct peer *peer);
bool peer_closing(const struct peer *peer);

bool peer_send(const struct peer_request *request, const void *data, size_t n);
bool peer_say(const struct peer_request *request, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A proper answer to a GET or HEAD of an object, or to a range of it. */
bool peer_object(const struct peer_request *request, const void *data, size_t n, const char *etag);

/* A whole answer with a body of text. */
bool peer_answer(const struct peer_request *request, unsigned code, const char *text);

/* Waits until the other side has hung up. */
void peer_wait_gone(const struct peer_request *request);

#endif
