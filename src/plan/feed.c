#include "plan/feed.h"

#include <math.h>

double leat_plan_feed_cached(const struct leat_plan_feed *feed)
{
    double room = feed->nodes * feed->budget_bytes - feed->window_bytes;
    return fmin(feed->dataset_bytes, fmax(0, room));
}

double leat_plan_feed_fetched(const struct leat_plan_feed *feed, double epoch)
{
    return epoch < 1 ? feed->dataset_bytes : feed->dataset_bytes - leat_plan_feed_cached(feed);
}

double leat_plan_feed_total(const struct leat_plan_feed *feed, double epochs)
{
    double first = fmin(epochs, 1);
    return first * feed->dataset_bytes + (epochs - first) * leat_plan_feed_fetched(feed, 1);
}

double leat_plan_feed_epoch_s(const struct leat_plan_feed *feed, const struct leat_plan_supply *supply, double samples,
                              double epoch)
{
    double bytes = leat_plan_feed_fetched(feed, epoch);
    double rate = HUGE_VAL;
    if (supply->node_bytes_per_s > 0)
        rate = feed->nodes * supply->node_bytes_per_s;
    if (supply->bucket_bytes_per_s > 0)
        rate = fmin(rate, supply->bucket_bytes_per_s);
    double fetch_s = bytes / rate;
    double prep_s = supply->node_prep_per_s > 0 ? samples / (feed->nodes * supply->node_prep_per_s) : 0;
    return fmax(fetch_s, prep_s); /* both run at the same time, ahead of the GPUs */
}
