/* The machines of a job, seen from one of them: whom chunks are asked of, and who is given some.
 *
 * A job here is a membership (job/members.h) with a door of its own through which this machine serves, and a store for
 * each other machine. It stays as long as loaders have it, and a while longer. Loop thread only, unless it says
 * otherwise. */
#ifndef LEAT_AGENT_PEERS_H
#define LEAT_AGENT_PEERS_H

#include <jansson.h>

#include "agent/supply.h"
#include "feed/feed.h"
#include "job/members.h"

struct leat_job;

/* A rank's word about its job, JSON; the answer is the caller's.
 *   {"ask": "card", "address": "10.0.0.1", "port": 0}     binds a port: {"address": "10.0.0.1:4321"}
 *   {"ask": "make", "job": NAME, "nodes": [[ADDRESS, RANKS], …], "room": BYTES}  a new membership: its text, to
 *      which the rank adds that many
 *   {"ask": "etcd", …}                                    agent/circle.h
 *   {"ask": "join", "node": 0, "members": {…}}            serves from now on: {"problem": why not, or ""} */
leat_status leat_peers_ask(struct leat_agent *agent, const char *text, char **answer, struct leat_error *err);

/* The job of a membership, held for a loader on that machine of it; made when there is none. One that is not
 * younger than another of the same name takes no part: it serves nobody and asks nobody. */
leat_status leat_peers_join(struct leat_agent *agent, const char *text, uint32_t node, struct leat_job **out,
                            struct leat_error *err);
void leat_peers_hold(struct leat_job *job);
void leat_peers_leave(struct leat_job *job);                               /* NULL is allowed */
const struct leat_members *leat_peers_members(const struct leat_job *job); /* constant: from any thread */

/* A loader's table of owners: as its job has it now. */
void leat_peers_place(struct leat_loading *l);

/* Which machine to ask for a chunk of a set before the bucket, if any. Where one is named, leat_peers_asked() follows.
 */
bool leat_peers_choose(const struct leat_supply *supply, uint32_t own_number, const struct leat_from *from,
                       uint32_t number, struct leat_feed_peer *out);
void leat_peers_asked(void *user, void *who, const struct leat_error *err, uint64_t bytes, uint64_t ns);

/* One is late; true: the bucket may be asked in its place. */
bool leat_peers_late(void *user, void *who, uint64_t bytes);

void leat_peers_supply_gone(const struct leat_supply *supply); /* nobody is served from it any more */
json_t *leat_peers_describe(const struct leat_agent *agent);   /* a list; NULL: no memory */

void leat_peers_stop(struct leat_agent *agent);  /* at the end of the agent, on the loop: nobody is served any more */
void leat_peers_shut(struct leat_agent *agent);  /* then, not on the loop: closes the doors */
void leat_peers_close(struct leat_agent *agent); /* last, when no chunk is on its way: not on the loop */

#endif
