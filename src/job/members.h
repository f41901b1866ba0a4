/* The members of a job: its machines, where each serves chunks, and the secrets they have in common. One text, made on
 * one machine and given to all through somebody else's service (torch's store), so that all have the same.
 *
 * A change of the machines is another membership with a token and a key of its own: who has only the old ones is
 * refused. */
#ifndef LEAT_JOB_MEMBERS_H
#define LEAT_JOB_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LEAT_MEMBERS_NODES   4096u
#define LEAT_MEMBERS_BEFORE  8u  /* memberships before it that are remembered */
#define LEAT_MEMBERS_ADDRESS 64u /* "10.0.0.1:4321", "[fd00::1]:4321" */
#define LEAT_MEMBERS_TOKEN   65u /* 32 bytes in hexadecimal digits */
#define LEAT_MEMBERS_JOB     80u
#define LEAT_MEMBERS_TEXT    (512u << 10) /* 4096 machines with the longest addresses */
#define LEAT_MEMBERS_PAST    (60u << 10)  /* with those before it: each rank is sent all of it */

struct leat_member {
    char address[LEAT_MEMBERS_ADDRESS]; /* "": it serves nothing */
    uint32_t ranks;
};

/* The machines at one time. */
struct leat_muster {
    struct leat_member *nodes; /* by the number that the node map has for them */
    uint32_t n;
};

struct leat_members {
    char job[LEAT_MEMBERS_JOB]; /* what the launcher calls it; "": nothing */
    uint64_t generation;        /* 1, 2, … of the same job */
    char token[LEAT_MEMBERS_TOKEN];
    char *cert_pem, *key_pem; /* of all its servers */
    struct leat_muster now;
    struct leat_muster before[LEAT_MEMBERS_BEFORE]; /* the oldest first */
    uint32_t before_n;
    bool
        grows; /* machines come and go in it (job/roster.h): `now` has places, and `before` is empty. Not in the text */
};

/* A new membership. `last`: the one before it of the same job, or NULL. `nodes` is copied. */
leat_status leat_members_make(const char *job, const struct leat_member *nodes, uint32_t n,
                              const struct leat_members *last, struct leat_members **out, struct leat_error *err);
void leat_members_free(struct leat_members *m); /* NULL is allowed */

leat_status leat_members_read(const char *text, size_t n, struct leat_members **out, struct leat_error *err);
leat_status leat_members_write(const struct leat_members *m, char **out, struct leat_error *err); /* free() it */
/* … with that many bytes left for what somebody else adds to it. */
leat_status leat_members_write_beside(const struct leat_members *m, uint32_t room, char **out, struct leat_error *err);

/* A list of machines: [["10.0.0.1:4321", ranks], …]. *nodes is the caller's to free(). */
leat_status leat_members_read_nodes(const char *text, size_t n, struct leat_member **nodes, uint32_t *count,
                                    struct leat_error *err);

bool leat_members_token_is(const struct leat_members *m,
                           const char *token); /* in the same time for all that are wrong */

/* Whether the machines are those of a node map, with as many ranks on each. */
leat_status leat_members_fit(const struct leat_muster *now, const uint32_t *node_of_rank, uint32_t ranks,
                             struct leat_error *err);

/* Which machine has which slots: what the machines before it had stays where it can. `lost` (NULL: none): machines that
 * cannot be reached, whose slots the others take over; at least one must be left. */
leat_status leat_members_place(const struct leat_members *m, const bool *lost, uint32_t slots, uint32_t *node_of_slot,
                               struct leat_error *err);

#endif
