#include "net/loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "unit_place.h"

static void wait_for(const atomic_uint *count, unsigned n)
{
    if (!wait_until(count, n))
        fail_msg("waited a minute for %u, have %u", n, *count);
}

static struct leat_loop *open_loop(void)
{
    struct leat_error err;
    struct leat_loop *loop = NULL;
    assert_ok(leat_loop_open("test-loop", &loop, &err), err);
    return loop;
}

#define TIMERS 2000

struct timers {
    struct leat_loop *loop;
    struct leat_timer timer[TIMERS];
    bool off[TIMERS];
    atomic_uint fired;
    uint64_t last_ns;
    bool out_of_order;
    bool wrong;
};

static struct timers timers;

static void on_timer(struct leat_timer *t)
{
    size_t i = (size_t)(t - timers.timer);
    timers.out_of_order |= t->at_ns < timers.last_ns;
    timers.wrong |= timers.off[i] || t->armed || t->at_ns > leat_now_ns();
    timers.last_ns = t->at_ns;
    timers.fired++;
}

/* Arms all, moves some, takes others back, in random order and many times over. */
static void arm_many(void *user)
{
    struct leat_rng *rng = user;
    uint64_t now = leat_now_ns();
    for (unsigned n = 0; n < 10 * TIMERS; n++) {
        unsigned i = n < TIMERS ? n : leat_rng_u32(rng) % TIMERS;
        timers.timer[i].fire = on_timer;
        timers.off[i] = n >= TIMERS && leat_rng_u32(rng) % 3 == 0;
        if (timers.off[i])
            leat_loop_disarm(timers.loop, &timers.timer[i]);
        else
            leat_loop_arm(timers.loop, &timers.timer[i], now + (5 + leat_rng_u32(rng) % 50) * LEAT_MS);
    }
}

TEST(timers_fire_in_order_once_and_never_early)
{
    struct leat_rng rng = leat_rng(1, 0);
    timers.loop = open_loop();
    leat_loop_call(timers.loop, arm_many, &rng);
    unsigned expected = 0;
    for (unsigned i = 0; i < TIMERS; i++)
        expected += !timers.off[i];
    wait_for(&timers.fired, expected);
    leat_loop_close(timers.loop);
    assert_int_equal(timers.fired, expected);
    assert_false(timers.out_of_order);
    assert_false(timers.wrong);
}

static atomic_uint closed_too_early;

static void must_not_fire(struct leat_timer *t)
{
    (void)t;
    closed_too_early++;
}

struct arming {
    struct leat_loop *loop;
    struct leat_timer timer;
};

static void arm_far(void *user)
{
    struct arming *a = user;
    a->timer.fire = must_not_fire;
    leat_loop_arm(a->loop, &a->timer, leat_after(3600 * LEAT_S));
}

TEST(close_leaves_armed_timers_alone)
{
    struct arming a = {.loop = open_loop()};
    leat_loop_call(a.loop, arm_far, &a);
    leat_loop_close(a.loop);
    assert_int_equal(closed_too_early, 0);
}

#define POSTERS        8
#define POSTS          5000
#define OF_A_POSTER(n) ((n) / POSTS)

struct post {
    struct leat_task task;
    unsigned number;
};

static struct {
    struct leat_loop *loop;
    struct post posts[POSTERS * POSTS];
    unsigned next[POSTERS];
    atomic_uint ran;
    bool wrong;
} posting;

static void on_post(struct leat_task *task)
{
    struct post *p = (struct post *)task;
    unsigned poster = OF_A_POSTER(p->number);
    posting.wrong |= p->number % POSTS != posting.next[poster]++ || !leat_loop_inside(posting.loop);
    posting.ran++;
}

static void *post_many(void *arg)
{
    unsigned poster = *(unsigned *)arg;
    for (unsigned i = 0; i < POSTS; i++) {
        struct post *p = &posting.posts[poster * POSTS + i];
        p->task.run = on_post;
        p->number = poster * POSTS + i;
        leat_loop_post(posting.loop, &p->task);
    }
    return NULL;
}

TEST(what_is_posted_from_many_threads_runs_once_and_in_each_threads_order)
{
    pthread_t threads[POSTERS];
    unsigned numbers[POSTERS];
    posting.loop = open_loop();
    for (unsigned i = 0; i < POSTERS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    assert_false(leat_loop_inside(posting.loop));
    leat_loop_close(posting.loop); /* runs what was posted before it */
    assert_int_equal(posting.ran, POSTERS * POSTS);
    assert_false(posting.wrong);
}

struct chain {
    struct leat_task task;
    struct leat_loop *loop;
    unsigned left;
};

static void on_chain(struct leat_task *task)
{
    struct chain *c = (struct chain *)task;
    if (c->left && --c->left)
        leat_loop_post(c->loop, &c->task);
}

TEST(close_runs_what_the_last_tasks_posted)
{
    for (int i = 0; i < 200; i++) {
        struct chain c = {.task.run = on_chain, .loop = open_loop(), .left = 20};
        leat_loop_post(c.loop, &c.task);
        leat_loop_close(c.loop);
        assert_int_equal(c.left, 0);
    }
}

/* Pairs of sockets that are all readable at once; the one that is called first takes all others off the loop. */
#define PAIRS 60

static struct {
    struct leat_loop *loop;
    struct leat_watch *watch[PAIRS];
    int fd[PAIRS][2];
    atomic_uint called;
} watching;

static void on_ready(struct leat_watch *w, uint32_t events)
{
    char byte;
    watching.called++;
    assert_true(events & EPOLLIN);
    assert_int_equal(read(w->fd, &byte, 1), 1);
    for (unsigned i = 0; i < PAIRS; i++) {
        if (watching.watch[i] != w) {
            leat_loop_unwatch(watching.loop, watching.watch[i]);
            free(watching.watch[i]); /* an event of this round still points at it */
            watching.watch[i] = NULL;
        }
    }
}

static void watch_all(void *user)
{
    (void)user;
    struct leat_error err;
    for (unsigned i = 0; i < PAIRS; i++) {
        watching.watch[i] = calloc(1, sizeof *watching.watch[i]);
        assert_non_null(watching.watch[i]);
        watching.watch[i]->fd = watching.fd[i][0];
        watching.watch[i]->ready = on_ready;
        assert_ok(leat_loop_watch(watching.loop, watching.watch[i], EPOLLIN, &err), err);
        assert_int_equal(write(watching.fd[i][1], "x", 1), 1);
    }
}

static void unwatch_all(void *user)
{
    (void)user;
    for (unsigned i = 0; i < PAIRS; i++) {
        if (watching.watch[i]) {
            leat_loop_unwatch(watching.loop, watching.watch[i]);
            leat_loop_unwatch(watching.loop, watching.watch[i]); /* twice is fine */
            free(watching.watch[i]);
        }
    }
}

TEST(a_watch_taken_off_inside_a_callback_is_not_called_any_more)
{
    watching.loop = open_loop();
    for (unsigned i = 0; i < PAIRS; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, watching.fd[i]), 0);
    leat_loop_call(watching.loop, watch_all, NULL);
    wait_for(&watching.called, 1);
    leat_loop_call(watching.loop, unwatch_all, NULL);
    leat_loop_close(watching.loop);
    assert_int_equal(watching.called, 1);
    for (unsigned i = 0; i < PAIRS; i++) {
        close(watching.fd[i][0]);
        close(watching.fd[i][1]);
    }
}

struct bad_watch {
    struct leat_loop *loop;
    leat_status status;
    struct leat_error err;
};

static void watch_bad(void *user)
{
    struct bad_watch *b = user;
    struct leat_watch w = {.fd = 12345, .ready = on_ready};
    b->status = leat_loop_watch(b->loop, &w, EPOLLIN, &b->err);
}

TEST(a_descriptor_that_cannot_be_watched_is_an_error)
{
    struct bad_watch b = {.loop = open_loop()};
    leat_loop_call(b.loop, watch_bad, &b);
    assert_int_not_equal(b.status, LEAT_OK);
    assert_non_null(strstr(b.err.text, "12345"));
    leat_loop_close(b.loop);
    leat_loop_close(NULL);
}
