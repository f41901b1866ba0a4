/* A loader's way to its ring: connecting, asking the agent, opening at the cursor, and doing so again when the agent or
 * the process has changed. Inside the client. */
#ifndef LEAT_CLIENT_OPENING_H
#define LEAT_CLIENT_OPENING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "client/batch.h"
#include "client/connect.h"
#include "client/patience.h"
#include "client/state.h"
#include "client/turn.h"
#include "client/wait.h"
#include "dataset/sources.h"
#include "leat/loader.h"
#include "ring/request.h"
#include "ring/series.h"
#include "ring/unusual.h"

struct leat_loader {
    struct leat_turn turn;         /* of the thread that may touch the rest */
    struct leat_request request;   /* as it was given; world 0 until somebody joins */
    bool version_given;            /* by the caller: a state of another one is refused */
    struct leat_sources_list more; /* stores that the agent had no access to: how they are reached is looked up too */
    bool lacked;                   /* its last answer named some */
    struct leat_access *given;     /* what it was told last; NULL: nothing yet */
    struct leat_lookup *lookup;    /* keys that it asked for; NULL: none */
    uint64_t timeout_ns;
    uint64_t born_ns; /* when it was made: agents know it by that, whichever connection it has */
    bool (*stop)(void *user);
    void *stop_user;
    void (*warn)(void *user, const char *text);
    void *warn_user;
    bool noticed; /* what the agent had to say at the opening was passed on: once is enough */
    struct leat_patience patience;

    pid_t pid; /* the process that opened the connection */
    struct leat_connection connection;
    struct leat_rank_ring *ring; /* NULL: not open */
    struct leat_releases *releases;
    int ready_fd; /* eventfd: the agent has published */
    uint32_t taken;
    struct {
        struct leat_rank_expect place;
        uint32_t samples;
        bool pending;         /* not accepted: the cursor is before it, and the ring after it */
    } peeked;                 /* the batch that peek() returned last */
    struct leat_error failed; /* the agent's last word on this loader; status LEAT_OK: none */
    uint64_t listened_ns;     /* when messages that come unasked were looked for last */
    uint32_t reopens;         /* in a row without a batch between them */
    uint32_t owed;            /* answers to questions for statistics that nobody waits for any more */

    /* What the agent said of the dataset and the order. */
    char id[65];                   /* the version, "" until it is known */
    struct leat_rank_state *state; /* NULL until the first answer */
    char *agreement;
    uint64_t units;
    uint64_t batches; /* 0 before the world is known */

    /* The cursor: after the last batch accepted. */
    uint64_t epoch;
    uint64_t position;
    bool placed;    /* put there on purpose, no batch taken since: a pass begins right there */
    bool again;     /* set_epoch() said the epoch that is under way: the next pass begins it again */
    bool beginning; /* a pass was begun and nothing asked for yet */
    bool delivered; /* a batch was handed out: the version is fixed */
    bool agreed;    /* the other ranks of the machine have been compared with */

    bool lost;                   /* the agent, and no other has opened the loader yet */
    struct leat_wait wait;       /* that is under way */
    struct leat_account account; /* the rank's part is counted here; the agent's is of rings that are gone */
    struct {
        int agent_pid; /* 0: none, or added to the account already */
        struct leat_account shown;
    } left; /* what the agent had shown in the ring that was left last */
    struct leat_series series;
    struct leat_unusual unusual; /* what the program is told of it */
};

/* Lets go of agent and ring. In a forked child the descriptors are copies: closing them hurts nobody. */
void leat_opening_disconnect(struct leat_loader *l);

/* Looks at the dataset, without a ring: checks address, version, outputs and a state (NULL: none), and takes over what
 * the agent says of them. */
leat_status leat_opening_look(struct leat_loader *l, const char *state, uint64_t deadline_ns, struct leat_error *err);

/* Opens the ring at the cursor, or at a state that was given, which becomes the cursor. A lost agent is replaced. */
leat_status leat_opening_ring(struct leat_loader *l, const char *state, uint64_t deadline_ns, struct leat_error *err);

/* After the agent was lost in mid-epoch. */
leat_status leat_opening_again(struct leat_loader *l, uint64_t deadline_ns, struct leat_error *err);

/* Waits for the other ranks of the job on this machine and compares with them, once. */
leat_status leat_opening_agree(struct leat_loader *l, uint64_t deadline_ns, struct leat_error *err);

/* Takes messages that came unasked; LEAT_NETWORK when the agent is gone. */
leat_status leat_opening_listen(struct leat_loader *l, struct leat_error *err);

/* What the agent says about this loader, as JSON, the caller's; NULL text when it is not there. */
leat_status leat_opening_stats(struct leat_loader *l, uint64_t deadline_ns, char **out, struct leat_error *err);

/* Asks for the same without waiting: leat_patience_answer() is told when it comes. False: it could not be asked. */
bool leat_opening_inquire(struct leat_loader *l);

/* What the agent of this machine says to a question about the job, as JSON, the caller's. */
leat_status leat_opening_confer(struct leat_loader *l, const char *text, uint64_t deadline_ns, char **out,
                                struct leat_error *err);

/* " for an answer of ENDPOINT", as far as this rank can know; else " for it". */
void leat_opening_bucket(const struct leat_loader *l, char *out, size_t n);

/* The rank's and the agents' account together. `now`: what the agent said, NULL: what it has shown in the ring. */
void leat_opening_account(const struct leat_loader *l, const struct leat_account *now, struct leat_account *out);

/* Puts the rank's part where the agent can read it, with the wait that is under way as far as it has come. */
void leat_opening_show(const struct leat_loader *l);

#endif
