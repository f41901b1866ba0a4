/* Machines that are late. What takes twice as long as 95 of 100 chunks of the job took lately is asked of the bucket
 * instead, for at most 2 % of the chunks and of the bytes (store/hedge.h). A machine that is late again and again is
 * left alone for a while, as one that fails is. */
#include "agent/inside.h"
#include "agent/peers_inside.h"
#include "base/clock.h"

/* An owner that has to fetch the chunk first is no slow machine: the bucket would take as long, and be asked twice. */
#define LATE_LEAST (500 * LEAT_MS)
#define LAG_MOST   8u /* late ones, less those that came soon */

static void look(struct leat_timer *timer)
{
    struct leat_agent *a = (struct leat_agent *)((char *)timer - offsetof(struct leat_agent, late));
    uint64_t next = LEAT_NEVER;
    for (struct leat_supply *s = a->supplies; s; s = s->next) {
        uint64_t at = s->source ? leat_source_hurry(s->source, leat_now_ns()) : LEAT_NEVER;
        next = at < next ? at : next;
    }
    if (next != LEAT_NEVER)
        leat_loop_arm(a->loop, timer, next);
}

uint64_t leat_late_begin(struct leat_peer *p, const struct leat_supply *s, uint64_t bytes)
{
    struct leat_agent *a = p->job->agent;
    uint64_t late = s->hedges ? leat_hedge_begin(&p->job->hedge, bytes) : 0;
    if (!late)
        return LEAT_NEVER;
    uint64_t at = leat_after(late > LATE_LEAST ? late : LATE_LEAST);
    a->late.fire = look;
    if (!a->late.armed || at < a->late.at_ns)
        leat_loop_arm(a->loop, &a->late, at);
    return at;
}

/* Whether the bucket may be asked in its place. */
bool leat_peers_late(void *user, void *who, uint64_t bytes)
{
    struct leat_peer *p = who;
    struct leat_error err;
    (void)user;
    p->late++;
    if (++p->lag >= LAG_MOST) {
        p->lag = 0;
        leat_fail(&err, LEAT_TIMEOUT, "it is late again and again: %u chunks took more than twice as long as others",
                  LAG_MOST);
        leat_peers_judge(p, &err);
    }
    return leat_hedge_take(&p->job->hedge, bytes);
}

void leat_late_took(struct leat_peer *p, uint64_t bytes, uint64_t ns)
{
    leat_hedge_took(&p->job->hedge, bytes, ns);
    p->lag -= p->lag && ns < LATE_LEAST;
}
