/* The agent's metrics over HTTP: GET /metrics. Only the command has a web server, so the agent is given this one. */
#ifndef LEAT_CLI_METRICS_H
#define LEAT_CLI_METRICS_H

#include "agent/agent.h"

/* For struct leat_agent_opts. A port that is taken is LEAT_BUSY. */
leat_status leat_cli_metrics_open(struct leat_agent *agent, const char *where, char url[LEAT_AGENT_URL], void **server,
                                  struct leat_error *err);
void leat_cli_metrics_close(void *server); /* NULL is allowed */

#endif
