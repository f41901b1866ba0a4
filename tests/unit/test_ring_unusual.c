/* What is unusual is said when it begins, then seldom; what is usual is not said at all. */
#include "ring/unusual.h"
#include "unit.h"

struct heard {
    unsigned n;
    char last[500];
};

static void hear(void *user, const char *text)
{
    struct heard *h = user;
    h->n++;
    snprintf(h->last, sizeof h->last, "%s", text);
}

struct story {
    struct leat_unusual unusual;
    struct leat_account account;
    struct leat_unusual_machine machine;
    struct heard heard;
    uint64_t now;
};

/* A window passes; what is in `more` has happened in it. Returns how many things were said. */
static unsigned pass(struct story *s, const struct leat_account *more, const struct leat_unusual_machine *machine)
{
    unsigned before = s->heard.n;
    if (more)
        leat_account_add(&s->account, more);
    if (machine)
        s->machine = *machine;
    s->now += LEAT_UNUSUAL_WINDOW;
    leat_unusual_look(&s->unusual, &s->account, &s->machine, s->now, hear, &s->heard);
    return s->heard.n - before;
}

TEST(a_few_retries_are_usual)
{
    struct story s = {.now = LEAT_S};
    const struct leat_account few = {.requests = 1000, .retries = 9, .throttled = 9};
    const struct leat_account small_share = {.requests = 100000, .retries = 900, .throttled = 900};
    const struct leat_account some = {.requests = 1000, .retries = 40};
    pass(&s, NULL, NULL);
    assert_int_equal(pass(&s, &few, NULL), 0);
    assert_int_equal(pass(&s, &small_share, NULL), 0);
    assert_int_equal(pass(&s, &some, NULL), 0);
}

TEST(throttling_and_retries_are_told_apart)
{
    struct story s = {.now = LEAT_S};
    const struct leat_account throttled = {.requests = 1000, .retries = 100, .throttled = 100};
    const struct leat_account repeated = {.requests = 1000, .retries = 100};
    pass(&s, NULL, NULL);
    assert_int_equal(pass(&s, &throttled, NULL), 1);
    assert_non_null(strstr(s.heard.last, "asked to slow down 100 times in 10 s"));
    assert_int_equal(pass(&s, &repeated, NULL), 1);
    assert_non_null(strstr(s.heard.last, "100 of 1000 requests had to be repeated"));
}

TEST(the_same_is_said_again_at_doubling_intervals)
{
    struct story s = {.now = LEAT_S};
    const struct leat_account throttled = {.requests = 1000, .retries = 100, .throttled = 100};
    uint64_t said_s[8];
    unsigned n = 0;
    pass(&s, NULL, NULL);
    for (unsigned i = 0; i < 8 * 360; i++) { /* eight hours of it */
        if (pass(&s, &throttled, NULL) && n < 8)
            said_s[n++] = s.now / LEAT_S;
    }
    assert_int_equal(n, 6);
    assert_int_equal(said_s[1] - said_s[0], 600);
    assert_int_equal(said_s[2] - said_s[1], 1200);
    assert_int_equal(said_s[5] - said_s[4], 9600);
}

TEST(waits_count_after_the_first_window)
{
    struct story s = {.now = LEAT_S};
    const struct leat_account fetch = {.wait_ns = 3 * LEAT_S,
                                       .wait_by_cause_ns[LEAT_WAIT_FETCH] = 3 * LEAT_S,
                                       .bytes_by_source[LEAT_FROM_BUCKET] = 1000000000};
    const struct leat_account prep = {.wait_ns = 5 * LEAT_S, .wait_by_cause_ns[LEAT_WAIT_PREP] = 5 * LEAT_S};
    const struct leat_account little = {.wait_ns = LEAT_S / 2, .wait_by_cause_ns[LEAT_WAIT_PREP] = LEAT_S / 2};
    pass(&s, NULL, NULL);
    assert_int_equal(pass(&s, &fetch, NULL), 0); /* the cache is empty */
    assert_int_equal(pass(&s, &little, NULL), 0);
    assert_int_equal(pass(&s, &fetch, NULL), 1);
    assert_non_null(strstr(s.heard.last, "waited for data 30 % of the last 10 s, with 100 MB/s from the bucket"));
    assert_int_equal(pass(&s, &prep, NULL), 1);
    assert_non_null(strstr(s.heard.last, "prepared 50 % of the last 10 s"));
}

TEST(memory_close_to_its_limit_is_said)
{
    struct story s = {.now = LEAT_S};
    const struct leat_unusual_machine fine = {.memory_used = 90, .memory_limit = 100};
    const struct leat_unusual_machine close = {.memory_used = 97ull << 20, .memory_limit = 100ull << 20};
    const struct leat_unusual_machine free = {.memory_used = 1 << 30};
    pass(&s, NULL, &fine);
    assert_int_equal(pass(&s, NULL, &fine), 0);
    assert_int_equal(pass(&s, NULL, &free), 0);
    assert_int_equal(pass(&s, NULL, &close), 1);
    assert_non_null(strstr(s.heard.last, "97 MiB of the 100 MiB"));
    assert_int_equal(pass(&s, NULL, &close), 0);
}

TEST(a_disk_slower_than_the_bucket_is_said)
{
    struct story s = {.now = LEAT_S};
    pass(&s, NULL, &(struct leat_unusual_machine){.disk_chunks = 1});
    const struct leat_unusual_machine fair = {
        .disk_chunks = 101, .disk_ns = 100 * 300 * LEAT_MS, .bucket_chunks = 50, .bucket_ns = 50 * 200 * LEAT_MS};
    assert_int_equal(pass(&s, NULL, &fair), 0);
    struct leat_unusual_machine few = fair;
    few.disk_chunks += 5;
    few.disk_ns += 5 * LEAT_S;
    few.bucket_chunks += 50;
    few.bucket_ns += 50 * 200 * LEAT_MS;
    assert_int_equal(pass(&s, NULL, &few), 0);
    struct leat_unusual_machine slow = few;
    slow.disk_chunks += 20;
    slow.disk_ns += 20 * 900 * LEAT_MS;
    slow.bucket_chunks += 20;
    slow.bucket_ns += 20 * 300 * LEAT_MS;
    assert_int_equal(pass(&s, NULL, &slow), 1);
    assert_non_null(strstr(s.heard.last, "900 ms from the cache on disk and 300 ms from the bucket"));
}

TEST(a_dataset_that_was_let_go_is_no_news)
{
    struct story s = {.now = LEAT_S};
    const struct leat_account much = {.requests = 5000, .retries = 5, .throttled = 5};
    pass(&s, NULL, NULL);
    pass(&s, &much, NULL);
    s.account = (struct leat_account){.requests = 10};
    assert_int_equal(pass(&s, NULL, NULL), 0);
    assert_int_equal(pass(&s, &(struct leat_account){.requests = 100, .retries = 50, .throttled = 50}, NULL), 1);
}

TEST(nothing_is_looked_at_before_a_window_is_over)
{
    struct story s = {.now = LEAT_S};
    pass(&s, NULL, NULL);
    s.account.requests = s.account.throttled = 1000;
    leat_unusual_look(&s.unusual, &s.account, NULL, s.now + LEAT_UNUSUAL_WINDOW - 1, hear, &s.heard);
    assert_int_equal(s.heard.n, 0);
    leat_unusual_look(&s.unusual, &s.account, NULL, s.now + LEAT_UNUSUAL_WINDOW, hear, &s.heard);
    assert_int_equal(s.heard.n, 1);
}
