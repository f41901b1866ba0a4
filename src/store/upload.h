/* Writing an object from front to back without holding it in memory: one put when it is small, else in parts, a few of
 * them in flight. One thread at a time. */
#ifndef LEAT_STORE_UPLOAD_H
#define LEAT_STORE_UPLOAD_H

#include "store/store.h"

struct leat_upload;

/* size: bytes that will be added, all of them. part_size 0: 16 MiB, more when there would be too many. */
leat_status leat_upload_open(struct leat_store *store, const char *key, uint64_t size, uint64_t part_size,
                             struct leat_upload **out, struct leat_error *err);
leat_status leat_upload_add(struct leat_upload *u, const void *data, size_t n, struct leat_error *err);

/* Makes the object visible, whole. */
leat_status leat_upload_finish(struct leat_upload *u, struct leat_error *err);
void leat_upload_close(struct leat_upload *u); /* gives up what was not finished; NULL is allowed */

#endif
