#include "agent/council.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "ring/agreement.h"

static bool same_job(const struct leat_seat *a, const struct leat_seat *b)
{
    return strcmp(a->job, b->job) == 0;
}

void leat_council_leave(struct leat_seat *seat)
{
    if (!seat->job)
        return;
    leat_loop_disarm(seat->agent->loop, &seat->deadline);
    struct leat_seat **p = &seat->agent->council;
    while (*p != seat)
        p = &(*p)->next;
    *p = seat->next;
    free(seat->job);
    free(seat->agreement);
    seat->job = seat->agreement = NULL;
}

/* Different ranks among those who are there. */
static uint32_t count_ranks(const struct leat_seat *seat, struct leat_buf *names)
{
    uint32_t n = 0;
    for (const struct leat_seat *s = seat->agent->council; s; s = s->next) {
        bool first = same_job(s, seat);
        for (const struct leat_seat *t = seat->agent->council; first && t != s; t = t->next)
            first = !same_job(t, seat) || t->rank != s->rank;
        if (first && names)
            leat_buf_printf(names, "%s%u", names->len ? ", " : "", s->rank);
        n += first;
    }
    return n;
}

static void on_deadline(struct leat_timer *timer)
{
    struct leat_seat *seat = (struct leat_seat *)((char *)timer - offsetof(struct leat_seat, deadline));
    struct leat_error err;
    struct leat_buf names;
    leat_buf_init(&names, 200);
    uint32_t n = count_ranks(seat, &names);
    leat_fail(
        &err, LEAT_TIMEOUT,
        "%u ranks of this job should open this loader on this machine, and only %u have (rank %s): the others hang, "
        "have ended, or open other loaders",
        seat->expected, n, names.data);
    leat_buf_free(&names);
    seat->waiting = false;
    seat->decided(seat->user, &err);
}

/* Tells every seat of the job. A seat that is told may leave, so the list is looked at again each time. */
static void tell_waiting(struct leat_agent *agent, const char *job)
{
    struct leat_error none = {0};
    struct leat_seat *s = agent->council;
    while (s) {
        if (!s->waiting || strcmp(s->job, job) != 0) {
            s = s->next;
            continue;
        }
        s->waiting = false;
        leat_loop_disarm(agent->loop, &s->deadline);
        s->decided(s->user, &none);
        s = agent->council;
    }
}

/* Every seat that differs from the new one gets its own view of it; those that agree with it are told the same. */
static void tell_difference(struct leat_seat *seat, struct leat_error *err)
{
    struct leat_agent *agent = seat->agent;
    char who[32];
    snprintf(who, sizeof who, "rank %u", seat->rank);
    for (struct leat_seat *s = agent->council, *next; s; s = next) {
        struct leat_error its = *err;
        next = s->next;
        if (s == seat || !same_job(s, seat))
            continue;
        leat_agreement_compare(s->agreement, seat->agreement, who, &its);
        s->waiting = false;
        leat_loop_disarm(agent->loop, &s->deadline);
        s->decided(s->user, &its); /* marks it as failed; sessions leave later, when their connection ends */
    }
}

leat_status leat_council_join(struct leat_agent *agent, struct leat_seat *seat, const char *job, const char *agreement,
                              uint64_t timeout_ns, struct leat_error *err)
{
    char who[32];
    seat->agent = agent;
    seat->job = strdup(job);
    seat->agreement = strdup(agreement);
    seat->deadline.fire = on_deadline;
    if (!seat->job || !seat->agreement) {
        free(seat->job);
        free(seat->agreement);
        seat->job = seat->agreement = NULL;
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
    }
    seat->next = agent->council;
    agent->council = seat;
    for (const struct leat_seat *s = seat->next; s; s = s->next) {
        if (!same_job(s, seat))
            continue;
        snprintf(who, sizeof who, "rank %u", s->rank);
        leat_status rc = leat_agreement_compare(seat->agreement, s->agreement, who, err);
        if (rc != LEAT_OK) {
            tell_difference(seat, err);
            leat_council_leave(seat);
            return rc;
        }
    }
    seat->waiting = true;
    if (!seat->expected || count_ranks(seat, NULL) >= seat->expected)
        tell_waiting(agent, job);
    else
        leat_loop_arm(agent->loop, &seat->deadline, leat_after(timeout_ns));
    return LEAT_OK;
}
