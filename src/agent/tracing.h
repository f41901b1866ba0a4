/* A trace on its way to the one that asked for it: written on a maker's thread, since it takes a while. */
#ifndef LEAT_AGENT_TRACING_H
#define LEAT_AGENT_TRACING_H

#include "agent/agent.h"

struct leat_tracing;

/* Called later, on the loop, once: with a descriptor of the text, which stays the tracing's, or with an error. */
typedef void leat_tracing_done(void *user, int fd, const struct leat_trace_told *told, const struct leat_error *err);

/* Of the last `last_ns` nanoseconds; 0: as far back as it reaches. *out is gone when `done` is called. */
leat_status leat_tracing_begin(struct leat_agent *agent, uint64_t last_ns, leat_tracing_done *done, void *user,
                               struct leat_tracing **out, struct leat_error *err);
void leat_tracing_abandon(struct leat_tracing *t); /* `done` will not be called; NULL is allowed */

#endif
