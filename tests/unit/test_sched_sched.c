/* The scheduler's promises one by one. sched_play.c performs its actions and watches the budgets. */

#include "sched_play.h"

#define MIB (1ull << 20)
#define X   PLAY_END

static struct play p;

static struct play_lane *told(struct play_set *set, const uint32_t (*batches)[8], uint64_t n, uint32_t slots,
                              uint64_t needed)
{
    return play_lane(&p,
                     &(struct play_lane_opts){
                         .set = set, .slots = slots, .needed = needed, .plans = n, .step_ns = MILLI, .told = batches});
}

/* Promises and room */

TEST(promises_refuse_what_cannot_work)
{
    const uint32_t none[1][8] = {{X}};
    struct leat_error err;
    struct play_lane *l;
    play_open(&p, &(struct play_opts){.ram = 1000});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    struct play_set *large = play_set(&p, 10, 100, 1001, 0, 1);
    struct play_lane *first = told(set, none, 0, 1, 600);
    struct play_lane_opts o = {.set = set, .slots = 1, .needed = 500, .told = none};
    assert_fails(play_lane_try(&p, &o, &l, &err), err, LEAT_LIMIT,
                 "one batch needs 500 bytes, other loaders need 600 of 1000");
    assert_true(play_said(&p, "refuse a lane: 500 bytes needed, 600 of 1000 promised to others"));
    o.needed = 400;
    assert_ok(play_lane_try(&p, &o, &l, &err), err);
    assert_int_equal(play_stats(&p).promised, 1000);
    play_lane_close(first);
    assert_int_equal(play_stats(&p).promised, 400);
    leat_sched_lane_end(l->lane);
    l->ended = true;
    assert_int_equal(play_stats(&p).promised, 0);
    o = (struct play_lane_opts){.set = large, .slots = 1, .needed = 1, .told = none}; /* not even one chunk */
    assert_fails(play_lane_try(&p, &o, &l, &err), err, LEAT_LIMIT, "one batch needs 1001 bytes");
    play_close(&p);
}

TEST(a_promise_grows_when_there_is_room_and_only_then)
{
    const uint32_t batches[1][8] = {{0, 1, 2, 3, X}};
    play_open(&p, &(struct play_opts){.ram = 1000});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    told(set, batches, 1, 1, 200);
    play_step(&p);
    assert_int_equal(play_stats(&p).promised, 400);
    assert_int_equal(play_stats(&p).split, 0);
    struct play_lane *other = told(set, batches, 0, 1, 600);
    assert_int_equal(play_stats(&p).promised, 1000);
    (void)other;
    play_until_done(&p);
    play_close(&p);
}

/* A loan lasts as long as some planned batch uses it. */
TEST(what_a_large_batch_has_borrowed_is_returned_after_it)
{
    const uint32_t batches[4][8] = {{0, X}, {1, 2, 3, 4, X}, {5, 6, 7, X}, {8, X}};
    play_open(&p, &(struct play_opts){.ram = 1000});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    struct play_lane *l = told(set, batches, 4, 1, 200);
    uint64_t before = 0;
    const uint64_t promised[] = {400, 400, 300, 200}; /* while the batch of this number is the next to be published */
    play_step(&p);
    while (play_turn(&p)) {
        if (l->published == 4 || l->planned < 3 || l->published < before)
            continue;
        assert_int_equal(play_stats(&p).promised, promised[l->published]);
        assert_int_equal(play_stats(&p).lent, promised[l->published] - 200);
        before = l->published;
    }
    assert_int_equal(l->published, 4);
    assert_int_equal(play_stats(&p).promised, 200);
    assert_int_equal(play_stats(&p).split, 0);
    play_close(&p);
}

/* Though its rank stands still, and so will not publish the large batch. */
TEST(what_is_borrowed_is_no_reason_to_refuse_or_to_starve_another_lane)
{
    const uint32_t large[2][8] = {{9, X}, {0, 1, 2, 3, 4, 5, X}};
    const uint32_t others[2][8] = {{50, 51, 52, 53, X}, {54, 55, 56, 57, X}};
    play_open(&p, &(struct play_opts){.ram = 600});
    struct play_set *set = play_set(&p, 100, 0, 100, 0, 1);
    struct play_lane *a = told(set, large, 2, 1, 200);
    a->idle = true;
    play_step(&p);
    play_until(&p, p.now_ns + 1000 * MILLI);
    assert_int_equal(a->published, 1);
    assert_int_equal(play_stats(&p).ram_pinned, 600);
    struct play_lane *b = told(set, others, 2, 1, 400);
    assert_int_equal(play_stats(&p).promised, 600);
    assert_int_equal(play_stats(&p).lent, 0);
    play_step(&p);
    play_until(&p, p.now_ns + 1000 * MILLI);
    assert_int_equal(b->published, 2);
    play_free_slot(a); /* its batch comes in groups now */
    play_until(&p, p.now_ns + 1000 * MILLI);
    assert_int_equal(a->published, 2);
    assert_int_equal(play_stats(&p).split, 1);
    assert_true(p.ram_most <= 600);
    play_close(&p);
}

/* Eight ranks of a job, for whose batches the window's twelve chunks have to be there once. */
TEST(lanes_of_a_group_share_what_they_need_together)
{
    const uint32_t batches[2][8] = {{0, 1, 2, 3, 4, 5, 6, X}, {7, 8, 9, 10, 11, X}};
    struct play_lane *lanes[8];
    struct play_lane *other;
    struct leat_error err;
    play_open(&p, &(struct play_opts){.ram = 1200});
    struct play_set *set = play_set(&p, 20, 0, 100, 0, 1);
    struct play_lane_opts o = {.set = set,
                               .slots = 1,
                               .needed = 700,
                               .group = 1,
                               .together = 1200,
                               .plans = 2,
                               .step_ns = MILLI,
                               .told = batches};
    for (int i = 0; i < 8; i++) {
        assert_ok(play_lane_try(&p, &o, &lanes[i], &err), err);
        assert_in_range(play_stats(&p).promised, i ? 1193 : 700, i ? 1200 : 700);
    }
    struct play_lane_opts alone = o;
    alone.group = 0;
    assert_fails(play_lane_try(&p, &alone, &other, &err), err, LEAT_LIMIT, "needs 700 bytes, other loaders need 1200");
    play_step(&p);
    play_until_done(&p);
    for (int i = 0; i < 8; i++)
        assert_int_equal(lanes[i]->published, 2);
    for (int i = 1; i < 8; i++)
        play_lane_close(lanes[i]);
    assert_int_equal(play_stats(&p).promised - play_stats(&p).lent, 150);
    play_close(&p);
}

TEST(a_batch_larger_than_the_promise_comes_in_groups)
{
    const uint32_t batches[2][8] = {{0, 1, 2, 3, 4, 5, 6, X}, {7, 8, X}};
    play_open(&p, &(struct play_opts){.ram = 300});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    told(set, batches, 2, 2, 300);
    play_step(&p);
    play_until_done(&p);
    assert_int_equal(play_stats(&p).split, 1);
    assert_true(p.ram_most <= 300);
    assert_true(play_said(&p, "batch 0 comes in groups: its 7 chunks are more than the promised 300 bytes"));
    assert_true(play_said(&p, "prepare batch 0 in slot 0, chunks 3 to 6 of 7"));
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(set->fetched[i], 1);
    play_close(&p);
}

TEST(a_first_batch_takes_room_back_from_later_batches_of_another_lane)
{
    const uint32_t far[4][8] = {{0, X}, {1, 2, X}, {3, 4, X}, {5, 6, X}};
    const uint32_t near[1][8] = {{50, 51, X}};
    play_open(&p, &(struct play_opts){.ram = 400});
    struct play_set *set = play_set(&p, 100, 0, 100, 0, 1);
    struct play_lane *a = told(set, far, 4, 1, 200);
    a->idle = true;
    play_step(&p);
    play_until(&p, p.now_ns + 1000 * MILLI);
    assert_int_equal(a->published, 1);
    assert_int_equal(play_stats(&p).ram_pinned, 400); /* batches 1 and 2 */
    struct play_lane *b = told(set, near, 1, 1, 200);
    play_step(&p);
    play_until_done(&p);
    assert_int_equal(b->published, 1);
    assert_true(play_said(&p, "batch 2 gives up its chunks: another lane's first batch needs the room"));
    assert_false(play_said(&p, "batch 1 gives"));
    play_free_slot(a);
    play_until(&p, p.now_ns + 10 * MILLI); /* not enough for a fetch */
    assert_int_equal(a->published, 2);
    assert_int_equal(set->fetched[1], 1);
    play_close(&p);
}

/* The first batch lacks a large chunk; the room for it comes free in two pieces, one after the other, and a later batch
 * would have each of them. */
TEST(room_that_comes_in_pieces_is_kept_for_the_first_batch)
{
    const uint32_t batches[4][8] = {{9, X}, {4, X}, {3, 0, X}, {1, 2, X}};
    play_open(&p, &(struct play_opts){.ram = 310});
    struct play_set *set = play_set(&p, 10, 0, 200, 0, 1);
    for (uint32_t i = 1; i < 10; i++)
        set->sizes[i] = i == 4 ? 10 : 100;
    struct play_lane *l = told(set, batches, 4, 2, 300);
    p.hold = true;
    p.hold_number = 4;
    p.fail_number = 0;
    p.fail_times = 1;
    p.rate = 10000; /* 10 ms for the small ones */
    play_step(&p);
    while (!play_stats(&p).failed)
        assert_true(play_turn(&p));
    assert_int_equal(set->fetched[1] + set->fetched[2], 2); /* its room was taken */
    p.delay_ns = MILLI;
    play_release(&p);
    play_until(&p, p.now_ns + 3000 * MILLI);
    assert_int_equal(l->published, 4);
    play_close(&p);
}

TEST(a_batch_overtakes_only_while_slots_are_left_for_those_before_it)
{
    const uint32_t batches[5][8] = {{9, X}, {0, X}, {1, X}, {2, X}, {3, X}};
    play_open(&p, &(struct play_opts){.ram = 2000});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    struct play_lane *l = told(set, batches, 5, 3, 100);
    p.hold = true;
    p.hold_number = 0;
    play_step(&p);
    play_until(&p, p.now_ns + 1000 * MILLI);
    assert_int_equal(l->published, 1); /* 9; then it waits for 0 */
    assert_true(play_said(&p, "prepare batch 2"));
    assert_true(play_said(&p, "prepare batch 3"));
    assert_false(play_said(&p, "prepare batch 4")); /* one slot is kept for batch 1 */
    play_release(&p);
    play_until_done(&p);
    play_close(&p);
}

/* The beginning */

TEST(the_very_first_batch_comes_in_ranges_and_alone)
{
    const uint32_t batches[3][8] = {{0, 1, X}, {2, X}, {3, X}};
    play_open(&p, &(struct play_opts){.ram = 200 * MIB});
    struct play_set *set = play_set(&p, 10, 0, 16 * MIB, 0, 1);
    struct play_lane *l = told(set, batches, 3, 4, 32 * MIB);
    p.hold = true;
    play_step(&p);
    assert_int_equal(p.bucket_chunks, 2);
    assert_int_equal(p.ranges, 32); /* of a megabyte each */
    assert_int_equal(p.urgent, 2);
    assert_true(leat_sched_lane_hurries(l->lane));
    play_step(&p);
    assert_int_equal(p.bucket_chunks, 2); /* nothing else takes its share of the line */
    play_release(&p);
    play_until_done(&p);
    assert_false(leat_sched_lane_hurries(l->lane));
    assert_int_equal(p.ranges, 34); /* the others as a whole */
    play_close(&p);
}

TEST(small_chunks_are_not_cut_into_ranges)
{
    const uint32_t batches[1][8] = {{0, X}};
    play_open(&p, &(struct play_opts){.ram = 200 * MIB});
    struct play_set *set = play_set(&p, 10, 0, MIB / 2, 0, 1);
    told(set, batches, 1, 4, 32 * MIB);
    play_step(&p);
    assert_int_equal(p.ranges, 1);
    play_until_done(&p);
    play_close(&p);
}

TEST(slots_that_a_rank_does_not_have_cannot_be_given_back)
{
    const uint32_t batches[4][8] = {{0, X}, {1, X}, {2, X}, {3, X}};
    char text[100];
    play_open(&p, &(struct play_opts){.ram = 1000});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    struct play_lane *l = told(set, batches, 4, 2, 100);
    l->idle = true;
    play_step(&p);
    play_until(&p, p.now_ns + 500 * MILLI);
    assert_int_equal(l->published, 2);
    leat_sched_slot_free(l->lane, 2, p.now_ns); /* it has 0 and 1 */
    leat_sched_slot_free(l->lane, 63, p.now_ns);
    leat_sched_slot_free(l->lane, UINT32_MAX, p.now_ns);
    play_step(&p);
    play_until(&p, p.now_ns + 500 * MILLI);
    assert_int_equal(l->published, 2);
    play_free_slot(l);
    play_free_slot(l);
    play_until(&p, p.now_ns + 500 * MILLI);
    assert_int_equal(l->published, 4);
    leat_sched_lane_explain(l->lane, "ds", text, sizeof text);
    assert_string_equal(text, "a batch to be planned");
    play_close(&p);
}

/* Failures */

static const uint32_t in_turn[4][8] = {{9, X}, {0, X}, {1, X}, {2, X}};

/* Chunk 1 fails `times` while chunk 0, which is needed before it, is held back. */
static struct play_lane *fail_early(uint32_t times)
{
    play_open(&p, &(struct play_opts){.ram = 2000});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    struct play_lane *l = told(set, in_turn, 4, 4, 100);
    p.hold = true;
    p.hold_number = 0;
    p.fail_number = 1;
    p.fail_times = times;
    play_step(&p);
    play_until(&p, p.now_ns + 500 * MILLI); /* less than the pause before it is tried again */
    assert_int_equal(set->fetched[1], 1);
    assert_int_equal(play_stats(&p).failed, 1);
    assert_false(l->failed);
    return l;
}

TEST(a_failed_chunk_is_tried_again_when_its_batch_is_next)
{
    struct play_lane *l = fail_early(1);
    play_release(&p);
    play_until(&p, p.now_ns + 100 * MILLI); /* at once, not after the pause */
    assert_int_equal(l->published, 4);
    assert_false(l->failed);
    assert_int_equal(l->set->fetched[1], 2);
    assert_true(play_said(&p, "could not be fetched: tried again when a batch waits for it"));
    play_close(&p);
}

TEST(a_failure_is_an_error_once_the_fetch_was_begun_for_the_next_batch)
{
    struct play_lane *l = fail_early(2);
    play_release(&p);
    play_until(&p, p.now_ns + 100 * MILLI);
    assert_true(l->failed);
    assert_true(l->failed_chunk);
    assert_memory_equal(l->failed_name, l->set->names + LEAT_SCHED_NAME, LEAT_SCHED_NAME); /* chunk 1 */
    assert_int_equal(l->published, 2); /* all that is before it was delivered */
    assert_true(play_said(&p, "batch 2 fails"));
    assert_true(play_said(&p, "a lane ends after 2 batches"));
    play_close(&p);
}

TEST(a_failure_that_nobody_waits_for_is_tried_again_after_a_pause)
{
    struct play_lane *l = fail_early(1);
    play_until(&p, p.now_ns + 600 * MILLI);
    assert_int_equal(l->set->fetched[1], 2);
    assert_false(l->failed);
    play_release(&p);
    play_until_done(&p);
    assert_int_equal(l->published, 4);
    play_close(&p);
}

TEST(an_idle_lane_does_not_keep_a_chunk_failed_for_others)
{
    const uint32_t sleepy[3][8] = {{0, X}, {1, X}, {5, X}};
    const uint32_t awake[1][8] = {{5, X}};
    play_open(&p, &(struct play_opts){.ram = 2000});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    struct play_lane *a = told(set, sleepy, 3, 1, 100);
    a->idle = true;
    p.fail_number = 5;
    p.fail_times = 1;
    play_step(&p);
    play_until(&p, p.now_ns + 200 * MILLI);
    assert_int_equal(play_stats(&p).failed, 1);
    struct play_lane *b = told(set, awake, 1, 1, 100);
    play_step(&p);
    play_until(&p, p.now_ns + 100 * MILLI);
    assert_int_equal(b->published, 1);
    assert_false(a->failed || b->failed);
    play_close(&p);
}

TEST(a_failure_of_what_was_fetched_ahead_is_never_raised)
{
    play_open(&p, &(struct play_opts){.ram = 400 * MIB});
    struct play_set *set = play_set(&p, 100, 0, MIB, 0, 4);
    struct play_lane *l = play_by_order(&p, set, (struct play_lane_opts){.batch = 8});
    p.fail_ahead = true;
    play_step(&p);
    play_until_epoch(&p, l, 2);
    assert_false(l->failed);
    assert_true(play_stats(&p).failed > 20);
    assert_int_equal(play_stats(&p).refetched, 0); /* a failure is no fetch too many */
    assert_true(play_said(&p, "could not be fetched: forgotten until it is wanted"));
    play_close(&p);
}

TEST(the_failure_of_one_dataset_is_not_raised_for_another_that_shares_the_chunk)
{
    const uint32_t batches[2][8] = {{0, X}, {1, X}};
    play_open(&p, &(struct play_opts){.ram = 2000});
    struct play_set *bad = play_set(&p, 10, 0, 100, 0, 1);
    struct play_set *good = play_set(&p, 10, 0, 100, 0, 1);
    bad->broken = true;
    struct play_lane *a = told(bad, batches, 2, 2, 100);
    struct play_lane *b = told(good, batches, 2, 2, 100);
    play_step(&p); /* one of them asks; both wait for it */
    play_step(&p);
    play_until(&p, p.now_ns + 200 * MILLI);
    assert_false(b->failed);
    assert_int_equal(b->published, 2);
    play_lane_close(a);
    play_set_close(bad);
    play_close(&p);
}

TEST(a_fetch_that_was_cancelled_is_nobodys_failure)
{
    const uint32_t batches[1][8] = {{0, X}};
    play_open(&p, &(struct play_opts){.ram = 2000});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    struct play_lane *l = told(set, batches, 1, 1, 100);
    p.cancels = 1000;
    play_step(&p);
    play_turn(&p);
    play_turn(&p);
    p.cancels = 0;
    play_until_done(&p);
    assert_false(l->failed);
    assert_int_equal(l->published, 1);
    assert_int_equal(play_stats(&p).failed, 0);
    play_close(&p);
}

TEST(a_refused_fetch_is_tried_again_a_little_later)
{
    const uint32_t batches[1][8] = {{0, X}};
    play_open(&p, &(struct play_opts){.ram = 2000});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    struct play_lane *l = told(set, batches, 1, 1, 100);
    p.fetch_refused = 1000;
    play_step(&p);
    assert_int_equal(leat_sched_wake_ns(p.sched), p.now_ns + 100 * MILLI);
    assert_true(play_said(&p, "cannot be fetched now: again in 100 ms"));
    p.fetch_refused = 0;
    play_until_done(&p);
    assert_int_equal(l->published, 1);
    play_close(&p);
}

/* Bytes */

TEST(each_chunk_is_fetched_once_an_epoch_even_with_one_sample_each)
{
    const uint32_t windows[] = {1, 16, 48};
    for (size_t i = 0; i < COUNT(windows); i++) {
        play_open(&p, &(struct play_opts){.ram = 80 * 8 * MIB});
        p.rate = 1000000000;
        struct play_set *set = play_set(&p, 500, 0, 8 * MIB, 0, 1);
        struct play_lane *l = play_by_order(&p, set, (struct play_lane_opts){.batch = 16, .window = windows[i]});
        play_step(&p);
        play_until_epoch(&p, l, 3);
        assert_int_equal(play_stats(&p).refetched, 0);
        for (uint32_t c = 0; c < 500; c++)
            assert_true(set->fetched[c] <= 4); /* three epochs, and ahead of the fourth */
        assert_true(p.bucket_chunks <= 3 * 500 + 80);
        play_close(&p);
    }
}

TEST(a_budget_smaller_than_the_window_works_and_says_what_it_costs)
{
    for (int enough = 0; enough < 2; enough++) {
        play_open(&p, &(struct play_opts){.ram = (enough ? 64 : 20) * MIB});
        struct play_set *set = play_set(&p, 100, 0, MIB, 0, 20);
        struct play_lane *l = play_by_order(&p, set, (struct play_lane_opts){.batch = 8, .window = 40, .slots = 1});
        assert_int_equal(leat_sched_lane_window(l->lane), 40 * MIB);
        play_step(&p);
        play_until_epoch(&p, l, 2);
        assert_int_equal(play_said(&p, "chunks will be fetched again and again"), !enough);
        assert_int_equal(play_stats(&p).refetched > 0, !enough);
        play_close(&p);
    }
}

TEST(a_chunk_of_two_datasets_is_fetched_once)
{
    play_open(&p, &(struct play_opts){.ram = 1000 * MIB});
    struct play_set *one = play_set(&p, 100, 0, MIB, 0, 4);
    struct play_set *two = play_set(&p, 100, 50, MIB, 0, 4);
    play_by_order(&p, one, (struct play_lane_opts){.plans = 60});
    play_by_order(&p, two, (struct play_lane_opts){.plans = 60, .seed = 1});
    play_step(&p);
    play_until_done(&p);
    assert_int_equal(p.bucket_chunks, 150);
    play_close(&p);
}

TEST(the_depth_follows_the_line)
{
    const struct {
        uint64_t rate, delay_ms, low, high; /* MB */
    } lines[] = {{2000000000, 50, 300, 600}, {2000000000, 10, 67, 200}, {500000000, 100, 150, 300}};
    for (size_t i = 0; i < COUNT(lines); i++) {
        play_open(&p, &(struct play_opts){.ram = 8000 * MIB});
        p.mute = true;
        p.rate = lines[i].rate;
        p.delay_ns = lines[i].delay_ms * MILLI;
        struct play_set *set = play_set(&p, 4000, 0, 4 * MIB, 0, 4);
        struct play_lane *l = play_by_order(&p, set, (struct play_lane_opts){.batch = 16});
        play_step(&p);
        play_until(&p, p.now_ns + 6000 * MILLI);
        uint64_t depth = play_stats(&p).depth_bytes / 1000000;
        if (depth < lines[i].low || depth > lines[i].high)
            fail_msg("%llu MB/s × %llu ms: %llu MB ahead", (unsigned long long)lines[i].rate / 1000000,
                     (unsigned long long)lines[i].delay_ms, (unsigned long long)depth);
        double full = (double)p.bucket_bytes / (double)p.rate / 6;
        if (full < 0.97)
            fail_msg("the line is %.1f %% full", 100 * full);
        assert_true(l->published > 100);
        play_close(&p);
    }
}

TEST(what_was_fetched_ahead_for_a_lane_that_left_does_not_count_for_the_next)
{
    play_open(&p, &(struct play_opts){.ram = 4000 * MIB});
    struct play_set *set = play_set(&p, 3000, 0, MIB, 0, 4);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint64_t before = p.bucket_chunks;
        struct play_lane *l = play_by_order(&p, set, (struct play_lane_opts){.epoch = 10 * epoch});
        l->idle = true;
        play_step(&p);
        play_until(&p, p.now_ns + 1000 * MILLI);
        assert_true(p.bucket_chunks - before > 60); /* the depth is no less than 64 MiB */
        play_lane_close(l);
    }
    play_close(&p);
}

/* Lanes beside each other */

static uint64_t time_of(uint64_t step, uint64_t other_step, bool two_sets, uint64_t batches)
{
    play_open(&p, &(struct play_opts){.ram = 300 * MIB});
    p.mute = true;
    p.rate = 1000000000;
    struct play_set *one = play_set(&p, 400, 0, MIB, 0, 4);
    struct play_set *two = two_sets ? play_set(&p, 400, 1000, MIB, 0, 4) : one;
    struct play_lane *l = play_by_order(&p, one, (struct play_lane_opts){.step_ns = step, .plans = batches});
    if (other_step) {
        struct play_lane *o = play_by_order(&p, two, (struct play_lane_opts){.step_ns = other_step, .seed = 1});
        o->idle = false;
    }
    play_step(&p);
    while (!play_lane_done(l))
        assert_true(play_turn(&p));
    uint64_t took = l->last_ns - l->first_ns;
    play_close(&p);
    return took;
}

TEST(lanes_of_very_different_speed_do_not_slow_each_other_down)
{
    uint64_t slow_alone = time_of(200 * MILLI, 0, false, 100);
    uint64_t fast_alone = time_of(30 * MILLI, 0, false, 400);
    for (int two = 0; two < 2; two++) {
        double slow = (double)time_of(200 * MILLI, 30 * MILLI, two, 100) / (double)slow_alone;
        double fast = (double)time_of(30 * MILLI, 200 * MILLI, two, 400) / (double)fast_alone;
        printf("# beside each other on %s: the slow one takes %.3f, the fast one %.3f of the time alone\n",
               two ? "two sets" : "one set", slow, fast);
        assert_true(slow < 1.02 && fast < 1.02);
    }
}

/* Words */

TEST(every_policy_has_a_name)
{
    for (int i = LEAT_SCHED_NEXT_USE; i <= LEAT_SCHED_NONE; i++) {
        enum leat_sched_policy found;
        assert_true(leat_sched_policy_parse(leat_sched_policy_name((enum leat_sched_policy)i), &found));
        assert_int_equal(found, i);
    }
    enum leat_sched_policy untouched = LEAT_SCHED_FIFO;
    assert_false(leat_sched_policy_parse("belady", &untouched));
    assert_int_equal(untouched, LEAT_SCHED_FIFO);
}

TEST(every_decision_says_why)
{
    const char *const parts[] = {
        "fetch up to ",
        " KiB ahead, 0 until now", /* the depth */
        " from the bucket for batch ",
        ", which comes next", /* fetches */
        " ahead from the bucket: ",
        " ahead from disk: ", /* … ahead */
        "drop ",
        ": needed later than what comes", /* evictions */
        "demote ",
        " to disk: needed after all else in memory, before something there",
        "forget ",
        " on disk: nothing there is needed later",
        "prepare batch 0 in slot 0, chunks 0 to ",
    };
    play_open(&p, &(struct play_opts){.ram = 64 * MIB, .disk = 60 * MIB});
    struct play_set *set = play_set(&p, 200, 0, MIB, 0, 4);
    struct play_lane *l = play_by_order(&p, set, (struct play_lane_opts){.slots = 2});
    play_step(&p);
    for (size_t i = 0; i < COUNT(parts); i++) {
        for (unsigned turns = 0; !play_said(&p, parts[i]); turns++) {
            if (turns == 20000)
                fail_msg("it never says '%s'", parts[i]);
            if (p.why_n > PLAY_WHYS / 2)
                play_forget_whys(&p);
            assert_true(play_turn(&p));
        }
    }
    assert_false(l->failed);
    play_close(&p);
}

TEST(a_lane_explains_what_it_waits_for)
{
    const uint32_t batches[2][8] = {{0, 1, X}, {2, X}};
    char text[100];
    play_open(&p, &(struct play_opts){.ram = 1000});
    struct play_set *set = play_set(&p, 10, 0, 100, 0, 1);
    struct play_lane *l = told(set, batches, 2, 1, 200);
    l->idle = true;
    leat_sched_lane_explain(l->lane, "ds", text, sizeof text);
    assert_string_equal(text, "a batch to be planned");
    p.hold = true;
    play_step(&p);
    leat_sched_lane_explain(l->lane, "ds", text, sizeof text);
    assert_string_equal(text, "chunk 0 of ds (and 1 more of the 2 of a batch)");
    play_release(&p);
    while (!play_said(&p, "prepare batch 0"))
        play_turn(&p);
    leat_sched_lane_explain(l->lane, "ds", text, sizeof text);
    assert_string_equal(text, "a batch that is being prepared");
    play_until(&p, p.now_ns + 500 * MILLI);
    leat_sched_lane_explain(l->lane, "ds", text, sizeof text);
    assert_string_equal(text, "a free slot: the rank holds all of them");
    leat_sched_lane_end(l->lane);
    l->ended = true;
    leat_sched_lane_explain(l->lane, "ds", text, sizeof text);
    assert_string_equal(text, "");
    play_close(&p);
}

TEST(an_ended_lane_holds_nothing)
{
    play_open(&p, &(struct play_opts){.ram = 100 * MIB});
    struct play_set *set = play_set(&p, 200, 0, MIB, 0, 4);
    struct play_lane *l = play_by_order(&p, set, (struct play_lane_opts){.slots = 2});
    play_step(&p);
    play_until(&p, p.now_ns + 200 * MILLI);
    assert_true(play_stats(&p).ram_pinned > 0);
    l->ended = true;
    leat_sched_lane_end(l->lane);
    play_until(&p, p.now_ns + 500 * MILLI); /* what is being prepared comes to its end */
    assert_int_equal(play_stats(&p).ram_pinned, 0);
    for (uint32_t i = 0; i < 200; i++) {
        const struct leat_sched_chunk *c = play_chunk(set, i);
        assert_true(!c || (!c->wants && !c->pins && !c->ahead));
    }
    play_close(&p);
}
