/* Storing a finished snapshot, the pointer last: shared by packing and rebuilding. */
#ifndef LEAT_DATASET_PUBLISH_H
#define LEAT_DATASET_PUBLISH_H

#include "dataset/home.h"
#include "dataset/snapshot.h"

/* One dataset of n packings, in this order. */
leat_status leat_home_publish(const struct leat_home *h, const struct leat_snapshot *const *packings, uint32_t n,
                              struct leat_pointer *out, struct leat_error *err);

#endif
