#include "plan/checkpoint.h"

#include <math.h>

#include "unit.h"

TEST(daly_gives_his_published_points)
{
    assert_true(fabs(leat_plan_daly_s(300, 24 * 3600) / 60 - 117) < 0.5);
    assert_true(fabs(leat_plan_daly_s(300, 6 * 3600) / 60 - 57) < 0.5);
    assert_true(fabs(leat_plan_daly_s(300, 15 * 60) / 60 - 9.1) < 0.05);
}

TEST(daly_at_its_ends)
{
    assert_true(leat_plan_daly_s(300, 100) == 100); /* dearer than twice the time between failures */
    assert_true(isinf(leat_plan_daly_s(300, HUGE_VAL)));
    assert_true(leat_plan_daly_s(1e-9, 3600) < 0.01);
}

TEST(young_machines_checkpoint_more_often_than_settled_ones)
{
    const double age[] = {0, 3600, 86400};
    const double probability[] = {0, 0.3, 0.5};
    const double young[4] = {0};
    const double settled[4] = {7200, 7200, 7200, 7200};
    struct leat_plan_lifetime l;
    struct leat_error err;
    assert_ok(leat_plan_lifetime_set(age, probability, 3, true, "test", &l, &err), err);
    double often = leat_plan_hazard_interval_s(10, &l, young, 4);
    double seldom = leat_plan_hazard_interval_s(10, &l, settled, 4);
    assert_true(often * 3 < seldom);
    /* In the steady middle the hazard is nearly constant, and Daly's answer is the right one. */
    double hazard = 4 * leat_plan_lifetime_hazard(&l, 7200 + seldom / 2);
    assert_true(fabs(seldom / leat_plan_daly_s(10, 1 / hazard) - 1) < 0.01);
}
