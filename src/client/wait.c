#include "client/wait.h"

void leat_wait_enter(struct leat_wait *w, uint64_t now_ns)
{
    if (w->depth++ == 0)
        w->began_ns = w->mark_ns = now_ns;
}

void leat_wait_charge(struct leat_wait *w, enum leat_wait_cause cause, uint64_t until_ns, struct leat_account *a)
{
    if (!w->depth || until_ns <= w->mark_ns)
        return;
    a->wait_by_cause_ns[cause] += until_ns - w->mark_ns;
    w->mark_ns = until_ns;
}

void leat_wait_charge_batch(struct leat_wait *w, uint64_t ready_ns, uint64_t end_ns, struct leat_account *a)
{
    leat_wait_charge(w, LEAT_WAIT_FETCH, ready_ns && ready_ns < end_ns ? ready_ns : end_ns, a);
    leat_wait_charge(w, LEAT_WAIT_PREP, end_ns, a);
}

void leat_wait_came_from(enum leat_account_stall source, struct leat_account *a)
{
    uint64_t known = 0;
    for (unsigned i = 0; i < LEAT_STALLS; i++)
        known += a->fetch_wait_by_source_ns[i];
    a->fetch_wait_by_source_ns[source] += a->wait_by_cause_ns[LEAT_WAIT_FETCH] - known;
}

void leat_wait_leave(struct leat_wait *w, uint64_t now_ns, struct leat_account *a)
{
    if (!w->depth || --w->depth > 0)
        return;
    if (now_ns > w->mark_ns)
        a->wait_by_cause_ns[LEAT_WAIT_OTHER] += now_ns - w->mark_ns;
    if (now_ns > w->began_ns)
        a->wait_ns += now_ns - w->began_ns;
}
