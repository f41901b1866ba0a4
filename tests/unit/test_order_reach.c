/* What a cache can reach: the formula lies where a cache that follows real orders ends up. */
#include "order/reach.h"

#include <math.h>

#include "order/order.h"
#include "order/policy.h"
#include "unit.h"

#define CHUNKS 300u
#define EPOCHS 5u
#define GIB    (1ull << 30)

struct cache {
    uint32_t room;
    uint32_t used;
    bool here[CHUNKS];
};

/* Makes room by dropping the farthest next use that is not live; false when all of it is needed sooner. */
static bool make_room(struct cache *c, const struct leat_order *now, const struct leat_order *next, uint64_t stage,
                      uint64_t use)
{
    uint32_t victim = 0;
    uint64_t farthest = 0;
    if (c->used < c->room)
        return true;
    for (uint32_t i = 0; i < CHUNKS; i++) {
        uint64_t at = c->here[i] ? leat_order_next_use(now, next, stage, i) : 0;
        if (at > farthest) {
            farthest = at;
            victim = i;
        }
    }
    if (farthest <= use)
        return false;
    c->here[victim] = false;
    c->used--;
    return true;
}

/* One epoch; how many chunks had to be fetched. Those needed up to `ahead` stages from now are sent for. */
static uint32_t epoch_of(struct cache *c, const struct leat_order *now, const struct leat_order *next, uint32_t ahead)
{
    uint32_t fetched = 0;
    for (uint64_t stage = 0; stage < leat_order_stages(now); stage++) {
        for (uint32_t i = 0; i < CHUNKS; i++) {
            uint64_t first, last;
            if (c->here[i] || !leat_order_uses(now, i, &first, &last) || last < stage || first > stage + ahead)
                continue;
            if (!make_room(c, now, next, stage, first > stage ? first : stage)) {
                assert_true(first > stage); /* what is needed now finds room */
                continue;
            }
            c->here[i] = true;
            c->used++;
            fetched++;
        }
    }
    return fetched;
}

static struct leat_order *order_of(const uint32_t *counts, uint32_t window, uint64_t epoch)
{
    struct leat_order_spec spec = {.view = LEAT_ORDER_VIEW_SAMPLES,
                                   .counts = counts,
                                   .chunks = CHUNKS,
                                   .shuffle = true,
                                   .seed = 11,
                                   .epoch = epoch,
                                   .window = window};
    struct leat_order *o;
    struct leat_error err;
    assert_ok(leat_order_open(&spec, &o, &err), err);
    return o;
}

TEST(caches_that_follow_the_order_end_up_between_the_bounds)
{
    static const struct {
        uint32_t room, window, ahead;
    } cases[] = {{45, 20, 5}, {75, 20, 5}, {75, 60, 8}, {150, 20, 5}, {150, 100, 10}, {225, 30, 10}, {270, 20, 5}};
    uint32_t counts[CHUNKS];
    for (uint32_t i = 0; i < CHUNKS; i++)
        counts[i] = 40;
    for (size_t k = 0; k < COUNT(cases); k++) {
        struct cache c = {.room = cases[k].room};
        const struct leat_reach_given given = {.dataset_bytes = CHUNKS,
                                               .ram_bytes = cases[k].room,
                                               .live_bytes = leat_reach_live(CHUNKS, CHUNKS, cases[k].window),
                                               .ahead_bytes = cases[k].ahead};
        struct leat_reach r = leat_reach(&given);
        assert_int_equal(r.bucket_bytes, CHUNKS - (cases[k].room - cases[k].window - cases[k].ahead));
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
            struct leat_order *now = order_of(counts, cases[k].window, epoch);
            struct leat_order *next = order_of(counts, cases[k].window, epoch + 1);
            uint32_t fetched = epoch_of(&c, now, next, cases[k].ahead);
            if (epoch > 0 && (fetched > r.bucket_bytes || fetched < r.least_bytes))
                fail_msg("room for %u, window %u: %u fetched, not %llu to %llu", cases[k].room, cases[k].window,
                         fetched, (unsigned long long)r.least_bytes, (unsigned long long)r.bucket_bytes);
            leat_order_close(now);
            leat_order_close(next);
        }
    }
}

TEST(disk_adds_to_memory_and_whole_datasets_stay)
{
    struct leat_reach_given g = {.dataset_bytes = 100, .ram_bytes = 30, .live_bytes = 10, .ahead_bytes = 5};
    assert_int_equal(leat_reach(&g).kept_bytes, 15);
    g.disk_bytes = 50;
    assert_int_equal(leat_reach(&g).kept_bytes, 65);
    assert_int_equal(leat_reach(&g).bucket_bytes, 35);
    assert_int_equal(leat_reach(&g).least_bytes, 20);
    g.line = 7;
    assert_true(leat_reach(&g).seconds == 5);
    g.disk_bytes = UINT64_MAX;
    assert_int_equal(leat_reach(&g).bucket_bytes, 0);
    g = (struct leat_reach_given){.dataset_bytes = 100, .ram_bytes = 100, .live_bytes = 100, .ahead_bytes = 50};
    assert_int_equal(leat_reach(&g).bucket_bytes, 0);
    assert_false(leat_reach(&g).tight);
    g.ram_bytes = 60;
    assert_int_equal(leat_reach(&g).kept_bytes, 0);
    assert_int_equal(leat_reach(&g).least_bytes, 40);
    assert_true(leat_reach(&g).tight);
    assert_int_equal(leat_reach(&(struct leat_reach_given){0}).bucket_bytes, 0);
    assert_int_equal(leat_reach_live(1000, 10, 3), 300);
    assert_int_equal(leat_reach_live(1000, 10, 65536), 1000);
    assert_int_equal(leat_reach_live(1000, 0, 3), 1000);
}

TEST(it_is_said_in_one_line)
{
    struct leat_reach_given g = {
        .dataset_bytes = 150 * GIB, .ram_bytes = 4 * GIB, .disk_bytes = 40 * GIB, .live_bytes = 4 * GIB, .line = 170e6};
    char said[400];
    leat_reach_say(&g, said, sizeof said);
    assert_string_equal(said,
                        "cache 40 GiB of 150 GiB: 27 % of the bytes from here, 110 GiB per epoch from the bucket, "
                        "11 min 35 s at 170 MB/s");
    g.ram_bytes = GIB;
    g.line = 0;
    leat_reach_say(&g, said, sizeof said);
    assert_string_equal(said,
                        "cache 40 GiB of 150 GiB: 27 % of the bytes from here, 110 GiB per epoch from the bucket; "
                        "memory of 1 GiB is less than the 4 GiB that are mixed at a time: chunks may be fetched "
                        "several times per epoch");
    g.ram_bytes = 200 * GIB;
    leat_reach_say(&g, said, sizeof said);
    assert_string_equal(said, "cache for all of 150 GiB: nothing from the bucket after the first epoch");
    g.line = 1e9;
    leat_reach_say(&g, said, sizeof said);
    assert_string_equal(
        said, "cache for all of 150 GiB: nothing from the bucket after the first epoch (2 min 41 s at 1.00 GB/s)");
}
