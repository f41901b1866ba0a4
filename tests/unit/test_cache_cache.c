/* The chunk cache: never above its budget, and what it evicts is what the order needs last. */
#include "cache/cache.h"

#include "order/order.h"
#include "order/policy.h"
#include "order/reader.h"
#include "unit.h"

#define CHUNKS 200u

struct owner {
    uint64_t next[CHUNKS]; /* distance of the next use */
    uint32_t forgotten[CHUNKS];
    uint32_t forgotten_n;
};

static uint64_t next_use(void *user, uint32_t chunk)
{
    return ((struct owner *)user)->next[chunk];
}

static void forget(void *user, struct leat_cache_entry *e)
{
    struct owner *o = user;
    o->forgotten[o->forgotten_n++ % CHUNKS] = e->chunk;
}

struct fixture {
    struct owner owner;
    struct leat_cache *cache;
    struct leat_cache_set *set;
};

static struct fixture *open_cache(uint64_t budget)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(leat_cache_open(budget, &f->cache, NULL), LEAT_OK);
    assert_int_equal(leat_cache_set_open(f->cache, CHUNKS, next_use, forget, &f->owner, &f->set, NULL), LEAT_OK);
    for (uint32_t i = 0; i < CHUNKS; i++)
        f->owner.next[i] = 1000 + i;
    return f;
}

static void close_cache(struct fixture *f)
{
    leat_cache_set_close(f->set);
    assert_int_equal(leat_cache_used(f->cache), 0);
    assert_int_equal(leat_cache_pinned(f->cache), 0);
    leat_cache_close(f->cache);
    free(f);
}

static struct leat_cache_entry *add_ready(struct fixture *f, uint32_t chunk, uint64_t bytes, uint64_t use)
{
    struct leat_cache_entry *e = leat_cache_add(f->set, chunk, bytes, use);
    if (e)
        e->ready = true;
    return e;
}

static void farthest_next_use_goes_first(void **state)
{
    (void)state;
    struct fixture *f = open_cache(30);
    f->owner.next[1] = 5;
    f->owner.next[2] = LEAT_CACHE_NEVER;
    f->owner.next[3] = 7;
    assert_non_null(add_ready(f, 1, 10, 0));
    assert_non_null(add_ready(f, 2, 10, 0));
    assert_non_null(add_ready(f, 3, 10, 0));
    assert_non_null(add_ready(f, 4, 10, 1));
    assert_int_equal(f->owner.forgotten[0], 2);
    assert_null(leat_cache_find(f->set, 2));
    f->owner.next[4] = 1;
    assert_non_null(add_ready(f, 5, 10, 2));
    assert_int_equal(f->owner.forgotten[1], 3);
    close_cache(f);
}

static void sooner_needed_ones_stay_for_a_prefetch(void **state)
{
    (void)state;
    struct fixture *f = open_cache(20);
    f->owner.next[1] = 5;
    f->owner.next[2] = 6;
    assert_non_null(add_ready(f, 1, 10, 0));
    assert_non_null(add_ready(f, 2, 10, 0));
    assert_null(add_ready(f, 3, 10, 6));
    assert_null(add_ready(f, 3, 10, 7));
    assert_non_null(add_ready(f, 3, 10, 5));
    assert_null(leat_cache_find(f->set, 2));
    close_cache(f);
}

/* A small cache is full of chunks that are in use "now"; one that is needed for the next batch still gets in. */
static void what_is_needed_now_always_finds_room_among_the_unpinned(void **state)
{
    (void)state;
    struct fixture *f = open_cache(20);
    f->owner.next[1] = f->owner.next[2] = 0;
    struct leat_cache_entry *one = add_ready(f, 1, 10, 0);
    assert_non_null(one);
    leat_cache_pin(one);
    assert_non_null(add_ready(f, 2, 10, 0));
    assert_non_null(add_ready(f, 3, 10, 0));
    assert_ptr_equal(leat_cache_find(f->set, 1), one);
    leat_cache_pin(leat_cache_find(f->set, 3));
    assert_null(add_ready(f, 4, 10, 0)); /* all pinned */
    close_cache(f);
}

static void entries_that_are_coming_are_not_evicted(void **state)
{
    (void)state;
    struct fixture *f = open_cache(10);
    struct leat_cache_entry *e = leat_cache_add(f->set, 1, 10, 0);
    assert_non_null(e);
    assert_null(leat_cache_add(f->set, 2, 10, 0));
    e->ready = true;
    assert_non_null(leat_cache_add(f->set, 2, 10, 0));
    close_cache(f);
}

static void chunks_that_can_never_fit_evict_nothing(void **state)
{
    (void)state;
    struct fixture *f = open_cache(20);
    assert_non_null(add_ready(f, 1, 20, 0));
    assert_null(add_ready(f, 2, 21, 0));
    assert_null(add_ready(f, 2, UINT64_MAX, 0));
    assert_null(add_ready(f, 1, 5, 0)); /* there already */
    assert_null(add_ready(f, CHUNKS, 5, 0));
    assert_null(leat_cache_find(f->set, CHUNKS));
    assert_non_null(leat_cache_find(f->set, 1));
    close_cache(f);
}

static void chunks_of_megabytes_take_each_others_memory(void **state)
{
    (void)state;
    const uint64_t large = 8 << 20;
    struct fixture *f = open_cache(large);
    struct leat_cache_entry *e = add_ready(f, 1, large, 0);
    assert_non_null(e);
    void *data = e->data;
    memset(data, 1, large);
    e = add_ready(f, 2, large - 70000, 0); /* the chunks of a dataset are nearly alike */
    assert_non_null(e);
    assert_ptr_equal(e->data, data);
    memset(data, 2, large - 70000);
    e = add_ready(f, 3, 3 << 20, 0); /* another class */
    assert_non_null(e);
    memset(e->data, 3, 3 << 20);
    e = add_ready(f, 4, 5 << 20, 1);
    assert_non_null(e);
    memset(e->data, 4, 5 << 20);
    assert_non_null(leat_cache_find(f->set, 3));
    close_cache(f);
}

/* Random adds, pins and removals against a model. */
static void budget_is_never_exceeded(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t draw = seed * 0x9e3779b97f4a7c15ull;
        const uint64_t budget = 50 + draw % 500;
        struct fixture *f = open_cache(budget);
        for (int step = 0; step < 4000; step++) {
            draw = draw * 6364136223846793005ull + 1442695040888963407ull;
            uint32_t chunk = (uint32_t)(draw >> 40) % CHUNKS;
            struct leat_cache_entry *e = leat_cache_find(f->set, chunk);
            f->owner.next[(uint32_t)(draw >> 20) % CHUNKS] = draw >> 50;
            if (!e)
                leat_cache_add(f->set, chunk, 1 + (draw >> 30) % 60, (draw >> 12) % 3 ? 0 : draw >> 52);
            else if (!e->ready)
                e->ready = true;
            else if ((draw & 3) == 0)
                leat_cache_pin(e);
            else if (e->pins)
                leat_cache_unpin(e);
            else if ((draw & 15) == 1)
                leat_cache_remove(e);
            uint64_t used = 0;
            uint64_t pinned = 0;
            uint64_t entries = 0;
            for (uint32_t i = 0; i < CHUNKS; i++) {
                const struct leat_cache_entry *x = leat_cache_find(f->set, i);
                used += x ? x->bytes : 0;
                pinned += x && x->pins ? x->bytes : 0;
                entries += x != NULL;
            }
            struct leat_cache_stats stats;
            leat_cache_stats(f->cache, &stats);
            assert_int_equal(leat_cache_used(f->cache), used);
            assert_int_equal(leat_cache_pinned(f->cache), pinned);
            assert_int_equal(stats.entries, entries);
            assert_true(used <= budget);
        }
        close_cache(f);
    }
}

/* An epoch after the other in the order's own sequence, as a loader reads it: the chunk of every sample has to be
 * there, the upcoming ones are prefetched. */
struct simulation {
    struct leat_order *now, *coming;
    uint64_t stage;
};

static uint64_t order_next_use(void *user, uint32_t chunk)
{
    const struct simulation *s = user;
    uint64_t use = leat_order_next_use(s->now, s->coming, s->stage, chunk);
    return use == LEAT_ORDER_NEVER ? LEAT_CACHE_NEVER : use - s->stage;
}

static void forget_nothing(void *user, struct leat_cache_entry *e)
{
    (void)user;
    (void)e;
}

static uint64_t run_epochs(uint32_t chunks, uint32_t window, uint32_t cached, uint32_t epochs)
{
    uint32_t *counts = calloc(chunks, sizeof *counts);
    struct leat_cache *cache;
    struct leat_cache_set *set;
    struct simulation s = {0};
    uint64_t fetched = 0;
    assert_non_null(counts);
    for (uint32_t i = 0; i < chunks; i++)
        counts[i] = 20 + i % 7;
    struct leat_order_spec spec = {
        .view = "samples", .counts = counts, .chunks = chunks, .shuffle = true, .seed = 3, .window = window};
    assert_int_equal(leat_cache_open(cached, &cache, NULL), LEAT_OK);
    assert_int_equal(leat_cache_set_open(cache, chunks, order_next_use, forget_nothing, &s, &set, NULL), LEAT_OK);
    assert_int_equal(leat_order_open(&spec, &s.now, NULL), LEAT_OK);
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        spec.epoch = epoch + 1;
        assert_int_equal(leat_order_open(&spec, &s.coming, NULL), LEAT_OK);
        struct leat_order_reader *r;
        struct leat_order_item item;
        size_t got;
        assert_int_equal(leat_order_reader_open(s.now, 0, &r, NULL), LEAT_OK);
        while (leat_order_reader_next(r, &item, 1, &got, NULL) == LEAT_OK && got) {
            s.stage = leat_order_reader_stage(r);
            struct leat_cache_entry *e = leat_cache_find(set, item.chunk);
            if (!e) {
                e = leat_cache_add(set, item.chunk, 1, 0);
                assert_non_null(e);
                e->ready = true;
                fetched += epoch > 0;
            }
            assert_true(leat_cache_used(cache) <= cached);
        }
        leat_order_reader_close(r);
        leat_order_close(s.now);
        s.now = s.coming;
    }
    leat_order_close(s.now);
    leat_cache_set_close(set);
    leat_cache_close(cache);
    free(counts);
    return fetched;
}

static void next_use_reaches_the_lower_bound_of_fetches(void **state)
{
    (void)state;
    const uint32_t chunks = 400;
    const uint32_t window = 16;
    const uint32_t epochs = 6; /* the first fills the cache */
    for (uint32_t cached = 50; cached <= 400; cached += 70) {
        uint64_t bound = (uint64_t)(chunks - cached) * (epochs - 1);
        uint64_t fetched = run_epochs(chunks, window, cached, epochs);
        assert_true(fetched >= bound);
        /* beside the live window, which every policy has to hold */
        assert_true(fetched <= bound + (uint64_t)window * (epochs - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(farthest_next_use_goes_first),
        cmocka_unit_test(sooner_needed_ones_stay_for_a_prefetch),
        cmocka_unit_test(what_is_needed_now_always_finds_room_among_the_unpinned),
        cmocka_unit_test(entries_that_are_coming_are_not_evicted),
        cmocka_unit_test(chunks_that_can_never_fit_evict_nothing),
        cmocka_unit_test(chunks_of_megabytes_take_each_others_memory),
        cmocka_unit_test(budget_is_never_exceeded),
        cmocka_unit_test(next_use_reaches_the_lower_bound_of_fetches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
