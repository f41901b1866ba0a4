#include "sim/node.h"

#include <stdlib.h>

#include "base/random.h"
#include "order/policy.h"
#include "sched/chunk.h"

/* A rank's batch. */
struct leat_sim_own {
    struct leat_sched_batch batch; /* first: the scheduler knows it by this */
    struct leat_sim_own *next;     /* of those being prepared */
    uint64_t at_ns;                /* when it will be */
};

static void fail(struct leat_sim_node *n, leat_status status, const char *text)
{
    if (n->status == LEAT_OK)
        n->status = leat_fail(&n->err, status, "%s", text);
}

static void no_memory(struct leat_sim_node *n)
{
    fail(n, LEAT_NO_MEMORY, "no memory for the events of a simulated node");
}

/* Which epoch uses what comes from where */

static void count(struct leat_sim_source *s, uint64_t bytes, uint64_t chunks)
{
    s->bytes += bytes;
    s->chunks += chunks;
}

static struct leat_sim_uses *uses_of(const struct leat_sim_node *n, uint64_t epoch)
{
    return &n->opts->uses[epoch < n->opts->epochs ? epoch : n->opts->epochs];
}

static bool touches(const struct leat_sim_batch *g, uint32_t rank, uint32_t chunk)
{
    uint32_t low = g->end ? 0 : g->first[rank];
    uint32_t high = g->end ? 0 : g->first[rank + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (g->chunks[middle] == chunk)
            return true;
        if (g->chunks[middle] < chunk)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* The epoch of the first batch planned that wants a chunk; that of the last planned when it is too late to tell. */
static uint64_t wanted_in(const struct leat_sim_node *n, uint32_t chunk)
{
    uint64_t epoch = n->planned;
    for (uint32_t r = 0; r < n->opts->ranks; r++) {
        const struct leat_sim_lane *l = &n->lanes[r];
        for (uint64_t k = l->published; k < l->next; k++) {
            const struct leat_sim_batch *g = leat_sim_deal_made(n->opts->deal, k);
            if (g->epoch >= epoch)
                break;
            if (touches(g, l->rank, chunk))
                epoch = g->epoch;
        }
    }
    return epoch;
}

/* The epoch for which a chunk is sent for: that of the batch that wants it, or else that of its next use. */
static uint64_t epoch_of(const struct leat_sim_node *n, const struct leat_sched_chunk *c)
{
    const struct leat_sim_lane *l = &n->lanes[0];
    const struct leat_sim_epoch *now = leat_sim_deal_epoch(n->opts->deal, l->view);
    uint64_t first;
    uint64_t last;
    if (c->wants)
        return wanted_in(n, c->ref.number);
    bool soon = leat_order_uses(now->order, c->ref.number, &first, &last) && last >= l->stage;
    return soon ? l->view : l->view + 1;
}

/* The scheduler counts what is used from memory when it is given a batch: what it has counted since the last one was
 * given belongs to that one's epoch. */
static void count_used(struct leat_sim_node *n, uint64_t next_epoch)
{
    struct leat_sched_stats s;
    leat_sched_stats(n->sched, &s);
    count(&uses_of(n, n->planned)->ram, s.ram_bytes - n->used.bytes, s.ram_chunks - n->used.chunks);
    n->used = (struct leat_sim_source){s.ram_bytes, s.ram_chunks};
    n->planned = next_epoch;
}

/* Actions */

static bool fetch(struct leat_sim_node *n, struct leat_sched_chunk *c, const struct leat_sched_fetch *how)
{
    uint64_t epoch = epoch_of(n, c);
    struct leat_sim_uses *uses = uses_of(n, epoch);
    struct leat_sim_node *peer = how->from_disk || how->guest ? NULL : leat_sim_peer_of(n, how->number);
    if (peer)
        return leat_sim_peer_ask(n, peer, c, how->number, epoch);
    count(how->from_disk ? &uses->disk : &uses->bucket, c->bytes, 1);
    return how->from_disk ? leat_sim_belt_add(&n->reads, c, c->bytes, n->now_ns)
                          : leat_sim_wire_add(&n->wire, c, c->bytes, how->ranges, how->urgent, n->now_ns);
}

static bool act_fetch(void *user, struct leat_sched_chunk *c, const struct leat_sched_fetch *how)
{
    bool ok = fetch(user, c, how);
    if (!ok)
        no_memory(user);
    return ok;
}

void leat_sim_node_by_peer(struct leat_sim_node *n, const struct leat_sched_chunk *c, uint64_t epoch)
{
    count(&uses_of(n, epoch)->peer, c->bytes, 1);
}

void leat_sim_node_from_bucket(struct leat_sim_node *n, struct leat_sched_chunk *c, uint64_t epoch)
{
    count(&uses_of(n, epoch)->bucket, c->bytes, 1);
    if (!leat_sim_wire_add(&n->wire, c, c->bytes, 1, true, n->now_ns)) {
        no_memory(n);
        leat_sched_arrived(n->sched, c, n->now_ns); /* the simulation ends, and nothing may be on its way then */
    }
}

static bool act_store(void *user, struct leat_sched_chunk *c)
{
    struct leat_sim_node *n = user;
    bool ok = leat_sim_belt_add(&n->writes, c, c->bytes, n->now_ns);
    if (!ok)
        no_memory(n);
    return ok;
}

static void act_nothing(void *user, struct leat_sched_chunk *c)
{
    (void)user;
    (void)c;
}

static struct leat_sched_view view_of(const struct leat_sim_lane *l, struct leat_sched_stream *one)
{
    const struct leat_sim_node_opts *o = l->node->opts;
    struct leat_sim_epoch *now = leat_sim_deal_epoch(o->deal, l->view);
    *one = (struct leat_sched_stream){
        .now = now->order,
        .coming = leat_sim_deal_epoch(o->deal, l->view + 1)->order,
        .stage = l->stage,
        .before = now->before,
    };
    return (struct leat_sched_view){
        .streams = one,
        .streams_n = 1,
        .stage = now->before + l->stage,
        .node_of_slot = o->nodes > 1 ? o->node_of_slot : NULL,
        .node = l->node->number,
    };
}

static struct leat_sched_batch *act_plan(void *user, struct leat_sched_lane *lane)
{
    struct leat_sim_node *n = user;
    struct leat_sim_lane *l = leat_sched_lane_user(lane);
    struct leat_sim_deal *deal = n->opts->deal;
    struct leat_sim_batch *g = NULL;
    if (n->status == LEAT_OK)
        n->status = leat_sim_deal_batch(deal, l->next, &g, &n->err);
    if (n->status != LEAT_OK)
        return NULL;
    struct leat_sim_own *own = calloc(1, sizeof *own);
    if (!own) {
        no_memory(n);
        return NULL;
    }
    struct leat_sched_batch *b = &own->batch;
    count_used(n, g->epoch);
    if (!g->end) {
        b->chunks = g->chunks + g->first[l->rank];
        b->chunks_n = g->first[l->rank + 1] - g->first[l->rank];
    }
    b->stage = g->all_stage;
    b->user = g;
    uint64_t left = l->view;
    l->next++;
    l->view = g->view;
    l->stage = g->stage;
    struct leat_sched_stream one;
    struct leat_sched_view view = view_of(l, &one);
    leat_sched_lane_view(lane, &view);
    if (left != l->view)
        leat_sim_deal_leave(deal, left);
    if (l->ahead_view < l->view) {
        l->ahead_view = l->view;
        l->ahead = 0;
    }
    return b;
}

/* As leat_cursor_ahead() does, on a list of the node's own chunks that all its ranks share. */
static bool act_ahead(void *user, struct leat_sched_lane *lane, uint32_t *number, uint64_t *stage)
{
    const struct leat_sim_node *n = user;
    struct leat_sim_lane *l = leat_sched_lane_user(lane);
    for (; l->ahead_view <= l->view + 1; l->ahead_view++, l->ahead = 0) {
        const struct leat_sim_epoch *e = leat_sim_deal_epoch(n->opts->deal, l->ahead_view);
        bool now = l->ahead_view == l->view;
        uint32_t own = e->own_first[n->number + 1] - e->own_first[n->number];
        while (l->ahead < own) {
            uint32_t place = e->own_place[e->own_first[n->number] + l->ahead++];
            uint32_t chunk = leat_order_chunk_at(e->order, place);
            uint64_t first;
            uint64_t last;
            if (now && place < l->stage && leat_order_uses(e->order, chunk, &first, &last) && last < l->stage)
                continue; /* already through */
            *number = chunk;
            *stage = e->before + (now && place < l->stage ? l->stage : place);
            return true;
        }
        if (!now)
            return false; /* more becomes known with the next epoch */
    }
    return false;
}

static void act_prepare(void *user, struct leat_sched_batch *b)
{
    struct leat_sim_node *n = user;
    const struct leat_sim_lane *l = leat_sched_lane_user(b->lane);
    const struct leat_sim_batch *g = b->user;
    uint32_t ranks = n->opts->nodes * n->opts->ranks;
    uint64_t samples = g->size / ranks + (l->rank < g->size % ranks);
    /* A group has its share of the samples. */
    samples = samples * b->group_end / b->chunks_n - samples * b->group / b->chunks_n;
    struct leat_sim_own *p = (struct leat_sim_own *)b;
    p->at_ns = leat_sim_cores_give(&n->cores, (uint32_t)samples, n->now_ns);
    struct leat_sim_own **at = &n->preparing;
    while (*at && (*at)->at_ns <= p->at_ns)
        at = &(*at)->next;
    p->next = *at;
    *at = p;
}

static bool act_publish(void *user, struct leat_sched_batch *b)
{
    struct leat_sim_node *n = user;
    struct leat_sim_lane *l = leat_sched_lane_user(b->lane);
    struct leat_sim_batch *g = b->user;
    l->slot_of[g->number % LEAT_SCHED_SLOTS_MAX] = (uint8_t)b->slot;
    l->published++;
    g->published++;
    g->ready_ns = n->now_ns;
    g->here_ns = b->here_ns > g->here_ns ? b->here_ns : g->here_ns;
    free(b);
    return true;
}

static void act_fail(void *user, struct leat_sched_batch *b, struct leat_sched_chunk *c)
{
    (void)b; /* comes back when the lane is closed */
    (void)c; /* no fetch fails here: it has found no memory */
    no_memory(user);
}

static const struct leat_sched_ops actions = {
    .fetch = act_fetch,
    .drop = act_nothing,
    .store = act_store,
    .forget = act_nothing,
    .gone = act_nothing,
    .plan = act_plan,
    .ahead = act_ahead,
    .prepare = act_prepare,
    .publish = act_publish,
    .fail = act_fail,
};

/* Opening and closing */

static leat_status open_lane(struct leat_sim_node *n, struct leat_sim_lane *l, uint32_t rank, struct leat_error *err)
{
    l->node = n;
    l->rank = rank;
    struct leat_sched_stream one;
    struct leat_sched_lane_opts o = {
        .set = n->set, .needed = n->opts->needed, .slots = n->opts->slots, .view = view_of(l, &one), .user = l};
    leat_status rc = leat_sched_lane_open(n->sched, &o, n->now_ns, &l->sched, err);
    if (rc == LEAT_OK)
        leat_sched_lane_ready(l->sched);
    return rc;
}

leat_status leat_sim_node_open(const struct leat_sim_node_opts *o, uint32_t number, uint32_t first_rank,
                               uint64_t now_ns, struct leat_sim_node *n, struct leat_error *err)
{
    *n = (struct leat_sim_node){.opts = o, .number = number, .now_ns = now_ns, .changed = true};
    n->wire = leat_sim_wire(o->line, o->connection_line, o->latency_ns, o->connections);
    n->wire.jitter = o->jitter;
    n->wire.burst_ns = o->burst_ns;
    if (o->burst_line > 0 && o->burst_line < n->wire.burst_rate) {
        n->wire.burst_rate = o->burst_line;
        if (o->nodes > 1)
            n->wire.burst_ns = 0; /* while one rests the others have its part: nothing is left to make up for */
    }
    n->wire.seed = leat_key("simulated line", o->seed, number, NULL, 0);
    leat_sim_door_open(n);
    n->reads.rate = o->disk_read;
    n->writes.rate = o->disk_write;
    struct leat_sched_opts s = {.ram = o->ram, .disk = o->disk, .policy = o->policy, .ops = &actions, .user = n};
    struct leat_sched_set_opts set = {.names = o->names, .sizes = o->sizes, .chunks = o->chunks};
    leat_sched_measure(&set);
    leat_status rc = leat_sim_cores_open(o->cores, o->prep, &n->cores, err);
    if (rc == LEAT_OK)
        rc = leat_sched_open(&s, &n->sched, err);
    if (rc == LEAT_OK)
        rc = leat_sched_set_open(n->sched, &set, &n->set, err);
    if (rc == LEAT_OK) {
        n->lanes = calloc(o->ranks, sizeof *n->lanes);
        rc = n->lanes ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for %u ranks", o->ranks);
    }
    for (uint32_t r = 0; rc == LEAT_OK && r < o->ranks; r++)
        rc = open_lane(n, &n->lanes[r], first_rank + r, err);
    if (rc != LEAT_OK)
        leat_sim_node_close(n);
    return rc;
}

static void dropped(void *user, struct leat_sched_batch *b)
{
    (void)user;
    free(b);
}

/* Fetches and writes that are under way are given up: the scheduler wants none left when it is closed. */
static void cut_off(struct leat_sim_node *n)
{
    struct leat_sched_chunk *c;
    while ((c = leat_sim_belt_take(&n->writes, UINT64_MAX)))
        leat_sched_stored(n->sched, c, false);
    while ((c = leat_sim_belt_take(&n->reads, UINT64_MAX)))
        leat_sched_arrived(n->sched, c, n->now_ns);
    while (leat_sim_wire_next_ns(&n->wire) != UINT64_MAX) {
        n->now_ns = leat_sim_wire_next_ns(&n->wire);
        while ((c = leat_sim_wire_run(&n->wire, n->now_ns)))
            leat_sched_arrived(n->sched, c, n->now_ns);
    }
}

void leat_sim_node_close(struct leat_sim_node *n)
{
    for (uint32_t r = 0; n->lanes && r < n->opts->ranks; r++)
        leat_sched_lane_close(n->lanes[r].sched, dropped);
    while (n->preparing) {
        struct leat_sim_own *p = n->preparing;
        n->preparing = p->next;
        leat_sched_prepared(&p->batch);
        free(p);
    }
    if (n->sched)
        cut_off(n);
    leat_sched_set_close(n->set);
    leat_sched_close(n->sched);
    leat_sim_wire_free(&n->wire);
    leat_sim_door_close(n);
    leat_sim_belt_free(&n->reads);
    leat_sim_belt_free(&n->writes);
    leat_sim_cores_close(&n->cores);
    free(n->lanes);
    *n = (struct leat_sim_node){0};
}

/* Running */

/* Reports what is over by now. False: nothing was. */
static bool report(struct leat_sim_node *n)
{
    struct leat_sched_chunk *c;
    bool any = leat_sim_door_run(n);
    while ((c = leat_sim_wire_run(&n->wire, n->now_ns))) {
        leat_sched_arrived(n->sched, c, n->now_ns);
        any = true;
    }
    while ((c = leat_sim_belt_take(&n->reads, n->now_ns))) {
        leat_sched_arrived(n->sched, c, n->now_ns);
        any = true;
    }
    while ((c = leat_sim_belt_take(&n->writes, n->now_ns))) {
        leat_sched_stored(n->sched, c, true);
        any = true;
    }
    while (n->preparing && n->preparing->at_ns <= n->now_ns) {
        struct leat_sim_own *p = n->preparing;
        n->preparing = p->next;
        leat_sched_prepared(&p->batch);
        any = true;
    }
    return any;
}

leat_status leat_sim_node_run(struct leat_sim_node *n, uint64_t now_ns, struct leat_error *err)
{
    n->now_ns = now_ns;
    while (report(n) || n->changed || leat_sched_wake_ns(n->sched) <= now_ns) {
        n->changed = false;
        leat_sched_step(n->sched, now_ns);
        if (n->status != LEAT_OK) {
            *err = n->err;
            return n->status;
        }
    }
    return LEAT_OK;
}

uint64_t leat_sim_node_next_ns(const struct leat_sim_node *n)
{
    uint64_t next = leat_sched_wake_ns(n->sched);
    uint64_t at[] = {
        leat_sim_wire_next_ns(&n->wire),
        leat_sim_door_next_ns(n),
        leat_sim_belt_next_ns(&n->reads),
        leat_sim_belt_next_ns(&n->writes),
        n->preparing ? n->preparing->at_ns : UINT64_MAX,
    };
    for (unsigned i = 0; i < sizeof at / sizeof at[0]; i++)
        next = at[i] < next ? at[i] : next;
    return next;
}

void leat_sim_node_taken(struct leat_sim_node *n, uint64_t number, uint64_t now_ns)
{
    for (uint32_t r = 0; r < n->opts->ranks; r++) {
        struct leat_sim_lane *l = &n->lanes[r];
        leat_sched_slot_free(l->sched, l->slot_of[number % LEAT_SCHED_SLOTS_MAX], now_ns);
    }
    n->now_ns = now_ns;
    n->changed = true;
}
