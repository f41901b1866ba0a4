#include "sched/heap.h"

#include "base/random.h"
#include "unit.h"

#define MEMBERS 500u

TEST(the_farthest_comes_first)
{
    static struct leat_sched_place places[MEMBERS];
    struct leat_sched_heap h = {0};
    struct leat_rng rng = leat_rng(1, 0);
    assert_null(leat_sched_heap_top(&h));
    for (unsigned i = 0; i < MEMBERS; i++) {
        places[i] = (struct leat_sched_place){0};
        assert_true(leat_sched_heap_reserve(&h, i + 1));
        leat_sched_heap_put(&h, &places[i], leat_rng_below(&rng, 100)); /* many are equal */
    }
    uint64_t last = UINT64_MAX;
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct leat_sched_place *top = leat_sched_heap_top(&h);
        assert_true(top->key <= last);
        last = top->key;
        leat_sched_heap_remove(&h, top);
        assert_int_equal(top->at, 0);
    }
    assert_null(leat_sched_heap_top(&h));
    leat_sched_heap_free(&h);
    leat_sched_heap_free(&h); /* an empty one too */
}

static void check(const struct leat_sched_heap *h, const struct leat_sched_place *places)
{
    size_t in = 0;
    uint64_t most = 0;
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (!places[i].at)
            continue;
        in++;
        most = places[i].key > most ? places[i].key : most;
        assert_ptr_equal(leat_sched_heap_at(h, places[i].at), &places[i]);
        if (places[i].at > 1)
            assert_true(leat_sched_heap_at(h, places[i].at / 2)->key >= places[i].key);
    }
    assert_int_equal(h->n, in);
    if (in)
        assert_int_equal(leat_sched_heap_top(h)->key, most);
}

TEST(members_move_and_leave_from_the_middle)
{
    static struct leat_sched_place places[MEMBERS];
    struct leat_sched_heap h = {0};
    struct leat_rng rng = leat_rng(2, 0);
    memset(places, 0, sizeof places);
    assert_true(leat_sched_heap_reserve(&h, MEMBERS));
    for (unsigned i = 0; i < 20000; i++) {
        struct leat_sched_place *p = &places[leat_rng_below(&rng, MEMBERS)];
        if (leat_rng_below(&rng, 3))
            leat_sched_heap_put(&h, p, leat_rng_u64(&rng) >> leat_rng_below(&rng, 60));
        else
            leat_sched_heap_remove(&h, p); /* also when it is not in it */
        if (i % 50 == 0)
            check(&h, places);
    }
    check(&h, places);
    leat_sched_heap_free(&h);
}

TEST(room_grows_and_is_kept)
{
    struct leat_sched_heap h = {0};
    for (size_t n = 1; n < 100000; n = n * 3 + 1) {
        assert_true(leat_sched_heap_reserve(&h, n));
        assert_true(h.cap > n); /* places count from 1 */
        const char *first = h.list.list[0];
        size_t cap = h.cap;
        assert_true(leat_sched_heap_reserve(&h, n));
        assert_int_equal(h.cap, cap);
        assert_true(leat_sched_heap_reserve(&h, 2 * n));
        assert_ptr_equal(h.list.list[0], first); /* what is there is not copied to make room for more */
    }
    leat_sched_heap_free(&h);
}
