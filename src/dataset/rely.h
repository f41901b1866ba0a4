/* Stored objects that a version relies on before it is published. Until a pointer leads to the version, 'leat gc' may
 * delete them: what was there when the work began need not be there when it ends. */
#ifndef LEAT_DATASET_RELY_H
#define LEAT_DATASET_RELY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/home.h"

struct leat_rely {
    struct leat_rely_object *list;
    size_t n;
    size_t cap;
};

leat_status leat_rely_on_chunk(struct leat_rely *r, const uint8_t sha[LEAT_SHA256_SIZE], struct leat_error *err);

/* The root of another version at the same place, whose chunks are shared. One object stands for all of them: gc deletes
 * a root before any chunk of its version. */
leat_status leat_rely_on_root(struct leat_rely *r, const uint8_t sha[LEAT_SHA256_SIZE], struct leat_error *err);

/* Asks the store for each of them, many at a time. LEAT_CHANGED when some are gone. */
leat_status leat_rely_check(const struct leat_rely *r, const struct leat_home *h, struct leat_error *err);

void leat_rely_free(struct leat_rely *r); /* zeroed ones are allowed */

#endif
