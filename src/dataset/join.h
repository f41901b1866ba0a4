/* Several versions of one place made into one dataset: their chunks follow each other, and none of them is read or
 * copied. */
#ifndef LEAT_DATASET_JOIN_H
#define LEAT_DATASET_JOIN_H

#include <stdint.h>

#include "base/error.h"
#include "dataset/publish.h"
#include "store/store.h"

/* The versions with these n content ids at `url`, in this order. All have the same fields. id: the whole's content id.
 */
leat_status leat_join(const char *url, const struct leat_store_opts *store, const uint8_t (*ids)[LEAT_SHA256_SIZE],
                      uint32_t n, const struct leat_publish_opts *opts, uint8_t id[LEAT_SHA256_SIZE],
                      struct leat_error *err);

#endif
