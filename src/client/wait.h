/* The time that a rank spends waiting in calls of its loader, by cause.
 *
 * Code that may wait says so (enter, leave; they nest) and charges the time since the last charge to a cause as soon as
 * it knows one. The total is measured apart, from the outermost enter to its leave; what nobody has claimed by then is
 * LEAT_WAIT_OTHER. So the causes add up to the total, and a wait that ends with a time-out, an error or another agent
 * is counted once, like any other. */
#ifndef LEAT_CLIENT_WAIT_H
#define LEAT_CLIENT_WAIT_H

#include <stdint.h>

#include "ring/account.h"

struct leat_wait {
    uint32_t depth;
    uint64_t began_ns;
    uint64_t mark_ns; /* charged until here */
};

void leat_wait_enter(struct leat_wait *w, uint64_t now_ns);
void leat_wait_leave(struct leat_wait *w, uint64_t now_ns, struct leat_account *a);

/* The time until then, as far as it is not charged yet. */
void leat_wait_charge(struct leat_wait *w, enum leat_wait_cause cause, uint64_t until_ns, struct leat_account *a);

/* A wait for a batch whose chunks were all there at ready_ns (0: they are not yet) and which was published, or will not
 * come any more, at end_ns. The agent's clock is this one. */
void leat_wait_charge_batch(struct leat_wait *w, uint64_t ready_ns, uint64_t end_ns, struct leat_account *a);

/* What was waited for has come from there: all time that was charged to LEAT_WAIT_FETCH since the last time. */
void leat_wait_came_from(enum leat_account_stall source, struct leat_account *a);

#endif
