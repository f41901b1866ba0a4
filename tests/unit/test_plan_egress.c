#include "plan/egress.h"

#include "unit.h"

#define HEADER "from,to,usd_per_gb\n"

static double price(const struct leat_plan_egress *e, const char *from, const char *provider, const char *region)
{
    const struct leat_plan_egress_row *row = leat_plan_egress_find(e, from, provider, region);
    return row ? row->usd_per_gb : -1;
}

TEST(the_closest_line_counts)
{
    static const char text[] = HEADER "aws/us-east-1,aws/us-west-2,0.02\naws/us-east-1,aws/*,0.03\naws/*,*,0.09\n"
                                      "gcp/*,gcp/*,0.01\n*,lambda/*,0.5\n";
    struct leat_plan_egress e = {0};
    struct leat_error err;
    assert_ok(leat_plan_egress_csv("e.csv", text, strlen(text), &e, &err), err);
    assert_true(price(&e, "aws/us-east-1", "aws", "us-west-2") == 0.02);
    assert_true(price(&e, "aws/us-east-1", "aws", "eu-west-1") == 0.03);
    assert_true(price(&e, "aws/eu-west-1", "aws", "us-west-2") == 0.09);
    assert_true(price(&e, "aws/us-east-1", "lambda", "texas") == 0.09); /* the origin more closely */
    assert_true(price(&e, "gcp/us-central1", "gcp", "us-east1") == 0.01);
    assert_true(price(&e, "gcp/us-central1", "aws", "us-east-1") == -1);
    assert_true(price(&e, "runpod/x", "lambda", "texas") == 0.5);
    leat_plan_egress_free(&e);
}

TEST(places_without_a_provider_are_names_alone)
{
    static const char text[] = HEADER "us-east-1,us-west-2,0.02\nus-east-1,*,0.05\n";
    struct leat_plan_egress e = {0};
    struct leat_error err;
    assert_ok(leat_plan_egress_csv("e.csv", text, strlen(text), &e, &err), err);
    assert_true(price(&e, "us-east-1", "", "us-west-2") == 0.02);
    assert_true(price(&e, "us-east-1", "", "us-west-2/lax1") == 0.05); /* a Local Zone is its own place */
    assert_true(price(&e, "us-west-2", "", "us-east-1") == -1);
    assert_true(price(&e, "us-east-1", "", "us-east-1") == -1); /* who stays does not leave */
    leat_plan_egress_free(&e);
    assert_true(leat_plan_same_place("aws/us-east-1", "aws", "us-east-1"));
    assert_true(leat_plan_same_place("us-east-1", "aws", "us-east-1"));
    assert_false(leat_plan_same_place("gcp/us-east-1", "aws", "us-east-1"));
    assert_false(leat_plan_same_place("us-east-1", "", "us-east-1a"));
}

TEST(wrong_tables_are_refused_by_line)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {HEADER "a,b,0.1\na,b,0.2\n", "e.csv line 3: a to b was given before, on line 2"},
        {HEADER "a,,0.1\n", "e.csv line 2: a region is missing"},
        {HEADER "a,b,90\n", "usd_per_gb is 90"},
        {HEADER "a,b,x\n", "e.csv line 2"},
        {"from,to\na,b\n", "there is no column 'usd_per_gb'"},
        {"from,to,usd_per_gb,x\na,b,1,2\n", "column 'x' is not known"},
        {HEADER, "no price below the header"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct leat_plan_egress e = {0};
        struct leat_error err;
        assert_fails(leat_plan_egress_csv("e.csv", wrong[i].text, strlen(wrong[i].text), &e, &err), err, LEAT_INVALID,
                     wrong[i].says);
        leat_plan_egress_free(&e);
    }
}
