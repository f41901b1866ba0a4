#include "sim/wire.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "store/store.h"

#define TICK_NS   (50 * LEAT_MS) /* as the store does */
#define NO_LIMIT  1e15
#define ENOUGH    0.5 /* of a byte: what lacks by rounding */
#define LATEST_NS (UINT64_MAX / 2)

/* What was asked for, in one request or several. */
struct whole {
    void *what;
    uint32_t left; /* requests */
};

struct leat_sim_part {
    struct leat_sim_part *prev, *next;
    struct whole *whole;
    uint64_t bytes;
    bool urgent;
    uint64_t at_ns; /* of its first byte */
    double weight;  /* of its bytes */
    double end;     /* in the line's sum */
};

struct leat_sim_wire leat_sim_wire(double rate, double connection_rate, uint64_t latency_ns, uint32_t connections)
{
    return (struct leat_sim_wire){
        .rate = rate > 0 ? rate : NO_LIMIT,
        .burst_rate = rate > 0 ? rate : NO_LIMIT,
        .connection_rate = connection_rate > 0 ? connection_rate : NO_LIMIT,
        .latency_ns = latency_ns,
        .share = NO_LIMIT,
        .pace = leat_pace(connections),
    };
}

/* Lists */

static void insert_after(struct leat_sim_parts *l, struct leat_sim_part *at, struct leat_sim_part *p)
{
    p->prev = at;
    p->next = at ? at->next : l->first;
    *(p->prev ? &p->prev->next : &l->first) = p;
    *(p->next ? &p->next->prev : &l->last) = p;
    l->n++;
}

static struct leat_sim_part *take_first(struct leat_sim_parts *l)
{
    struct leat_sim_part *p = l->first;
    l->first = p->next;
    *(l->first ? &l->first->prev : &l->last) = NULL;
    l->n--;
    return p;
}

static void free_parts(struct leat_sim_parts *l)
{
    while (l->first) {
        struct leat_sim_part *p = take_first(l);
        if (!--p->whole->left)
            free(p->whole);
        free(p);
    }
}

void leat_sim_wire_free(struct leat_sim_wire *w)
{
    free_parts(&w->queued);
    free_parts(&w->waiting);
    free_parts(&w->flowing);
}

/* Running */

static double flow(const struct leat_sim_wire *w)
{
    double line = w->share < w->rate ? w->share : w->rate;
    double each = line / w->flowing.n;
    return each < w->connection_rate ? each : w->connection_rate;
}

static void flow_until(struct leat_sim_wire *w, uint64_t now_ns)
{
    if (now_ns <= w->now_ns)
        return;
    if (w->flowing.n) {
        double each = flow(w) * (double)(now_ns - w->now_ns) / 1e9;
        w->sum += each;
        w->told += each * w->flowing.n;
        leat_pace_received(&w->pace, (uint64_t)w->told);
        w->told -= (double)(uint64_t)w->told;
    } else {
        double most = w->burst_rate * (double)w->burst_ns / 1e9;
        double saved = w->saved + w->burst_rate * (double)(now_ns - w->now_ns) / 1e9;
        w->saved = saved < most ? saved : most;
        w->sum = 0;
    }
    w->now_ns = now_ns;
}

static double draw(uint64_t seed, uint64_t number)
{
    return (double)(leat_random_u64(seed, 0, number) >> 11) * 0x1p-53;
}

static void pump(struct leat_sim_wire *w)
{
    uint32_t limit = leat_pace_update(&w->pace, w->queued.n != 0, w->now_ns);
    while (w->queued.n && w->waiting.n + w->flowing.n < limit) {
        struct leat_sim_part *p = take_first(&w->queued);
        p->at_ns = w->now_ns + w->latency_ns;
        p->weight = 1 + w->jitter * (2 * draw(w->seed, w->requests) - 1);
        insert_after(&w->waiting, w->waiting.last, p);
        w->requests++;
    }
    w->tick_ns = w->queued.n && !w->pace.fixed ? w->now_ns + TICK_NS : 0;
}

static void begin_flow(struct leat_sim_wire *w, struct leat_sim_part *p)
{
    double bytes = (double)p->bytes;
    if (w->saved > 0 && w->connection_rate >= w->rate) {
        double given = w->saved < bytes ? w->saved : bytes;
        leat_pace_received(&w->pace, (uint64_t)given);
        w->saved -= given;
        bytes -= given;
    }
    p->end = w->sum + bytes * p->weight;
    struct leat_sim_part *at = w->flowing.last;
    while (at && at->end > p->end)
        at = at->prev;
    insert_after(&w->flowing, at, p);
}

bool leat_sim_wire_add(struct leat_sim_wire *w, void *what, uint64_t bytes, uint32_t ranges, bool urgent,
                       uint64_t now_ns)
{
    uint32_t n = ranges ? ranges : 1;
    struct whole *whole = malloc(sizeof *whole);
    if (!whole)
        return false;
    *whole = (struct whole){.what = what, .left = n};
    struct leat_sim_parts made = {0};
    for (uint32_t i = 0; i < n; i++) {
        struct leat_sim_part *p = calloc(1, sizeof *p);
        if (!p) {
            whole->left = made.n;
            if (!made.n)
                free(whole);
            free_parts(&made);
            return false;
        }
        p->whole = whole;
        p->bytes = bytes * (i + 1) / n - bytes * i / n;
        p->urgent = urgent;
        insert_after(&made, made.last, p);
    }
    flow_until(w, now_ns);
    struct leat_sim_part *at = w->queued.last;
    while (urgent && at && !at->urgent)
        at = at->prev;
    while (made.n) {
        struct leat_sim_part *p = take_first(&made);
        insert_after(&w->queued, at, p);
        at = p;
    }
    if (urgent)
        leat_pace_hurry(&w->pace, LEAT_STORE_HURRY, w->now_ns);
    pump(w);
    return true;
}

static uint64_t end_ns(const struct leat_sim_wire *w)
{
    double left = w->flowing.first->end - w->sum - ENOUGH;
    double wait = left > 0 ? left * 1e9 / flow(w) : 0;
    return wait < (double)LATEST_NS ? w->now_ns + (uint64_t)wait + 1 : UINT64_MAX;
}

uint64_t leat_sim_wire_next_ns(const struct leat_sim_wire *w)
{
    uint64_t next = w->tick_ns ? w->tick_ns : UINT64_MAX;
    if (w->waiting.n && w->waiting.first->at_ns < next)
        next = w->waiting.first->at_ns;
    if (w->flowing.n) {
        uint64_t end = w->flowing.first->end - w->sum <= ENOUGH ? w->now_ns : end_ns(w);
        next = end < next ? end : next;
    }
    return next;
}

void *leat_sim_wire_run(struct leat_sim_wire *w, uint64_t now_ns)
{
    flow_until(w, now_ns);
    while (w->waiting.n && w->waiting.first->at_ns <= now_ns)
        begin_flow(w, take_first(&w->waiting));
    while (w->flowing.n && w->flowing.first->end - w->sum <= ENOUGH) {
        struct leat_sim_part *p = take_first(&w->flowing);
        struct whole *whole = p->whole;
        free(p);
        pump(w);
        if (--whole->left)
            continue;
        void *what = whole->what;
        free(whole);
        return what;
    }
    if (w->tick_ns && w->tick_ns <= now_ns)
        pump(w);
    return NULL;
}

void leat_sim_wire_share(struct leat_sim_wire *w, double share, uint64_t now_ns)
{
    flow_until(w, now_ns);
    w->share = share;
}
