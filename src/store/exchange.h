/* A GET or HEAD over HTTP on behalf of a store operation: which range to ask for, which answers to take, what is
 * missing afterwards. Shared by buckets and web servers, which differ in signing and in how they explain errors. */
#ifndef LEAT_STORE_EXCHANGE_H
#define LEAT_STORE_EXCHANGE_H

#include "store/store.h"

#define LEAT_RANGE_MAX 64

/* Prepares op->own.call for what is still missing of a GET (all of it, or the rest of a broken one) and writes the
 * Range header's value, "" when none is to be sent. The ETag to pin is leat_exchange_pin(). */
void leat_exchange_begin(struct leat_store_op *op, char range[LEAT_RANGE_MAX]);

/* The ETag that If-Match should carry, or NULL. */
const char *leat_exchange_pin(const struct leat_store_op *op);

/* Answers that must name the object they belong to: a bucket always sends an ETag, so that an answer without one
 * is something else in its place (an error document under 200). */
void leat_exchange_require_etag(struct leat_store_op *op);

/* After an exchange whose call.status is LEAT_OK and whose code is 2xx or 416, or that broke off after its head:
 * sets op->status, op->got, op->object. */
void leat_exchange_finish(struct leat_store_op *op);

/* What an HTTP code other than 2xx means when nothing else explains it. */
leat_status leat_exchange_code_status(unsigned code);

#endif
