/* The S3 backend's two halves: requests (s3.c) and listing (s3_list.c). */
#ifndef LEAT_STORE_S3_H
#define LEAT_STORE_S3_H

#include "store/backend.h"

leat_status leat_s3_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                              struct leat_error *err);

#endif
