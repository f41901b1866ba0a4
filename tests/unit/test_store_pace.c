/* The controller against a simulated server, without a clock or a socket. */

#include "base/clock.h"
#include "base/random.h"
#include "store/pace.h"
#include "unit.h"

#define STEP  (5 * LEAT_MS)
#define MB    1e6
#define START (1000 * LEAT_S) /* of the simulated clock */

struct request {
    uint64_t answers_at_ns;
    double left; /* bytes; 0: not in use */
};

struct sim {
    /* the server */
    uint64_t latency_ns;
    double connection_rate; /* bytes a second */
    double total_rate;
    double object_bytes;
    double stray_chance;  /* of a 503, whatever the load */
    uint32_t refuse_from; /* with this many in flight it refuses every further one; 0: never */
    /* the client */
    bool idle; /* asks for less than allowed */
    struct leat_pace pace;
    struct request requests[LEAT_PACE_MAX];
    struct leat_rng rng;
    uint64_t now_ns;
    /* what was seen */
    double received;
    uint64_t answers;
    uint64_t refused;
    uint32_t cuts;
    uint64_t last_cut_ns;
    uint64_t cut_gap_ns; /* the shortest */
    uint32_t limit_min;
    uint32_t limit_max;
};

static struct sim *new_sim(void)
{
    struct sim *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->latency_ns = 50 * LEAT_MS;
    s->connection_rate = 25 * MB;
    s->total_rate = 400 * MB;
    s->object_bytes = 8 << 20;
    s->pace = leat_pace(0);
    s->rng = leat_rng(1, 0);
    s->now_ns = START;
    return s;
}

static void forget(struct sim *s)
{
    s->received = 0;
    s->answers = s->refused = 0;
    s->cuts = 0;
    s->cut_gap_ns = UINT64_MAX;
    s->limit_min = s->limit_max = s->pace.limit;
}

static uint32_t in_flight(const struct sim *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < LEAT_PACE_MAX; i++)
        n += s->requests[i].left > 0;
    return n;
}

static void answer(struct sim *s, struct request *r, bool throttled)
{
    uint32_t before = s->pace.limit;
    r->left = 0;
    s->answers++;
    s->refused += throttled;
    leat_pace_answered(&s->pace, throttled, s->now_ns);
    if (s->pace.limit < before) {
        uint64_t gap = s->last_cut_ns ? s->now_ns - s->last_cut_ns : UINT64_MAX;
        s->cut_gap_ns = gap < s->cut_gap_ns ? gap : s->cut_gap_ns;
        s->last_cut_ns = s->now_ns;
        s->cuts++;
        assert_true(s->pace.limit >= before / 2);
    }
}

static void serve(struct sim *s)
{
    uint32_t streaming = 0;
    for (size_t i = 0; i < LEAT_PACE_MAX; i++)
        streaming += s->requests[i].left > 0 && s->requests[i].answers_at_ns <= s->now_ns;
    double share = streaming ? s->total_rate / streaming : 0;
    double rate = share < s->connection_rate ? share : s->connection_rate;
    double each = rate * (double)STEP / 1e9;
    uint32_t flying = in_flight(s);
    for (size_t i = 0; i < LEAT_PACE_MAX; i++) {
        struct request *r = &s->requests[i];
        if (r->left <= 0 || r->answers_at_ns > s->now_ns)
            continue;
        bool first = r->left == s->object_bytes;
        if (first && (leat_rng_unit(&s->rng) < s->stray_chance || (s->refuse_from && flying >= s->refuse_from))) {
            flying--;
            answer(s, r, true);
            continue;
        }
        double n = each < r->left ? each : r->left;
        r->left -= n;
        s->received += n;
        leat_pace_received(&s->pace, (uint64_t)n);
        if (r->left < 1)
            answer(s, r, false);
    }
}

static void step(struct sim *s)
{
    s->now_ns += STEP;
    serve(s);
    uint32_t limit = leat_pace_update(&s->pace, !s->idle, s->now_ns);
    uint32_t free_n = limit > in_flight(s) ? limit - in_flight(s) : 0;
    for (size_t i = 0; i < LEAT_PACE_MAX && free_n; i++) {
        if (s->requests[i].left <= 0) {
            s->requests[i] = (struct request){s->now_ns + s->latency_ns, s->object_bytes};
            free_n--;
        }
    }
    s->limit_min = limit < s->limit_min ? limit : s->limit_min;
    s->limit_max = limit > s->limit_max ? limit : s->limit_max;
}

/* Runs for this long; returns the throughput meanwhile. */
static double run(struct sim *s, uint64_t ns)
{
    forget(s);
    for (uint64_t end = s->now_ns + ns; s->now_ns < end;)
        step(s);
    return s->received * 1e9 / (double)ns;
}

TEST(full_rate_is_reached_within_three_seconds_and_kept)
{
    struct sim *s = new_sim();
    run(s, 2 * LEAT_S);
    assert_true(run(s, LEAT_S) > .95 * s->total_rate);
    assert_true(run(s, 60 * LEAT_S) > .99 * s->total_rate);
    assert_true(s->limit_min >= 19); /* 25 MB/s each, less the latency */
    assert_true(s->limit_max <= 128);
    free(s);
}

TEST(climbs_to_the_most_there_may_be_while_every_connection_adds)
{
    struct sim *s = new_sim();
    s->connection_rate = 5 * MB;
    s->total_rate = 5000 * MB;
    s->latency_ns = 100 * LEAT_MS;
    run(s, 3 * LEAT_S);
    assert_int_equal(s->pace.limit, LEAT_PACE_MAX);
    run(s, 30 * LEAT_S);
    assert_int_equal(s->pace.limit, LEAT_PACE_MAX);
    assert_int_equal(s->limit_max, LEAT_PACE_MAX);
    free(s);
}

TEST(few_connections_are_used_where_more_gain_nothing)
{
    struct sim *s = new_sim();
    s->connection_rate = s->total_rate = 1000 * MB;
    s->latency_ns = LEAT_MS;
    run(s, 30 * LEAT_S);
    assert_true(s->limit_max <= 24);
    free(s);
}

TEST(room_that_appears_later_is_found)
{
    struct sim *s = new_sim();
    s->total_rate = 100 * MB;
    run(s, 10 * LEAT_S);
    assert_true(s->pace.limit <= 40);
    s->total_rate = 2000 * MB;
    run(s, 5 * LEAT_S);
    assert_true(run(s, 5 * LEAT_S) > .9 * s->total_rate);
    free(s);
}

TEST(stray_refusals_change_nothing)
{
    struct sim *s = new_sim();
    s->stray_chance = .05;
    assert_true(run(s, 3 * LEAT_S) > .8 * s->total_rate);
    assert_true(run(s, 300 * LEAT_S) > .95 * s->total_rate);
    assert_true(s->refused > 500);
    assert_int_equal(s->cuts, 0);
    free(s);
}

TEST(refusal_of_the_very_first_requests_is_no_burst_yet)
{
    struct leat_pace p = leat_pace(0);
    leat_pace_update(&p, true, START);
    leat_pace_answered(&p, true, START + LEAT_MS);
    leat_pace_answered(&p, true, START + 2 * LEAT_MS);
    assert_int_equal(p.limit, LEAT_PACE_START);
}

TEST(burst_halves_soon_and_at_most_once_a_second)
{
    struct sim *s = new_sim();
    run(s, 10 * LEAT_S);
    uint32_t before = s->pace.limit;
    s->stray_chance = 1;
    run(s, 500 * LEAT_MS);
    assert_int_equal(s->cuts, 1);
    assert_int_equal(s->pace.limit, before / 2);
    run(s, 5500 * LEAT_MS);
    assert_in_range(s->cuts, 3, 6);
    assert_true(s->cut_gap_ns >= LEAT_S);
    assert_true(s->pace.limit >= 1);
    run(s, 60 * LEAT_S);
    assert_int_equal(s->pace.limit, 1);
    free(s);
}

TEST(rate_comes_back_after_a_burst)
{
    struct sim *s = new_sim();
    run(s, 10 * LEAT_S);
    s->stray_chance = 1;
    run(s, 3 * LEAT_S);
    assert_true(s->pace.limit <= 8);
    s->stray_chance = 0;
    run(s, 10 * LEAT_S);
    assert_true(run(s, 5 * LEAT_S) > .95 * s->total_rate);
    free(s);
}

TEST(server_that_refuses_from_some_load_on_is_used_without_a_storm)
{
    struct sim *s = new_sim();
    s->total_rate = 5000 * MB;
    s->refuse_from = 40;
    run(s, 10 * LEAT_S);
    double rate = run(s, 120 * LEAT_S);
    assert_true(rate > .6 * 40 * s->connection_rate * .87); /* .87: the share of its time that a connection streams */
    assert_true(s->refused < s->answers / 15);
    free(s);
}

TEST(limit_stays_while_less_is_wanted_than_allowed)
{
    struct sim *s = new_sim();
    s->idle = true;
    run(s, 30 * LEAT_S);
    assert_int_equal(s->limit_min, LEAT_PACE_START);
    assert_int_equal(s->limit_max, LEAT_PACE_START);
    free(s);
}

TEST(haste_begins_with_many_and_climbs_on_from_there)
{
    struct sim *s = new_sim();
    leat_pace_hurry(&s->pace, 32, s->now_ns);
    assert_int_equal(s->pace.limit, 32);
    /* 32 connections fill the line at once, but for the first round trip. */
    assert_true(run(s, 500 * LEAT_MS) > .85 * s->total_rate);
    assert_true(run(s, 60 * LEAT_S) > .99 * s->total_rate);
    assert_true(s->limit_min >= 32);
    leat_pace_hurry(&s->pace, 16, s->now_ns); /* is less than there are */
    assert_true(s->pace.limit >= 32);
    free(s);
}

TEST(haste_does_not_overrule_a_server_that_has_asked_to_slow_down)
{
    struct sim *s = new_sim();
    s->stray_chance = 1;
    run(s, 3 * LEAT_S);
    uint32_t before = s->pace.limit;
    assert_true(before < LEAT_PACE_START);
    leat_pace_hurry(&s->pace, 32, s->now_ns);
    assert_int_equal(s->pace.limit, before);
    free(s);
}

TEST(fixed_limit_never_changes)
{
    struct sim *s = new_sim();
    s->pace = leat_pace(13);
    leat_pace_hurry(&s->pace, 32, s->now_ns);
    run(s, 10 * LEAT_S);
    s->stray_chance = .8;
    run(s, 10 * LEAT_S);
    assert_int_equal(s->limit_min, 13);
    assert_int_equal(s->limit_max, 13);
    free(s);
}
