/* A supply: a dataset that is open in the agent, with its store, shared by every loader that reads it.
 * The last few are kept when their last loader leaves, so that the next one finds their chunks (a jump closes a loader
 * and opens another); those chunks are the first to be evicted. */
#ifndef LEAT_AGENT_SUPPLY_H
#define LEAT_AGENT_SUPPLY_H

#include <stdatomic.h>

#include "agent/agent.h"
#include "dataset/dataset.h"
#include "feed/feed.h"
#include "ring/request.h"

struct leat_loading; /* a loader, agent/loading.h */

/* What a store's callbacks know: on the heap, since its threads may outlive everything else. */
struct leat_supply_hook {
    struct leat_agent *agent;
    _Atomic bool stop; /* ends calls that wait for the store */
    _Atomic bool open; /* a supply has it, whose ranks can be asked for keys */
};

/* Where the scheduler's sets come from: one of the two. */
struct leat_from {
    struct leat_supply *supply;
    struct leat_blend *blend;
};

/* The keys for one of the places that a supply's stores are in. */
struct leat_supply_keys {
    struct leat_supply *supply;
    struct leat_timer renew; /* before they expire */
    bool wanted;             /* they have expired, or will: its ranks were asked for others */
    uint64_t expired_ns;     /* when a store said last that they are no good; 0: never */
    uint32_t in_vain;        /* answers in a row without keys that live: asked less and less often, and said once */
};

struct leat_supply {
    struct leat_from from; /* what the scheduler knows its set by */
    struct leat_agent *agent;
    struct leat_supply *next;
    struct leat_roll_entry who;
    char *asked; /* address as a loader gave it, and access: who asks with the same words is likely to mean it */
    char *place; /* address without a version, and access: with the version's id, what makes two loaders share it */
    struct leat_access *access;                    /* that its stores have now, proved to read it */
    struct leat_supply_keys keys[LEAT_ACCESS_MAX]; /* for each of its places */
    char region[32]; /* that its bucket is in, where the settings say another; "": as they say */
    bool hedges;     /* what is late may be asked for a second time */
    struct leat_dataset *dataset;
    struct leat_supply_hook *hook;
    struct leat_source *source;
    struct leat_sched_set *set;
    uint32_t largest;              /* bytes of its largest chunk */
    struct leat_loading *loadings; /* that read it */
    uint32_t users;                /* loaders, also those that only wait for their workers, and openings */
    uint64_t idle;                 /* when the last of them left: a count */
    bool leaving;                  /* nobody can have it any more */
    struct leat_task task;         /* to be closed by an opener */
    struct leat_supply_waiter *waiter;
};

/* Users of a supply hold it. When nobody does, it is kept for a while, or closed. */
void leat_supply_hold(struct leat_supply *supply);
void leat_supply_release(struct leat_supply *supply);

/* `lacks`: stores that the request gave no access to, and without which it cannot be; empty in other cases. */
typedef void leat_supply_opened(void *user, struct leat_supply *supply, const struct leat_sources_list *lacks,
                                const struct leat_error *err);

struct leat_opening; /* a supply on its way */

/* Opens a supply, or finds it open: the version that the request names, else the one that its address names now. A
 * loader shares what others have opened only after its own keys have read the pointer. `opened` is called later, on the
 * loop's thread, with a supply (hold it) or an error; *out is gone then. */
leat_status leat_supply_open(struct leat_agent *agent, const struct leat_request *request, leat_supply_opened *opened,
                             void *user, struct leat_opening **out, struct leat_error *err);

/* The place whose keys requests wait for at this moment; NULL: none. */
const char *leat_supply_wants_keys(const struct leat_supply *supply);

/* Places whose keys ranks were asked for and have not given yet, counted from 0; NULL after the last. Who was asked may
 * be gone without an answer: a rank that comes meanwhile is asked as well. */
const char *leat_supply_asked_keys(const struct leat_supply *supply, uint32_t n);

/* A rank's answer when it was asked for keys, of the places that it says something of. */
void leat_supply_renew(struct leat_supply *supply, const struct leat_access *access);

/* … when it has none. True: the first time in a row. */
bool leat_supply_refused(struct leat_supply *supply, const char *place);

/* `opened` will not be called. Nothing waits for the bucket on its behalf any longer. */
void leat_supply_abandon(struct leat_opening *opening);

/* At the end of the agent, on the loop: ends whatever waits for a store. */
void leat_supply_stop_all(struct leat_agent *agent);

/* At the end of the agent, when nothing is loading any more: waits for everything in flight. Not on the loop. */
void leat_supply_close_all(struct leat_agent *agent);

#endif
