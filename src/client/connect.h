/* Finding the machine's agent, starting one when there is none. */
#ifndef LEAT_CLIENT_CONNECT_H
#define LEAT_CLIENT_CONNECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "ring/wire.h"

struct leat_connect_opts {
    const char *scope;
    const char *agent; /* path of the leat command; NULL: LEAT_AGENT, beside this code, PATH */
    uint64_t ram;      /* for an agent that has to be started; 0: its default */
    uint32_t threads;
    uint64_t linger_ns; /* UINT64_MAX: its default */
    bool (*stop)(void *user);
    void *stop_user;
};

struct leat_connection {
    int fd; /* -1: not connected */
    int agent_pid;
    /* What the agent runs with; whoever has to start its successor asks for the same. */
    uint64_t ram;
    uint32_t threads;
    uint64_t linger_ns;
    struct leat_wire_paths paths;
};

/* Connects and exchanges greetings, within 20 s. */
leat_status leat_connect(const struct leat_connect_opts *opts, struct leat_connection *out, struct leat_error *err);

/* Connects to an agent that is there already: LEAT_NOT_FOUND else. */
leat_status leat_connect_existing(const struct leat_wire_paths *paths, struct leat_connection *out,
                                  struct leat_error *err);
void leat_connection_close(struct leat_connection *c); /* NULL is allowed */

/* Sends one JSON message; takes `message` over. */
leat_status leat_connection_send(struct leat_connection *c, json_t *message, struct leat_error *err);

/* The next message, waiting until the deadline. *out is the caller's to json_decref(), fds to close. */
leat_status leat_connection_receive(struct leat_connection *c, uint64_t deadline_ns, bool (*stop)(void *user),
                                    void *stop_user, json_t **out, int fds[LEAT_WIRE_FDS], size_t *fds_n,
                                    struct leat_error *err);

/* Turns {"error": {"status": N, "text": "…"}} into the error it is; LEAT_OK when the message is something else. */
leat_status leat_connection_check(const json_t *message, struct leat_error *err);

#endif
