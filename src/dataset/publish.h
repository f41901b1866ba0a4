/* Storing a finished snapshot, the pointer last: shared by packing and rebuilding. */
#ifndef LEAT_DATASET_PUBLISH_H
#define LEAT_DATASET_PUBLISH_H

#include "dataset/home.h"
#include "dataset/snapshot.h"

leat_status leat_home_publish(const struct leat_home *h, const struct leat_snapshot *s, uint8_t id[LEAT_SHA256_SIZE],
                              struct leat_error *err);

#endif
