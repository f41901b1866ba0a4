/* A membership that machines enter and leave one by one, through a service that knows who is alive (etcd). Arithmetic
 * only: all who see the same list make the same of it.
 *
 * The list holds a place for each machine. Who enters takes the place of one that is gone, and with it exactly what
 * that one owned; where nobody is gone there is one place more, which takes an equal part from all others. */
#ifndef LEAT_JOB_ROSTER_H
#define LEAT_JOB_ROSTER_H

#include "job/members.h"

/* What the service says. */
struct leat_roster_seen {
    const struct leat_members *members; /* NULL: there are none */
    const char *const *alive;           /* addresses, in any order */
    uint32_t alive_n;
};

/* The membership with `self` in it. `held`: the one that this machine is or was in; NULL: none. Where there is none any
 * more (the service has lost it) it is the held one again; where nobody is alive in it, one who comes without it makes
 * another, with secrets of its own, so that who comes back with the old ones is refused. *changed: it is not what was
 * seen. *out is the caller's. */
leat_status leat_roster_enter(const struct leat_roster_seen *seen, const struct leat_members *held, const char *job,
                              const char *self, struct leat_members **out, bool *changed, struct leat_error *err);

/* A copy with room for that many machines in its list. */
leat_status leat_roster_copy(const struct leat_members *from, uint32_t room, struct leat_members **out,
                             struct leat_error *err);

uint32_t leat_roster_find(const struct leat_muster *list, const char *address); /* list->n: it is not there */

/* Which machine has which slots, in equal shares. `lost` as for leat_members_place(). */
leat_status leat_roster_place(const struct leat_muster *list, const bool *lost, uint32_t slots, uint32_t *node_of_slot,
                              struct leat_error *err);

/* What the ranks of a world are assigned by: the list's placement as far as its machines are in it. Entries are numbers
 * in `world`. */
leat_status leat_roster_assign(const struct leat_muster *list, const struct leat_muster *world, uint32_t slots,
                               uint32_t *node_of_slot, struct leat_error *err);

#endif
