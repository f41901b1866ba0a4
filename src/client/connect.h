/* Finding the machine's agent, starting one when there is none. */
#ifndef LEAT_CLIENT_CONNECT_H
#define LEAT_CLIENT_CONNECT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/parse.h"
#include "ring/message.h"
#include "ring/wire.h"

struct leat_connect_opts {
    const char *scope;
    const char *agent; /* path of the leat command; NULL: LEAT_AGENT, beside this code, PATH */
    uint64_t ram;      /* for an agent that has to be started; 0: its default */
    uint32_t threads;
    uint64_t linger_ns;    /* UINT64_MAX: its default */
    const char *cache_dir; /* NULL: its default */
    uint64_t cache;
    const char *metrics;  /* NULL: its default */
    uint64_t deadline_ns; /* on the monotonic clock; 0: 20 s from now, which is also the most */
    bool (*stop)(void *user);
    void *stop_user;
};

struct leat_connection {
    int fd; /* -1: not connected */
    int agent_pid;
    /* What the agent runs with; the one that has to start its successor asks for the same. */
    uint64_t ram;
    uint32_t threads;
    uint64_t linger_ns;
    char cache_dir[PATH_MAX]; /* "": none */
    uint64_t cache;
    char metrics[LEAT_LISTEN_ADDRESS + 8]; /* "": none */
    char features[64];                     /* words: what it can do beyond the protocol */
    struct leat_wire_paths paths;
};

/* Connects and exchanges greetings. */
leat_status leat_connect(const struct leat_connect_opts *opts, struct leat_connection *out, struct leat_error *err);

/* Connects to an agent that is there already: LEAT_NOT_FOUND else. */
leat_status leat_connect_existing(const struct leat_wire_paths *paths, struct leat_connection *out,
                                  struct leat_error *err);
/* The same, only to look on: it does not keep the agent from ending. */
leat_status leat_connect_watching(const struct leat_wire_paths *paths, struct leat_connection *out,
                                  struct leat_error *err);
void leat_connection_close(struct leat_connection *c);                          /* NULL is allowed */
bool leat_connection_can(const struct leat_connection *c, const char *feature); /* beyond the protocol */

/* Sends one message and empties the buffer. */
leat_status leat_connection_send(struct leat_connection *c, struct leat_buf *message, struct leat_error *err);

/* A message that came. */
struct leat_incoming {
    char *bytes; /* what `part` points into */
    enum leat_message_kind kind;
    struct leat_part part;
    int fds[LEAT_WIRE_FDS];
    size_t fds_n;
};
void leat_incoming_free(struct leat_incoming *m); /* closes descriptors that are still there; a zeroed one is allowed */

/* The next message, waiting until the deadline. */
leat_status leat_connection_receive(struct leat_connection *c, uint64_t deadline_ns, bool (*stop)(void *user),
                                    void *stop_user, struct leat_incoming *out, struct leat_error *err);

/* The error that an ERROR or FAILED message is; LEAT_OK when it is something else. */
leat_status leat_incoming_check(const struct leat_incoming *m, struct leat_error *err);

#endif
