/* The request that opens a loader in the agent: everything it needs to know, as JSON. */
#ifndef LEAT_CLIENT_REQUEST_H
#define LEAT_CLIENT_REQUEST_H

#include <jansson.h>

#include "base/error.h"
#include "leat/loader.h"

/* Checks the options (all that is wrong with them, in one sentence) and makes the request, without a cursor. Keys
 * and endpoint are looked up here, in the caller's environment: the agent has another. */
leat_status leat_request_make(const struct leat_loader_opts *opts, json_t **out, struct leat_error *err);

#endif
