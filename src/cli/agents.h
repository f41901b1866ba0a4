/* This user's agents: finding them, and asking them. The one that asks only looks on: it keeps no agent from ending. */
#ifndef LEAT_CLI_AGENTS_H
#define LEAT_CLI_AGENTS_H

#include <jansson.h>

#include "client/connect.h"

/* One socket in the runtime folder at which somebody listens. `about` is what the agent says of itself
 * (leat_agent_describe()), borrowed; NULL: `err` says why it does not. */
typedef void leat_agents_each(void *user, const struct leat_wire_paths *paths, json_t *about,
                              const struct leat_error *err);

/* All of them, or with a scope that one. None is no error. */
leat_status leat_agents_describe(const char *scope, leat_agents_each *each, void *user, struct leat_error *err);

/* Sends a question and waits for its answer, a few seconds. The caller frees it. */
leat_status leat_agents_ask(struct leat_connection *c, struct leat_buf *question, struct leat_incoming *answer,
                            struct leat_error *err);

/* The text of an answer: in it, or in a descriptor that came with it. The caller frees it. */
leat_status leat_agents_text(struct leat_incoming *answer, char **out, size_t *n, struct leat_error *err);

#endif
