/* The members of a job: what is told to all of them, and who owns what. */

#include "job/health.h"
#include "job/members.h"
#include "unit.h"

#define SLOTS 1024u

static struct leat_members *make(const char *job, uint32_t n, const uint32_t *hosts, const struct leat_members *last)
{
    struct leat_member nodes[16] = {0};
    struct leat_members *m;
    struct leat_error err;
    for (uint32_t i = 0; i < n; i++) {
        snprintf(nodes[i].address, sizeof nodes[i].address, "10.0.0.%u:4000", hosts[i]);
        nodes[i].ranks = 2;
    }
    assert_ok(leat_members_make(job, nodes, n, last, &m, &err), err);
    return m;
}

static uint32_t moved(const struct leat_members *a, const uint32_t *x, const struct leat_members *b, const uint32_t *y)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < SLOTS; s++)
        n += strcmp(a->now.nodes[x[s]].address, b->now.nodes[y[s]].address) != 0;
    return n;
}

TEST(what_is_written_is_read_back)
{
    const uint32_t hosts[] = {1, 2, 3};
    const uint32_t fewer[] = {1, 3};
    struct leat_error err;
    struct leat_members *first = make("run", 3, hosts, NULL);
    struct leat_members *second = make("run", 2, fewer, first);
    struct leat_members *back;
    char *text;
    assert_int_equal(first->generation, 1);
    assert_int_equal(second->generation, 2);
    assert_string_not_equal(first->token, second->token);
    assert_string_not_equal(first->key_pem, second->key_pem);
    assert_ok(leat_members_write(second, &text, &err), err);
    assert_ok(leat_members_read(text, strlen(text), &back, &err), err);
    assert_string_equal(back->job, "run");
    assert_int_equal(back->generation, 2);
    assert_string_equal(back->cert_pem, second->cert_pem);
    assert_string_equal(back->key_pem, second->key_pem);
    assert_int_equal(back->now.n, 2);
    assert_string_equal(back->now.nodes[1].address, "10.0.0.3:4000");
    assert_int_equal(back->before_n, 1);
    assert_int_equal(back->before[0].n, 3);
    assert_true(leat_members_token_is(back, second->token));
    assert_false(leat_members_token_is(back, first->token));
    assert_false(leat_members_token_is(back, ""));
    for (size_t n = 0; n < strlen(text); n++) { /* cut off anywhere it is none */
        struct leat_members *cut;
        assert_int_equal(leat_members_read(text, n, &cut, &err), LEAT_INVALID);
    }
    free(text);
    leat_members_free(first);
    leat_members_free(second);
    leat_members_free(back);
}

TEST(a_machine_that_leaves_or_joins_moves_its_share_alone)
{
    const uint32_t four[] = {1, 2, 3, 4};
    const uint32_t three[] = {4, 1, 3}; /* with other numbers */
    uint32_t x[SLOTS];
    uint32_t y[SLOTS];
    uint32_t z[SLOTS];
    struct leat_error err;
    struct leat_members *a = make("run", 4, four, NULL);
    struct leat_members *b = make("run", 3, three, a);
    struct leat_members *c = make("run", 4, four, b);
    assert_ok(leat_members_place(a, NULL, SLOTS, x, &err), err);
    assert_ok(leat_members_place(b, NULL, SLOTS, y, &err), err);
    assert_ok(leat_members_place(c, NULL, SLOTS, z, &err), err);
    assert_int_equal(moved(a, x, b, y), SLOTS / 4);
    assert_true(moved(b, y, c, z) <= SLOTS / 4 + 4);
    leat_members_free(a);
    leat_members_free(b);
    leat_members_free(c);
}

TEST(what_a_lost_machine_had_goes_to_the_others)
{
    const uint32_t four[] = {1, 2, 3, 4};
    bool lost[] = {false, false, true, false};
    uint32_t x[SLOTS];
    uint32_t y[SLOTS];
    uint32_t owned[4] = {0};
    struct leat_error err;
    struct leat_members *a = make("", 4, four, NULL);
    assert_ok(leat_members_place(a, NULL, SLOTS, x, &err), err);
    assert_ok(leat_members_place(a, lost, SLOTS, y, &err), err);
    for (uint32_t s = 0; s < SLOTS; s++) {
        owned[y[s]]++;
        if (x[s] != 2)
            assert_int_equal(y[s], x[s]);
    }
    assert_int_equal(owned[2], 0);
    assert_true(owned[0] >= SLOTS / 3 && owned[1] >= SLOTS / 3 && owned[3] >= SLOTS / 3);
    lost[0] = lost[1] = lost[3] = true;
    assert_fails(leat_members_place(a, lost, SLOTS, y, &err), err, LEAT_INVALID, "no machine of the job is left");
    leat_members_free(a);
}

TEST(wrong_texts_are_refused)
{
    struct leat_member *nodes;
    uint32_t n;
    struct leat_error err;
    static const char *const wrong[] = {"",
                                        "[]",
                                        "{}",
                                        "[[\"10.0.0.1:1\"]]",
                                        "[[\"10.0.0.1\",1]]",
                                        "[[\"a:1\",1]]",
                                        "[[\"4000\",1]]",
                                        "[[\"10.0.0.1:0\",1]]",
                                        "[[\"10.0.0.1:1\",0]]",
                                        "[[1,1]]"};
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_int_equal(leat_members_read_nodes(wrong[i], strlen(wrong[i]), &nodes, &n, &err), LEAT_INVALID);
    assert_ok(leat_members_read_nodes("[[\"\",1],[\"[::1]:9\",3]]", 22, &nodes, &n, &err), err);
    assert_int_equal(n, 2);
    assert_int_equal(nodes[1].ranks, 3);
    free(nodes);
}

TEST(one_that_fails_is_left_alone_and_then_lost)
{
    struct leat_health h = {0};
    const uint64_t s = 1000000000ull;
    assert_true(leat_health_good(&h, 0));
    assert_false(leat_health_ill(&h, false, 10 * s));
    assert_false(leat_health_good(&h, 10 * s));
    assert_true(leat_health_good(&h, 12 * s));
    assert_true(leat_health_ill(&h, false, 12 * s)); /* the second in a row */
    assert_false(leat_health_good(&h, 100 * s));
    assert_false(leat_health_due(&h, 12 * s));
    assert_true(leat_health_due(&h, 100 * s));
    assert_true(leat_health_well(&h));
    assert_true(leat_health_good(&h, 100 * s));
    assert_true(leat_health_ill(&h, true, 100 * s)); /* wrong bytes: at once, and for long */
    assert_false(leat_health_due(&h, 600 * s));
}

/* 700 machines start again and again: what they remember must not grow until nothing can be told any more. */
TEST(a_large_job_that_starts_often_forgets_its_oldest_machines)
{
    static struct leat_member nodes[700];
    struct leat_members *last = NULL;
    struct leat_members *m;
    struct leat_error err;
    char *text;
    for (uint32_t i = 0; i < 700; i++) {
        snprintf(nodes[i].address, sizeof nodes[i].address, "10.250.%u.%u:40000", 100 + i / 250, 100 + i % 250 / 2);
        nodes[i].ranks = 8;
    }
    for (unsigned generation = 1; generation <= 12; generation++) {
        assert_ok(leat_members_make("run", nodes, 700, last, &m, &err), err);
        leat_members_free(last);
        assert_ok(leat_members_write(m, &text, &err), err);
        leat_members_free(m);
        assert_ok(leat_members_read(text, strlen(text), &last, &err), err);
        free(text);
        assert_int_equal(last->generation, generation);
        assert_int_equal(last->now.n, 700);
    }
    assert_in_range(last->before_n, 1, 3);
    leat_members_free(last);
}
