/* What the data path costs: the feed's own arithmetic. Pure functions.
 *
 * A job reads every sample once an epoch, and the feed drops the chunk whose next use is farthest away. That
 * keeps a fixed part of the dataset on the machines and fetches the rest once an epoch, the least possible. */
#ifndef LEAT_PLAN_FEED_H
#define LEAT_PLAN_FEED_H

struct leat_plan_feed {
    double dataset_bytes;
    double budget_bytes; /* of each machine for chunks */
    double window_bytes; /* chunks live at a time over the whole job: they pass through the cache */
    unsigned nodes;      /* share their caches: the sum counts */
};

double leat_plan_feed_cached(const struct leat_plan_feed *feed);                /* bytes kept from epoch to epoch */
double leat_plan_feed_fetched(const struct leat_plan_feed *feed, double epoch); /* bytes in epoch 0, 1, … */
double leat_plan_feed_total(const struct leat_plan_feed *feed, double epochs);  /* may end inside an epoch */

/* How fast samples can come, of one machine or of the bucket for all. 0: not known, no limit. */
struct leat_plan_supply {
    double node_bytes_per_s;
    double bucket_bytes_per_s;
    double node_prep_per_s; /* samples a second */
};

/* Seconds in which the whole cluster's samples of one epoch can be fetched and prepared. */
double leat_plan_feed_epoch_s(const struct leat_plan_feed *feed, const struct leat_plan_supply *supply, double samples,
                              double epoch);

#endif
