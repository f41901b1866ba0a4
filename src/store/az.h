/* Azure Blob Storage: its calls, its signatures, its keys. */
#ifndef LEAT_STORE_AZ_H
#define LEAT_STORE_AZ_H

#include "store/aws.h"
#include "store/bucket.h"

/* What keys are called in leat_aws.access_key: the account's key is in secret_key; a SAS and a bearer token are in
 * session_token. */
#define LEAT_AZ_KEY    "azure-key:"
#define LEAT_AZ_SAS    "azure-sas:"
#define LEAT_AZ_BEARER "azure:"

/* Fills in what op->own->call sends. */
leat_status leat_az_request_make(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r,
                                 struct leat_error *err);

/* The id of a block: all of an upload's have the same length, as Azure wants it. */
#define LEAT_AZ_BLOCK 40
void leat_az_block_id(const char *upload, uint32_t part, char out[LEAT_AZ_BLOCK]);

/* Keys from where Azure's own tools look; leaves aws alone where there are none. Sets the endpoint too where a
 * connection string says it. May wait for a service. */
leat_status leat_az_find_keys(const struct leat_url *url, const struct leat_store_opts *opts, struct leat_aws *aws,
                              struct leat_error *err);

#endif
