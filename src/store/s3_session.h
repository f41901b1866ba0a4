/* Sessions of S3 Express: requests to a directory bucket are signed with keys that the bucket hands out for a few
 * minutes, so that it need not look up who asks each time. They expire and renew as keys of any other service. */
#ifndef LEAT_STORE_S3_SESSION_H
#define LEAT_STORE_S3_SESSION_H

#include "store/bucket.h"

/* What such keys are called in leat_aws.access_key: with the bucket they are of, "s3express:BUCKET:ID". */
#define LEAT_S3_SESSION "s3express:"

/* The id of a key as it is signed with. */
const char *leat_s3_key_id(const struct leat_aws *aws);

/* Whether requests to the bucket need one: AWS_S3_DISABLE_EXPRESS_SESSION_AUTH says otherwise of all. */
bool leat_s3_has_sessions(const char *bucket);

/* Whether the keys are a session's. */
bool leat_s3_is_session(const struct leat_aws *aws);

/* LEAT_UNSUPPORTED when the keys are a session of another bucket. */
leat_status leat_s3_check_session(const struct bucket *b, struct leat_error *err);

/* Puts a session's keys in place of `aws`'s, where `bucket` is a directory bucket and there are keys to begin one with.
 * May wait for the bucket. LEAT_DENIED with *expired when it no longer takes those keys. */
leat_status leat_s3_begin_session(const char *bucket, const struct leat_store_opts *opts, bool fresh,
                                  struct leat_aws *aws, bool *expired, struct leat_error *err);

#endif
