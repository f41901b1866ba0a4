/* What server.c and server_request.c share, and nobody else. */
#ifndef LEAT_NET_SERVER_IMPL_H
#define LEAT_NET_SERVER_IMPL_H

#include <microhttpd.h>
#include <pthread.h>

#include "base/buf.h"
#include "net/server.h"

struct leat_server {
    struct leat_server_handler handler; /* constant after open */
    bool tls;
    int listener;
    int stop_fd; /* readable once the server is stopping */
    struct MHD_Daemon *daemon;
    unsigned port;
    unsigned connections_max;
    uint64_t idle_ns;
    char url[100];
    pthread_t acceptor;
    bool accepting;
    _Atomic bool opened;
    char first_message[200]; /* of libmicrohttpd, while opening */

    struct {
        pthread_mutex_t mu;
        struct leat_request *files; /* those that send a file */
        struct leat_server_slot *slots;
        struct leat_server_connections connections;
        uint64_t started; /* connections that libmicrohttpd has taken over */
    } locked;
};

/* A connection. What is said of its progress is written by its own thread and read by the one that accepts: relaxed. */
struct leat_server_slot {
    struct leat_request *request; /* libmicrohttpd forgets one without a word when its arguments are too many for it */
    int fd;
    _Atomic uint64_t head_ns;      /* since when a head is waited for; 0: it is not */
    _Atomic uint64_t body_ns;      /* since when a body is waited for */
    _Atomic uint64_t body_bytes;   /* … and how much of it has come */
    _Atomic bool busy;             /* the handler takes its time, not the client */
    struct leat_server_slot *next; /* under the server's lock, as the next */
    struct leat_server_slot *prev;
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

int leat_request_socket(const struct leat_request *x);
void leat_request_unwatch(struct leat_request *x); /* its file is no longer sent */

#endif
