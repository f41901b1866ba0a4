#include "plan/feed.h"

#include <math.h>

#include "unit.h"

TEST(an_epoch_fetches_the_dataset_less_the_cache)
{
    struct leat_plan_feed feed = {.dataset_bytes = 100e9, .budget_bytes = 30e9, .window_bytes = 2e9, .nodes = 1};
    assert_true(leat_plan_feed_cached(&feed) == 28e9);
    assert_true(leat_plan_feed_fetched(&feed, 0) == 100e9);
    assert_true(leat_plan_feed_fetched(&feed, 1) == 72e9);
    assert_true(leat_plan_feed_total(&feed, 3) == 244e9);
    assert_true(leat_plan_feed_total(&feed, 0.5) == 50e9);
    feed.nodes = 2;
    assert_true(leat_plan_feed_cached(&feed) == 58e9);
}

TEST(machines_together_hold_it_all)
{
    struct leat_plan_feed feed = {.dataset_bytes = 100e9, .budget_bytes = 30e9, .window_bytes = 2e9, .nodes = 4};
    assert_true(leat_plan_feed_cached(&feed) == 100e9);
    assert_true(leat_plan_feed_fetched(&feed, 5) == 0);
    assert_true(leat_plan_feed_total(&feed, 90) == 100e9);
}

TEST(a_budget_below_the_window_caches_nothing)
{
    struct leat_plan_feed feed = {.dataset_bytes = 100e9, .budget_bytes = 1e9, .window_bytes = 2e9, .nodes = 1};
    assert_true(leat_plan_feed_cached(&feed) == 0);
    assert_true(leat_plan_feed_total(&feed, 2) == 200e9);
}

TEST(the_slowest_of_machine_bucket_and_preparation_decides)
{
    const struct leat_plan_feed feed = {.dataset_bytes = 100e9, .budget_bytes = 12e9, .window_bytes = 0, .nodes = 4};
    struct leat_plan_supply supply = {.node_bytes_per_s = 1e9};
    assert_true(leat_plan_feed_epoch_s(&feed, &supply, 1e6, 0) == 25);
    assert_true(leat_plan_feed_epoch_s(&feed, &supply, 1e6, 1) == 13);
    supply.bucket_bytes_per_s = 2e9;
    assert_true(leat_plan_feed_epoch_s(&feed, &supply, 1e6, 0) == 50);
    supply.node_prep_per_s = 1000;
    assert_true(leat_plan_feed_epoch_s(&feed, &supply, 1e6, 0) == 250);
    const struct leat_plan_supply unknown = {0};
    assert_true(leat_plan_feed_epoch_s(&feed, &unknown, 1e6, 0) == 0);
}
