/* Turns at a loader: one thread uses it, others look, nobody touches it at the same time. */
#include "client/turn.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit.h"

#define ROUNDS 2000

struct scene {
    struct leat_turn turn;
    unsigned touched; /* by the one that has its turn: not atomic on purpose */
    atomic_uint busy;
    atomic_bool over;
    unsigned looks; /* likewise */
};

static void *use_it(void *arg)
{
    struct scene *s = arg;
    unsigned done = 0;
    while (done < ROUNDS) {
        leat_status rc = leat_turn_use(&s->turn, NULL);
        if (rc == LEAT_BUSY) {
            atomic_fetch_add(&s->busy, 1);
            continue;
        }
        s->touched++;
        leat_turn_pause(&s->turn);
        leat_turn_resume(&s->turn);
        s->touched++;
        leat_turn_end(&s->turn);
        done++;
    }
    return NULL;
}

static void *look_at_it(void *arg)
{
    struct scene *s = arg;
    bool beside;
    while (!atomic_load(&s->over)) {
        if (leat_turn_look(&s->turn, LEAT_NEVER, NULL, NULL, &beside, NULL) != LEAT_OK)
            return arg;
        s->looks++;
        s->touched += 0;
        leat_turn_looked(&s->turn);
    }
    return NULL;
}

TEST(users_and_lookers_never_touch_it_at_once)
{
    struct scene s = {0};
    pthread_t users[2];
    pthread_t lookers[2];
    void *failed;
    leat_turn_init(&s.turn);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&lookers[i], NULL, look_at_it, &s), 0);
        assert_int_equal(pthread_create(&users[i], NULL, use_it, &s), 0);
    }
    for (size_t i = 0; i < 2; i++)
        pthread_join(users[i], NULL);
    atomic_store(&s.over, true);
    for (size_t i = 0; i < 2; i++) {
        pthread_join(lookers[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(s.touched, 2 * 2 * ROUNDS);
    leat_turn_destroy(&s.turn);
}

static bool say_stop(void *user)
{
    (void)user;
    return true;
}

TEST(looking_has_its_turn_in_a_pause_and_ends_at_its_deadline_else)
{
    struct leat_turn t;
    struct leat_error err;
    bool beside = true;
    leat_turn_init(&t);
    assert_ok(leat_turn_look(&t, 0, NULL, NULL, &beside, &err), err);
    assert_false(beside);
    leat_turn_looked(&t);
    assert_ok(leat_turn_use(&t, &err), err);
    assert_int_equal(leat_turn_use(&t, &err), LEAT_BUSY);
    uint64_t began = leat_now_ns();
    assert_int_equal(leat_turn_look(&t, leat_after(50 * LEAT_MS), NULL, NULL, &beside, &err), LEAT_TIMEOUT);
    assert_true(leat_now_ns() - began >= 50 * LEAT_MS);
    assert_int_equal(leat_turn_look(&t, LEAT_NEVER, say_stop, NULL, &beside, &err), LEAT_CANCELLED);
    leat_turn_pause(&t);
    assert_ok(leat_turn_look(&t, 0, NULL, NULL, &beside, &err), err);
    assert_true(beside);
    leat_turn_looked(&t);
    leat_turn_resume(&t);
    leat_turn_end(&t);
    assert_ok(leat_turn_use(&t, &err), err);
    leat_turn_end(&t);
    leat_turn_destroy(&t);
}

/* 0: the child may use it; 1: it is told that it may not. */
static int use_in_child(struct leat_turn *t)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        leat_status rc = leat_turn_use(t, NULL);
        _exit(rc == LEAT_OK ? 0 : rc == LEAT_INVALID && leat_turn_broken(t) ? 1 : 2);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_child_begins_anew_unless_it_was_forked_in_the_middle_of_a_change)
{
    struct leat_turn t;
    struct leat_error err;
    leat_turn_init(&t);
    assert_int_equal(use_in_child(&t), 0);
    assert_ok(leat_turn_use(&t, &err), err);
    assert_int_equal(use_in_child(&t), 1);
    leat_turn_pause(&t);
    assert_int_equal(use_in_child(&t), 0);
    leat_turn_resume(&t);
    leat_turn_end(&t);
    assert_false(leat_turn_broken(&t));
    leat_turn_destroy(&t);
}
