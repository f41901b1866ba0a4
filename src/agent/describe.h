/* What an agent tells of itself: to commands as JSON, to Prometheus as text. Loop thread only. */
#ifndef LEAT_AGENT_DESCRIBE_H
#define LEAT_AGENT_DESCRIBE_H

#include <jansson.h>

#include "agent/agent.h"
#include "base/buf.h"

/* Settings, the account of all loaders and datasets together, and a list of each; the caller's. NULL: no memory. */
json_t *leat_agent_describe(const struct leat_agent *agent);

/* The text of a scrape: `b` says whether it was too large, or memory ran out. */
void leat_agent_metrics(const struct leat_agent *agent, struct leat_buf *b);

#endif
