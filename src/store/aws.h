/* How to reach an S3 bucket: keys, region and endpoint from the environment and from ~/.aws, where other S3
 * clients keep them. (Further sources of keys, such as metadata services, belong here too.) */
#ifndef LEAT_STORE_AWS_H
#define LEAT_STORE_AWS_H

#include <stdbool.h>

#include "base/error.h"
#include "store/store.h"

struct leat_aws {
    char *access_key; /* NULL: anonymous */
    char *secret_key;
    char *session_token; /* NULL: none */
    char *region;        /* NULL: not said */
    char *endpoint_url;  /* NULL: AWS's own */
    enum leat_store_addressing addressing;
    uint64_t expires_s; /* since 1970: when the keys expire; 0: not known */
    /* For messages. */
    char keys_from[80];     /* "AWS_ACCESS_KEY_ID", "profile 'default'", "" when there are none */
    char endpoint_from[80]; /* "--endpoint-url", "AWS_ENDPOINT_URL", "profile 'default'", "AWS's own" */
};

/* A profile that was asked for by name and is not there, or half a key pair, is an error; no keys at all is not. */
leat_status leat_aws_load(const struct leat_store_opts *opts, struct leat_aws *out, struct leat_error *err);
void leat_aws_free(struct leat_aws *aws); /* wipes the keys; NULL and zeroed ones are allowed */

#endif
