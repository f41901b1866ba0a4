/* What simulated machines ask of each other, by the rules of the agent (agent/peers.c, agent/guests.c): a chunk that
 * another one owns is asked of it, and it fetches what it has not got, once for all who ask. One that cannot be given
 * in time comes from the bucket after all. */
#ifndef LEAT_SIM_PEER_H
#define LEAT_SIM_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/sched.h"
#include "sim/wire.h"

struct leat_sim_node;
struct leat_sim_ask; /* a question, until its answer has come */

struct leat_sim_asks {
    struct leat_sim_ask *first, *last;
};

/* Of a node. */
struct leat_sim_door {
    struct leat_sim_asks questions; /* on their way here, in order of time */
    struct leat_sim_asks guests;    /* that wait for their chunks here, in order of their patience */
    struct leat_sim_asks answers;   /* on their way here, in order of time */
    struct leat_sim_wire line;      /* to all who have asked */
};

void leat_sim_door_open(struct leat_sim_node *n);
void leat_sim_door_cut(struct leat_sim_node *n); /* gives up all that is under way here, before any node is closed */
void leat_sim_door_close(struct leat_sim_node *n);

/* The node that owns a chunk, where another one has to be asked for it; NULL: nobody. */
struct leat_sim_node *leat_sim_peer_of(const struct leat_sim_node *n, uint32_t number);

/* In ops.fetch. `epoch`: the one that uses the chunk. False: no memory. */
bool leat_sim_peer_ask(struct leat_sim_node *n, struct leat_sim_node *owner, struct leat_sched_chunk *c,
                       uint32_t number, uint64_t epoch);

bool leat_sim_door_run(struct leat_sim_node *n);               /* what is due by now; false: nothing was */
uint64_t leat_sim_door_next_ns(const struct leat_sim_node *n); /* UINT64_MAX: nothing is under way */

#endif
