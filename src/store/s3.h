/* The S3 backend's two halves: requests (s3.c) and listing (s3_list.c). */
#ifndef LEAT_STORE_S3_H
#define LEAT_STORE_S3_H

#include "store/backend.h"

leat_status leat_s3_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                              struct leat_error *err);

/* The ETag that S3 gives an object made of these parts: the MD5 of their MD5s. False when their tags are not MD5s
 * (encrypted buckets), and nothing can be said. */
bool leat_s3_parts_etag(const struct leat_store_part *parts, uint32_t n, char out[LEAT_ETAG_MAX]);

#endif
