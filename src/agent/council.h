/* The ranks of a job that open the same loader on this machine: they are compared before any of them gets a batch, and
 * where two of them differ all of them fail. Loop thread only. */
#ifndef LEAT_AGENT_COUNCIL_H
#define LEAT_AGENT_COUNCIL_H

#include "agent/agent.h"

/* A rank's place, part of whatever opens its loader. */
struct leat_seat {
    struct leat_seat *next; /* of the agent */
    struct leat_agent *agent;
    char *job; /* NULL: not taken */
    char *agreement;
    uint32_t rank;
    uint32_t expected; /* ranks that will come; 0: nobody is waited for */
    bool waiting;
    struct leat_timer deadline;
    /* Called once with LEAT_OK when all are there and agree; with an error when they do not, also after that. It may
     * leave. */
    void (*decided)(void *user, const struct leat_error *err);
    void *user;
};

/* Takes the seat, and decides at once where that is possible. Texts are copied. */
leat_status leat_council_join(struct leat_agent *agent, struct leat_seat *seat, const char *job, const char *agreement,
                              uint64_t timeout_ns, struct leat_error *err);
void leat_council_leave(struct leat_seat *seat); /* one that was not taken is allowed */

#endif
