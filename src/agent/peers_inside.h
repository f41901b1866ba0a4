/* What peers.c and guests.c know of a job. */
#ifndef LEAT_AGENT_PEERS_INSIDE_H
#define LEAT_AGENT_PEERS_INSIDE_H

#include <stdatomic.h>

#include "agent/agent.h"
#include "agent/peers.h"
#include "job/health.h"
#include "net/cert.h"
#include "net/door.h"
#include "store/hedge.h"
#include "store/store.h"

#define LEAT_PEERS_CHUNK  "/chunk/"  /* dataset's id, number of the chunk, its name */
#define LEAT_PEERS_RECIPE "/recipe/" /* the same: what it was made of */

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
    bool apart;               /* in another zone */
    struct leat_store *store; /* NULL: never asked */
    uint64_t chunks, bytes, ns, without, failed, lied, late;
    char why[208];   /* its last failure */
    uint32_t lag;    /* how often it was late of late */
    uint32_t asking; /* chunks on their way from it */
    bool looking;    /* whether a lost one is there again; the rest is for that */
    struct leat_store_op op;
    struct leat_error err;
    struct leat_task task;
    char answer[2];
};

struct leat_guest; /* a request from another machine, guests.c */

struct leat_job {
    struct leat_agent *agent;
    struct leat_job *next;
    struct leat_members *members; /* constant; of a circle the list of machines changes, the secrets do not */
    struct leat_circle *circle;   /* NULL: nobody comes to it or goes */
    uint32_t node;                /* this machine */
    char pin[LEAT_CERT_PIN];
    _Atomic bool over;      /* a younger generation has taken its place. Relaxed: it refuses a moment later */
    struct leat_door *door; /* NULL: nobody is served, and `problem` says why */
    bool stuck;             /* its door could not be closed */
    char problem[288];
    struct leat_peer *peers; /* members->now.n; a circle's: as many as there may be */
    uint32_t users;          /* loaders, and requests on their way */
    uint64_t idle_ns;        /* since when there are none */
    struct leat_timer tick;
    struct leat_task task;
    struct leat_guest *guests; /* being served */
    uint32_t guests_n;
    uint64_t served_chunks, served_bytes;
    uint64_t turned_away;    /* requests beyond what is served at a time: who asked took the bucket */
    struct leat_hedge hedge; /* how long chunks took that came from machines */
};

/* Of a circle's: a job with this machine in it (takes `members`), a port, one machine's place for another. */
leat_status leat_peers_make(struct leat_agent *a, struct leat_members *members, uint32_t node, struct leat_job **out,
                            struct leat_error *err);
leat_status leat_peers_bind(struct leat_agent *a, const char *address, unsigned port, char out[LEAT_MEMBERS_ADDRESS],
                            struct leat_error *err);
void leat_peers_place_all(const struct leat_job *j);
void leat_peers_forget(struct leat_peer *p); /* what is known of it; nothing is asked of it now */
/* Machines that are late (late.c). When one that is asked for a chunk now will be; LEAT_NEVER: that is not known. */
uint64_t leat_late_begin(struct leat_peer *p, const struct leat_supply *s, uint64_t bytes);
void leat_late_took(struct leat_peer *p, uint64_t bytes, uint64_t ns); /* it has come */

bool leat_peers_apart(const struct leat_peer *p); /* never asked: in another zone, or without an address */
/* Machines that have nothing of what a loader reads (`id`; NULL: any) to give. */
void leat_peers_find_lost(const struct leat_job *j, const uint8_t *id, bool *lost);
void leat_peers_judge(struct leat_peer *p,
                      const struct leat_error *err); /* what came of asking it; NULL: all is well */

/* A request with a good token. On a door's thread. */
void leat_guests_asked(void *user, struct leat_door_request *request);
void leat_guests_end(struct leat_job *j);   /* those who wait are told no */
void leat_guests_close(struct leat_job *j); /* gives the port back, soon */
void leat_guests_supply_gone(struct leat_job *j, const struct leat_supply *supply);

#endif
