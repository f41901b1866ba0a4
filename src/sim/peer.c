#include "sim/peer.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "order/order.h"
#include "sim/node.h"

#define PATIENCE_NS (1500 * LEAT_MS) /* as the agent's: after that, what is not on its way is not waited for */
#define CONNECTIONS 256u             /* at a time to one machine */

struct leat_sim_ask {
    struct leat_sched_guest guest; /* first: the owner's scheduler knows it by this */
    struct leat_sim_ask *prev, *next;
    struct leat_sim_node *asker, *owner;
    struct leat_sched_chunk *chunk; /* the asker's */
    uint32_t number;
    uint64_t bytes;
    uint64_t epoch;
    uint64_t at_ns; /* when it arrives where it is going, or its patience ends */
    bool without;   /* the owner could not give it */
};

static void add(struct leat_sim_asks *l, struct leat_sim_ask *a)
{
    a->prev = l->last;
    a->next = NULL;
    *(l->last ? &l->last->next : &l->first) = a;
    l->last = a;
}

static void take(struct leat_sim_asks *l, struct leat_sim_ask *a)
{
    *(a->prev ? &a->prev->next : &l->first) = a->next;
    *(a->next ? &a->next->prev : &l->last) = a->prev;
}

static struct leat_sim_ask *due(const struct leat_sim_asks *l, uint64_t now_ns)
{
    return l->first && l->first->at_ns <= now_ns ? l->first : NULL;
}

void leat_sim_door_open(struct leat_sim_node *n)
{
    const struct leat_sim_node_opts *o = n->opts;
    n->door.line = leat_sim_wire(o->peer_line, 0, 0, CONNECTIONS);
    n->door.line.jitter = o->jitter;
    n->door.line.seed = leat_key("simulated door", o->seed, n->number, NULL, 0);
}

struct leat_sim_node *leat_sim_peer_of(const struct leat_sim_node *n, uint32_t number)
{
    const struct leat_sim_node_opts *o = n->opts;
    if (!o->peers || o->nodes == 1)
        return NULL;
    uint32_t owner = o->node_of_slot[leat_order_slot_of(number, o->chunks)];
    return owner != n->number ? &o->all[owner] : NULL;
}

bool leat_sim_peer_ask(struct leat_sim_node *n, struct leat_sim_node *owner, struct leat_sched_chunk *c,
                       uint32_t number, uint64_t epoch)
{
    struct leat_sim_ask *a = calloc(1, sizeof *a);
    if (!a)
        return false;
    a->asker = n;
    a->owner = owner;
    a->chunk = c;
    a->number = number;
    a->bytes = n->opts->sizes[number];
    a->epoch = epoch;
    a->at_ns = n->now_ns + n->opts->peer_latency_ns + 1;
    add(&owner->door.questions, a);
    leat_sched_ask_peer(c);
    n->opts->stir(n->opts->user, owner);
    return true;
}

/* The owner's side */

static void answer(struct leat_sim_ask *a, bool without, uint64_t now_ns)
{
    a->without = without;
    a->at_ns = now_ns;
    add(&a->asker->door.answers, a);
    a->owner->opts->stir(a->owner->opts->user, a->asker);
}

/* In a step of the owner's scheduler. */
static void on_here(struct leat_sched_guest *g, bool here)
{
    struct leat_sim_ask *a = (struct leat_sim_ask *)g;
    struct leat_sim_node *n = a->owner;
    take(&n->door.guests, a);
    if (here && leat_sim_wire_add(&n->door.line, a, a->bytes, 1, false, n->now_ns))
        return;
    if (here)
        leat_sched_guest_leave(g);
    answer(a, true, n->now_ns);
}

static bool let_in(struct leat_sim_node *n)
{
    struct leat_sim_ask *a = due(&n->door.questions, n->now_ns);
    if (!a)
        return false;
    take(&n->door.questions, a);
    a->guest.done = on_here;
    a->at_ns = n->now_ns + PATIENCE_NS;
    if (leat_sched_guest_come(n->set, a->number, &a->guest, n->now_ns))
        add(&n->door.guests, a);
    else
        answer(a, true, n->now_ns);
    return true;
}

static bool lose_patience(struct leat_sim_node *n)
{
    struct leat_sim_ask *a = due(&n->door.guests, n->now_ns);
    if (!a)
        return false;
    take(&n->door.guests, a);
    if (leat_sched_guest_coming(&a->guest)) {
        a->at_ns = n->now_ns + PATIENCE_NS;
        add(&n->door.guests, a);
    } else {
        leat_sched_guest_leave(&a->guest);
        answer(a, true, n->now_ns);
    }
    return true;
}

static bool hand_out(struct leat_sim_node *n)
{
    struct leat_sim_ask *a = leat_sim_wire_run(&n->door.line, n->now_ns);
    if (!a)
        return false;
    leat_sched_guest_leave(&a->guest);
    answer(a, false, n->now_ns);
    return true;
}

/* The asker's */

static bool take_answer(struct leat_sim_node *n)
{
    struct leat_sim_ask *a = due(&n->door.answers, n->now_ns);
    if (!a)
        return false;
    take(&n->door.answers, a);
    if (a->without) {
        leat_sim_node_from_bucket(n, a->chunk, a->epoch);
    } else {
        leat_sched_by_peer(a->chunk);
        leat_sim_node_by_peer(n, a->chunk, a->epoch);
        leat_sched_arrived(n->sched, a->chunk, n->now_ns);
    }
    free(a);
    return true;
}

bool leat_sim_door_run(struct leat_sim_node *n)
{
    bool any = false;
    while (take_answer(n) || let_in(n) || lose_patience(n) || hand_out(n))
        any = true;
    return any;
}

uint64_t leat_sim_door_next_ns(const struct leat_sim_node *n)
{
    const struct leat_sim_asks *lists[] = {&n->door.questions, &n->door.guests, &n->door.answers};
    uint64_t next = leat_sim_wire_next_ns(&n->door.line);
    for (unsigned i = 0; i < 3; i++) {
        if (lists[i]->first && lists[i]->first->at_ns < next)
            next = lists[i]->first->at_ns;
    }
    return next;
}

/* Closing */

static void give_up(struct leat_sim_ask *a)
{
    leat_sched_guest_leave(&a->guest);
    leat_sched_arrived(a->asker->sched, a->chunk, a->asker->now_ns);
    free(a);
}

static void give_up_all(struct leat_sim_asks *l)
{
    while (l->first) {
        struct leat_sim_ask *a = l->first;
        take(l, a);
        give_up(a);
    }
}

void leat_sim_door_cut(struct leat_sim_node *n)
{
    uint64_t next;
    while ((next = leat_sim_wire_next_ns(&n->door.line)) != UINT64_MAX) {
        struct leat_sim_ask *a;
        while ((a = leat_sim_wire_run(&n->door.line, next)))
            give_up(a);
    }
    give_up_all(&n->door.questions);
    give_up_all(&n->door.guests);
    give_up_all(&n->door.answers);
}

void leat_sim_door_close(struct leat_sim_node *n)
{
    leat_sim_wire_free(&n->door.line);
}
