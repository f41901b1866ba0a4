/* A GET or HEAD over HTTP on behalf of a store operation: which range to ask for, which answers to take, what is
 * missing afterwards. Shared by buckets and web servers, which differ in signing and in how they explain errors. */
#ifndef LEAT_STORE_EXCHANGE_H
#define LEAT_STORE_EXCHANGE_H

#include "store/store.h"

#define LEAT_RANGE_MAX 64

/* Prepares op->own->call for what is still missing of a GET (all of it, or the rest of a broken one) and writes the
 * Range header's value, "" when none is to be sent. The ETag to pin is leat_exchange_pin(). */
void leat_exchange_begin(struct leat_store_op *op, char range[LEAT_RANGE_MAX]);

/* The ETag that If-Match should carry, or NULL. */
const char *leat_exchange_pin(const struct leat_store_op *op);

/* Google's versions are numbers; as a tag they are "gNUMBER" in quotes. "": none. */
void leat_exchange_generation_tag(const char *generation, char out[LEAT_ETAG_MAX]);

#define LEAT_HTTP_DATE 32 /* "Sun, 06 Nov 1994 08:49:37 GMT" and a NUL */

/* As HTTP writes a time. False: none that it could. */
bool leat_exchange_date(int64_t at_s, char out[LEAT_HTTP_DATE]);

/* Where only date and size tell a version: what If-Unmodified-Since should say. False: nothing. */
bool leat_exchange_since(const struct leat_store_op *op, char out[LEAT_HTTP_DATE]);

/* Whether pieces of an object that is called so can be told from another version's: a strong ETag, or the tag that
 * is made of date and size for web servers without one. */
bool leat_exchange_tells(const char *etag);

/* Whether an answer is of a part of the object: a 206, or a 200 whose Content-Range says so ("rclone serve s3" answers
 * that way). Such a 200 is worth as much as its Content-Range: one that cannot be read is of some part, too. */
bool leat_exchange_partial(const struct leat_http_head *head);

/* The size of the whole object as the answer says it; UINT64_MAX: it does not. */
uint64_t leat_exchange_total(const struct leat_http_head *head);

/* After an exchange whose call.status is LEAT_OK and whose code is 2xx or 416, or that broke off after its head:
 * sets op->status, op->got, op->own->object. */
void leat_exchange_finish(struct leat_store_op *op);

/* What an HTTP code other than 2xx means when nothing else explains it. */
leat_status leat_exchange_code_status(unsigned code);

#endif
