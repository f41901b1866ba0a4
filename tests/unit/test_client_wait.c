/* Waiting by cause: every nanosecond once, whatever a wait ends with. */
#include "client/wait.h"
#include "unit.h"

static uint64_t causes(const struct leat_account *a)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < LEAT_WAIT_CAUSES; i++)
        sum += a->wait_by_cause_ns[i];
    return sum;
}

TEST(a_batch_divides_its_wait)
{
    static const struct {
        uint64_t ready, end, fetch, prep, other;
    } cases[] = {
        {130, 150, 30, 20, 10}, /* chunks, then making it, then being woken up */
        {90, 150, 0, 50, 10},   /* its chunks had been there */
        {0, 150, 50, 0, 10},    /* they never came */
        {200, 150, 50, 0, 10},  /* stamps that make no sense */
        {50, 90, 0, 0, 60},     /* it was there before the wait */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct leat_wait w = {0};
        struct leat_account a = {0};
        leat_wait_enter(&w, 100);
        leat_wait_charge_batch(&w, cases[i].ready, cases[i].end, &a);
        leat_wait_leave(&w, 160, &a);
        assert_int_equal(a.wait_by_cause_ns[LEAT_WAIT_FETCH], cases[i].fetch);
        assert_int_equal(a.wait_by_cause_ns[LEAT_WAIT_PREP], cases[i].prep);
        assert_int_equal(a.wait_by_cause_ns[LEAT_WAIT_OTHER], cases[i].other);
        assert_int_equal(a.wait_ns, 60);
    }
}

TEST(waits_within_waits_count_once)
{
    struct leat_wait w = {0};
    struct leat_account a = {0};
    leat_wait_enter(&w, 10);
    leat_wait_charge(&w, LEAT_WAIT_FETCH, 30, &a);
    leat_wait_enter(&w, 30); /* the agent is lost: another one opens the loader */
    leat_wait_charge(&w, LEAT_WAIT_AGENT, 70, &a);
    leat_wait_leave(&w, 75, &a);
    assert_int_equal(a.wait_ns, 0);
    leat_wait_charge(&w, LEAT_WAIT_PREP, 80, &a);
    leat_wait_leave(&w, 81, &a);
    assert_int_equal(a.wait_ns, 71);
    assert_int_equal(a.wait_by_cause_ns[LEAT_WAIT_AGENT], 40);
    assert_int_equal(a.wait_by_cause_ns[LEAT_WAIT_PREP], 10);
    assert_int_equal(causes(&a), a.wait_ns);
    leat_wait_charge(&w, LEAT_WAIT_OPEN, 999, &a); /* nobody waits */
    leat_wait_leave(&w, 999, &a);
    assert_int_equal(causes(&a), 71);
}

TEST(causes_add_up_to_the_total_in_any_sequence)
{
    uint64_t draw = 12345;
    struct leat_wait w = {0};
    struct leat_account a = {0};
    uint64_t now = 1;
    for (int i = 0; i < 200000; i++) {
        draw = draw * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t what = (uint32_t)(draw >> 60);
        uint64_t step = draw >> 40 & 1023;
        now += step;
        if (what < 4 && w.depth < 5)
            leat_wait_enter(&w, now);
        else if (what < 8)
            leat_wait_leave(&w, now, &a);
        else if (what < 12)
            leat_wait_charge(&w, what % LEAT_WAIT_CAUSES, now - (step & 7), &a);
        else
            leat_wait_charge_batch(&w, what & 1 ? now - step / 2 : 0, now, &a);
        if (!w.depth)
            assert_true(causes(&a) == a.wait_ns);
    }
    assert_true(a.wait_ns > 0);
}

TEST(time_for_chunks_belongs_to_where_the_last_came_from)
{
    struct leat_wait w = {0};
    struct leat_account a = {0};
    leat_wait_enter(&w, 100);
    leat_wait_charge_batch(&w, 0, 130, &a); /* a call that ended before the batch came */
    leat_wait_leave(&w, 130, &a);
    assert_int_equal(a.fetch_wait_by_source_ns[LEAT_STALL_PEER], 0);
    leat_wait_enter(&w, 200);
    leat_wait_charge_batch(&w, 220, 225, &a);
    leat_wait_came_from(LEAT_STALL_PEER, &a);
    leat_wait_leave(&w, 226, &a);
    assert_int_equal(a.fetch_wait_by_source_ns[LEAT_STALL_PEER], 50);
    leat_wait_enter(&w, 300);
    leat_wait_charge_batch(&w, 307, 320, &a);
    leat_wait_came_from(LEAT_STALL_DISK, &a);
    leat_wait_leave(&w, 320, &a);
    assert_int_equal(a.fetch_wait_by_source_ns[LEAT_STALL_PEER], 50);
    assert_int_equal(a.fetch_wait_by_source_ns[LEAT_STALL_DISK], 7);
    assert_int_equal(a.wait_by_cause_ns[LEAT_WAIT_FETCH], 57);
}
