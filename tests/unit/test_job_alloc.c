/* Memory runs out at every single allocation for the machines of a job: a clean error each time, nothing leaked. */

#include "fail_alloc.h"
#include "job/etcd_words.h"
#include "job/roster.h"
#include "unit.h"

#define SLOTS 64u

static const struct leat_member machines[] = {{"10.0.0.1:1", 2}, {"10.0.0.2:1", 1}, {"10.0.0.3:1", 1}};

static leat_status make_and_tell(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_members *first = NULL;
    struct leat_members *second = NULL;
    struct leat_members *back = NULL;
    const bool lost[] = {false, true};
    const uint32_t node_of_rank[] = {0, 0, 1};
    uint32_t table[SLOTS];
    char *text = NULL;
    leat_status rc = leat_members_make("job", machines, 3, NULL, &first, err);
    if (rc == LEAT_OK)
        rc = leat_members_make("job", machines, 2, first, &second, err);
    if (rc == LEAT_OK)
        rc = leat_members_write(second, &text, err);
    if (rc == LEAT_OK)
        rc = leat_members_read(text, strlen(text), &back, err);
    if (rc == LEAT_OK)
        rc = leat_members_place(back, lost, SLOTS, table, err);
    if (rc == LEAT_OK)
        rc = leat_members_fit(&back->now, node_of_rank, 3, err);
    free(text);
    leat_members_free(first);
    leat_members_free(second);
    leat_members_free(back);
    return rc;
}

static leat_status read_list(void *user, struct leat_error *err)
{
    (void)user;
    static const char text[] = "[[\"10.0.0.1:1\",2],[\"\",1]]";
    struct leat_member *nodes;
    uint32_t n;
    leat_status rc = leat_members_read_nodes(text, strlen(text), &nodes, &n, err);
    if (rc == LEAT_OK)
        free(nodes);
    return rc;
}

static leat_status enter_and_place(void *user, struct leat_error *err)
{
    const struct leat_members *there = user;
    static const char *const alive[] = {"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"};
    const struct leat_muster world = {(struct leat_member *)(uintptr_t)machines, 2};
    const bool lost[] = {false, true, false, false};
    struct leat_roster_seen seen = {there, alive, 3};
    struct leat_members *m = NULL;
    uint32_t table[SLOTS];
    bool changed;
    leat_status rc = leat_roster_enter(&seen, NULL, "job", "10.0.0.4:1", &m, &changed, err);
    if (rc == LEAT_OK)
        rc = leat_roster_place(&m->now, lost, SLOTS, table, err);
    if (rc == LEAT_OK)
        rc = leat_roster_assign(&m->now, &world, SLOTS, table, err);
    leat_members_free(m);
    return rc;
}

static leat_status say(char *text, struct leat_error *err)
{
    free(text);
    return text ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a request");
}

static leat_status talk_to_etcd(void *user, struct leat_error *err)
{
    const char *answer = user;
    struct leat_etcd_record self = {
        .address = "10.0.0.1:1", .id = "0123456789abcdef", .sets = (uint64_t[]){7}, .sets_n = 1};
    struct leat_etcd_look look;
    char *token;
    bool good;
    int64_t lease;
    leat_status rc = say(leat_etcd_ask_look("/p"), err);
    if (rc == LEAT_OK)
        rc = leat_etcd_read_look(answer, strlen(answer), "/p", &look, err);
    if (rc == LEAT_OK)
        leat_etcd_look_free(&look);
    if (rc == LEAT_OK)
        rc = say(leat_etcd_ask_enter("/p", 3, "{}", true, &self, 9), err);
    if (rc == LEAT_OK)
        rc = say(leat_etcd_ask_watch("/p", 4), err);
    if (rc == LEAT_OK)
        rc = say(leat_etcd_ask_grant(6), err);
    if (rc == LEAT_OK)
        rc = say(leat_etcd_ask_lease(9), err);
    if (rc == LEAT_OK)
        rc = say(leat_etcd_ask_token("me", "secret"), err);
    if (rc == LEAT_OK)
        rc = leat_etcd_read_token("{\"token\":\"abc\"}", 15, &token, err);
    if (rc == LEAT_OK) {
        free(token);
        rc = leat_etcd_read_grant("{\"ID\":\"9\"}", 10, &lease, err);
    }
    if (rc == LEAT_OK)
        rc = leat_etcd_read_kept("{\"result\":{\"TTL\":\"6\"}}", 22, &good, err);
    if (rc == LEAT_OK)
        rc = leat_etcd_read_entered("{\"header\":{},\"succeeded\":true}", 30, &good, err);
    return rc;
}

TEST(members)
{
    assert_true(fail_alloc_each(make_and_tell, NULL) > 20);
    assert_true(fail_alloc_each(read_list, NULL) >= 1);
}

TEST(rosters)
{
    struct leat_members *there;
    struct leat_error err;
    assert_ok(leat_members_make("job", machines, 3, NULL, &there, &err), err);
    assert_true(fail_alloc_each(enter_and_place, there) > 10);
    leat_members_free(there);
}

TEST(etcd)
{
    char answer[] = "{\"header\":{\"revision\":\"2\"},\"kvs\":[{\"key\":\"L3AvYWxpdmUvYQ==\",\"value\":"
                    "\"eyJpZCI6IjAxMjM0NTY3ODlhYmNkZWYiLCJzZXRzIjpbIjAxMjM0NTY3ODlhYmNkZWYiXX0=\"}]}";
    assert_true(fail_alloc_each(talk_to_etcd, answer) > 10);
}
