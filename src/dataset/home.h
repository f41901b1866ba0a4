/* Where a dataset is, or will be: a place in a store. */
#ifndef LEAT_DATASET_HOME_H
#define LEAT_DATASET_HOME_H

#include <stdint.h>

#include "base/error.h"
#include "dataset/names.h"
#include "store/store.h"

struct leat_home {
    struct leat_store *store;
    char *prefix; /* "" or ends with '/' */
    char *url;    /* as it was given, for messages */
};

leat_status leat_home_open(const char *url, const struct leat_store_opts *opts, struct leat_home *out,
                           struct leat_error *err);
void leat_home_close(struct leat_home *h);                        /* zeroed ones are allowed */
char *leat_home_key(const struct leat_home *h, const char *name); /* the caller frees it; NULL without memory */

/* LEAT_NOT_FOUND, with words about what is there instead, when there is no dataset. */
leat_status leat_home_current(const struct leat_home *h, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err);

leat_status leat_home_put(const struct leat_home *h, const char *name, const void *data, size_t n,
                          struct leat_error *err);

#endif
