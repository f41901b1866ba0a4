/* What peers.c and guests.c know of a job. */
#ifndef LEAT_AGENT_PEERS_INSIDE_H
#define LEAT_AGENT_PEERS_INSIDE_H

#include <stdatomic.h>

#include "agent/agent.h"
#include "agent/peers.h"
#include "job/health.h"
#include "net/cert.h"
#include "net/door.h"
#include "store/store.h"

#define LEAT_PEERS_CHUNK "/chunk/" /* dataset's id, number of the chunk, its name */

/* A port that was bound before the members are known. */
struct leat_bound {
    struct leat_agent *agent;
    struct leat_bound *next;
    struct leat_timer timer;
    char address[LEAT_MEMBERS_ADDRESS];
    int fd;
};

/* A machine of the job, this one too. */
struct leat_peer {
    struct leat_job *job;
    uint32_t node;
    struct leat_health health;
    struct leat_store *store; /* NULL: never asked */
    uint64_t chunks, bytes, ns, without, failed, lied;
    char why[208]; /* its last failure */
    bool looking;  /* whether a lost one is there again; the rest is for that */
    struct leat_store_op op;
    struct leat_error err;
    struct leat_task task;
    char answer[2];
};

struct leat_guest; /* a request from another machine, guests.c */

struct leat_job {
    struct leat_agent *agent;
    struct leat_job *next;
    struct leat_members *members; /* constant */
    uint32_t node;                /* this machine */
    char pin[LEAT_CERT_PIN];
    _Atomic bool over;      /* a younger generation has taken its place. Relaxed: it refuses a moment later */
    struct leat_door *door; /* NULL: nobody is served, and `problem` says why */
    char problem[288];
    struct leat_peer *peers; /* members->now.n */
    uint32_t users;          /* loaders, and requests on their way */
    uint64_t idle_ns;        /* since when there are none */
    struct leat_timer tick;
    struct leat_task task;
    struct leat_guest *guests; /* being served */
    uint32_t guests_n;
    uint64_t served_chunks, served_bytes;
};

/* A request with a good token. On a door's thread. */
void leat_guests_asked(void *user, struct leat_door_request *request);
void leat_guests_end(struct leat_job *j);   /* those who wait are told no */
void leat_guests_close(struct leat_job *j); /* gives the port back, soon */
void leat_guests_supply_gone(struct leat_job *j, const struct leat_supply *supply);

#endif
