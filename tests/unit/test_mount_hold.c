/* What a mount keeps in memory: within its budget, loaded once for all who want it, failures told and not repeated. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "mount/hold.h"
#include "unit.h"

#define EACH 100u /* bytes of a thing */

struct things {
    _Atomic uint32_t loaded;
    _Atomic uint32_t dropped;
    _Atomic uint64_t broken;     /* the number that cannot be loaded */
    _Atomic uint64_t last_sized; /* the number whose size was asked for last */
    uint64_t take_ns;            /* as long as loading takes */
};

static leat_status load(void *user, uint64_t id, void **out, struct leat_error *err)
{
    struct things *t = user;
    if (t->take_ns)
        leat_sleep_until(leat_after(t->take_ns));
    atomic_fetch_add(&t->loaded, 1);
    if (id == atomic_load(&t->broken))
        return leat_fail(err, LEAT_CORRUPT, "number %d is broken", (int)id);
    uint64_t *thing = malloc(sizeof *thing);
    assert_non_null(thing);
    *thing = id;
    *out = thing;
    return LEAT_OK;
}

static void drop(void *user, void *thing)
{
    struct things *t = user;
    atomic_fetch_add(&t->dropped, 1);
    free(thing);
}

static uint64_t bytes(void *user, uint64_t id)
{
    struct things *t = user;
    atomic_store(&t->last_sized, id);
    return EACH;
}

static struct leat_hold *open_hold(struct things *t, unsigned things, unsigned threads)
{
    struct leat_hold *h = NULL;
    struct leat_error err;
    struct leat_hold_opts opts = {
        .budget = (uint64_t)things * EACH, .threads = threads, .load = load, .drop = drop, .bytes = bytes, .user = t};
    assert_ok(leat_hold_open(&opts, &h, &err), err);
    return h;
}

static bool take_and_give(struct leat_hold *h, uint64_t id)
{
    struct leat_held *held = NULL;
    struct leat_error err;
    bool fresh;
    assert_ok(leat_hold_take(h, id, &held, &fresh, &err), err);
    assert_int_equal(*(uint64_t *)leat_held_thing(held), id);
    leat_hold_give(h, held);
    return fresh;
}

TEST(what_was_used_longest_ago_goes_first)
{
    struct things t = {.broken = UINT64_MAX};
    struct leat_hold *h = open_hold(&t, 3, 0);
    struct leat_hold_stats stats;
    for (uint64_t id = 0; id < 3; id++)
        assert_true(take_and_give(h, id));
    assert_false(take_and_give(h, 0));
    assert_true(take_and_give(h, 3)); /* 1 goes */
    assert_true(leat_hold_has(h, 0));
    assert_false(leat_hold_has(h, 1));
    assert_int_equal(t.loaded, 4);
    assert_int_equal(t.dropped, 1);
    leat_hold_stats(h, &stats);
    assert_int_equal(stats.bytes, 3 * EACH);
    assert_int_equal(stats.peak_bytes, 3 * EACH); /* room was made before */
    assert_int_equal(stats.hits, 1);
    leat_hold_close(h);
    assert_int_equal(t.dropped, 4);
}

TEST(what_is_held_stays_and_goes_when_it_is_given_back)
{
    struct things t = {.broken = UINT64_MAX};
    struct leat_hold *h = open_hold(&t, 1, 0);
    struct leat_held *held[3];
    struct leat_error err;
    bool fresh;
    for (uint64_t id = 0; id < 3; id++)
        assert_ok(leat_hold_take(h, id, &held[id], &fresh, &err), err);
    assert_int_equal(t.dropped, 0);
    for (uint64_t id = 0; id < 3; id++)
        assert_int_equal(*(uint64_t *)leat_held_thing(held[id]), id);
    for (uint64_t id = 0; id < 3; id++)
        leat_hold_give(h, held[id]);
    assert_int_equal(t.dropped, 2);
    leat_hold_close(h);
}

TEST(a_thing_larger_than_the_budget_stays_until_another_is_wanted)
{
    struct things t = {.broken = UINT64_MAX};
    struct leat_hold *h = open_hold(&t, 0, 0);
    assert_true(take_and_give(h, 1));
    assert_false(take_and_give(h, 1));
    assert_true(take_and_give(h, 2));
    assert_true(take_and_give(h, 1));
    assert_int_equal(t.loaded, 3);
    assert_int_equal(t.dropped, 2);
    leat_hold_close(h);
}

TEST(a_failure_is_told_at_once_for_a_second_and_then_tried_again)
{
    struct things t = {.broken = 7};
    struct leat_hold *h = open_hold(&t, 2, 0);
    struct leat_held *held = NULL;
    struct leat_error err;
    bool fresh;
    uint64_t begun = leat_now_ns();
    for (int i = 0; i < 3; i++)
        assert_fails(leat_hold_take(h, 7, &held, &fresh, &err), err, LEAT_CORRUPT, "number 7 is broken");
    if (leat_now_ns() - begun < LEAT_S) /* else the machine was asleep */
        assert_int_equal(t.loaded, 1);
    assert_false(leat_hold_has(h, 7));
    atomic_store(&t.broken, UINT64_MAX);
    leat_sleep_until(leat_after(LEAT_S + LEAT_S / 10));
    assert_true(take_and_give(h, 7));
    leat_hold_close(h);
}

TEST(what_is_loaded_ahead_is_there_and_fresh)
{
    struct things t = {.broken = 5};
    struct leat_hold *h = open_hold(&t, 4, 2);
    leat_hold_ahead(h, 1);
    leat_hold_ahead(h, 1);
    leat_hold_ahead(h, 5); /* nobody hears of it */
    uint64_t deadline = leat_after(30 * LEAT_S);
    while (atomic_load(&t.loaded) < 2 && leat_left(deadline))
        leat_sleep_until(leat_after(LEAT_MS));
    assert_true(leat_hold_has(h, 1));
    assert_true(take_and_give(h, 1));
    assert_false(take_and_give(h, 1));
    assert_int_equal(t.loaded, 2);
    leat_hold_close(h);
}

TEST(nothing_is_loaded_ahead_into_what_readers_need)
{
    struct things t = {.broken = UINT64_MAX};
    struct leat_hold *h = open_hold(&t, 1, 1);
    struct leat_held *held = NULL;
    struct leat_error err;
    bool fresh;
    struct leat_hold_stats stats;
    assert_ok(leat_hold_take(h, 0, &held, &fresh, &err), err);
    leat_hold_ahead(h, 1);
    uint64_t deadline = leat_after(60 * LEAT_S);
    while (atomic_load(&t.last_sized) != 1 && leat_left(deadline))
        leat_sleep_until(leat_after(LEAT_MS));
    leat_hold_stats(h, &stats); /* under the lock in which the thread compared the size and decided */
    assert_int_equal(t.last_sized, 1);
    assert_int_equal(stats.loads, 1);
    leat_hold_give(h, held);
    leat_hold_close(h);
}

struct crowd {
    struct leat_hold *hold;
    _Atomic uint32_t wrong;
    uint64_t seed;
};

static void *read_some(void *arg)
{
    struct crowd *c = arg;
    for (uint64_t i = 0; i < 2000; i++) {
        struct leat_held *held = NULL;
        uint64_t id = (i * 2654435761u >> 7) % 12;
        bool fresh;
        leat_hold_ahead(c->hold, (id + 1) % 12);
        leat_status rc = leat_hold_take(c->hold, id, &held, &fresh, NULL);
        if (rc == LEAT_OK && *(uint64_t *)leat_held_thing(held) != id)
            atomic_fetch_add(&c->wrong, 1);
        if ((rc == LEAT_OK) == (id == 3))
            atomic_fetch_add(&c->wrong, 1);
        if (rc == LEAT_OK)
            leat_hold_give(c->hold, held);
    }
    return NULL;
}

TEST(many_threads_get_what_they_ask_for)
{
    struct things t = {.broken = 3};
    struct crowd c = {.hold = open_hold(&t, 5, 3)};
    pthread_t threads[6];
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_some, &c), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(c.wrong, 0);
    leat_hold_close(c.hold);
    assert_true(t.dropped <= t.loaded);
}

static void *take_nine(void *arg)
{
    take_and_give(arg, 9);
    return NULL;
}

TEST(those_who_want_one_thing_load_it_once)
{
    struct things t = {.broken = UINT64_MAX, .take_ns = 50 * LEAT_MS};
    struct leat_hold *h = open_hold(&t, 5, 0);
    pthread_t threads[8];
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_nine, h), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(t.loaded, 1);
    leat_hold_close(h);
}
