#include "client/release.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

#define STEP_NS (1 * LEAT_MS)   /* between two looks while waiting: events of a GPU come once a step */
#define ASK_NS  (100 * LEAT_MS) /* between two questions whether to stop */

struct leat_releases {
    _Atomic uint32_t refs;    /* the loader and its rings */
    _Atomic uint32_t waiting; /* batches added and not yet released, also those that a thread is looking at */
    pid_t pid;
    pthread_mutex_t mu;
    struct leat_release *first; /* hold mu */
};

void leat_releases_drop(struct leat_releases *l)
{
    if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1)
        return;
    /* Nothing waits: a batch that does keeps its ring, and that the list. */
    if (!leat_releases_foreign(l))
        pthread_mutex_destroy(&l->mu);
    free(l);
}

struct leat_releases *leat_releases_keep(struct leat_releases *l)
{
    atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

bool leat_releases_foreign(const struct leat_releases *l)
{
    return l->pid != getpid();
}

leat_status leat_releases_own(struct leat_releases **list, struct leat_error *err)
{
    if (*list && !leat_releases_foreign(*list))
        return LEAT_OK;
    struct leat_releases *l = calloc(1, sizeof *l);
    if (!l)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
    atomic_init(&l->refs, 1);
    pthread_mutex_init(&l->mu, NULL);
    l->pid = getpid();
    leat_releases_drop(*list);
    *list = l;
    return LEAT_OK;
}

void leat_releases_add(struct leat_releases *l, struct leat_release *r)
{
    atomic_fetch_add_explicit(&l->waiting, 1, memory_order_relaxed);
    pthread_mutex_lock(&l->mu);
    r->next = l->first;
    l->first = r;
    pthread_mutex_unlock(&l->mu);
}

uint32_t leat_releases_waiting(const struct leat_releases *l)
{
    return atomic_load_explicit(&l->waiting, memory_order_acquire);
}

static bool happened(const struct leat_release *r)
{
    if (r->done)
        return r->done(r->user);
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    /* Hung up counts too: the other side is gone. */
    return poll(&p, 1, 0) > 0;
}

/* The list is taken out while its events are asked, so that no lock is held around the caller's function. */
static struct leat_release *take_all(struct leat_releases *l)
{
    pthread_mutex_lock(&l->mu);
    struct leat_release *first = l->first;
    l->first = NULL;
    pthread_mutex_unlock(&l->mu);
    return first;
}

static void put_back(struct leat_releases *l, struct leat_release *first)
{
    struct leat_release **end = &first;
    if (!first)
        return;
    while (*end)
        end = &(*end)->next;
    pthread_mutex_lock(&l->mu);
    *end = l->first;
    l->first = first;
    pthread_mutex_unlock(&l->mu);
}

void leat_releases_poll(struct leat_releases *l)
{
    if (!l || leat_releases_waiting(l) == 0 || leat_releases_foreign(l))
        return;
    struct leat_release *left = NULL;
    struct leat_release *next;
    leat_releases_keep(l); /* the last batch's ring may be the last to know it */
    for (struct leat_release *r = take_all(l); r; r = next) {
        next = r->next;
        if (happened(r)) {
            if (r->fd >= 0)
                close(r->fd);
            leat_batch_release(r->batch);
            /* Release: the one that sees that it waits no longer sees that it is held no longer. */
            atomic_fetch_sub_explicit(&l->waiting, 1, memory_order_release);
        } else {
            r->next = left;
            left = r;
        }
    }
    put_back(l, left);
    leat_releases_drop(l);
}

void leat_releases_wait(struct leat_releases *l, uint64_t deadline_ns, bool (*stop)(void *user), void *stop_user)
{
    uint64_t ask = leat_after(ASK_NS);
    if (!l || leat_releases_foreign(l))
        return;
    leat_releases_poll(l);
    while (leat_releases_waiting(l) && leat_left(deadline_ns)) {
        if (!leat_left(ask)) {
            if (stop && stop(stop_user))
                return;
            ask = leat_after(ASK_NS);
        }
        leat_sleep_until(leat_after(STEP_NS));
        leat_releases_poll(l);
    }
}
