/* What an agent has from the rank that happened to start it, and should not keep: it serves all ranks of the machine.
 * Limits of containers, of cgroups and of the administrator stay: they hold for all. */
#ifndef LEAT_AGENT_INHERITANCE_H
#define LEAT_AGENT_INHERITANCE_H

/* Takes all CPUs and memory nodes that the cgroup has instead of the rank's own, ordinary priority instead of a higher
 * one, or of a lower one where the system allows it, and the most that limits of resources allow; files are private.
 * Call it while the process has no other threads. What cannot be changed stays as it is. */
void leat_inheritance_shed(void);

#endif
