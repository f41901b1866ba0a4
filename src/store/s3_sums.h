/* Checksums of S3's own: those that go with what is written, and those of objects that were put in parts. */
#ifndef LEAT_STORE_S3_SUMS_H
#define LEAT_STORE_S3_SUMS_H

#include "store/bucket.h"

/* What an upload is called that was begun with checksums: a mark before the server's own id, so that a copy that goes
 * on with it knows that its parts need them, too. */
#define LEAT_S3_SUMMED "crc32c\n"
#define LEAT_S3_WHOLE  "crc32c-whole\n" /* … and the server wants that of the whole in the end */

const char *leat_s3_upload(const char *upload); /* the server's own id */

/* Headers, and for the end of an upload its body: the CRC32C of what is sent. Sets own->summed where there is one. */
void leat_s3_sums_add(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r);
void leat_s3_sums_add_part(const struct leat_store_op *op, uint32_t part, struct leat_buf *xml);

/* Marks the id of an upload that has begun, as the answer wants it. */
leat_status leat_s3_sums_mark(struct leat_store_op *op, const char *id, struct leat_error *err);

/* A server that does not know such checksums, or not this one, refused the request: it is to be sent without. False:
 * that is not it. */
bool leat_s3_sums_refused(struct leat_store_op *op, const struct leat_s3_answer *answer);
void leat_s3_sums_settled(struct bucket *b, struct leat_store_op *op); /* it was taken */

/* The whole as its parts make it, where all of them are known. */
bool leat_s3_sums_whole(const struct leat_store_op *op, uint64_t *crc);

/* STAT of an object whose checksum is made of its parts': takes it and asks how long these are, without which it says
 * nothing. True: another request follows. */
bool leat_s3_sums_sizes(struct leat_store_op *op);
void leat_s3_sums_ask_size(struct leat_store_op *op, struct bucket_request *r);

#endif
