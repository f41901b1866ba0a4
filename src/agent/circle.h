/* Machines that share what they fetch through etcd (job/etcd.h): who has a loader of the same job open, whatever world
 * it belongs to. They come and go at any time. Loop thread only, unless it says otherwise.
 *
 * A loader says so in the text that other jobs have their members in:
 *   {"etcd": {"hosts": "a:2379,b:2379", "tls": false, "prefix": "/leat/x", "user": …, "password": …, "ca": …,
 *    "cert": …, "key": …}, "address": "10.0.0.1:4321", "roster": [ADDRESS, …], "world": [[ADDRESS, RANKS], …]}
 * `roster` and `world` are what its ranks are assigned by, the same on all of them; without them each machine of the
 * world counts as the same one. */
#ifndef LEAT_AGENT_CIRCLE_H
#define LEAT_AGENT_CIRCLE_H

#include <jansson.h>

#include "agent/inside.h"

struct leat_circle;

bool leat_circle_is(const char *text); /* from any thread */

/* A rank's question, which also enters:
 *   {"ask": "etcd", "etcd": {…}, "address": "10.0.0.1", "port": 0, "set": "0123456789abcdef", "wants": [ADDRESS, …]}
 * The answer: {"address": …, "in": whether this machine is known to read that set, "missing": how many of those wanted
 * are not, "roster": [ADDRESS, …] where some are asked for, "problem": …} */
leat_status leat_circle_ask(struct leat_agent *agent, const json_t *j, json_t **answer, struct leat_error *err);

/* A loader's: held until leat_circle_leave(). begin() when its order is known, and before its chunks are sent for. */
leat_status leat_circle_join(struct leat_agent *agent, const char *text, struct leat_circle **out,
                             struct leat_error *err);
void leat_circle_begin(struct leat_loading *l);
void leat_circle_leave(struct leat_loading *l); /* it no longer reads; one without a circle is allowed */

/* What the ranks of a loader are assigned by; *out NULL: by the node map alone. From any thread. */
leat_status leat_circle_assign(const char *text, const uint32_t *node_of_rank, uint32_t ranks, uint32_t slots,
                               uint32_t **out, struct leat_error *err);

/* Whether a machine is there, and reads the same as a loader (`id`; NULL: anything). */
bool leat_circle_has(const struct leat_circle *c, const char *address, const uint8_t *id);

const char *leat_circle_problem(const struct leat_circle *c); /* "": none */

void leat_circle_stop(struct leat_agent *agent); /* at the end of the agent, on the loop: the others are told */
void leat_circle_shut(struct leat_agent *agent); /* then, not on the loop: waits a moment until they have been */

#endif
