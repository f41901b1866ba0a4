/* A session: one rank's connection. Loop thread only. */
#ifndef LEAT_AGENT_SESSION_H
#define LEAT_AGENT_SESSION_H

#include "agent/agent.h"
#include "agent/supply.h"

void leat_session_accept(struct leat_agent *agent, int fd); /* takes fd over */
void leat_session_close_all(struct leat_agent *agent);

/* Asks the ranks that read a supply to look their keys for a place up again. */
void leat_session_ask_keys(struct leat_agent *agent, const struct leat_supply *supply, const char *place);

#endif
