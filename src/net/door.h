/* A door: a small HTTP/1.1 server for the machines of a job, on two threads whatever the number of connections. It
 * answers GET from memory that its owner holds still meanwhile, without copying it.
 *
 * What comes from outside is bounded: a head of LEAT_DOOR_HEAD bytes, a few seconds to send it, and few connections
 * that have not shown the right token, the oldest of which go first. */
#ifndef LEAT_NET_DOOR_H
#define LEAT_NET_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/pool.h"

struct leat_door;

#define LEAT_DOOR_HEAD  2048u
#define LEAT_DOOR_PATH  256u
#define LEAT_DOOR_TOKEN 129u

/* What a request's head says. */
struct leat_door_head {
    char path[LEAT_DOOR_PATH];
    char token[LEAT_DOOR_TOKEN]; /* of "Authorization: Bearer …"; "": none */
    bool ranged;
    uint64_t first, last; /* of "Range: bytes=first-last" */
    bool close;           /* the last request of its connection */
};

/* Reads a head, with its empty line. LEAT_INVALID: it is none that a peer would send. */
leat_status leat_door_read_head(const char *text, size_t n, struct leat_door_head *out, struct leat_error *err);

struct leat_door_request {
    struct leat_door_head head;
    struct leat_task task; /* the handler's, to take it to another thread, as `user` */
    void *user;
    /* The door's own. */
    struct leat_task back;
    unsigned code;
    const char *data;
    uint64_t data_n;
    void (*sent)(void *user, uint64_t bytes);
    void *sent_user;
};

struct leat_door_opts {
    const char *cert_pem; /* NULL, as the key: no TLS */
    const char *key_pem;
    uint32_t connections_max;                     /* for each thread; 0: 1024 */
    uint32_t strangers_max;                       /* of those, without a good token so far; 0: 64 */
    bool (*known)(void *user, const char *token); /* whether a token is a good one; on any of the door's threads */
    /* A request with a good token: leat_door_answer() must follow, from any thread. On one of the door's threads. */
    void (*asked)(void *user, struct leat_door_request *request);
    void *user;
};

/* A socket bound to a numeric address, which nobody can connect to yet. *port 0: one that is free, which is said. */
leat_status leat_door_bind(const char *address, unsigned *port, int *out, struct leat_error *err);

/* Begins to listen. Takes fd on success. */
leat_status leat_door_open(const struct leat_door_opts *opts, int fd, struct leat_door **out, struct leat_error *err);

/* n bytes at `data`, or the part of them that was asked for, and a status. They must stay until `sent`, which is called
 * once, on a door's thread: with how many have gone out. NULL data: the status alone. */
void leat_door_answer(struct leat_door_request *request, unsigned code, const void *data, uint64_t n,
                      void (*sent)(void *user, uint64_t bytes), void *user);

/* Breaks all connections and waits for requests that were not answered yet, for patience_ns (0: 30 s) at most. False:
 * some were not, and what they are part of stays for good: `user` must stay too. Its port is free either way. NULL is
 * allowed. */
bool leat_door_close(struct leat_door *d, uint64_t patience_ns);

struct leat_door_stats {
    uint64_t connections; /* open now */
    uint64_t accepted;
    uint64_t refused;     /* requests with a wrong token or none, heads that are none, what is no TLS */
    uint64_t pushed;      /* connections closed to make room for others */
    uint64_t turned_away; /* … closed at once: all that there may be were at work */
};
void leat_door_stats(const struct leat_door *d, struct leat_door_stats *out);

#endif
