/* Google Cloud Storage: S3's calls in Google's dialect (the XML interface), with its own keys, headers and versions. */
#ifndef LEAT_STORE_GS_H
#define LEAT_STORE_GS_H

#include "store/aws.h"
#include "store/bucket.h"

/* What keys are called in leat_aws.access_key: a bearer token is in session_token, a pair for signing in secret_key. */
#define LEAT_GS_BEARER "google:"
#define LEAT_GS_HMAC   "google-hmac:"

bool leat_gs_bearer(const struct leat_aws *aws);
const char *leat_gs_key_id(const struct leat_aws *aws); /* what is signed with, of any kind */

/* Headers that Google wants in place of S3's: versions by their generation, a checksum of what is sent. */
void leat_gs_describe(struct leat_store_op *op, struct bucket_request *r);

/* The generation in a tag of ours. What is none can be no version of Google's: 1 is one that was never given. */
void leat_gs_generation(const char *tag, char out[LEAT_ETAG_MAX]);

/* Copies within Google's stores, by token or by pair; see gs_copy.c. */
leat_status leat_gs_copy_make(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r,
                              struct leat_error *err);
enum bucket_step leat_gs_copy_step(struct bucket *b, struct leat_store_op *op);
void leat_gs_ask_copy(const struct leat_store_op *op, struct bucket_request *r);

/* A token for Google's storage from where Google's own libraries look; keys_from "" when there is none. May wait for a
 * service. */
leat_status leat_gs_find_keys(const struct leat_url *url, const struct leat_store_opts *opts, struct leat_aws *aws,
                              struct leat_error *err);

#endif
