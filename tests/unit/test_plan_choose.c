/* Which configuration is chosen, and the reasons given for the others. */
#include <math.h>

#include "plan/world.h"
#include "unit.h"

static struct leat_plan_offer offers[8];

struct fact {
    double hours;
    double usd;
    double risk_hours;
    double accuracy; /* 0: not given */
};

static struct leat_plan *plan_of(const struct fact *facts, size_t count, const struct leat_plan_options *o)
{
    struct leat_plan *p = calloc(1, sizeof *p);
    p->records = calloc(count, sizeof *p->records);
    p->count = count;
    p->options = *o;
    for (size_t i = 0; i < count; i++) {
        snprintf(offers[i].type, sizeof offers[i].type, "t%zu", i);
        snprintf(offers[i].region, sizeof offers[i].region, "us");
        p->records[i] = (struct leat_plan_record){.offer = &offers[i],
                                                  .nodes = 1,
                                                  .path = -1,
                                                  .time_s.mean = 3600 * facts[i].hours,
                                                  .risk_time_s = 3600 * facts[i].risk_hours,
                                                  .usd.mean = facts[i].usd,
                                                  .risk_usd = facts[i].usd,
                                                  .accuracy = facts[i].accuracy > 0 ? facts[i].accuracy : NAN};
    }
    return p;
}

static void drop(struct leat_plan *p)
{
    free(p->records);
    free(p);
}

static const char *why(const struct leat_plan *p, const char *type)
{
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->records[i].offer->type, type) == 0)
            return p->records[i].why;
    }
    return "";
}

TEST(ties_are_called_ties)
{
    static const struct fact facts[] = {{10, 5, 10, 0}, {10, 5, 10, 0}, {10, 7, 10, 0}, {12, 5, 12, 0}, {12, 7, 12, 0}};
    const struct leat_plan_options o = {.risk = 0.9};
    struct leat_plan *p = plan_of(facts, 5, &o);
    assert_true(leat_plan_choose_records(p));
    assert_string_equal(p->records[0].offer->type, "t0");
    assert_non_null(strstr(why(p, "t1"), "t0:1:on-demand:us is as fast and costs the same"));
    assert_non_null(strstr(why(p, "t2"), "is as fast and cheaper"));
    assert_non_null(strstr(why(p, "t3"), "is faster and costs the same"));
    assert_non_null(strstr(why(p, "t4"), "is faster and cheaper"));
    unsigned front = 0;
    for (size_t i = 0; i < p->count; i++)
        front += p->records[i].front;
    assert_int_equal(front, 1);
    drop(p);
}

/* What misses the deadline or the accuracy is no reason against what keeps it. */
TEST(only_what_keeps_the_limits_is_a_reason)
{
    static const struct fact facts[] = {{8, 4, 30, 95}, {9, 5, 9, 80}, {10, 6, 12, 95}, {9.5, 7, 11, 95}};
    const struct leat_plan_options o = {.risk = 0.9, .deadline_s = 20 * 3600, .min_accuracy = 90};
    struct leat_plan *p = plan_of(facts, 4, &o);
    assert_true(leat_plan_choose_records(p));
    assert_string_equal(p->records[0].offer->type, "t2");
    assert_string_equal(why(p, "t0"), "misses the deadline: p90 30.0 h");
    assert_non_null(strstr(why(p, "t1"), "too many workers: accuracy 80.00 %"));
    assert_string_equal(why(p, "t3"), "0.5 h faster, 1.00 usd dearer than the chosen one");
    drop(p);
}

TEST(everything_that_is_broken_is_said)
{
    static const struct fact facts[] = {{1, 1, 1, 95}, {30, 50, 30, 80}};
    const struct leat_plan_options o = {.risk = 0.9, .deadline_s = 20 * 3600, .min_accuracy = 90, .budget_usd = 10};
    struct leat_plan *p = plan_of(facts, 2, &o);
    assert_true(leat_plan_choose_records(p));
    assert_string_equal(why(p, "t1"),
                        "misses the deadline: p90 30.0 h; above the budget: p90 50.00 usd; too many workers: accuracy "
                        "80.00 %");
    drop(p);
}

TEST(equal_offers_of_several_places_are_one_row)
{
    static const struct fact facts[] = {{10, 5, 10, 0}, {10, 5, 10, 0}, {10, 5, 10, 0}};
    const struct leat_plan_options o = {.risk = 0.9};
    struct leat_plan *p = plan_of(facts, 3, &o);
    for (size_t i = 0; i < 3; i++) {
        snprintf(offers[i].type, sizeof offers[i].type, "t");
        snprintf(offers[i].region, sizeof offers[i].region, "r%zu", i);
    }
    assert_true(leat_plan_choose_records(p));
    assert_null(p->records[0].same_as);
    assert_string_equal(p->records[0].also_in, "r1, r2");
    assert_non_null(strstr(p->records[0].why, "; the same in r1, r2"));
    assert_true(p->records[1].same_as == &offers[0] && p->records[2].same_as == &offers[0]);
    drop(p);
}
