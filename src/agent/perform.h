/* The agent's hands: performs what the scheduler decides, and tells it what has happened. Loop thread only. */
#ifndef LEAT_AGENT_PERFORM_H
#define LEAT_AGENT_PERFORM_H

#include "agent/agent.h"

/* Opens disk (if one is asked for), feed and scheduler. A disk that cannot be used is said in the log, and nothing is
 * kept on it. Before the loop listens. */
leat_status leat_perform_open(struct leat_agent *agent, struct leat_error *err);

/* Ends the disk: when nothing is fetched any more, and the loop still runs what is posted. Not on the loop. */
void leat_perform_end(struct leat_agent *agent);
void leat_perform_close(struct leat_agent *agent); /* after the loop; half-open ones are allowed */

#endif
