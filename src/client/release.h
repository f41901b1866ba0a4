/* Batches that are to be released when something has happened elsewhere, on a GPU for example:
 * leat_batch_release_after().
 *
 * A loader has one list of them, shared with its rings (a loader that connects again has another ring, and batches of
 * the old one may still wait). Nothing here runs by itself: the list is looked through by calls on the loader and by
 * releases of its batches, on their threads. Thread-safe. */
#ifndef LEAT_CLIENT_RELEASE_H
#define LEAT_CLIENT_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "leat/loader.h"

struct leat_releases;

/* A batch in the list; lies in the batch. */
struct leat_release {
    struct leat_release *next;
    struct leat_batch *batch;
    bool (*done)(void *user); /* NULL: a descriptor is waited for */
    void *user;
    int fd;
};

/* Puts a list of this process into *list, unless it is one already: a fork's copy is let go of, unread, since the
 * events in it are its parent's. */
leat_status leat_releases_own(struct leat_releases **list, struct leat_error *err);
struct leat_releases *leat_releases_keep(struct leat_releases *list);
void leat_releases_drop(struct leat_releases *list); /* NULL is allowed */

bool leat_releases_foreign(const struct leat_releases *list); /* made by the process we were forked from */
void leat_releases_add(struct leat_releases *list, struct leat_release *release);

/* Releases the batches whose event has happened. Costs nothing when none waits. NULL is allowed. */
void leat_releases_poll(struct leat_releases *list);
uint32_t leat_releases_waiting(const struct leat_releases *list);

/* Waits until none waits, until the deadline, or until `stop` (which may be NULL) says so. NULL is allowed. */
void leat_releases_wait(struct leat_releases *list, uint64_t deadline_ns, bool (*stop)(void *user), void *stop_user);

#endif
