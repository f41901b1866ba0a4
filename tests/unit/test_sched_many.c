/* However many chunks there are, no call of the scheduler goes through all of them: the agent's loop has other things
 * to do. What a call has done is read off the chunks themselves. */

#include <stdlib.h>

#include "base/random.h"
#include "sched/cursor.h"
#include "sched/inside.h"
#include "unit.h"

#define CHUNKS 12000u
#define PART   1000u /* that a call may see to at most: a millisecond */

static uint8_t names[CHUNKS * LEAT_SCHED_NAME];
static uint32_t sizes[CHUNKS];
static uint32_t counts[CHUNKS];
static uint32_t forgotten;
static uint32_t asked;
static uint32_t sent;

static const uint8_t *name_of(uint32_t i)
{
    return names + (size_t)i * LEAT_SCHED_NAME;
}

static bool do_fetch(void *user, struct leat_sched_chunk *c, const struct leat_sched_fetch *how)
{
    (void)user, (void)c, (void)how;
    sent++;
    return true;
}

static void do_nothing(void *user, struct leat_sched_chunk *c)
{
    (void)user, (void)c;
}

static void do_forget(void *user, struct leat_sched_chunk *c)
{
    (void)user, (void)c;
    forgotten++;
}

/* Batches of many chunks: those that a lane has still to get. */
#define BATCH 2500u
static struct leat_sched_batch batches[3];
static uint32_t batch_chunks[COUNT(batches)][BATCH];
static unsigned planned = COUNT(batches);
static struct leat_sched_batch *preparing[COUNT(batches)];
static unsigned preparing_n;
static unsigned published;

static struct leat_sched_batch *do_plan(void *user, struct leat_sched_lane *lane)
{
    (void)user, (void)lane;
    return planned < COUNT(batches) ? &batches[planned++] : NULL;
}

static void do_prepare(void *user, struct leat_sched_batch *batch)
{
    (void)user;
    preparing[preparing_n++] = batch;
    for (uint32_t i = batch->group; i < batch->group_end; i++)
        assert_true(batch->held[i]->state == LEAT_SCHED_READY && batch->held[i]->pins);
}

static bool do_publish(void *user, struct leat_sched_batch *batch)
{
    (void)user, (void)batch;
    published++;
    return true;
}

/* In the order of the set, whichever the lane. */
static bool do_ahead(void *user, struct leat_sched_lane *lane, uint32_t *number, uint64_t *stage)
{
    uint32_t *next = leat_sched_lane_user(lane);
    (void)user;
    asked++;
    *number = *next;
    *stage = *next;
    return (*next)++ < CHUNKS;
}

static const struct leat_sched_ops ops = {.fetch = do_fetch,
                                          .drop = do_nothing,
                                          .gone = do_nothing,
                                          .forget = do_forget,
                                          .plan = do_plan,
                                          .ahead = do_ahead,
                                          .prepare = do_prepare,
                                          .publish = do_publish};

static struct leat_sched *open_sched(uint64_t ram)
{
    struct leat_sched *s;
    struct leat_error err;
    struct leat_sched_opts opts = {.ram = ram, .disk = 1ull << 40, .marks = true, .ops = &ops};
    for (uint32_t i = 0; i < CHUNKS; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            uint64_t part = leat_random_u64(1, k, i);
            memcpy(names + (size_t)i * LEAT_SCHED_NAME + 8 * (size_t)k, &part, sizeof part);
        }
        sizes[i] = 1000;
        counts[i] = 2;
    }
    assert_ok(leat_sched_open(&opts, &s, &err), err);
    return s;
}

static struct leat_sched_set *open_set(struct leat_sched *s)
{
    struct leat_sched_set *set;
    struct leat_error err;
    struct leat_sched_set_opts opts = {.names = names, .sizes = sizes, .chunks = CHUNKS, .user = names};
    leat_sched_measure(&opts);
    assert_int_equal(opts.bytes, 1000ull * CHUNKS);
    assert_int_equal(opts.largest, 1000);
    assert_ok(leat_sched_set_open(s, &opts, &set, &err), err);
    return set;
}

/* Chunks that know of a set. */
static uint32_t count_refs(const struct leat_sched *s, const struct leat_sched_set *set)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < CHUNKS; i++) {
        const struct leat_sched_chunk *c = leat_sched_find(s, name_of(i));
        for (const struct leat_sched_ref *r = c ? &c->ref : NULL; r && r->set; r = r->next)
            n += r->set == set && r->number == i;
    }
    return n;
}

static void find_all(struct leat_sched *s)
{
    for (uint32_t i = 0; i < CHUNKS; i++)
        assert_int_equal(leat_sched_found(s, name_of(i), sizes[i]), LEAT_OK);
}

TEST(one_chunk_more_moves_those_of_one_bucket)
{
    struct leat_sched *s = open_sched(1 << 20);
    const char *first = NULL;
    size_t longest = 0;
    for (uint32_t i = 0; i < CHUNKS; i++) {
        size_t before = s->buckets;
        assert_int_equal(leat_sched_found(s, name_of(i), sizes[i]), LEAT_OK);
        assert_true(!before || s->buckets - before <= 1);
        first = first ? first : s->table.list[0];
        assert_ptr_equal(s->table.list[0], first);
    }
    for (size_t i = 0; i < s->buckets; i++) {
        size_t n = 0;
        for (const struct leat_sched_chunk *c = leat_sched_bucket(s, i); c; c = c->chain)
            n++;
        longest = n > longest ? n : longest;
    }
    assert_int_equal(s->buckets, CHUNKS);
    assert_true(longest < 16);
    for (uint32_t i = 0; i < CHUNKS; i++)
        assert_memory_equal(leat_sched_find(s, name_of(i))->name, name_of(i), LEAT_SCHED_NAME);
    leat_sched_close(s);
}

TEST(a_set_opens_and_closes_in_parts)
{
    struct leat_sched *s = open_sched(1 << 20);
    find_all(s);
    struct leat_sched_set *set = open_set(s);
    uint64_t now = 1;
    for (uint32_t had = 0, steps = 0; had < CHUNKS; steps++) {
        uint32_t has = count_refs(s, set);
        assert_in_range(has - had, 1, PART);
        had = has;
        assert_true(had == CHUNKS || leat_sched_wake_ns(s) != LEAT_SCHED_NEVER);
        leat_sched_step(s, now++);
    }
    struct leat_sched_set *second = open_set(s); /* half known when it goes */
    for (unsigned i = 0; i < 10; i++)
        leat_sched_step(s, now++);
    leat_sched_set_close(second);
    leat_sched_set_close(set);
    memset(names, 0xff, sizeof names / 2); /* they are borrowed no more */
    uint32_t left = s->closed ? CHUNKS : 0;
    for (; s->closed; leat_sched_step(s, now++)) {
        size_t refs = 0;
        for (const struct leat_sched_set *c = s->closed; c; c = c->next)
            refs += c->refs;
        assert_true(refs > 0 && leat_sched_wake_ns(s) != LEAT_SCHED_NEVER);
    }
    assert_true(left > 0);
    for (uint32_t i = CHUNKS / 2; i < CHUNKS; i++)
        assert_null(leat_sched_find(s, name_of(i))->ref.set);
    leat_sched_step(s, now++);
    assert_int_equal(leat_sched_wake_ns(s), LEAT_SCHED_NEVER);
    leat_sched_close(s);
}

TEST(a_closed_set_is_forgotten_in_parts)
{
    struct leat_sched *s = open_sched(1 << 20);
    find_all(s);
    struct leat_sched_set *set = open_set(s);
    uint64_t now = 1;
    while (count_refs(s, set) < CHUNKS)
        leat_sched_step(s, now++);
    uint32_t had = CHUNKS;
    leat_sched_set_close(set);
    while (had) {
        uint32_t has = count_refs(s, set);
        assert_in_range(had - has, 1, PART);
        had = has;
        leat_sched_step(s, now++);
    }
    leat_sched_close(s);
}

TEST(a_set_may_go_while_chunks_come_and_others_open)
{
    struct leat_sched *s = open_sched(1 << 20);
    uint64_t now = 1;
    for (uint32_t i = 0; i < CHUNKS / 2; i++)
        assert_int_equal(leat_sched_found(s, name_of(i), sizes[i]), LEAT_OK);
    struct leat_sched_set *set = open_set(s);
    for (unsigned i = 0; i < 100; i++)
        leat_sched_step(s, now++);
    leat_sched_set_close(set);
    struct leat_sched_set *next = open_set(s);       /* often in the place where memory was freed, and never the same */
    for (uint32_t i = CHUNKS / 2; i < CHUNKS; i++) { /* buckets split behind those that are looked at */
        assert_int_equal(leat_sched_found(s, name_of(i), sizes[i]), LEAT_OK);
        if (i % 64 == 0)
            leat_sched_step(s, now++);
    }
    while (leat_sched_wake_ns(s) != LEAT_SCHED_NEVER)
        leat_sched_step(s, now++);
    assert_null(s->closed);
    for (uint32_t i = 0; i < CHUNKS / 2; i++) {
        const struct leat_sched_chunk *c = leat_sched_find(s, name_of(i));
        assert_ptr_equal(c->ref.set, next);
        assert_null(c->ref.next);
    }
    leat_sched_set_close(next);
    leat_sched_close(s); /* what closed sets left is freed with it */
}

TEST(a_smaller_disk_is_emptied_in_parts)
{
    struct leat_sched *s = open_sched(1 << 20);
    uint64_t now = 1;
    find_all(s);
    forgotten = 0;
    leat_sched_set_disk(s, 1000);
    do {
        uint32_t before = forgotten;
        leat_sched_step(s, now++);
        assert_in_range(forgotten - before, 0, PART);
    } while (leat_sched_wake_ns(s) != LEAT_SCHED_NEVER);
    assert_int_equal(forgotten, CHUNKS - 1);
    leat_sched_close(s);
}

/* Lanes share what a step may do: with many of them it takes no longer, and all get their turn. */
TEST(a_step_looks_ahead_no_farther_for_many_lanes)
{
    struct leat_sched *s = open_sched(1 << 30);
    struct leat_order_spec spec = {.view = LEAT_ORDER_VIEW_SAMPLES, .counts = counts, .chunks = CHUNKS, .window = 1};
    struct leat_order *order;
    struct leat_error err;
    struct leat_sched_lane *lanes[32];
    uint32_t next[32] = {0};
    find_all(s);
    struct leat_sched_set *set = open_set(s);
    assert_ok(leat_order_open(&spec, &order, &err), err);
    struct leat_sched_stream one = {.now = order};
    for (unsigned i = 0; i < COUNT(lanes); i++) {
        struct leat_sched_lane_opts o = {
            .set = set, .needed = 1000, .slots = 2, .user = &next[i], .view = {.streams = &one, .streams_n = 1}};
        assert_ok(leat_sched_lane_open(s, &o, 1, &lanes[i], &err), err);
    }
    asked = sent = 0;
    for (uint64_t now = 2; now < 200; now++) {
        uint32_t before = asked;
        uint32_t sent_before = sent;
        leat_sched_step(s, now);
        assert_true((asked - before) * COUNT(lanes) <= PART + COUNT(lanes) * COUNT(lanes));
        assert_true(sent - sent_before <= PART / 8);
        assert_true(leat_sched_wake_ns(s) == now + 1);
    }
    for (unsigned i = 0; i < COUNT(lanes); i++)
        assert_true(next[i] > 0);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        struct leat_sched_chunk *c = leat_sched_find(s, name_of(i));
        if (c && c->state == LEAT_SCHED_COMING)
            leat_sched_arrived(s, c, 1000);
    }
    for (unsigned i = 0; i < COUNT(lanes); i++)
        leat_sched_lane_close(lanes[i], NULL);
    leat_sched_set_close(set);
    leat_sched_close(s);
    leat_order_close(order);
}

TEST(a_cursor_finds_what_little_a_machine_owns_in_several_calls)
{
    const uint32_t nodes[2] = {0, 1};
    uint32_t owner[LEAT_ORDER_SLOTS_MAX];
    struct leat_order_spec spec = {
        .view = LEAT_ORDER_VIEW_SAMPLES, .counts = counts, .chunks = CHUNKS, .shuffle = true, .window = 8};
    struct leat_cursor_opts o = {
        .specs = &spec, .specs_n = 1, .global_batch = 8, .last = LEAT_ORDER_DROP, .world = 2, .node_of_rank = nodes};
    struct leat_cursor *c;
    struct leat_error err;
    uint32_t calls = 0;
    uint32_t found = 0;
    uint32_t chunk;
    uint64_t stage;
    leat_sched_close(open_sched(1)); /* counts */
    assert_ok(leat_cursor_open(&o, &c, &err), err);
    for (uint32_t i = 0; i < LEAT_ORDER_SLOTS_MAX; i++)
        owner[i] = i == 700 ? 0 : 1;
    leat_cursor_own(c, owner, 0);
    for (; leat_cursor_ahead(c, &chunk, &stage); calls++) {
        found += chunk != LEAT_ORDER_NONE;
        if (chunk != LEAT_ORDER_NONE)
            assert_int_equal(leat_order_slot_of(chunk, CHUNKS), 700);
    }
    uint32_t owned = 0;
    for (uint32_t i = 0; i < CHUNKS; i++)
        owned += leat_order_slot_of(i, CHUNKS) == 700;
    assert_int_equal(found, 2 * owned); /* in this epoch, and in the next */
    assert_true(calls - found >= 2 * CHUNKS / LEAT_CURSOR_LOOKS - found - 1);
    leat_cursor_close(c);
}

static struct leat_cursor *open_mixed(const struct leat_mixture *mixture, const struct leat_order_spec *specs)
{
    struct leat_cursor *c;
    struct leat_error err;
    struct leat_cursor_opts o = {.specs = specs,
                                 .specs_n = mixture ? 2 : 1,
                                 .mixture = mixture,
                                 .epoch_units = mixture ? 50000 : 0,
                                 .global_batch = 250,
                                 .last = LEAT_ORDER_DROP,
                                 .world = 1};
    assert_ok(leat_cursor_open(&o, &c, &err), err);
    return c;
}

/* The orders that a cursor has, as its view shows them. Those that are over are freed by the call after the next. */
TEST(a_cursor_tells_before_it_makes_or_frees_an_order)
{
    struct leat_mixture *mixture;
    struct leat_error err;
    struct leat_mixture_part part = {.shares = {3, 1}};
    const struct leat_order_spec specs[2] = {
        {.view = LEAT_ORDER_VIEW_SAMPLES, .counts = counts, .chunks = 9000, .shuffle = true, .window = 8},
        {.view = LEAT_ORDER_VIEW_SAMPLES, .counts = counts, .chunks = 5000, .shuffle = true, .window = 8}};
    leat_sched_close(open_sched(1)); /* counts */
    assert_ok(leat_mixture_open(2, &part, 1, &mixture, &err), err);
    for (unsigned mixed = 0; mixed < 2; mixed++) {
        struct leat_cursor *c = open_mixed(mixed ? mixture : NULL, specs);
        unsigned made = 0;
        unsigned slow = 0;
        bool frees[3] = {false};
        for (unsigned n = 0; n < 600; n++) {
            struct leat_sched_view view;
            struct leat_cursor_batch b;
            const struct leat_order *was[2];
            bool told = leat_cursor_next_is_slow(c);
            bool turned = false;
            leat_cursor_view(c, &view);
            for (uint32_t i = 0; i < view.streams_n; i++)
                was[i] = view.streams[i].coming;
            assert_ok(leat_cursor_next(c, &b, &err), err);
            leat_cursor_batch_free(&b);
            leat_cursor_view(c, &view);
            for (uint32_t i = 0; i < view.streams_n; i++)
                turned = turned || view.streams[i].coming != was[i];
            assert_true(told || !turned);
            assert_true(told || !frees[n % 3]);
            frees[(n + 2) % 3] = turned;
            frees[n % 3] = false;
            made += turned;
            slow += told;
        }
        assert_true(made >= 7);
        assert_true(slow <= 6 * made + 3); /* and not out of fear: the others are planned where they are needed */
        leat_cursor_close(c);
    }
    leat_mixture_close(mixture);
}

struct tally {
    uint32_t wanted, pinned, sent;
};

static struct tally tally(const struct leat_sched *s)
{
    struct tally t = {.sent = sent};
    for (uint32_t i = 0; i < COUNT(batches) * BATCH; i++) {
        const struct leat_sched_chunk *c = leat_sched_find(s, name_of(i));
        t.wanted += c && c->wants;
        t.pinned += c && c->pins;
    }
    return t;
}

static uint32_t apart(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}

/* A step, or what is called between two; then no more has happened than may. */
static void check_part(const struct leat_sched *s, struct tally *was)
{
    struct tally now = tally(s);
    assert_in_range(apart(was->wanted, now.wanted), 0, PART);
    assert_in_range(apart(was->pinned, now.pinned), 0, PART);
    assert_in_range(now.sent - was->sent, 0, PART / 8);
    *was = now;
}

static void arrive(struct leat_sched *s, uint64_t now)
{
    for (uint32_t i = 0; i < CHUNKS; i++) {
        struct leat_sched_chunk *c = leat_sched_find(s, name_of(i));
        if (c && c->state == LEAT_SCHED_COMING)
            leat_sched_arrived(s, c, now);
    }
}

static struct leat_sched_lane *open_lane(struct leat_sched *s, struct leat_sched_set *set,
                                         const struct leat_sched_stream *one, uint32_t *next)
{
    struct leat_sched_lane *lane;
    struct leat_error err;
    struct leat_sched_lane_opts o = {
        .set = set, .needed = 1000 * BATCH, .slots = 2, .user = next, .view = {.streams = one, .streams_n = 1}};
    for (uint32_t i = 0; i < COUNT(batches) * BATCH; i++)
        batch_chunks[i / BATCH][i % BATCH] = i;
    for (uint32_t i = 0; i < COUNT(batches); i++)
        batches[i] = (struct leat_sched_batch){.chunks = batch_chunks[i], .chunks_n = BATCH, .stage = i};
    planned = published = 0;
    sent = 0;
    assert_ok(leat_sched_lane_open(s, &o, 1, &lane, &err), err);
    leat_sched_lane_ready(lane);
    return lane;
}

TEST(a_batch_of_many_chunks_is_planned_sent_for_and_let_go_of_in_parts)
{
    struct leat_order_spec spec = {.view = LEAT_ORDER_VIEW_SAMPLES, .counts = counts, .chunks = CHUNKS, .window = 1};
    struct leat_order *order;
    struct leat_error err;
    struct leat_sched *s = open_sched(1 << 30);
    struct leat_sched_set *set = open_set(s);
    uint32_t next = CHUNKS;
    assert_ok(leat_order_open(&spec, &order, &err), err);
    struct leat_sched_stream one = {.now = order};
    struct leat_sched_lane *lane = open_lane(s, set, &one, &next);
    struct tally was = tally(s);
    for (uint64_t now = 2; published < COUNT(batches); now++) {
        assert_true(now < 100000);
        leat_sched_step(s, now);
        check_part(s, &was);
        arrive(s, now);
        while (preparing_n) {
            leat_sched_prepared(preparing[--preparing_n]);
            check_part(s, &was);
        }
        for (uint32_t i = 0; i < 2; i++)
            leat_sched_slot_free(lane, i, now); /* those that it has not are nobody's */
    }
    for (uint64_t now = 100000; leat_sched_wake_ns(s) != LEAT_SCHED_NEVER; now++) {
        leat_sched_step(s, now);
        check_part(s, &was);
    }
    assert_true(was.wanted == 0 && was.pinned == 0);
    assert_int_equal(was.sent, COUNT(batches) * BATCH);
    leat_sched_lane_close(lane, NULL);
    leat_sched_set_close(set);
    leat_sched_close(s);
    leat_order_close(order);
}

/* At any moment: while its batches are planned, while they wait, while one is prepared. */
TEST(a_lane_with_many_chunks_ends_in_parts)
{
    struct leat_order_spec spec = {.view = LEAT_ORDER_VIEW_SAMPLES, .counts = counts, .chunks = CHUNKS, .window = 1};
    struct leat_order *order;
    struct leat_error err;
    leat_sched_close(open_sched(1)); /* counts */
    assert_ok(leat_order_open(&spec, &order, &err), err);
    struct leat_sched_stream one = {.now = order};
    const unsigned moments[] = {5, 60, 120, 240, 400};
    for (unsigned m = 0; m < COUNT(moments); m++) {
        unsigned steps = moments[m];
        struct leat_sched *s = open_sched(1 << 30);
        struct leat_sched_set *set = open_set(s);
        uint32_t next = 2 * BATCH; /* and far ahead */
        struct leat_sched_lane *lane = open_lane(s, set, &one, &next);
        for (uint64_t now = 2; now < steps + 2; now++) {
            leat_sched_step(s, now);
            arrive(s, now);
        }
        struct tally was = tally(s);
        leat_sched_lane_close(lane, NULL);
        check_part(s, &was);
        leat_sched_set_close(set);
        for (uint64_t now = steps + 2; leat_sched_wake_ns(s) != LEAT_SCHED_NEVER; now++) {
            assert_true(now < 100000);
            leat_sched_step(s, now);
            check_part(s, &was);
            if (preparing_n && now > steps + 50) {
                leat_sched_prepared(preparing[--preparing_n]);
                check_part(s, &was);
            }
        }
        while (preparing_n)
            leat_sched_prepared(preparing[--preparing_n]);
        leat_sched_close(s); /* and what is left goes with it */
    }
    leat_order_close(order);
}
