#include "sim/job.h"

#include <math.h>

#include "base/clock.h"
#include "sim_data.h"
#include "unit.h"

static struct leat_sim_job_result simulate(const struct leat_sim_job_opts *o)
{
    struct leat_sim_job_result r = {0};
    struct leat_error err;
    assert_ok(leat_sim_job(o, &r, &err), err);
    assert_int_equal(r.epochs_n, o->epochs);
    return r;
}

static void near(double value, double expected, double off)
{
    if (!(fabs(value - expected) <= off))
        fail_msg("%.6f is not %.6f", value, expected);
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* Twenty chunks of a second each on the line, one sample each, two seconds a step. */
TEST(a_tiny_job_by_hand)
{
    struct leat_sim_job_opts o = sim_job(20, 1, 1000000);
    o.line = 1e6;
    o.compute_ns = 2 * LEAT_S;
    struct leat_sim_job_result r = simulate(&o);
    near(seconds(r.first_ns), 1, 1e-4);
    near(seconds(r.epochs[0].time_ns), 1 + 20 * 2, 1e-4); /* the first chunk is waited for */
    near(seconds(r.epochs[0].stall_ns), 1, 1e-4);
    near(seconds(r.epochs[0].data_ns), 1, 1e-4);
    near(seconds(r.epochs[1].time_ns), 20 * 2, 1e-4);
    near(seconds(r.epochs[1].stall_ns), 0, 1e-4);
    assert_int_equal(r.epochs[0].uses.bucket.bytes, 20000000);
    assert_int_equal(r.epochs[0].requests, 20);
    assert_int_equal(r.epochs[1].uses.ram.bytes, 20000000);
    assert_int_equal(r.epochs[1].uses.bucket.bytes, 0);
    assert_int_equal(r.epochs[1].steps, 20);
    near(seconds(r.time_ns), 1 + 2 * 20 * 2, 1e-4);
    leat_sim_job_result_free(&r);

    o.compute_ns = LEAT_S / 2; /* the line is the limit: chunks at 1, 2 … 20 s */
    r = simulate(&o);
    near(seconds(r.epochs[0].time_ns), 20 + 0.5, 1e-4);
    near(seconds(r.epochs[0].stall_ns), 20.5 - 20 * 0.5, 1e-4);
    leat_sim_job_result_free(&r);
}

/* Two cores that make two samples a second each, batches of eight: two seconds a batch. */
TEST(preparation_is_waited_for_by_its_own_name)
{
    struct leat_sim_job_opts o = sim_job(4, 8, 1000);
    o.batch = 8;
    o.cores = 2;
    o.prep = 2;
    o.compute_ns = LEAT_S;
    o.epochs = 1;
    struct leat_sim_job_result r = simulate(&o);
    near(seconds(r.epochs[0].time_ns), 2 * 4 + 1, 1e-3);
    near(seconds(r.epochs[0].prep_ns), 2 + 3 * 1, 1e-3);
    near(seconds(r.epochs[0].data_ns), 0, 1e-3);
    leat_sim_job_result_free(&r);
}

/* Every sample is delivered once, every chunk of an epoch comes from exactly one place, and bytes are chunks times
 * their size: for all policies, with and without a disk, on one node. */
TEST(nothing_is_lost_or_counted_twice)
{
    for (int policy = LEAT_SCHED_NEXT_USE; policy <= LEAT_SCHED_NONE; policy++) {
        for (unsigned disk = 0; disk < 2; disk++) {
            struct leat_sim_job_opts o = sim_job(300, 10, 1000000);
            o.policy = (enum leat_sched_policy)policy;
            o.shuffle = true;
            o.window = 8;
            o.ranks = 2;
            o.batch = 16;
            o.epochs = 4;
            o.ram = 60000000;
            o.disk = disk * 100000000;
            o.line = 1e8;
            o.disk_read = 5e8;
            o.disk_write = 4e8;
            o.connections = 0;
            o.compute_ns = 20 * LEAT_MS;
            struct leat_sim_job_result r = simulate(&o);
            for (uint64_t e = 0; e < o.epochs; e++) {
                const struct leat_sim_uses *u = &r.epochs[e].uses;
                assert_int_equal(r.epochs[e].samples, 3000);
                assert_int_equal(u->bucket.bytes, u->bucket.chunks * 1000000);
                assert_int_equal(u->disk.bytes, u->disk.chunks * 1000000);
                assert_int_equal(u->ram.bytes, u->ram.chunks * 1000000);
                uint64_t all = u->ram.chunks + u->disk.chunks + u->bucket.chunks;
                /* One that is on its way for the end of an epoch serves the beginning of the next too; and where memory
                 * is as small as here, some are evicted between two uses. */
                if (all < 297 || all > 312)
                    fail_msg("%s, disk %u, epoch %u: %u chunks", leat_sched_policy_name(o.policy), disk, (unsigned)e,
                             (unsigned)all);
                assert_int_equal(r.epochs[e].data_ns + r.epochs[e].prep_ns, r.epochs[e].stall_ns);
                near(seconds(r.epochs[e].time_ns), seconds(r.epochs[e].stall_ns) + 0.02 * (double)r.epochs[e].steps,
                     1e-6);
            }
            assert_int_equal(r.epochs[0].uses.ram.chunks, 0);
            leat_sim_job_result_free(&r);
        }
    }
}

TEST(the_same_seed_is_the_same_job)
{
    struct leat_sim_job_opts o = sim_job(500, 5, 1000000);
    o.shuffle = true;
    o.nodes = 4;
    o.ranks = 2;
    o.batch = 8;
    o.ram = 80000000;
    o.line = 1e8;
    o.bucket_line = 3e8;
    o.connections = 0;
    struct leat_sim_job_result a = simulate(&o);
    struct leat_sim_job_result b = simulate(&o);
    o.seed = 1;
    struct leat_sim_job_result c = simulate(&o);
    assert_memory_equal(a.epochs, b.epochs, 2 * sizeof *a.epochs);
    assert_int_equal(a.time_ns, b.time_ns);
    assert_int_not_equal(a.time_ns, c.time_ns);
    leat_sim_job_result_free(&a);
    leat_sim_job_result_free(&b);
    leat_sim_job_result_free(&c);
}

static double hits(struct leat_sim_job_opts *o, enum leat_sched_policy policy)
{
    o->policy = policy;
    struct leat_sim_job_result r = simulate(o);
    double sum = 0;
    for (uint64_t e = 1; e < o->epochs; e++)
        sum += leat_sim_hits(&r.epochs[e].uses);
    leat_sim_job_result_free(&r);
    return sum / (double)(o->epochs - 1);
}

/* Chunks are large, so that what is in flight is a small part of that many. */
static struct leat_sim_job_opts large(double share)
{
    struct leat_sim_job_opts o = sim_job(4000, 4, 100000000);
    o.shuffle = true;
    o.window = 4;
    o.batch = 4;
    o.epochs = 3;
    o.ram = (uint64_t)(share * 4000 * 1e8);
    o.connections = 4;
    o.line = 1e9;
    o.compute_ns = 200 * LEAT_MS;
    return o;
}

/* A job that uses every chunk once an epoch finds no more in its cache than was in it when the epoch began: c of the
 * dataset. What is in flight and in use takes some of it. */
TEST(next_use_and_minio_keep_all_that_fits)
{
    static const double shares[] = {0.1, 0.25, 0.5, 0.75, 0.9};
    for (size_t i = 0; i < COUNT(shares); i++) {
        struct leat_sim_job_opts o = large(shares[i]);
        double busy = 20.0 / 4000; /* chunks of the batches planned, and those on their way */
        for (unsigned p = 0; p < 2; p++) {
            enum leat_sched_policy policy = p ? LEAT_SCHED_MINIO : LEAT_SCHED_NEXT_USE;
            double got = hits(&o, policy);
            /* Within 2 % of dataset − cache. */
            if (got > shares[i] + 0.001 || 1 - got > 1.02 * (1 - shares[i] + busy))
                fail_msg("%s with a cache of %.2f: %.4f of the uses are hits", leat_sched_policy_name(policy),
                         shares[i], got);
        }
    }
}

/* Between two uses of a chunk lie u of the rest of one epoch and y of the next, both uniform; distinct among those are
 * 1 - (1-u)(1-y) of the dataset, and LRU has kept the chunk when that is less than c: in c + (1-c)·ln(1-c) of cases. */
TEST(lru_keeps_what_arithmetic_says)
{
    static const double shares[] = {0.25, 0.5, 0.75};
    for (size_t i = 0; i < COUNT(shares); i++) {
        struct leat_sim_job_opts o = large(shares[i]);
        double c = shares[i];
        near(hits(&o, LEAT_SCHED_LRU), c + (1 - c) * log(1 - c), 0.02);
        double fifo = hits(&o, LEAT_SCHED_FIFO);
        assert_true(fifo > c + (1 - c) * log(1 - c) - 0.02 && fifo < c - 0.03);
    }
}

TEST(a_disk_keeps_what_memory_cannot)
{
    struct leat_sim_job_opts o = sim_job(400, 8, 8000000);
    o.shuffle = true;
    o.batch = 16;
    o.ram = 500000000;
    o.disk = 4000000000;
    o.line = 1e8; /* one request at a time: the disk, which is faster, keeps up with each */
    o.disk_read = 1e9;
    o.disk_write = 1e9;
    struct leat_sim_job_result r = simulate(&o);
    assert_int_equal(r.epochs[0].uses.disk.bytes, 0);
    assert_true(r.epochs[1].uses.bucket.chunks < 8);
    assert_true(r.epochs[1].uses.disk.chunks > 300);
    /* Ten times the line's rate. */
    assert_true(r.epochs[1].time_ns < r.epochs[0].time_ns / 6);
    leat_sim_job_result_free(&r);
}

TEST(a_step_waits_for_the_slowest_rank)
{
    struct leat_sim_job_opts o = sim_job(1024, 1, 1000);
    o.nodes = 2;
    o.batch = 4;
    o.epochs = 1;
    o.line = 1e5;
    o.connections = 8;
    struct leat_sim_job_result alone = simulate(&o);
    /* A bucket that gives both together what one line carries. */
    o.bucket_line = 1e5;
    struct leat_sim_job_result shared = simulate(&o);
    assert_int_equal(alone.epochs[0].samples, 1024);
    double bytes = (double)shared.epochs[0].uses.bucket.bytes;
    near(seconds(shared.time_ns), bytes / 1e5, 0.03 * bytes / 1e5);
    assert_true(shared.time_ns > 1.5 * (double)alone.time_ns);
    leat_sim_job_result_free(&alone);
    leat_sim_job_result_free(&shared);
}

TEST(what_cannot_work_is_refused_with_a_reason)
{
    struct leat_error err;
    struct leat_sim_job_result r;
    struct leat_sim_job_opts good = sim_job(64, 4, 1 << 20);
    struct leat_sim_job_opts o = good;
    o.ram = 1000000;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_LIMIT, "give at least 1mib");
    o = good;
    o.nodes = 0;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_INVALID, "0 nodes");
    o = good;
    o.ranks = 0;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_INVALID, "0 ranks");
    o = good;
    o.batch = 0;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_INVALID, "batches of 0");
    o = good;
    o.batch = 1000;
    o.last = LEAT_ORDER_DROP;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_INVALID, "no step");
    o = good;
    o.epochs = 0;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_INVALID, "0 epochs");
    o = good;
    o.slots = 1;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_INVALID, "1 slots");
    o = good;
    o.cores = 0;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_INVALID, "0 cores");
    o = good;
    o.line = -1;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_INVALID, "line to the bucket of -1");
    o = good;
    o.prep = (double)NAN;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_INVALID, "preparation");
    o = good;
    o.chunks = 0;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_INVALID, "no samples");
}

static bool soon(void *user)
{
    return ++*(unsigned *)user > 3;
}

TEST(it_stops_when_asked)
{
    unsigned asked = 0;
    struct leat_error err;
    struct leat_sim_job_result r;
    struct leat_sim_job_opts o = sim_job(4000, 4, 1000);
    o.line = 1e6;
    o.stop = soon;
    o.user = &asked;
    assert_fails(leat_sim_job(&o, &r, &err), err, LEAT_CANCELLED, "interrupted");
    assert_int_equal(asked, 4);
}

TEST(every_kind_of_world_comes_to_its_end)
{
    for (unsigned i = 0; i < 200; i++) {
        struct leat_rng rng = leat_rng(11, i);
        struct leat_sim_job_opts o =
            sim_job(1 + (uint32_t)leat_rng_below(&rng, 60), 1 + (uint32_t)leat_rng_below(&rng, 9),
                    1 + (uint32_t)leat_rng_below(&rng, 3000000));
        struct leat_error err;
        uint64_t needed;
        o.shuffle = leat_rng_below(&rng, 4) != 0;
        o.window = 1 + (uint32_t)leat_rng_below(&rng, 100);
        o.nodes = 1 + (uint32_t)leat_rng_below(&rng, 4);
        o.ranks = 1 + (uint32_t)leat_rng_below(&rng, 3);
        o.batch = 1 + (uint32_t)leat_rng_below(&rng, 12);
        o.last = leat_rng_below(&rng, 2) ? LEAT_ORDER_PAD : LEAT_ORDER_SHORT;
        o.policy = (enum leat_sched_policy)leat_rng_below(&rng, 5);
        o.slots = 2 + (uint32_t)leat_rng_below(&rng, 6);
        o.epochs = 1 + leat_rng_below(&rng, 5);
        o.line = leat_rng_below(&rng, 2) ? 1e7 : 0;
        o.bucket_line = leat_rng_below(&rng, 3) ? 0 : 2e7;
        o.latency_ns = leat_rng_below(&rng, 3) * 10 * LEAT_MS;
        o.connections = (uint32_t)leat_rng_below(&rng, 3);
        o.prep = leat_rng_below(&rng, 2) ? 100 : 0;
        o.peers = leat_rng_below(&rng, 2);
        o.peer_line = leat_rng_below(&rng, 2) ? 1e7 : 0;
        o.peer_latency_ns = leat_rng_below(&rng, 2) * LEAT_MS;
        o.compute_ns = leat_rng_below(&rng, 2) * LEAT_MS;
        assert_ok(leat_sim_job_needed(&o, &needed, &err), err);
        o.ram = needed + leat_rng_below(&rng, 2 * needed);
        o.disk = leat_rng_below(&rng, 2) * leat_rng_below(&rng, 4 * needed);
        struct leat_sim_job_result r = simulate(&o);
        uint64_t samples = 0;
        for (uint32_t c = 0; c < o.chunks; c++)
            samples += sim_counts[c];
        for (uint64_t e = 0; e < o.epochs; e++)
            assert_int_equal(r.epochs[e].samples, samples);
        leat_sim_job_result_free(&r);
    }
}

/* 640 chunks of 20 samples in a window of 16, and nodes with memory for an eighth of them each. */
static struct leat_sim_job_opts many_nodes(uint32_t nodes)
{
    struct leat_sim_job_opts o = sim_job(640, 20, 1000000);
    o.shuffle = true;
    o.window = 16;
    o.nodes = nodes;
    o.batch = 64 / nodes;
    o.epochs = 3;
    o.ram = 104000000; /* 70 chunks, those in use or on their way, and copies of what others own */
    o.line = 1e8;
    o.latency_ns = 5 * LEAT_MS;
    o.connections = 8;
    o.compute_ns = 40 * LEAT_MS;
    o.peers = true;
    o.peer_line = 1e9;
    o.peer_latency_ns = LEAT_MS;
    return o;
}

TEST(every_byte_leaves_the_bucket_once_for_the_whole_job)
{
    const uint64_t all = 640000000;
    for (uint32_t nodes = 1; nodes <= 8; nodes *= 2) {
        struct leat_sim_job_opts o = many_nodes(nodes);
        struct leat_sim_job_result r = simulate(&o);
        near((double)r.epochs[0].uses.bucket.bytes, (double)all, 0.02 * (double)all);
        for (unsigned e = 1; e < 3; e++) {
            double kept = 70e6 * nodes;
            double lacks = kept < (double)all ? (double)all - kept : 0;
            if ((double)r.epochs[e].uses.bucket.bytes > lacks + 0.02 * (double)all)
                fail_msg("%u nodes, epoch %u: %.0f bytes of %.0f", nodes, e + 1, (double)r.epochs[e].uses.bucket.bytes,
                         lacks);
        }
        assert_int_equal(r.epochs[0].uses.peer.bytes == 0, nodes == 1);
        leat_sim_job_result_free(&r);
    }
}

TEST(without_peers_each_node_fetches_what_it_reads)
{
    struct leat_sim_job_opts o = many_nodes(8);
    struct leat_sim_job_result with = simulate(&o);
    o.peers = false;
    struct leat_sim_job_result without = simulate(&o);
    for (unsigned e = 0; e < 3; e++) {
        assert_int_equal(without.epochs[e].uses.peer.bytes, 0);
        assert_true(without.epochs[e].uses.bucket.bytes > with.epochs[e].uses.bucket.bytes + 100000000);
    }
    leat_sim_job_result_free(&with);
    leat_sim_job_result_free(&without);
}

/* A chunk that others need waits at its owner's door for as long as the owner's line lets it. */
TEST(slow_doors_are_stalls_for_data)
{
    struct leat_sim_job_opts o = many_nodes(4);
    struct leat_sim_job_result fast = simulate(&o);
    o.peer_line = 5e6;
    struct leat_sim_job_result slow = simulate(&o);
    assert_true(slow.epochs[1].data_ns > fast.epochs[1].data_ns + 2 * LEAT_S);
    near((double)slow.epochs[0].uses.bucket.bytes, 640e6, 640e6 * 0.05);
    leat_sim_job_result_free(&fast);
    leat_sim_job_result_free(&slow);
}
