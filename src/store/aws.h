/* How to reach an S3 bucket: keys, region and endpoint from where other S3 clients have them: the environment, ~/.aws,
 * and the services that hand out keys for a while (aws_keys.h). */
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
    char *headers;       /* of those who were given all this by another process: see extras.h. NULL: none … */
    char *ca_bundle;     /* … NULL: the system's */
    enum leat_store_addressing addressing;
    enum leat_store_hedge hedge;
    uint64_t expires_s; /* since 1970, by this machine's clock: when the keys expire; 0: not known */
    uint64_t since_s;   /* since 1970: when they were looked up */
    /* For messages. */
    char keys_from[80];     /* "AWS_ACCESS_KEY_ID", "profile 'default'", "" when there are none */
    char endpoint_from[80]; /* "--endpoint-url", "AWS_ENDPOINT_URL", "profile 'default'", "AWS's own" */
};

/* A profile that was asked for by name and is not there, half a key pair, or whatever else is said and cannot be
 * honoured is an error; no keys at all is not. May wait for a service, for seconds: not from a store's thread. Keys of
 * services are kept for some 20 s, for those who ask at the same time. */
leat_status leat_aws_load(const struct leat_store_opts *opts, struct leat_aws *out, struct leat_error *err);

/* The same, but for keys that were kept: the server does not take them any longer. */
leat_status leat_aws_load_anew(const struct leat_store_opts *opts, struct leat_aws *out, struct leat_error *err);

/* Where the endpoint that the options say is from, for people. */
const char *leat_store_endpoint_from(const struct leat_store_opts *opts);

/* When it is time to look for others, in seconds since 1970: well before they expire; 0: never. */
uint64_t leat_aws_renew_at(const struct leat_aws *aws);

/* The account that a key of AWS belongs to, which is written in its id; "": it is not AWS's. */
#define LEAT_AWS_ACCOUNT 16
void leat_aws_account(const char *key_id, char out[LEAT_AWS_ACCOUNT]);

leat_status leat_aws_copy(const struct leat_aws *aws, struct leat_aws *out, struct leat_error *err);

/* Keys, when they end and who gave them; the rest stays where it is. */
void leat_aws_swap_keys(struct leat_aws *a, struct leat_aws *b);

void leat_aws_free(struct leat_aws *aws); /* wipes the keys; NULL and zeroed ones are allowed */

#endif
