#include "agent/account.h"

#include "agent/blend.h"
#include "agent/inside.h"
#include "agent/peers.h"
#include "agent/share.h"
#include "base/clock.h"
#include "cache/disk.h"
#include "feed/feed.h"

#define SHOW_NS (10 * LEAT_MS) /* chunks arrive by the thousand a second; nobody looks that often */

static void of_loader(const struct leat_loading *l, struct leat_account *a)
{
    a->samples_skipped = l->stats.skipped;
    a->batches_split = l->stats.split;
    a->samples_decoded = l->stats.decoded;
    a->samples_shared = l->stats.taken;
    for (uint32_t i = 0; l->computed && i < l->streams_n; i++)
        a->share_left += leat_share_left(l->streams[i].share);
    a->prep_cpu_ns = l->stats.prep_cpu_ns;
    a->ring_bytes = l->ring.bytes;
    for (uint32_t i = 0; l->ring.head && i < l->slots; i++) {
        /* Relaxed: statistics. */
        a->batches_ready += (l->out >> i & 1) && atomic_load_explicit(&leat_ring_slot(&l->ring, i)->state,
                                                                      memory_order_relaxed) == LEAT_SLOT_READY;
    }
}

/* Where the chunks of a set have come from. */
static void of_set(const struct leat_sched_set *set, struct leat_account *a)
{
    struct leat_sched_sources from;
    leat_sched_set_sources(set, &from);
    a->bytes_by_source[LEAT_FROM_BUCKET] = from.bucket_bytes;
    a->bytes_by_source[LEAT_FROM_DISK] = from.disk_bytes;
    a->bytes_by_source[LEAT_FROM_RAM] = from.ram_bytes;
    a->bytes_by_source[LEAT_FROM_PEER] = from.peer_bytes;
    a->chunks_by_source[LEAT_FROM_PEER] = from.peer_chunks;
    a->chunks_by_source[LEAT_FROM_BUCKET] = from.bucket_chunks;
    a->chunks_by_source[LEAT_FROM_DISK] = from.disk_chunks;
    a->chunks_by_source[LEAT_FROM_RAM] = from.ram_chunks;
    a->chunks_refetched = from.refetched;
}

/* What fetching from a dataset's stores has come to. */
static void of_supply(const struct leat_supply *supply, struct leat_account *a)
{
    struct leat_source_stats source;
    struct leat_store_stats store;
    leat_source_stats(supply->source, &source);
    leat_dataset_stats(supply->dataset, &store);
    a->chunks_corrupt += source.corrupt;
    a->chunks_failed += source.failed;
    a->fetches_in_flight += source.coming;
    a->peer_late += source.peer_late;
    a->peer_failed += source.peer_failed;
    a->peer_without += source.peer_without;
    a->requests += store.requests;
    a->retries += store.retries;
    a->throttled += store.throttled;
    a->hedges += store.hedges;
    a->request_ns += store.request_ns;
}

static void of_data(const struct leat_loading *l, struct leat_account *a)
{
    const struct leat_blend *blend = l->opts.blend;
    of_set(blend ? blend->set : l->opts.supply->set, a);
    for (uint32_t i = 0; blend && i < blend->n; i++) {
        uint32_t k = 0;
        while (blend->supplies[k] != blend->supplies[i])
            k++;
        if (k == i) /* several streams may be of one dataset */
            of_supply(blend->supplies[i], a);
    }
    if (!blend)
        of_supply(l->opts.supply, a);
}

static void of_agent(const struct leat_agent *agent, struct leat_account *a)
{
    struct leat_sched_stats s;
    leat_sched_stats(agent->sched, &s);
    a->evictions_by_tier[LEAT_TIER_RAM] = s.evicted;
    a->evictions_by_tier[LEAT_TIER_DISK] = s.forgotten;
    a->demotions = s.stored_chunks;
    a->cache_bytes = s.ram_used;
    a->cache_budget = s.ram;
    a->disk_bytes = s.disk_used;
    a->disk_budget = s.disk;
    struct leat_share_stats shared;
    leat_share_stats(agent->share, &shared);
    a->shared_bytes = shared.bytes;
    struct leat_workers_stats w;
    leat_workers_stats(agent->workers, &w);
    a->threads = w.threads;
    a->threads_busy = w.busy;
    a->threads_busy_ns = w.busy_ns;
    a->turned_away = agent->turned_away;
}

bool leat_loading_account_own(const struct leat_loading *l, struct leat_account *out)
{
    struct leat_account a = {0};
    struct leat_account rank;
    bool known = leat_account_look_rank(&l->ring, &rank);
    of_loader(l, &a);
    if (known)
        leat_account_carry(&a, &rank, LEAT_OF_RANK, LEAT_OF_RANK);
    *out = a;
    return known;
}

void leat_supply_account(const struct leat_supply *s, struct leat_account *out)
{
    struct leat_account a = {0};
    if (s->set) {
        of_set(s->set, &a);
        of_supply(s, &a);
    }
    *out = a;
}

void leat_blend_account(const struct leat_blend *b, struct leat_account *out)
{
    struct leat_account a = {0};
    of_set(b->set, &a);
    *out = a;
}

void leat_agent_account_own(const struct leat_agent *agent, struct leat_account *out)
{
    struct leat_account a = {0};
    of_agent(agent, &a);
    *out = a;
}

void leat_loading_account(const struct leat_loading *l, struct leat_account *out)
{
    struct leat_account a = {0};
    of_loader(l, &a);
    of_data(l, &a);
    of_agent(l->opts.agent, &a);
    *out = a;
}

const char *leat_loading_shares(const struct leat_loading *l)
{
    const char *what = "nothing";
    for (uint32_t i = 0; l->computed && i < l->streams_n; i++) {
        if (l->streams[i].share)
            what = l->streams[i].by_picture ? "pictures" : "samples";
    }
    return what;
}

json_t *leat_loading_stats(const struct leat_loading *l)
{
    struct leat_account a;
    char waiting[300];
    leat_loading_account(l, &a);
    leat_loading_explain(l, waiting, sizeof waiting);
    json_t *j = json_pack("{s:s,s:s,s:s}", "waiting_for", waiting, "shares", leat_loading_shares(l), "job_problem",
                          leat_peers_problem(l));
    if (j && leat_account_write(&a, LEAT_OF_LOADER, LEAT_OF_AGENT, j))
        return j;
    json_decref(j);
    return NULL;
}

void leat_loading_show(struct leat_loading *l, bool now)
{
    struct leat_account a;
    uint64_t time = leat_now_ns();
    if (!l->ring.head || (!now && time - l->shown_ns < SHOW_NS))
        return;
    l->shown_ns = time;
    leat_loading_account(l, &a);
    leat_account_show(&l->ring, &a);
}

void leat_agent_account(const struct leat_agent *agent, struct leat_account *out)
{
    struct leat_account a = {0};
    of_agent(agent, &a);
    for (const struct leat_supply *s = agent->supplies; s; s = s->next) {
        struct leat_account one;
        leat_supply_account(s, &one);
        leat_account_add(&a, &one);
        for (const struct leat_loading *l = s->loadings; l; l = leat_loading_next(l)) {
            struct leat_account each = {0};
            of_loader(l, &each);
            leat_account_add(&a, &each);
        }
    }
    for (const struct leat_blend *b = agent->blends; b; b = b->next) {
        struct leat_account one;
        leat_blend_account(b, &one);
        leat_account_add(&a, &one);
    }
    *out = a;
}
