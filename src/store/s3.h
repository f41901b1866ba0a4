/* What the S3 backend is made of: requests (s3.c), what their refusals mean (s3_error.c), listing (s3_list.c). */
#ifndef LEAT_STORE_S3_H
#define LEAT_STORE_S3_H

#include "store/aws.h"
#include "store/backend.h"
#include "store/s3_xml.h"

leat_status leat_s3_list_after(struct leat_store *store, const char *prefix, const char *after, struct leat_list **out,
                               struct leat_error *err);
leat_status leat_s3_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                              struct leat_error *err);

/* Sets op's status and error by an answer that refuses the call, and what it says. */
void leat_s3_explain(const struct leat_aws *aws, struct leat_store_op *op, const struct leat_s3_answer *answer);

/* Nothing has answered yet: the address may be wrong, and op's error says who gave it. */
void leat_s3_explain_endpoint(const struct leat_aws *aws, struct leat_store_op *op);

/* The ETag that S3 gives an object made of these parts: the MD5 of their MD5s. False when their tags are not MD5s
 * (encrypted buckets), and nothing can be said. */
bool leat_s3_parts_etag(const struct leat_store_part *parts, uint32_t n, char out[LEAT_ETAG_MAX]);

#endif
