/* A wait that takes long: what a rank asks its agent meanwhile, and what it tells the caller. The first word comes
 * after 5 s, the next at 10, 20, 40 … s; shortly before the deadline the agent is asked once more, so that the error
 * can say what was waited for and still comes in time. Nothing here waits by itself. Inside the client. */
#ifndef LEAT_CLIENT_PATIENCE_H
#define LEAT_CLIENT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct leat_loader;

enum leat_waiting {
    LEAT_WAITING_AGENT, /* to be greeted by it */
    LEAT_WAITING_OPENING,
    LEAT_WAITING_RANKS, /* to agree */
    LEAT_WAITING_BATCH
};

struct leat_patience {
    enum leat_waiting what;
    uint64_t began_ns;
    uint64_t warn_ns;  /* when the next warning is due */
    uint64_t last_ns;  /* when the agent is asked for the last time; LEAT_NEVER: it was */
    uint64_t asked_ns; /* a question is under way; 0: none */
    bool answered;
    char why[300]; /* the agent's last answer; "": none */
};

/* A call begins that may wait; returns its deadline. */
uint64_t leat_patience_begin(struct leat_loader *l);

/* Asks, and warns, where it is time to. Called several times a second while the call waits. */
void leat_patience_look(struct leat_loader *l);
uint64_t leat_patience_left_ns(const struct leat_loader *l); /* until it has something to do */

/* The agent's statistics have come: they say what it is waiting for. */
void leat_patience_answer(struct leat_loader *l, const char *stats);

/* Looks, then asks the caller's `stop`; for calls that take such a function, with the loader. */
bool leat_patience_stop(void *loader);

/* No batch has come in time; says why. */
leat_status leat_patience_fail(struct leat_loader *l, struct leat_error *err);

#endif
