/* What is S3's own. */
#ifndef LEAT_STORE_S3_H
#define LEAT_STORE_S3_H

#include "store/aws.h"
#include "store/backend.h"
#include "store/s3_xml.h"

struct bucket;

#define LEAT_S3_COPIES_WHOLE (5ull << 30) /* the most that S3 copies at once */

void leat_s3_explain(const struct bucket *b, struct leat_store_op *op, const struct leat_s3_answer *answer);

/* The ETag that S3 gives an object made of these parts: the MD5 of their MD5s. False when their tags are not MD5s
 * (encrypted buckets), and nothing can be said. */
bool leat_s3_parts_etag(const struct leat_store_part *parts, uint32_t n, char out[LEAT_ETAG_MAX]);

#endif
