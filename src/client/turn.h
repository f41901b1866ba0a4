/* Who may touch a loader now. A call that uses it (next, set_epoch, …) has it to itself: a second one from another
 * thread fails with LEAT_BUSY, since two threads that take batches of one loader are a mistake. A call that looks at it
 * (state, stats) may come from any thread at any time: it has its turn while the user waits for a batch, or after it.
 *
 * A forked child begins again: threads of its parent's do not exist in it. Inside the client. */
#ifndef LEAT_CLIENT_TURN_H
#define LEAT_CLIENT_TURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct leat_turn {
    pid_t pid; /* whose threads the rest is about */
    pthread_mutex_t mu;
    pthread_cond_t given; /* held has become false */
    bool used;            /* hold mu: a call uses the loader, if only by waiting */
    bool held;            /* hold mu: somebody touches it at this moment */
};

void leat_turn_init(struct leat_turn *t);
void leat_turn_destroy(struct leat_turn *t); /* when nobody is using it */

/* Whether it was being touched by another thread when this process was forked: its fields may be half-written. */
bool leat_turn_broken(const struct leat_turn *t);

/* Around a call that uses the loader. */
leat_status leat_turn_use(struct leat_turn *t, struct leat_error *err);
void leat_turn_end(struct leat_turn *t);

/* Inside such a call, around a wait during which others may look. */
void leat_turn_pause(struct leat_turn *t);
void leat_turn_resume(struct leat_turn *t);

/* Around a call that looks. Waits for its turn until the deadline, or until `stop` (which may be NULL) says so. *beside
 * says whether a call is using the loader: it must not be kept waiting for long. */
leat_status leat_turn_look(struct leat_turn *t, uint64_t deadline_ns, bool (*stop)(void *user), void *stop_user,
                           bool *beside, struct leat_error *err);
void leat_turn_looked(struct leat_turn *t);

#endif
