#include "unit.h"

#include <math.h>

#include "profile/frontier.h"
#include "profile/gather_rank.h"
#include "profile/step.h"

#define MS 1000000ULL

struct given {
    uint8_t kind;
    unsigned start_ms;
    unsigned end_ms;
    uint32_t loader;
    uint16_t flags;
    uint8_t mode;
};

/* Steps that come of these records. */
static size_t play(const struct given *given, size_t n, struct leat_step *out)
{
    struct leat_stepper s = {0};
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        struct leat_lane_record r = {.kind = given[i].kind,
                                     .start_ns = given[i].start_ms * MS,
                                     .end_ns = given[i].end_ms * MS,
                                     .loader = given[i].loader,
                                     .flags = given[i].flags,
                                     .mode = given[i].mode};
        count += leat_stepper_take(&s, &r, &out[count]);
        while (leat_stepper_held(&s, &out[count]))
            count++;
    }
    return count;
}

static void assert_stages(const struct leat_step *step, const unsigned ms[LEAT_STEP_STAGES])
{
    for (size_t i = 0; i < LEAT_STEP_STAGES; i++) {
        if (step->ns[i] != ms[i] * MS)
            fail_msg("stage %zu takes %llu ns, not %u ms", i, (unsigned long long)step->ns[i], ms[i]);
    }
}

TEST(a_step_is_divided_without_a_rest)
{
    static const struct given given[] = {
        {LEAT_LANE_WAIT, 0, 10, 1, 0, 0},      {LEAT_LANE_COPY, 10, 12, 0, 0, 0},
        {LEAT_LANE_COMM, 37, 40, 0, 0, 0}, /* within the backward pass */
        {LEAT_LANE_BACKWARD, 20, 40, 0, 0, 0}, {LEAT_LANE_OPTIM, 41, 45, 0, 0, 0},
        {LEAT_LANE_COMM, 46, 47, 0, 0, 0}, /* a loss that is averaged, after the step */
        {LEAT_LANE_WAIT, 50, 51, 1, 0, 0},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 1);
    assert_int_equal(leat_step_ns(&step[0]), 50 * MS);
    assert_stages(&step[0], (const unsigned[]){10, 2, 9, 17, 4, 4, 4});
}

TEST(validation_is_no_step)
{
    static const struct given given[] = {
        {LEAT_LANE_WAIT, 0, 1, 1, 0, 0},
        {LEAT_LANE_BACKWARD, 5, 9, 0, 0, 0},
        {LEAT_LANE_WAIT, 10, 11, 2, 0, 0}, /* the loader of the validation */
        {LEAT_LANE_WAIT, 20, 21, 2, 0, 0},
        {LEAT_LANE_WAIT, 30, 31, 2, LEAT_LANE_EXHAUSTED, 0},
        {LEAT_LANE_WAIT, 40, 41, 1, 0, 0},
        {LEAT_LANE_BACKWARD, 45, 49, 0, 0, 0},
        {LEAT_LANE_WAIT, 50, 51, 1, LEAT_LANE_EXHAUSTED, 0},
        {LEAT_LANE_WAIT, 90, 91, 1, 0, 0}, /* the next epoch */
        {LEAT_LANE_BACKWARD, 95, 99, 0, 0, 0},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 2);
    assert_true(step[0].start_ns == 0 && leat_step_ns(&step[0]) == 10 * MS);
    assert_true(step[1].start_ns == 40 * MS && leat_step_ns(&step[1]) == 10 * MS);
}

TEST(two_loaders_of_one_step_add_up)
{
    static const struct given given[] = {
        {LEAT_LANE_WAIT, 0, 3, 1, 0, 0},
        {LEAT_LANE_WAIT, 3, 5, 2, 0, 0},
        {LEAT_LANE_BACKWARD, 5, 9, 0, 0, 0},
        {LEAT_LANE_WAIT, 10, 13, 1, 0, 0},
        {LEAT_LANE_WAIT, 13, 14, 2, 0, 0},
        {LEAT_LANE_BACKWARD, 15, 19, 0, 0, 0},
        {LEAT_LANE_WAIT, 20, 21, 1, LEAT_LANE_EXHAUSTED, 0},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 2);
    assert_true(step[0].ns[LEAT_STEP_WAIT] == 5 * MS && step[1].ns[LEAT_STEP_WAIT] == 4 * MS);
}

TEST(batches_that_are_taken_together_are_one_step)
{
    static const struct given given[] = {
        {LEAT_LANE_WAIT, 0, 3, 1, 0, 0},       {LEAT_LANE_WAIT, 3, 5, 1, 0, 0},   {LEAT_LANE_BACKWARD, 5, 9, 0, 0, 0},
        {LEAT_LANE_BACKWARD, 10, 14, 0, 0, 0}, {LEAT_LANE_WAIT, 20, 21, 1, 0, 0},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 1);
    assert_int_equal(step[0].batches, 2);
    assert_true(leat_step_ns(&step[0]) == 20 * MS && step[0].ns[LEAT_STEP_WAIT] == 5 * MS);
}

TEST(a_loop_that_takes_a_batch_ahead_has_all_its_steps)
{
    static const struct given given[] = {
        {LEAT_LANE_WAIT, 0, 1, 1, 0, 0},       {LEAT_LANE_WAIT, 1, 2, 1, 0, 0},
        {LEAT_LANE_BACKWARD, 5, 9, 0, 0, 0},   {LEAT_LANE_WAIT, 10, 11, 1, LEAT_LANE_EXHAUSTED, 0},
        {LEAT_LANE_BACKWARD, 15, 19, 0, 0, 0}, /* the last batch, after the loader's end */
        {LEAT_LANE_WAIT, 50, 51, 1, 0, 0},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 2);
    assert_true(leat_step_ns(&step[0]) == 10 * MS && leat_step_ns(&step[1]) == 9 * MS);
}

TEST(validation_that_is_left_is_no_part_of_the_next_step)
{
    static const struct given given[] = {
        {LEAT_LANE_WAIT, 0, 1, 1, 0, 0},
        {LEAT_LANE_BACKWARD, 5, 9, 0, 0, 0},
        {LEAT_LANE_WAIT, 10, 11, 2, LEAT_LANE_NO_GRAD, 0},
        {LEAT_LANE_WAIT, 20, 21, 2, LEAT_LANE_NO_GRAD, 0},
        {LEAT_LANE_WAIT, 40, 42, 1, 0, 0},
        {LEAT_LANE_BACKWARD, 45, 49, 0, 0, 0},
        {LEAT_LANE_WAIT, 50, 51, 1, LEAT_LANE_EXHAUSTED, 0},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 2);
    assert_true(step[1].start_ns == 40 * MS && step[1].ns[LEAT_STEP_WAIT] == 2 * MS);
}

TEST(the_last_step_needs_no_wait_after_it)
{
    struct leat_stepper s = {0};
    struct leat_step step;
    const struct leat_lane_record wait = {.kind = LEAT_LANE_WAIT, .start_ns = 0, .end_ns = MS, .loader = 1};
    const struct leat_lane_record back = {.kind = LEAT_LANE_BACKWARD, .start_ns = 2 * MS, .end_ns = 5 * MS};
    assert_false(leat_stepper_take(&s, &wait, &step));
    assert_false(leat_stepper_end(&s, &step));
    assert_false(leat_stepper_take(&s, &wait, &step));
    assert_false(leat_stepper_take(&s, &back, &step));
    assert_true(leat_stepper_end(&s, &step));
    assert_int_equal(leat_step_ns(&step), 5 * MS);
    assert_false(leat_stepper_end(&s, &step));
}

TEST(without_a_loader_the_optimizer_marks_steps)
{
    static const struct given given[] = {
        {LEAT_LANE_BACKWARD, 1, 2, 0, 0, 0},
        {LEAT_LANE_OPTIM, 2, 3, 0, 0, 0},
        {LEAT_LANE_BACKWARD, 8, 10, 0, 0, 0},
        {LEAT_LANE_OPTIM, 10, 13, 0, 0, 0},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 1);
    assert_stages(&step[0], (const unsigned[]){0, 0, 5, 2, 0, 3, 0});
}

/* `n` steps of 10 ms on one batch: 2 ms of forward, 4 of backward, 3 of the optimizer and 1 after it. */
static size_t step_on_one_batch(struct leat_stepper *s, unsigned from_ms, unsigned n, struct leat_step *out)
{
    size_t count = 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t at = (from_ms + 10ULL * i) * MS;
        struct leat_lane_record back = {.kind = LEAT_LANE_BACKWARD, .start_ns = at + 2 * MS, .end_ns = at + 6 * MS};
        struct leat_lane_record optim = {.kind = LEAT_LANE_OPTIM, .start_ns = at + 6 * MS, .end_ns = at + 9 * MS};
        back.mode = optim.mode = LEAT_LANE_WARMUP; /* as the profiler's own beginning is marked */
        count += leat_stepper_take(s, &back, &out[count]);
        count += leat_stepper_take(s, &optim, &out[count]);
        while (leat_stepper_held(s, &out[count]))
            count++;
    }
    return count;
}

TEST(steps_on_one_batch_are_counted_by_the_optimizer)
{
    static struct leat_step step[200];
    struct leat_stepper s = {0};
    struct leat_lane_record wait = {
        .kind = LEAT_LANE_WAIT, .start_ns = 0, .end_ns = 5 * MS, .loader = 1, .value = 8, .mode = LEAT_LANE_WARMUP};
    assert_false(leat_stepper_take(&s, &wait, step));
    assert_int_equal(step_on_one_batch(&s, 5, 100, step), 100);
    assert_stages(&step[0], (const unsigned[]){5, 0, 2, 4, 0, 3, 0});
    for (size_t i = 1; i < 100; i++) {
        assert_stages(&step[i], (const unsigned[]){0, 0, 3, 4, 0, 3, 0});
        assert_true(step[i].start_ns == (4 + 10 * i) * MS && step[i].samples == 8 && !step[i].loader && !step[i].mode);
    }
    /* A validation among them is in no step; it is the next optimizer step that one begins with. */
    wait = (struct leat_lane_record){.kind = LEAT_LANE_WAIT, .flags = LEAT_LANE_NO_GRAD, .loader = 2};
    wait.start_ns = 1010 * MS;
    wait.end_ns = 1020 * MS;
    assert_false(leat_stepper_take(&s, &wait, step));
    assert_int_equal(step_on_one_batch(&s, 1020, 3, step), 2);
    assert_stages(&step[0], (const unsigned[]){0, 0, 3, 4, 0, 3, 0});
    /* A batch is taken after all, and then another one: they mark steps. */
    wait = (struct leat_lane_record){.kind = LEAT_LANE_WAIT, .loader = 1, .start_ns = 1100 * MS, .end_ns = 1101 * MS};
    assert_false(leat_stepper_take(&s, &wait, step));
    assert_int_equal(step_on_one_batch(&s, 1101, 2, step), 0);
    wait.start_ns = wait.end_ns = 1121 * MS;
    assert_true(leat_stepper_take(&s, &wait, step));
    assert_true(step[0].loader == 1 && leat_step_ns(&step[0]) == 21 * MS);
    assert_int_equal(step_on_one_batch(&s, 1121, 100, step), 0);
}

TEST(few_steps_on_one_batch_are_known_at_the_end)
{
    static struct leat_step step[40];
    struct leat_stepper s = {0};
    struct leat_lane_record wait = {.kind = LEAT_LANE_WAIT, .start_ns = 0, .end_ns = 5 * MS, .loader = 1};
    assert_false(leat_stepper_take(&s, &wait, step));
    assert_int_equal(step_on_one_batch(&s, 5, 30, step), 0);
    assert_false(leat_stepper_end(&s, step));
    size_t count = 0;
    while (leat_stepper_held(&s, &step[count]))
        count++;
    assert_int_equal(count, 30);
}

TEST(without_an_optimizer_backward_passes_mark_steps)
{
    static struct leat_step step[100];
    struct leat_stepper s = {0};
    size_t count = 0;
    for (unsigned i = 0; i < 80; i++) {
        struct leat_lane_record back = {
            .kind = LEAT_LANE_BACKWARD, .start_ns = (10 * i + 6) * MS, .end_ns = (10 * i + 9) * MS};
        count += leat_stepper_take(&s, &back, &step[count]);
        while (leat_stepper_held(&s, &step[count]))
            count++;
    }
    assert_int_equal(count, 79);
    assert_stages(&step[78], (const unsigned[]){0, 0, 7, 3, 0, 0, 0});
}

TEST(a_second_optimizer_belongs_to_the_step)
{
    static const struct given given[] = {
        {LEAT_LANE_BACKWARD, 1, 2, 0, 0, 0},   {LEAT_LANE_OPTIM, 2, 4, 0, 0, 0},   {LEAT_LANE_OPTIM, 4, 7, 0, 0, 0},
        {LEAT_LANE_BACKWARD, 11, 12, 0, 0, 0}, {LEAT_LANE_OPTIM, 12, 14, 0, 0, 0}, {LEAT_LANE_OPTIM, 14, 17, 0, 0, 0},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 1);
    assert_stages(&step[0], (const unsigned[]){0, 0, 4, 1, 0, 5, 0});
}

TEST(a_closure_is_not_the_optimizers_time)
{
    static const struct given given[] = {
        {LEAT_LANE_WAIT, 0, 1, 1, 0, 0},
        {LEAT_LANE_BACKWARD, 10, 18, 0, 0, 0}, /* called by the optimizer's step */
        {LEAT_LANE_OPTIM, 2, 20, 0, 0, 0},
        {LEAT_LANE_WAIT, 21, 22, 1, 0, 0},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 1);
    assert_stages(&step[0], (const unsigned[]){1, 0, 9, 8, 0, 2, 1});
}

TEST(a_change_of_mode_is_in_no_step)
{
    static const struct given given[] = {
        {LEAT_LANE_WAIT, 0, 1, 1, 0, 0},       {LEAT_LANE_BACKWARD, 2, 4, 0, 0, 0}, {LEAT_LANE_WAIT, 10, 11, 1, 0, 0},
        {LEAT_LANE_BACKWARD, 12, 14, 0, 0, 0}, {LEAT_LANE_WAIT, 90, 91, 1, 0, 1}, /* a snapshot was taken before it */
        {LEAT_LANE_BACKWARD, 92, 94, 0, 0, 1}, {LEAT_LANE_WAIT, 95, 96, 1, 0, 1},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 2);
    assert_true(step[0].mode == 0 && step[1].mode == 1 && leat_step_ns(&step[1]) == 5 * MS);
}

TEST(the_gpus_clock_counts_once_it_is_heard)
{
    static const struct given given[] = {
        {LEAT_LANE_WAIT, 0, 50, 1, 0, 0}, /* the host waits, the GPU has work */
        {LEAT_LANE_WAIT, 1000, 1001, 1, LEAT_LANE_DEVICE, 0},
        {LEAT_LANE_BACKWARD, 50, 51, 0, 0, 0},
        {LEAT_LANE_BACKWARD, 1010, 1040, 0, LEAT_LANE_DEVICE, 0},
        {LEAT_LANE_WAIT, 60, 100, 1, 0, 0},
        {LEAT_LANE_WAIT, 1045, 1046, 1, LEAT_LANE_DEVICE, 0},
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 1);
    assert_stages(&step[0], (const unsigned[]){1, 0, 9, 30, 0, 0, 5});
}

TEST(the_frontier_adds_up_and_names_who_is_late)
{
    /* Rank 1 waits 20 ms for data; rank 0 spends that time in the collective, and a mean would call half of it
     * communication. */
    struct leat_step ranks[2] = {{.ns = {1 * MS, 0, 10 * MS, 10 * MS, 24 * MS, 1 * MS, 0}},
                                 {.ns = {20 * MS, 0, 10 * MS, 10 * MS, 5 * MS, 1 * MS, 2 * MS}}};
    struct leat_frontier f = leat_frontier_of(ranks, 2, true);
    double sum = 0;
    for (size_t i = 0; i < LEAT_STEP_STAGES; i++)
        sum += f.s[i];
    assert_true(sum == f.step_s && f.step_s > 0.0479 && f.step_s < 0.0481);
    assert_true(f.s[LEAT_STEP_WAIT] == 0.020 && f.rank[LEAT_STEP_WAIT] == 1);
    assert_true(f.s[LEAT_STEP_COMM] > 0.0049 && f.s[LEAT_STEP_COMM] < 0.0051);
    assert_true(f.straggler == 1 && f.late_s > 0.0189 && f.late_s < 0.0191);
    f = leat_frontier_of(ranks, 1, true);
    assert_true(f.step_s > 0.0459 && f.step_s < 0.0461 && f.late_s == 0);
}

TEST(a_delay_at_the_end_of_a_step_is_counted_once)
{
    /* Rank 0's optimizer takes 3 ms longer in the first step; rank 1 waits for it in the second one's collective. */
    const uint64_t at = 1000 * MS;
    const struct leat_step slow[] = {{.start_ns = at, .ns = {0, 0, 10 * MS, 0, 2 * MS, 4 * MS}},
                                     {.start_ns = at, .ns = {0, 0, 10 * MS, 0, 2 * MS, 1 * MS}}};
    const struct leat_step next[] = {{.start_ns = at + 16 * MS, .ns = {0, 0, 10 * MS, 0, 2 * MS, 1 * MS}},
                                     {.start_ns = at + 13 * MS, .ns = {0, 0, 10 * MS, 0, 5 * MS, 1 * MS}}};
    struct leat_frontier a = leat_frontier_of(slow, 2, true);
    struct leat_frontier b = leat_frontier_of(next, 2, true);
    assert_true(fabs(a.step_s - 0.016) < 1e-9 && fabs(a.s[LEAT_STEP_OPTIM] - 0.004) < 1e-9);
    assert_true(fabs(b.step_s - 0.013) < 1e-9 && fabs(b.s[LEAT_STEP_COMM] - 0.002) < 1e-9);
    assert_true(b.straggler == 0 && fabs(b.late_s - 0.003) < 1e-9);
    /* By clocks of their own it cannot be known, nor of ranks that do not wait for each other. */
    b = leat_frontier_of(next, 2, false);
    assert_true(fabs(b.step_s - 0.016) < 1e-9 && fabs(b.s[LEAT_STEP_COMM] - 0.005) < 1e-9);
    struct leat_step far[] = {next[0], next[1]};
    far[0].start_ns += 100 * MS;
    b = leat_frontier_of(far, 2, true);
    assert_true(fabs(b.step_s - 0.016) < 1e-9 && b.late_s < 1e-9);
}

TEST(who_gets_its_batch_last_is_late_only_if_its_workers_are_slower)
{
    const struct leat_step steps[] = {{.ns = {5 * MS, 0, 20 * MS}}, {.ns = {15 * MS, 0, 22 * MS}}};
    struct leat_frontier f = leat_frontier_of(steps, 2, true);
    assert_true(f.straggler == 1 && fabs(f.late_s - 0.012) < 1e-9 && fabs(f.late_wait_s - 0.010) < 1e-9);
    assert_true(fabs(leat_frontier_late(f.late_s, f.late_wait_s, 4, 0.030, 0.030) - 0.002) < 1e-9);
    assert_true(fabs(leat_frontier_late(f.late_s, f.late_wait_s, 4, 0.037, 0.030) - 0.009) < 1e-9);
    assert_true(leat_frontier_late(f.late_s, f.late_wait_s, 4, 0.060, 0.030) == f.late_s);
    assert_true(leat_frontier_late(f.late_s, f.late_wait_s, 0, 0, 0) == f.late_s); /* it fetched itself */
    assert_true(!leat_frontier_often(0.6, 2) && leat_frontier_often(0.9, 2) && !leat_frontier_often(1, 1));
}

TEST(an_epochs_first_step_begins_with_the_loaders_start)
{
    static const struct given given[] = {
        {LEAT_LANE_WAIT, 0, 1, 1, LEAT_LANE_EMPTY, 0},
        {LEAT_LANE_BACKWARD, 5, 9, 0, 0, 0},
        {LEAT_LANE_WAIT, 10, 14, 1, LEAT_LANE_EXHAUSTED, 0}, /* 4 ms until workers have ended */
        {LEAT_LANE_WAIT, 50, 60, 1, LEAT_LANE_OPENING, LEAT_LANE_WARMUP},
        {LEAT_LANE_WAIT, 60, 80, 1, LEAT_LANE_EMPTY, 0},
        {LEAT_LANE_BACKWARD, 85, 89, 0, 0, 0},
        {LEAT_LANE_WAIT, 90, 91, 1, 0, 0},
        {LEAT_LANE_BACKWARD, 95, 99, 0, 0, 0},
        {LEAT_LANE_WAIT, 100, 110, 1, LEAT_LANE_OPENING, 0}, /* left before its end */
    };
    struct leat_step step[4];
    assert_int_equal(play(given, COUNT(given), step), 3);
    assert_true(!step[0].first && step[0].empty && leat_step_ns(&step[0]) == 10 * MS);
    assert_true(step[1].first && step[1].mode == 0 && step[1].ns[LEAT_STEP_WAIT] == 34 * MS);
    assert_true(leat_step_ns(&step[1]) == 44 * MS);
    assert_true(!step[2].first && !step[2].empty && leat_step_ns(&step[2]) == 10 * MS);
}

/* Sixteen workers that decode for 884 ms and fetch for 1.5 ms: a cache would save next to nothing, however the step and
 * what they need for a batch compare. */
TEST(fetching_is_blamed_for_no_more_than_it_takes)
{
    struct gather_loader decoding = {.batches = 100, .fetch_s = 0.15, .prepare_s = 88.4};
    struct gather_shares shares = gather_shares_of(&decoding, 16, 0.065, 0.0105);
    assert_true(shares.fetch < 0.05);
    assert_true(shares.fetch + shares.prepare > 0.999 && shares.fetch + shares.prepare < 1.001);
    struct gather_loader fetching = {.batches = 100, .fetch_s = 8, .prepare_s = 0.4};
    shares = gather_shares_of(&fetching, 4, 0.021, 0.018);
    assert_true(shares.fetch > 0.99);
}
