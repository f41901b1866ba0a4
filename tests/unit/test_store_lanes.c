/* Who is asked to slow down, without a clock or a socket. */

#include "base/clock.h"
#include "store/lanes.h"
#include "unit.h"

#define START (1000 * LEAT_S)

/* Folders that have lanes of their own. */
static void choose(uint32_t *lanes, uint32_t n)
{
    char key[32];
    uint32_t found = 0;
    for (unsigned i = 0; found < n; i++) {
        snprintf(key, sizeof key, "folder%u/key", i);
        uint32_t lane = leat_lanes_of(key);
        uint32_t same = 0;
        for (uint32_t k = 0; k < found; k++)
            same += lanes[k] == lane;
        if (!same)
            lanes[found++] = lane;
    }
}

static struct leat_lanes *new_lanes(void)
{
    struct leat_lanes *l = calloc(1, sizeof *l);
    assert_non_null(l);
    return l;
}

static uint32_t limit_of(struct leat_lanes *l, uint32_t lane, uint64_t now)
{
    uint32_t running = l->lane[lane].running;
    uint32_t n = 0;
    for (l->lane[lane].running = 0; n < 1000 && leat_lanes_room(l, lane, true, now); n++)
        l->lane[lane].running++;
    l->lane[lane].running = running;
    return n;
}

TEST(keys_of_a_folder_share_a_lane)
{
    assert_int_equal(leat_lanes_of("a/b/x"), leat_lanes_of("a/b/y"));
    assert_int_equal(leat_lanes_of("a/b/"), leat_lanes_of("a/b/y"));
    assert_int_equal(leat_lanes_of(""), leat_lanes_of("top"));
    uint32_t lanes[LEAT_LANES];
    choose(lanes, LEAT_LANES); /* every lane is somebody's */
    for (uint32_t i = 0; i < LEAT_LANES; i++)
        assert_true(lanes[i] < LEAT_LANES);
}

TEST(one_folder_that_is_refused_slows_itself_only)
{
    struct leat_lanes *l = new_lanes();
    uint32_t lanes[4];
    choose(lanes, 4);
    for (uint32_t i = 0; i < 4; i++)
        l->lane[lanes[i]].running = 16;
    for (uint32_t i = 0; i < 400; i++) {
        bool hot = i % 4 == 0;
        bool told = leat_lanes_answered(l, lanes[i % 4], hot, START + i * LEAT_MS);
        assert_int_equal(told, !hot); /* the store's own pace hears of no refusal */
    }
    assert_true(l->lane[lanes[0]].limited);
    assert_int_equal(limit_of(l, lanes[0], START + LEAT_S / 2), 8); /* at most once a second */
    for (uint32_t i = 1; i < 4; i++)
        assert_int_equal(limit_of(l, lanes[i], START + LEAT_S / 2), 1000);
    free(l);
}

TEST(quick_refusals_do_not_hide_those_who_wait_for_an_answer)
{
    struct leat_lanes *l = new_lanes();
    uint32_t lanes[3];
    choose(lanes, 3);
    for (uint32_t i = 0; i < 3; i++)
        l->lane[lanes[i]].running = 20;
    for (uint32_t i = 0; i < 200; i++) /* nothing else is answered meanwhile */
        assert_false(leat_lanes_answered(l, lanes[1], true, START + i * LEAT_MS));
    assert_int_equal(limit_of(l, lanes[1], START + LEAT_S / 2), 10);
    assert_int_equal(limit_of(l, lanes[2], START + LEAT_S / 2), 1000);
    free(l);
}

TEST(where_there_is_one_folder_it_is_the_store)
{
    struct leat_lanes *l = new_lanes();
    l->lane[5].running = 20;
    for (uint32_t i = 0; i < 200; i++)
        assert_true(leat_lanes_answered(l, 5, i % 3 == 0, START + i * LEAT_MS));
    assert_false(l->lane[5].limited);
    free(l);
}

TEST(where_most_are_refused_it_is_the_store)
{
    struct leat_lanes *l = new_lanes();
    uint32_t lanes[8];
    uint32_t told = 0;
    choose(lanes, 8);
    for (uint32_t i = 0; i < 8; i++)
        l->lane[lanes[i]].running = 8;
    for (uint32_t i = 0; i < 64; i++)
        told += leat_lanes_answered(l, lanes[i % 8], true, START + i * LEAT_MS);
    assert_true(told > 50);
    free(l);
}

TEST(strays_change_nothing)
{
    struct leat_lanes *l = new_lanes();
    uint32_t lanes[4];
    choose(lanes, 4);
    for (uint32_t i = 0; i < 4; i++)
        l->lane[lanes[i]].running = 16;
    for (uint32_t i = 0; i < 10000; i++)
        leat_lanes_answered(l, lanes[i % 4], i % 21 == 0, START + i * LEAT_MS); /* 5 % */
    assert_int_equal(l->limited, 0);
    free(l);
}

TEST(a_lane_recovers_and_is_forgiven)
{
    struct leat_lanes *l = new_lanes();
    uint32_t lanes[2];
    choose(lanes, 2);
    l->lane[lanes[0]].running = 40;
    l->lane[lanes[1]].running = 40;
    for (uint32_t i = 0; i < 20; i++)
        leat_lanes_answered(l, lanes[0], true, START + i * LEAT_MS);
    assert_int_equal(limit_of(l, lanes[0], START + LEAT_S / 2), 20);
    uint64_t now = START;
    for (; now < START + 40 * LEAT_S; now += 10 * LEAT_MS) {
        uint32_t limit = limit_of(l, lanes[0], now);
        leat_lanes_received(l, lanes[0], limit * 100000ull); /* the more, the more comes */
        leat_lanes_answered(l, lanes[0], false, now);
    }
    assert_true(limit_of(l, lanes[0], now) >= 40);
    assert_int_equal(limit_of(l, lanes[0], START + 62 * LEAT_S), 1000);
    assert_int_equal(l->limited, 0);
    free(l);
}
