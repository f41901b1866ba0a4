/* Chunks for other machines. sched_play.c performs the scheduler's actions and watches the budgets. */

#include "sched_play.h"

static struct play p;

struct visitor {
    struct leat_sched_guest guest; /* first member */
    int here;                      /* -1: not told yet */
};

static void on_guest(struct leat_sched_guest *guest, bool here)
{
    ((struct visitor *)guest)->here = here;
}

static void visit(struct visitor *v, const struct play_set *set, uint32_t number)
{
    *v = (struct visitor){.guest.done = on_guest, .here = -1};
    assert_true(leat_sched_guest_come(set->set, number, &v->guest, p.now_ns));
    play_step(&p);
}

/* However many machines ask, a chunk is fetched once, and stays while it goes out. */
TEST(guests_share_one_fetch)
{
    struct visitor v[5];
    play_open(&p, &(struct play_opts){.ram = 1000});
    struct play_set *set = play_set(&p, 20, 0, 100, 0, 1);
    for (unsigned i = 0; i < 5; i++)
        visit(&v[i], set, 7);
    assert_true(leat_sched_guest_coming(&v[4].guest));
    while (play_turn(&p))
        ;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(v[i].here, 1);
    assert_int_equal(set->fetched[7], 1);
    assert_int_equal(play_stats(&p).ram_pinned, 100);
    for (unsigned i = 0; i < 5; i++)
        leat_sched_guest_leave(&v[i].guest);
    assert_int_equal(play_stats(&p).ram_pinned, 0);
    visit(&v[0], set, 7); /* it is still there */
    assert_int_equal(v[0].here, 1);
    leat_sched_guest_leave(&v[0].guest);
    play_close(&p);
}

/* Half of what is promised to nobody, and one chunk in any case: lanes always have what they were promised. */
TEST(guests_hold_a_bounded_part_of_memory)
{
    struct visitor v[10];
    const uint32_t none[1][8] = {{PLAY_END}};
    unsigned here = 0;
    play_open(&p, &(struct play_opts){.ram = 1000});
    struct play_set *set = play_set(&p, 20, 0, 100, 0, 1);
    struct play_lane *l =
        play_lane(&p, &(struct play_lane_opts){.set = set, .slots = 1, .needed = 400, .step_ns = MILLI, .told = none});
    for (unsigned i = 0; i < 10; i++)
        visit(&v[i], set, i);
    while (play_turn(&p))
        ;
    for (unsigned i = 0; i < 10; i++)
        here += v[i].here == 1;
    assert_int_equal(here, 3);
    for (unsigned i = 0; i < 10; i++) { /* who leaves makes room for the next */
        leat_sched_guest_leave(&v[i].guest);
        play_step(&p);
        while (play_turn(&p))
            ;
    }
    assert_int_equal(play_stats(&p).ram_pinned, 0);
    play_lane_close(l);
    play_close(&p);
}

TEST(a_guest_is_told_when_its_chunk_cannot_come)
{
    struct visitor v;
    play_open(&p, &(struct play_opts){.ram = 1000});
    struct play_set *set = play_set(&p, 20, 0, 100, 0, 1);
    p.fail_number = 3;
    p.fail_times = 1;
    visit(&v, set, 3);
    while (play_turn(&p))
        ;
    assert_int_equal(v.here, 0);
    visit(&v, set, 3); /* the next one tries again */
    while (play_turn(&p))
        ;
    assert_int_equal(v.here, 1);
    leat_sched_guest_leave(&v.guest);
    assert_false(leat_sched_guest_come(set->set, 20, &v.guest, p.now_ns)); /* there is no such chunk */
    play_close(&p);
}
