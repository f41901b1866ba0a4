/* The scheduler's promises about the disk. sched_play.c performs its actions and watches the budgets. */

#include "sched_play.h"

#define MIB (1ull << 20)

static struct play p;

TEST(demotion_is_ahead_of_need_and_nobody_waits_for_a_write)
{
    uint64_t took[2];
    for (int hangs = 0; hangs < 2; hangs++) {
        play_open(&p, &(struct play_opts){.ram = 64 * MIB, .disk = 400 * MIB});
        p.rate = 1000000000;
        struct play_set *set = play_set(&p, 200, 0, MIB, 0, 4);
        struct play_lane *l = play_by_order(&p, set, (struct play_lane_opts){.plans = 40, .slots = 2});
        p.disk_ns = hangs ? 3600000 * MILLI : MILLI;
        play_step(&p);
        while (!play_lane_done(l))
            assert_true(play_turn(&p));
        took[hangs] = l->last_ns - l->first_ns;
        assert_int_equal(play_stats(&p).stored_chunks > 60, !hangs);
        assert_true(play_said(&p, "demote"));
        play_close(&p);
    }
    printf("# with a disk whose writes hang: %.3f of the time\n", (double)took[1] / (double)took[0]);
    assert_true(took[1] < took[0] * 11 / 10);
}

TEST(what_is_lost_on_disk_comes_from_the_bucket)
{
    play_open(&p, &(struct play_opts){.ram = 64 * MIB, .disk = 400 * MIB});
    struct play_set *set = play_set(&p, 200, 0, MIB, 0, 4);
    struct play_lane *l = play_by_order(&p, set, (struct play_lane_opts){.slots = 2});
    play_step(&p);
    play_until_epoch(&p, l, 1);
    uint64_t before = p.bucket_chunks;
    p.loses = 1000;
    play_until_epoch(&p, l, 2);
    assert_false(l->failed);
    assert_true(p.disk_read > 0);
    assert_true(p.bucket_chunks - before > 100);
    assert_int_equal(play_stats(&p).disk_chunks, play_stats(&p).coming ? play_stats(&p).disk_chunks : 0);
    assert_true(play_said(&p, "could not be read from disk: the bucket has it"));
    play_close(&p);
}

TEST(chunks_found_on_disk_are_not_fetched)
{
    play_open(&p, &(struct play_opts){.ram = 64 * MIB, .disk = 400 * MIB});
    struct play_set *set = play_set(&p, 200, 0, MIB, 0, 4);
    uint8_t *names = malloc(200 * LEAT_SCHED_NAME);
    memcpy(names, set->names, 200 * LEAT_SCHED_NAME);
    play_set_close(set);
    play_found(&p, names, 200, MIB);
    free(names);
    set = play_set(&p, 200, 0, MIB, 0, 4);
    struct play_lane *l = play_by_order(&p, set, (struct play_lane_opts){.slots = 2});
    play_step(&p);
    play_until_epoch(&p, l, 1);
    assert_int_equal(p.bucket_chunks, 0);
    assert_int_equal(play_stats(&p).disk_used, 200 * MIB);
    p.disk = 50 * MIB;
    leat_sched_set_disk(p.sched, p.disk);
    play_step(&p);
    assert_true(play_stats(&p).disk_used <= p.disk + 64 * MIB); /* those that are being read stay until they are */
    play_until(&p, p.now_ns + 100 * MILLI);
    assert_true(play_stats(&p).disk_used <= p.disk);
    assert_true(play_said(&p, "on disk: there is less room than before"));
    play_until_epoch(&p, l, 2);
    assert_true(p.bucket_chunks > 50);
    play_close(&p);
}
