/* The agent's eye on what is unusual (ring/unusual.h): every few seconds its numbers, the memory of its cgroup and how
 * the disk compares with the bucket; what it finds goes to the log. Loop thread only. */
#ifndef LEAT_AGENT_WATCH_H
#define LEAT_AGENT_WATCH_H

struct leat_agent;

void leat_watch_begin(struct leat_agent *agent);
void leat_watch_end(struct leat_agent *agent);

#endif
