/* Whatever happens, in whatever order: nobody gets stuck, nobody starves, no budget is exceeded. sched_play.c watches
 * every single action; here everything that may happen to a scheduler happens at random. */

#include "sched_play.h"

#define RUN_EVENTS 5000u /* then another world begins */

static uint64_t events_wanted = 200000;
static uint64_t only_seed = UINT64_MAX;
static uint64_t world_number;

struct world {
    struct play p;
    struct leat_rng rng; /* of what is done to the scheduler; p.rng is that of what comes back */
    uint64_t ram_largest;
    uint64_t patience_ns;
    uint64_t seen[PLAY_LANES];    /* published when looked at last */
    uint64_t seen_ns[PLAY_LANES]; /* when that changed */
    uint64_t lanes, refused, errors;
};

/* Over all worlds: what never happens is not tested. */
static struct {
    uint64_t published, epochs, refused, errors, split, yields, stored, forgotten, refetched, failed;
} sum;

static uint32_t below(struct world *w, uint32_t n)
{
    return (uint32_t)leat_rng_below(&w->rng, n);
}

static bool one_in(struct world *w, uint32_t n)
{
    return below(w, n) == 0;
}

static struct play_set *any_set(struct world *w)
{
    struct play_set *open[PLAY_SETS];
    uint32_t n = 0;
    for (unsigned i = 0; i < PLAY_SETS; i++) {
        if (w->p.sets[i].set)
            open[n++] = &w->p.sets[i];
    }
    return n ? open[below(w, n)] : NULL;
}

static struct play_lane *any_lane(struct world *w)
{
    struct play_lane *open[PLAY_LANES];
    uint32_t n = 0;
    for (unsigned i = 0; i < PLAY_LANES; i++) {
        if (w->p.lanes[i])
            open[n++] = w->p.lanes[i];
    }
    return n ? open[below(w, n)] : NULL;
}

/* Contents overlap: chunks are shared between sets. */
static void open_set(struct world *w)
{
    const uint32_t counts[] = {1, 1, 3, 20};
    unsigned open = 0;
    for (unsigned i = 0; i < PLAY_SETS; i++)
        open += w->p.sets[i].set != NULL;
    if (open == PLAY_SETS)
        return;
    play_set(&w->p, 1 + below(w, 90), below(w, 60), 1000, 1500, counts[below(w, COUNT(counts))]);
}

static void open_lane(struct world *w)
{
    struct play_set *set = any_set(w);
    struct play_lane *l;
    struct leat_error err;
    if (!set || w->lanes >= 12)
        return;
    uint32_t world = 1 + below(w, 3);
    uint32_t batch = world + below(w, 12);
    struct play_lane_opts o = {
        .set = set,
        .slots = 1 + below(w, one_in(w, 10) ? 64 : 4),
        .needed = one_in(w, 3) ? 1 : (1 + below(w, batch)) * set->largest,
        .group = below(w, 3),
        .together = (1 + below(w, 20)) * set->largest,
        .plans = UINT64_MAX,
        .step_ns = one_in(w, 2) ? below(w, 3) * MILLI : below(w, 200) * MILLI,
        .batch = batch,
        .window = 1 + below(w, 20),
        .rank = below(w, world),
        .world = world,
        .seed = below(w, 3),
        .epoch = below(w, 5),
        .position = below(w, set->chunks * set->counts[0] + 1),
    };
    leat_status rc = play_lane_try(&w->p, &o, &l, &err);
    w->refused += rc == LEAT_LIMIT;
    if (rc != LEAT_LIMIT)
        assert_ok(rc, err);
    else
        return;
    w->lanes++;
    for (unsigned i = 0; i < PLAY_LANES; i++) {
        if (w->p.lanes[i] == l) {
            w->seen[i] = UINT64_MAX;
            w->seen_ns[i] = w->p.now_ns;
        }
    }
}

static void close_lane(struct world *w, struct play_lane *l)
{
    w->errors += l->failed;
    sum.published += l->published;
    sum.epochs += l->epochs;
    w->lanes--;
    play_lane_close(l);
}

static void close_set(struct world *w)
{
    struct play_set *set = any_set(w);
    for (unsigned i = 0; set && i < PLAY_LANES; i++) {
        if (w->p.lanes[i] && w->p.lanes[i]->set == set)
            close_lane(w, w->p.lanes[i]);
    }
    if (set)
        play_set_close(set);
}

static void turn_idle(struct world *w, struct play_lane *l)
{
    l->idle = !l->idle;
    if (l->idle)
        return;
    while (l->given)
        play_free_slot(l);
    for (unsigned i = 0; i < PLAY_LANES; i++) {
        if (w->p.lanes[i] == l)
            w->seen_ns[i] = w->p.now_ns;
    }
}

static void meddle(struct world *w)
{
    struct play_lane *l = any_lane(w);
    switch (below(w, 9)) {
    case 0:
    case 1:
    case 2:
        open_lane(w);
        break;
    case 3:
        if (l)
            close_lane(w, l);
        break;
    case 4:
        if (l && !l->ended) {
            l->ended = true;
            leat_sched_lane_end(l->lane);
        }
        break;
    case 5:
        if (one_in(w, 4))
            close_set(w);
        break;
    case 6:
        open_set(w);
        break;
    case 7:
        if (l && !l->given)
            turn_idle(w, l);
        else if (l && l->idle)
            turn_idle(w, l);
        break;
    default:
        w->p.disk = w->p.disk ? w->p.disk / 4 + below(w, 200000) : 0;
        leat_sched_set_disk(w->p.sched, w->p.disk);
    }
}

/* Lanes whose rank waits have to get a batch, however the others are served. */
static void look_for_the_starved(struct world *w)
{
    for (unsigned i = 0; i < PLAY_LANES; i++) {
        const struct play_lane *l = w->p.lanes[i];
        if (!l)
            continue;
        if (l->ended && one_in(w, 50)) {
            close_lane(w, w->p.lanes[i]);
            continue;
        }
        if (l->published != w->seen[i] || l->idle || l->ended || l->given) {
            w->seen[i] = l->published;
            w->seen_ns[i] = w->p.now_ns;
        } else if (w->p.now_ns - w->seen_ns[i] > w->patience_ns) {
            char text[160];
            leat_sched_lane_explain(l->lane, "ds", text, sizeof text);
            fail_msg("world %llu: a lane has waited for %llu ms: %s", (unsigned long long)world_number,
                     (unsigned long long)((w->p.now_ns - w->seen_ns[i]) / MILLI), text);
        }
    }
}

/* Nothing is outstanding: every lane must have all that its slots hold. */
static void nobody_is_stuck(struct world *w)
{
    for (unsigned i = 0; i < PLAY_LANES; i++) {
        const struct play_lane *l = w->p.lanes[i];
        if (!l || l->ended)
            continue;
        char text[160];
        leat_sched_lane_explain(l->lane, "ds", text, sizeof text);
        if (!l->idle || !strstr(text, "slot"))
            fail_msg("world %llu: nothing is outstanding, and a lane with %d slots in use waits for %s",
                     (unsigned long long)world_number, __builtin_popcountll(l->slots), text);
    }
}

static void begin(struct world *w, uint64_t seed)
{
    const uint64_t rates[] = {0, 100000, 1000000, 10000000};
    *w = (struct world){.rng = leat_rng(leat_key("world", seed, 0, NULL, 0), 0)};
    struct play_opts o = {
        .ram = 2500 + below(w, one_in(w, 2) ? 30000 : 300000),
        .disk = one_in(w, 3) ? 0 : below(w, 200000),
        .policy = (enum leat_sched_policy)below(w, 5),
        .seed = seed,
    };
    if (one_in(w, 2))
        o.policy = LEAT_SCHED_NEXT_USE;
    play_open(&w->p, &o);
    w->p.mute = true;
    w->p.delay_ns = below(w, 100) * MILLI;
    w->p.jitter_ns = below(w, 2) * below(w, 300) * MILLI;
    w->p.rate = rates[below(w, COUNT(rates))];
    w->p.disk_ns = below(w, 2) * below(w, 50) * MILLI;
    w->p.disk_rate = rates[below(w, COUNT(rates))];
    w->p.prepare_ns = below(w, 30) * MILLI;
    w->p.free_jitter_ns = below(w, 2) * below(w, 100) * MILLI;
    w->p.fails = below(w, 3) * below(w, 20);
    w->p.cancels = below(w, 2) * below(w, 50);
    w->p.loses = below(w, 2) * below(w, 300);
    w->p.store_fails = below(w, 2) * below(w, 300);
    w->p.store_refused = below(w, 2) * below(w, 300);
    w->p.fetch_refused = below(w, 2) * below(w, 100);
    /* All of memory may be on its way, and all of disk's; and then a few rounds more. */
    w->patience_ns = 5000 * MILLI + 40 * (w->p.delay_ns + w->p.jitter_ns + w->p.disk_ns + w->p.prepare_ns);
    w->patience_ns += w->p.rate ? 20 * w->p.ram * 1000 * MILLI / w->p.rate : 0;
    w->patience_ns += w->p.disk_rate ? 20 * w->p.ram * 1000 * MILLI / w->p.disk_rate : 0;
    for (unsigned i = 1 + below(w, 3); i; i--)
        open_set(w);
    for (unsigned i = 1 + below(w, 4); i; i--)
        open_lane(w);
}

static uint64_t live(uint64_t seed)
{
    static struct world w;
    begin(&w, seed);
    play_step(&w.p);
    while (w.p.events < RUN_EVENTS) {
        look_for_the_starved(&w);
        if (one_in(&w, 60)) {
            meddle(&w);
            play_step(&w.p);
        } else if (!play_turn(&w.p)) {
            nobody_is_stuck(&w);
            meddle(&w);
            play_step(&w.p);
            w.p.events++; /* a world in which nothing can be opened ends too */
        }
    }
    uint64_t events = w.p.events;
    struct leat_sched_stats st = play_stats(&w.p);
    for (unsigned i = 0; i < PLAY_LANES; i++) {
        if (w.p.lanes[i])
            close_lane(&w, w.p.lanes[i]);
    }
    play_close(&w.p);
    sum.refused += w.refused;
    sum.errors += w.errors;
    sum.yields += w.p.yields;
    sum.split += st.split;
    sum.stored += st.stored_chunks;
    sum.forgotten += st.forgotten;
    sum.refetched += st.refetched;
    sum.failed += st.failed;
    return events;
}

TEST(nothing_that_happens_breaks_a_promise)
{
    uint64_t events = 0;
    for (uint64_t seed = 0; events < events_wanted; seed++) {
        if (only_seed != UINT64_MAX)
            seed = only_seed;
        world_number = seed;
        events += live(seed);
        if (only_seed != UINT64_MAX)
            return;
    }
    printf("# %llu events: %llu batches published, %llu epochs ended, %llu lanes refused, %llu errors raised of %llu "
           "failures, %llu batches in groups, %llu yields, %llu chunks demoted, %llu forgotten, %llu fetched again\n",
           (unsigned long long)events, (unsigned long long)sum.published, (unsigned long long)sum.epochs,
           (unsigned long long)sum.refused, (unsigned long long)sum.errors, (unsigned long long)sum.failed,
           (unsigned long long)sum.split, (unsigned long long)sum.yields, (unsigned long long)sum.stored,
           (unsigned long long)sum.forgotten, (unsigned long long)sum.refetched);
    assert_true(sum.published > events / 50 && sum.epochs && sum.refused && sum.errors && sum.failed > sum.errors);
    assert_true(sum.split && sum.yields && sum.stored && sum.forgotten && sum.refetched);
}

static void set_up(void)
{
    events_wanted = unit_number(0, events_wanted);
    only_seed = unit_number(1, only_seed);
}

TEST_GROUP(set_up, NULL);
