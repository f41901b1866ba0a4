/* Machines that come to a job and leave it one by one: whose place a newcomer takes, who owns what, and when the
 * secrets are made again. */

#include "job/etcd_words.h"
#include "job/roster.h"
#include "unit.h"

#define SLOTS 1024u

static const char *const addresses[] = {"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.5:1"};

/* One more machine enters, while those of `alive` are there. */
static struct leat_members *enter(struct leat_members *m, const char *self, const char *const *alive, uint32_t n)
{
    struct leat_roster_seen seen = {m, alive, n};
    struct leat_members *out;
    struct leat_error err;
    bool changed;
    assert_ok(leat_roster_enter(&seen, NULL, "job", self, &out, &changed, &err), err);
    leat_members_free(m);
    return out;
}

static struct leat_members *of(uint32_t n)
{
    struct leat_members *m = NULL;
    for (uint32_t i = 0; i < n; i++)
        m = enter(m, addresses[i], addresses, i);
    return m;
}

static uint32_t differences(const uint32_t *x, const uint32_t *y)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < SLOTS; s++)
        n += x[s] != y[s];
    return n;
}

TEST(one_that_joins_takes_an_equal_part_and_nothing_else_moves)
{
    uint32_t x[SLOTS];
    uint32_t y[SLOTS];
    struct leat_error err;
    for (uint32_t n = 1; n < 5; n++) {
        struct leat_members *few = of(n);
        struct leat_members *more = of(n + 1);
        uint32_t got = 0;
        assert_ok(leat_roster_place(&few->now, NULL, SLOTS, x, &err), err);
        assert_ok(leat_roster_place(&more->now, NULL, SLOTS, y, &err), err);
        for (uint32_t s = 0; s < SLOTS; s++) {
            got += y[s] == n;
            assert_true(y[s] == x[s] || y[s] == n);
        }
        assert_in_range(got, SLOTS / (n + 1), SLOTS / (n + 1) + 1);
        leat_members_free(few);
        leat_members_free(more);
    }
}

TEST(one_that_comes_takes_the_place_of_one_that_is_gone)
{
    uint32_t x[SLOTS];
    uint32_t y[SLOTS];
    const char *const left[] = {addresses[0], addresses[2]};
    struct leat_error err;
    struct leat_members *m = of(3);
    assert_ok(leat_roster_place(&m->now, NULL, SLOTS, x, &err), err);
    m = enter(m, "10.9.9.9:1", left, 2);
    assert_int_equal(m->now.n, 3);
    assert_string_equal(m->now.nodes[1].address, "10.9.9.9:1");
    assert_ok(leat_roster_place(&m->now, NULL, SLOTS, y, &err), err);
    assert_int_equal(differences(x, y), 0);
    m = enter(m, addresses[1], (const char *const[]){addresses[0], addresses[2], "10.9.9.9:1"}, 3); /* back again */
    assert_int_equal(m->now.n, 4);
    assert_int_equal(m->generation, 1);
    leat_members_free(m);
}

TEST(what_a_lost_one_had_is_spread_and_nothing_else_moves)
{
    uint32_t x[SLOTS];
    uint32_t y[SLOTS];
    bool lost[] = {false, true, false, false};
    bool all[] = {true, true, true, true};
    struct leat_error err;
    struct leat_members *m = of(4);
    assert_ok(leat_roster_place(&m->now, NULL, SLOTS, x, &err), err);
    m->grows = true;
    assert_ok(leat_members_place(m, lost, SLOTS, y, &err), err);
    for (uint32_t s = 0; s < SLOTS; s++)
        assert_true(x[s] == 1 ? y[s] != 1 : y[s] == x[s]);
    assert_fails(leat_roster_place(&m->now, all, SLOTS, y, &err), err, LEAT_INVALID, "no machine of the job is left");
    leat_members_free(m);
}

TEST(ranks_are_assigned_what_their_machines_own)
{
    uint32_t x[SLOTS];
    uint32_t y[SLOTS];
    uint32_t shares[2] = {0};
    struct leat_member nodes[2] = {{.ranks = 8}, {.ranks = 8}};
    struct leat_muster world = {nodes, 2};
    struct leat_error err;
    struct leat_members *m = of(3);
    memcpy(nodes[0].address, addresses[2], strlen(addresses[2]) + 1); /* numbered otherwise, and a third beside them */
    memcpy(nodes[1].address, addresses[0], strlen(addresses[0]) + 1);
    assert_ok(leat_roster_place(&m->now, NULL, SLOTS, x, &err), err);
    assert_ok(leat_roster_assign(&m->now, &world, SLOTS, y, &err), err);
    for (uint32_t s = 0; s < SLOTS; s++) {
        shares[y[s]]++;
        assert_true(x[s] == 1 || y[s] == (x[s] == 2 ? 0 : 1));
    }
    assert_int_equal(shares[0], SLOTS / 2);
    nodes[1].address[0] = '\0'; /* one that could not enter has its share all the same */
    assert_ok(leat_roster_assign(&m->now, &world, SLOTS, y, &err), err);
    leat_members_free(m);
}

TEST(secrets_stay_while_somebody_has_them_and_no_longer)
{
    struct leat_error err;
    struct leat_members *m = of(2);
    struct leat_members *out;
    bool changed;
    struct leat_roster_seen nobody = {m, NULL, 0};
    struct leat_roster_seen nothing = {NULL, NULL, 0};
    struct leat_roster_seen one = {m, addresses, 1};
    assert_ok(leat_roster_enter(&one, NULL, "job", addresses[1], &out, &changed, &err), err);
    assert_false(changed); /* it was in the list */
    assert_true(leat_members_token_is(m, out->token));
    leat_members_free(out);
    assert_ok(leat_roster_enter(&nobody, m, "job", addresses[1], &out, &changed, &err), err);
    assert_true(leat_members_token_is(m, out->token)); /* all leases ran out, and the first is back */
    leat_members_free(out);
    assert_ok(leat_roster_enter(&nobody, NULL, "job", addresses[1], &out, &changed, &err), err);
    assert_false(leat_members_token_is(m, out->token)); /* a newcomer: those who are gone are refused */
    assert_string_not_equal(m->key_pem, out->key_pem);
    assert_int_equal(out->generation, 2);
    assert_int_equal(out->now.n, 1);
    assert_true(changed);
    leat_members_free(out);
    assert_ok(leat_roster_enter(&nothing, m, "job", addresses[0], &out, &changed, &err), err);
    assert_true(changed && leat_members_token_is(m, out->token)); /* the service has lost it */
    assert_int_equal(out->now.n, 2);
    leat_members_free(out);
    leat_members_free(m);
}

/* What etcd sends is not always etcd's. */
TEST(what_etcd_does_not_say_is_refused)
{
    struct leat_error err;
    struct leat_etcd_look look;
    bool good;
    int64_t lease;
    char *token;
    char said[32];
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"header\":{\"revision\":2}}",
        "{\"header\":{\"revision\":\"2\"},\"kvs\":[{}]}",
        "{\"header\":{\"revision\":\"2\"},\"kvs\":[{\"key\":\"!!!!\"}]}",
        "{\"header\":{\"revision\":\"2\"},\"kvs\":[{\"key\":\"L290aGVy\"}]}",                            /* /other */
        "{\"header\":{\"revision\":\"2\"},\"kvs\":[{\"key\":\"L3AvbWVtYmVycw==\",\"value\":\"e30=\"}]}", /* no revision
                                                                                                          */
        "{\"header\":{\"revision\":\"2\"},\"kvs\":[{\"key\":\"L3AvbWVtYmVycw==\",\"mod_revision\":\"2\",\"value\":"
        "\"e30=\"}]}",
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        leat_status rc = leat_etcd_read_look(wrong[i], strlen(wrong[i]), "/p", &look, &err);
        assert_true(rc == LEAT_SERVER || rc == LEAT_INVALID);
    }
    static const char strange[] =
        "{\"header\":{\"revision\":\"2\"},\"kvs\":[{\"key\":\"L3AvYWxpdmUv\",\"value\":\"\"},"
        "{\"key\":\"L3AvYWxpdmUvYQ==\",\"value\":\"e30=\"},{\"key\":\"L3AvZWxzZQ==\",\"value\":\"AA==\"},"
        "{\"key\":\"L3AvYWxpdmUvYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJi\","
        "\"value\":\"AA==\"}]}"; /* /p/alive/, /p/alive/a {}, /p/else, one whose address is too long */
    assert_ok(leat_etcd_read_look(strange, strlen(strange), "/p", &look, &err), err);
    assert_int_equal(look.n, 3);
    assert_string_equal(leat_etcd_find(&look, "a")->id, "");
    assert_int_equal(leat_etcd_find(&look, "a")->sets_n, 0);
    leat_etcd_look_free(&look);
    assert_int_equal(leat_etcd_read_entered("{}", 2, &good, &err), LEAT_SERVER);
    assert_int_equal(leat_etcd_read_kept("{}", 2, &good, &err), LEAT_SERVER);
    assert_int_equal(leat_etcd_read_grant("{\"ID\":7}", 8, &lease, &err), LEAT_SERVER);
    assert_int_equal(leat_etcd_read_token("{\"token\":7}", 11, &token, &err), LEAT_SERVER);
    leat_etcd_read_problem("{\"error\":\"no\"}", 14, said, sizeof said);
    assert_string_equal(said, "no");
    leat_etcd_read_problem("<html>", 6, said, sizeof said);
    assert_string_equal(said, "");
}
