/* What loaders share: made once, within its bound, for those who come; and nobody waits for who does not. */
#include "agent/share.h"

#include <pthread.h>
#include <stdatomic.h>

#include "unit.h"

#define BYTES 1000u

static struct leat_share_member *join(struct leat_share *s, uint8_t id, uint64_t place, uint64_t first)
{
    struct leat_share_opts o = {.bytes = BYTES, .place = place, .first = first};
    struct leat_share_member *m;
    o.id[0] = id;
    assert_int_equal(leat_share_join(s, &o, &m, NULL), LEAT_OK);
    return m;
}

static struct leat_share *open_share(uint64_t samples)
{
    struct leat_share *s;
    assert_int_equal(leat_share_open(samples * BYTES, &s, NULL), LEAT_OK);
    return s;
}

static uint64_t samples_of(struct leat_share *s)
{
    struct leat_share_stats stats;
    leat_share_stats(s, &stats);
    assert_true(stats.bytes <= stats.bytes_max);
    return stats.samples;
}

/* Samples of different sizes share the bound, and memory that has become free is used again where it fits. */
TEST(sizes_may_differ_within_the_bound)
{
    struct leat_share *s = open_share(100);
    struct leat_share_member *a = join(s, 1, 0, 0);
    struct leat_share_member *b = join(s, 1, 0, 0);
    struct leat_share_stats stats;
    struct leat_shared *e;
    unsigned made = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t bytes = LEAT_SHARE_LEAST + i * 7919 % 30000;
        enum leat_share_turn turn = leat_share_begin(a, 0, i, i + 1, bytes, &e);
        if (turn == LEAT_SHARE_MAKE) {
            made++;
            memset(leat_shared_data(e), (int)i, bytes);
            leat_share_made(e, true);
            leat_share_let_go(e);
        }
        if (i >= 3 &&
            leat_share_begin(b, 0, i - 3, i - 2, LEAT_SHARE_LEAST + (i - 3) * 7919 % 30000, &e) != LEAT_SHARE_OWN) {
            assert_int_equal((uint8_t)leat_shared_data(e)[0], (uint8_t)(i - 3));
            leat_share_let_go(e);
        }
        leat_share_reach(a, i + 1);
        leat_share_reach(b, i < 3 ? 0 : i - 2);
        leat_share_stats(s, &stats);
        assert_true(stats.bytes <= stats.bytes_max);
    }
    assert_true(made > 1990); /* four of them are never more than all the room */
    assert_int_equal(leat_share_begin(a, 1, 0, 2001, 100 * BYTES + 1, &e), LEAT_SHARE_OWN);
    leat_share_free(a);
    leat_share_free(b);
    leat_share_stats(s, &stats);
    assert_int_equal(stats.bytes, 0);
    leat_share_close(s);
}

/* Goes through a sample as a worker does; what came of it. */
static enum leat_share_turn pass(struct leat_share_member *m, uint64_t epoch, uint64_t number, uint64_t place)
{
    struct leat_shared *e;
    enum leat_share_turn turn = leat_share_begin(m, epoch, number, place, BYTES, &e);
    assert_int_not_equal(turn, LEAT_SHARE_LATER);
    if (turn == LEAT_SHARE_MAKE) {
        memset(leat_shared_data(e), (int)number, BYTES);
        leat_share_made(e, true);
    } else if (turn == LEAT_SHARE_TAKE) {
        assert_int_equal((uint8_t)leat_shared_data(e)[BYTES - 1], (uint8_t)number);
    }
    if (turn != LEAT_SHARE_OWN)
        leat_share_let_go(e);
    return turn;
}

TEST(made_by_the_first_and_gone_after_the_last)
{
    struct leat_share *s = open_share(10);
    struct leat_share_member *m[3];
    for (int i = 0; i < 3; i++)
        m[i] = join(s, 1, 0, 0);
    assert_int_equal(pass(m[1], 0, 7, 8), LEAT_SHARE_MAKE);
    assert_int_equal(pass(m[0], 0, 7, 8), LEAT_SHARE_TAKE);
    assert_true(leat_share_has(m[2], 0, 7));
    assert_int_equal(samples_of(s), 1);
    assert_int_equal(pass(m[2], 0, 7, 8), LEAT_SHARE_TAKE);
    assert_int_equal(samples_of(s), 0);
    assert_false(leat_share_has(m[2], 0, 7));
    for (int i = 0; i < 3; i++)
        leat_share_free(m[i]);
    leat_share_close(s);
}

TEST(other_samples_epochs_and_groups_are_apart)
{
    struct leat_share *s = open_share(10);
    struct leat_share_member *a = join(s, 1, 0, 0);
    struct leat_share_member *b = join(s, 1, 0, 0);
    struct leat_share_member *other = join(s, 2, 0, 0);
    assert_int_equal(pass(a, 0, 7, 8), LEAT_SHARE_MAKE);
    assert_int_equal(pass(other, 0, 7, 8), LEAT_SHARE_OWN);
    assert_int_equal(pass(b, 1, 7, 16), LEAT_SHARE_MAKE);
    assert_int_equal(pass(b, 0, 8, 8), LEAT_SHARE_MAKE);
    assert_int_equal(pass(b, 0, 7, 8), LEAT_SHARE_TAKE);
    leat_share_free(a);
    leat_share_free(b);
    leat_share_free(other);
    assert_int_equal(samples_of(s), 0);
    leat_share_close(s);
}

TEST(one_alone_shares_nothing_but_its_first_samples)
{
    struct leat_share *s = open_share(100);
    struct leat_share_member *a = join(s, 1, 0, 5);
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(pass(a, 0, i, i + 1), i < 5 ? LEAT_SHARE_MAKE : LEAT_SHARE_OWN);
    leat_share_reach(a, 20);
    struct leat_share_member *b = join(s, 1, 0, 5);
    struct leat_share_member *far = join(s, 1, 50, 0); /* from a state: not at what it has */
    for (uint64_t i = 0; i < 20; i++) /* what the first has, it does not want any more; five are kept again */
        assert_int_equal(pass(b, 0, i, i + 1), i < 5 ? LEAT_SHARE_TAKE : i < 10 ? LEAT_SHARE_MAKE : LEAT_SHARE_OWN);
    assert_int_equal(samples_of(s), 10);
    leat_share_free(far);
    leat_share_free(a);
    leat_share_free(b);
    leat_share_close(s);
}

TEST(one_that_stops_costs_the_others_nothing)
{
    struct leat_share *s = open_share(10);
    struct leat_share_member *a = join(s, 1, 0, 0);
    struct leat_share_member *b = join(s, 1, 0, 0);
    struct leat_share_member *stopped = join(s, 1, 0, 0);
    for (uint64_t i = 0; i < 200; i++) {
        assert_int_equal(pass(a, 0, i, i + 1), LEAT_SHARE_MAKE);
        assert_int_equal(pass(b, 0, i, i + 1), LEAT_SHARE_TAKE);
        leat_share_reach(a, i + 1);
        leat_share_reach(b, i + 1);
        if (i == 20) /* it finds the next ones of its own */
            assert_int_equal(pass(stopped, 0, 0, 1), LEAT_SHARE_TAKE);
    }
    assert_int_equal(samples_of(s), 0); /* it is lost, and nothing is kept for it */
    assert_int_equal(leat_share_left(stopped), 1);
    assert_int_equal(leat_share_left(a) + leat_share_left(b) + leat_share_left(NULL), 0);
    assert_int_equal(pass(stopped, 0, 1, 2), LEAT_SHARE_OWN);
    leat_share_reach(stopped, 190);
    assert_int_equal(pass(a, 0, 200, 201), LEAT_SHARE_MAKE);
    assert_int_equal(pass(b, 0, 200, 201), LEAT_SHARE_TAKE);
    assert_int_equal(pass(stopped, 0, 200, 201), LEAT_SHARE_TAKE); /* it is back */
    leat_share_free(stopped);
    assert_int_equal(samples_of(s), 0);
    leat_share_free(a);
    leat_share_free(b);
    leat_share_close(s);
}

TEST(two_of_which_one_lags_keep_what_it_needs_next)
{
    struct leat_share *s = open_share(10);
    struct leat_share_member *ahead = join(s, 1, 0, 0);
    struct leat_share_member *behind = join(s, 1, 0, 0);
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(pass(ahead, 0, i, i + 1), i < 10 ? LEAT_SHARE_MAKE : LEAT_SHARE_OWN);
        leat_share_reach(ahead, i + 1);
    }
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(pass(behind, 0, i, i + 1), i < 10 ? LEAT_SHARE_TAKE : LEAT_SHARE_OWN);
        leat_share_reach(behind, i + 1);
    }
    assert_int_equal(pass(ahead, 1, 0, 41), LEAT_SHARE_MAKE); /* they have met */
    leat_share_free(ahead);
    leat_share_free(behind);
    leat_share_close(s);
}

TEST(what_could_not_be_made_is_nobodys)
{
    struct leat_share *s = open_share(10);
    struct leat_share_member *a = join(s, 1, 0, 0);
    struct leat_share_member *b = join(s, 1, 0, 0);
    struct leat_shared *making;
    struct leat_shared *waiting;
    assert_int_equal(leat_share_begin(a, 0, 1, 1, BYTES, &making), LEAT_SHARE_MAKE);
    assert_int_equal(leat_share_begin(b, 0, 1, 1, BYTES, &waiting), LEAT_SHARE_LATER);
    leat_share_made(making, false);
    leat_share_let_go(making);
    assert_false(leat_share_wait(waiting));
    leat_share_let_go(waiting);
    assert_int_equal(samples_of(s), 0);
    assert_int_equal(pass(b, 0, 1, 1), LEAT_SHARE_MAKE); /* it meets the error itself */
    leat_share_free(a);
    leat_share_free(b);
    leat_share_close(s);
}

TEST(members_may_go_while_somebody_copies)
{
    struct leat_share *s = open_share(10);
    struct leat_share_member *a = join(s, 1, 0, 0);
    struct leat_share_member *b = join(s, 1, 0, 0);
    struct leat_shared *made;
    struct leat_shared *unmade;
    struct leat_shared *waiting;
    assert_int_equal(leat_share_begin(a, 0, 1, 1, BYTES, &made), LEAT_SHARE_MAKE);
    assert_int_equal(leat_share_begin(a, 0, 2, 1, BYTES, &unmade), LEAT_SHARE_MAKE);
    memset(leat_shared_data(made), 9, BYTES);
    leat_share_made(made, true);
    assert_int_equal(leat_share_begin(b, 0, 2, 1, BYTES, &waiting), LEAT_SHARE_LATER);
    leat_share_quit(a);
    leat_share_quit(b);
    assert_int_equal(pass(b, 0, 1, 1), LEAT_SHARE_OWN);
    assert_false(leat_share_wait(waiting));
    leat_share_let_go(waiting);
    assert_int_equal(leat_shared_data(made)[5], 9);
    leat_share_let_go(made);
    leat_share_made(unmade, true);
    leat_share_let_go(unmade);
    leat_share_free(a);
    leat_share_free(b);
    assert_int_equal(samples_of(s), 0);
    leat_share_close(s);
}

TEST(more_members_than_bits_are_refused)
{
    struct leat_share *s = open_share(10);
    struct leat_share_member *m[64];
    struct leat_share_member *more;
    struct leat_share_opts o = {.bytes = BYTES};
    for (int i = 0; i < 64; i++)
        m[i] = join(s, 0, 0, 0);
    assert_int_equal(leat_share_join(s, &o, &more, NULL), LEAT_LIMIT);
    assert_int_equal(pass(m[63], 0, 0, 1), LEAT_SHARE_MAKE);
    for (int i = 0; i < 63; i++)
        assert_int_equal(pass(m[i], 0, 0, 1), LEAT_SHARE_TAKE);
    assert_int_equal(samples_of(s), 0);
    for (int i = 0; i < 64; i++)
        leat_share_free(m[i]);
    leat_share_close(s);
}

#define THREADS 6
#define SAMPLES 3000

struct crowd {
    struct leat_share *share;
    pthread_barrier_t all;
    _Atomic uint32_t made, taken, own;
};

/* A job: batches of 16, whose samples it puts off where another thread makes them. */
static void *read_all(void *arg)
{
    struct crowd *c = arg;
    struct leat_share_member *m = join(c->share, 1, 0, 32);
    pthread_barrier_wait(&c->all);
    for (uint64_t at = 0; at < SAMPLES; at += 16) {
        struct leat_shared *later[16] = {0};
        for (uint64_t i = 0; i < 16; i++) {
            struct leat_shared *e;
            switch (leat_share_begin(m, 0, at + i, at + 16, BYTES, &e)) {
            case LEAT_SHARE_OWN:
                atomic_fetch_add(&c->own, 1);
                break;
            case LEAT_SHARE_MAKE:
                memset(leat_shared_data(e), (int)(at + i), BYTES);
                leat_share_made(e, (at + i) % 97 != 0);
                leat_share_let_go(e);
                atomic_fetch_add(&c->made, 1);
                break;
            case LEAT_SHARE_TAKE:
                assert_int_equal((uint8_t)leat_shared_data(e)[BYTES - 1], (uint8_t)(at + i));
                leat_share_let_go(e);
                atomic_fetch_add(&c->taken, 1);
                break;
            case LEAT_SHARE_LATER:
                later[i] = e;
            }
        }
        for (uint64_t i = 0; i < 16; i++) {
            if (!later[i])
                continue;
            bool good = leat_share_wait(later[i]);
            if (good)
                assert_int_equal((uint8_t)leat_shared_data(later[i])[BYTES - 1], (uint8_t)(at + i));
            atomic_fetch_add(good ? &c->taken : &c->own, 1);
            leat_share_let_go(later[i]);
        }
        leat_share_reach(m, at + 16);
    }
    leat_share_free(m);
    return NULL;
}

TEST(a_crowd_gets_the_right_bytes_and_leaves_nothing)
{
    struct crowd c = {.share = open_share(200)};
    pthread_t threads[THREADS];
    pthread_barrier_init(&c.all, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &c), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(c.made + c.taken + c.own, THREADS * ((SAMPLES + 15) / 16 * 16));
    assert_true(c.taken > 0);
    struct leat_share_stats stats;
    leat_share_stats(c.share, &stats);
    assert_int_equal(stats.samples, 0);
    assert_int_equal(stats.bytes, 0);
    leat_share_close(c.share);
    pthread_barrier_destroy(&c.all);
}
