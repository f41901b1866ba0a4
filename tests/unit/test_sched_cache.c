/* What a cache is worth: bytes from the bucket in the epochs after the first, for caches of different sizes and kinds.
 * A cache of c bytes cannot be expected to save more than c of the d bytes of an epoch when it is filled once and kept;
 * next use does better, for it knows what comes first in the next epoch. */

#include "sched_play.h"

#define MIB    (1ull << 20)
#define CHUNK  (8 * MIB)
#define CHUNKS 2000u
#define WINDOW 32u
#define SLOTS  4u
#define EPOCHS 4u

struct setting {
    double ram, disk; /* of the data, beyond what is needed to work at all */
    uint32_t ranks;
    enum leat_sched_policy policy;
    double pace; /* of all ranks together, in lines; 0: as fast as it comes */
};

struct figures {
    double bytes;   /* from the bucket, an epoch */
    double bound;   /* d - c */
    double line;    /* share of the time it was busy, in the epochs after the first */
    double written; /* to disk, an epoch */
    double again;   /* chunks fetched twice in an epoch, of all */
    double time;    /* of an epoch, in those that the line or the ranks alone would need */
};

static bool all_through(const struct play *p, uint64_t epochs)
{
    for (unsigned i = 0; i < PLAY_LANES; i++) {
        if (p->lanes[i] && p->lanes[i]->epochs < epochs)
            return false;
    }
    return true;
}

static struct figures measure(const struct setting *k)
{
    static struct play p;
    const uint64_t data = CHUNKS * CHUNK;
    const uint64_t batch = 24ull * CHUNK; /* what one is promised, for each rank */
    uint64_t least = k->ranks * batch + (WINDOW + 32) * CHUNK;
    uint64_t ram = (uint64_t)(k->ram * (double)data);
    uint64_t disk = (uint64_t)(k->disk * (double)data);
    ram = ram > least ? ram : least;
    play_open(&p, &(struct play_opts){.ram = ram, .disk = disk, .policy = k->policy});
    p.mute = true;
    p.rate = 1000000000;
    p.disk_rate = 4000000000;
    struct play_set *set = play_set(&p, CHUNKS, 0, CHUNK, 0, 10);
    const double sample = (double)CHUNK / 10;
    uint64_t step_ns = k->pace > 0 ? (uint64_t)(32 * sample * k->ranks / k->pace / (double)p.rate * 1e9) : MILLI;
    for (uint32_t r = 0; r < k->ranks; r++)
        play_lane(&p, &(struct play_lane_opts){.set = set,
                                               .slots = SLOTS,
                                               .needed = batch,
                                               .plans = UINT64_MAX,
                                               .step_ns = step_ns,
                                               .batch = 32 * k->ranks,
                                               .window = WINDOW,
                                               .rank = r,
                                               .world = k->ranks});
    play_step(&p);
    while (!all_through(&p, 1))
        assert_true(play_turn(&p));
    uint64_t bytes = p.bucket_bytes;
    uint64_t from_ns = p.now_ns;
    uint64_t written = p.disk_written;
    uint64_t again = play_stats(&p).refetched;
    while (!all_through(&p, EPOCHS))
        assert_true(play_turn(&p));
    struct leat_sched_stats st = play_stats(&p);
    struct figures f = {.bytes = (double)(p.bucket_bytes - bytes) / (EPOCHS - 1),
                        .written = (double)(p.disk_written - written) / (EPOCHS - 1),
                        .again = (double)(st.refetched - again) / ((EPOCHS - 1) * CHUNKS)};
    /* What the line needs, three times over, and the batches that are planned. Not the depth that the scheduler came
     * to: if that ran away, the bound would go with it. */
    double flight = 3 * ((double)p.rate * (double)p.delay_ns / 1e9 + (double)CHUNK) + (double)(k->ranks * batch);
    double c = (double)ram + (double)disk - (double)(WINDOW * CHUNK) - flight;
    f.bound = (double)data - (c > 0 ? c : 0);
    f.line = (double)(p.bucket_bytes - bytes) / (double)p.rate / ((double)(p.now_ns - from_ns) / 1e9);
    double epoch_s = (double)(p.now_ns - from_ns) / 1e9 / (EPOCHS - 1);
    double line_s = f.bytes / (double)p.rate;
    double ranks_s = k->pace > 0 ? (double)data / k->pace / (double)p.rate : 0;
    f.time = epoch_s / (line_s > ranks_s ? line_s : ranks_s);
    play_close(&p);
    return f;
}

static void compare(const char *name, double ram, double disk, uint32_t ranks)
{
    struct setting k = {.ram = ram, .disk = disk, .ranks = ranks, .policy = LEAT_SCHED_NEXT_USE};
    const double data = (double)(CHUNKS * CHUNK);
    struct figures ours = measure(&k);
    k.policy = LEAT_SCHED_LRU;
    struct figures lru = measure(&k);
    printf(
        "# %-12s %3.0f %% memory, %3.0f %% disk: %5.1f %% of the data from the bucket, %.3f of d - c (%5.1f %%), line "
        "%5.1f %% full, %5.1f %% written, %.2f %% twice; LRU %5.1f %%\n",
        name, 100 * ram, 100 * disk, 100 * ours.bytes / data, ours.bytes / ours.bound, 100 * ours.bound / data,
        100 * ours.line, 100 * ours.written / data, 100 * ours.again, 100 * lru.bytes / data);
    fflush(stdout);
    if (ours.bytes > 1.02 * ours.bound)
        fail_msg("%.3f of the bound", ours.bytes / ours.bound);
    if (lru.bytes < (ram + disk < 0.2 ? 1.05 : 1.15) * ours.bytes)
        fail_msg("LRU does as well: %.3f", lru.bytes / ours.bytes);
}

/* The figures are the release build's to show; a sanitizer sees the same code with two of them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const double fractions[] = {0.10, 0.75};
#else
static const double fractions[] = {0.10, 0.25, 0.50, 0.75, 0.90};
#endif

TEST(memory_alone)
{
    for (size_t i = 0; i < COUNT(fractions); i++)
        compare("one rank", fractions[i], 0, 1);
}

TEST(disk_alone)
{
    for (size_t i = 0; i < COUNT(fractions); i++)
        compare("one rank", 0, fractions[i], 1);
}

TEST(memory_and_disk)
{
    for (size_t i = 0; i < COUNT(fractions); i++)
        compare("one rank", fractions[i] / 2, fractions[i] / 2, 1);
}

TEST(four_ranks_on_a_machine)
{
    for (size_t i = 0; i < COUNT(fractions); i++) {
        compare("four ranks", fractions[i], 0, 4);
        compare("four ranks", fractions[i] / 2, fractions[i] / 2, 4);
    }
}

/* A slow disk and a rank that never waits: two epochs, and every chunk asked of the bucket once. */
TEST(patient_lane_waits_until_what_leaves_memory_is_written)
{
    static struct play p;
    uint64_t asked[2];
    for (int patient = 0; patient < 2; patient++) {
        play_open(&p, &(struct play_opts){.ram = 64 * MIB, .disk = 400 * MIB});
        p.rate = 1000000000;
        p.disk_ns = 20 * MILLI;
        struct play_set *set = play_set(&p, 200, 0, MIB, 0, 4);
        play_lane(&p, &(struct play_lane_opts){.set = set,
                                               .plans = 80,
                                               .slots = 2,
                                               .batch = 16,
                                               .window = 8,
                                               .needed = 16 * set->largest,
                                               .step_ns = MILLI,
                                               .patient = patient});
        play_step(&p);
        play_until_done(&p);
        asked[patient] = play_stats(&p).bucket_chunks;
        play_close(&p);
    }
    assert_int_equal(asked[1], 200);
    assert_true(asked[0] > 220); /* others do not wait: what the disk has no time for is dropped */
}

/* Next use keeps what is needed first: an epoch begins with chunks that are there, and those that are not come at its
 * end. The line must not rest meanwhile. */
TEST(the_line_works_while_the_ranks_live_on_what_is_there)
{
    const double paces[] = {0.5, 1.1, 4};
    for (size_t i = 0; i < COUNT(paces); i++) {
        for (size_t f = 0; f < 2 * COUNT(fractions); f++) {
            struct setting k = {
                .ram = fractions[f / 2], .ranks = f % 2 ? 4 : 1, .policy = LEAT_SCHED_NEXT_USE, .pace = paces[i]};
            struct figures ours = measure(&k);
            printf(
                "# %u ranks %.1f times as fast as the line, cache of %2.0f %%: %.3f of the least time, %5.1f %% of the "
                "data from the bucket\n",
                k.ranks, paces[i], 100 * k.ram, ours.time, 100 * ours.bytes / (double)(CHUNKS * CHUNK));
            fflush(stdout);
            if (ours.time > 1.02)
                fail_msg("the line rests while there is something to fetch");
            if (ours.bytes > 1.02 * ours.bound)
                fail_msg("what came early was paid for twice");
        }
    }
}
