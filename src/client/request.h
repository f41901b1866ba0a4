/* From a caller's options to the request that opens a loader. */
#ifndef LEAT_CLIENT_REQUEST_H
#define LEAT_CLIENT_REQUEST_H

#include "base/error.h"
#include "leat/loader.h"
#include "ring/request.h"
#include "store/aws.h"

/* Checks the options (all that is wrong with them, in one sentence) and copies them into a request of its own, without
 * keys and without a cursor. */
leat_status leat_request_make(const struct leat_loader_opts *opts, struct leat_request *out, struct leat_error *err);

/* An address that holds in any folder: plain paths are relative to ours. The version (a content id, a name or NULL)
 * becomes part of it. The caller frees *out. */
leat_status leat_request_address(const char *text, const char *version, char **out, struct leat_error *err);

/* Looks keys and endpoint up, in this process's environment: the agent has another. Nothing for what is no bucket,
 * unless `source` says which one its data lie in. `store` points into *aws, which the caller frees. */
leat_status leat_request_keys(const struct leat_request *r, const char *source, struct leat_aws *aws,
                              struct leat_request_store *store, struct leat_error *err);

/* The bucket that the data of a dataset lie in which is in none itself; the dataset's own address when there is none or
 * it cannot be told. NULL when memory runs out. The caller frees it. Reads the dataset's root. */
char *leat_request_source(const struct leat_request *r);

#endif
