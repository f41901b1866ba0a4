/* Waiting for operations: for one, for all of a group, or until few enough of it are on their way. They may be of
 * several stores. A group belongs to one thread, which sends and waits; operations end on their stores' threads. */
#ifndef LEAT_STORE_WAIT_H
#define LEAT_STORE_WAIT_H

#include <pthread.h>

#include "store/store.h"

struct leat_wait {
    bool (*stop)(void *user); /* asked several times a second: true ends the wait early. NULL: nothing does */
    void *stop_user;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    uint32_t pending; /* hold mu */
};

void leat_wait_init(struct leat_wait *w, bool (*stop)(void *user), void *stop_user);
void leat_wait_init_for(struct leat_wait *w, const struct leat_store *store); /* with the store's stop() */
void leat_wait_end(struct leat_wait *w); /* nothing is on its way any longer; zeroed ones are not allowed */

/* Submits an operation of the group: its `done` and `user` are the wait's. */
void leat_wait_submit(struct leat_wait *w, struct leat_store *store, struct leat_store_op *op);

/* The same in two steps, for those whose done() does more: before the operation is sent, and last in done(). */
void leat_wait_sent(struct leat_wait *w);
void leat_wait_came(struct leat_wait *w);

/* Waits until at most `most` are on their way. When stop() says so, cancel(arg) is called, once: it should make those
 * that are left come soon, and they are waited for, since their memory is the caller's. Without a cancel the wait ends
 * then. False: stop() said so. */
bool leat_wait_for(struct leat_wait *w, uint32_t most, void (*cancel)(void *arg), void *arg);

#endif
