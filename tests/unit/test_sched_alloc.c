/* Memory runs out at every single allocation of the scheduler: a clean error or a later attempt each time, nothing
 * leaked, nothing lost. */

#include "fail_alloc.h"
#include "sched/cursor.h"
#include "sched_play.h"

static uint32_t counts[600];

static leat_status walk(void *user, struct leat_error *err)
{
    (void)user;
    const uint32_t nodes[3] = {0, 1, 1};
    const struct leat_order_spec spec = {
        .view = LEAT_ORDER_VIEW_SAMPLES, .counts = counts, .chunks = 40, .shuffle = true, .window = 5};
    struct leat_cursor_opts o = {
        .specs = &spec, .specs_n = 1, .global_batch = 9, .last = LEAT_ORDER_SHORT, .world = 3, .node_of_rank = nodes};
    struct leat_cursor *c = NULL;
    leat_status rc = leat_cursor_open(&o, &c, err);
    for (unsigned i = 0; rc == LEAT_OK && i < 15; i++) { /* over the end of an epoch */
        struct leat_cursor_batch b;
        rc = leat_cursor_next(c, &b, err);
        if (rc == LEAT_OK)
            leat_cursor_batch_free(&b);
    }
    leat_cursor_close(c);
    return rc;
}

TEST(a_cursor)
{
    for (size_t i = 0; i < COUNT(counts); i++)
        counts[i] = 2;
    assert_true(fail_alloc_each(walk, NULL) > 50);
}

/* Opening everything. */

static bool no_fetch(void *user, struct leat_sched_chunk *c, const struct leat_sched_fetch *how)
{
    (void)user, (void)c, (void)how;
    return false;
}

static void nothing(void *user, struct leat_sched_chunk *c)
{
    (void)user, (void)c;
}

static struct leat_sched_batch *no_plan(void *user, struct leat_sched_lane *lane)
{
    (void)user, (void)lane;
    return NULL;
}

static leat_status open_all(void *user, struct leat_error *err)
{
    const struct leat_order *order = user;
    static const struct leat_sched_ops ops = {
        .fetch = no_fetch, .drop = nothing, .gone = nothing, .forget = nothing, .plan = no_plan};
    static const uint8_t names[4 * LEAT_SCHED_NAME] = {1};
    static const uint32_t sizes[4] = {1, 1, 1, 1};
    struct leat_sched_opts opts = {.ram = 100, .disk = 100, .ops = &ops};
    const struct leat_sched_set_opts so = {.names = names, .sizes = sizes, .chunks = 4, .largest = 1, .bytes = 4};
    struct leat_sched *s = NULL;
    struct leat_sched_set *set = NULL;
    struct leat_sched_lane *lane = NULL;
    leat_status rc = leat_sched_open(&opts, &s, err);
    if (rc == LEAT_OK) {
        rc = leat_sched_found(s, names, 1);
        if (rc != LEAT_OK)
            leat_fail(err, rc, "a chunk on disk is not taken");
    }
    if (rc == LEAT_OK)
        rc = leat_sched_set_open(s, &so, &set, err);
    struct leat_sched_stream one = {.now = order};
    struct leat_sched_lane_opts lo = {.set = set, .needed = 10, .slots = 1, .view = {.streams = &one, .streams_n = 1}};
    if (rc == LEAT_OK)
        rc = leat_sched_lane_open(s, &lo, 1, &lane, err);
    leat_sched_lane_close(lane, NULL);
    leat_sched_set_close(set);
    leat_sched_close(s);
    return rc;
}

TEST(opening)
{
    struct leat_order_spec spec = {.view = LEAT_ORDER_VIEW_SAMPLES, .counts = counts, .chunks = 4, .window = 1};
    struct leat_order *order;
    struct leat_error err;
    assert_ok(leat_order_open(&spec, &order, &err), err);
    assert_true(fail_alloc_each(open_all, order) >= 7);
    leat_order_close(order);
}

/* A lane at work, from the first chunk to the last: steps that run out of memory end the lane with an error in order,
 * or go on later. What the performer allocates itself must not fail, so only the steps are tried. */
TEST(a_lane_at_work)
{
    static struct play p;
    unsigned ended = 0;
    unsigned went_on = 0;
    for (long n = 0;; n++) {
        play_open(&p, &(struct play_opts){.ram = 60000, .disk = 20000});
        struct play_set *one = play_set(&p, 600, 0, 100, 0, 2);
        struct play_set *two = play_set(&p, 600, 300, 100, 0, 2);
        const struct play_lane_opts o = {
            .slots = 2, .needed = 800, .plans = 300, .step_ns = MILLI, .batch = 8, .window = 30};
        struct play_lane_opts mine = o;
        mine.set = one;
        struct play_lane *a = play_lane(&p, &mine);
        mine.set = two;
        struct play_lane *b = play_lane(&p, &mine);
        play_spare(fail_alloc_pause);
        fail_alloc_at(n, n % 2);
        play_step(&p);
        for (unsigned i = 0; i < 400 && play_turn(&p); i++) {
        }
        bool failed = fail_alloc_stop();
        play_spare(NULL);
        play_step(&p);
        play_until_done(&p);
        assert_false(a->failed_chunk || b->failed_chunk); /* it was nobody's chunk */
        assert_true(failed || !(a->failed || b->failed));
        ended += a->failed + b->failed;
        went_on += failed && !(a->failed && b->failed);
        play_close(&p);
        if (!failed)
            break;
    }
    printf("# %u lanes ended with an error, %u times one went on\n", ended, went_on);
    assert_true(ended > 10 && went_on > 10);
}
