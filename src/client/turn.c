#include "client/turn.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

#define STOP_NS (100 * LEAT_MS) /* between two questions whether to stop */

void leat_turn_init(struct leat_turn *t)
{
    *t = (struct leat_turn){.pid = getpid()};
    pthread_mutex_init(&t->mu, NULL);
    leat_cond_init(&t->given);
}

void leat_turn_destroy(struct leat_turn *t)
{
    if (t->pid != getpid())
        return; /* a fork's copy: threads that wait for it exist elsewhere */
    pthread_cond_destroy(&t->given);
    pthread_mutex_destroy(&t->mu);
}

bool leat_turn_broken(const struct leat_turn *t)
{
    return t->pid != getpid() && t->held;
}

/* Makes it this process's own. */
static leat_status own(struct leat_turn *t, struct leat_error *err)
{
    if (leat_turn_broken(t))
        return leat_fail(
            err, LEAT_INVALID,
            "this loader was in use by another thread when the process was forked: build one in the child, "
            "or fork while no thread uses it");
    if (t->pid != getpid())
        leat_turn_init(t);
    return LEAT_OK;
}

static void take(struct leat_turn *t)
{
    while (t->held)
        leat_cond_wait(&t->given, &t->mu, LEAT_NEVER); /* the one that holds it keeps a deadline of its own */
    t->held = true;
}

static void give(struct leat_turn *t)
{
    t->held = false;
    pthread_cond_broadcast(&t->given);
}

leat_status leat_turn_use(struct leat_turn *t, struct leat_error *err)
{
    leat_status rc = own(t, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_lock(&t->mu);
    if (t->used) {
        rc = leat_fail(err, LEAT_BUSY, "the loader is in use by another thread");
    } else {
        t->used = true;
        take(t);
    }
    pthread_mutex_unlock(&t->mu);
    return rc;
}

void leat_turn_end(struct leat_turn *t)
{
    pthread_mutex_lock(&t->mu);
    t->used = false;
    give(t);
    pthread_mutex_unlock(&t->mu);
}

void leat_turn_pause(struct leat_turn *t)
{
    pthread_mutex_lock(&t->mu);
    give(t);
    pthread_mutex_unlock(&t->mu);
}

void leat_turn_resume(struct leat_turn *t)
{
    pthread_mutex_lock(&t->mu);
    take(t);
    pthread_mutex_unlock(&t->mu);
}

leat_status leat_turn_look(struct leat_turn *t, uint64_t deadline_ns, bool (*stop)(void *user), void *stop_user,
                           bool *beside, struct leat_error *err)
{
    leat_status rc = own(t, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_lock(&t->mu);
    while (t->held && rc == LEAT_OK) {
        uint64_t soon = leat_after(STOP_NS);
        if (leat_cond_wait(&t->given, &t->mu, soon < deadline_ns ? soon : deadline_ns))
            continue;
        pthread_mutex_unlock(&t->mu);
        if (!leat_left(deadline_ns))
            rc = leat_fail(err, LEAT_TIMEOUT, "another thread keeps this loader busy: it is opening or moving it");
        else if (stop && stop(stop_user))
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
        pthread_mutex_lock(&t->mu);
    }
    if (rc == LEAT_OK) {
        t->held = true;
        *beside = t->used;
    }
    pthread_mutex_unlock(&t->mu);
    return rc;
}

void leat_turn_looked(struct leat_turn *t)
{
    leat_turn_pause(t);
}
