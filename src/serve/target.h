/* Taking a request's target apart: account, bucket, key and arguments. Pure functions. */
#ifndef LEAT_SERVE_TARGET_H
#define LEAT_SERVE_TARGET_H

#include "serve/call.h"

/* The path after the scheme and host of a target in absolute form ("http://host/a"), or as it is ("/a"). */
const char *leat_serve_target_path(const char *target);

/* Fills in bucket_name, key and arguments of the call, which owns them, and the account where the protocol has one. */
bool leat_serve_target_parse(struct leat_serve_call *c, const char *path, const char *query, enum leat_serve_code *why);
void leat_serve_target_free(struct leat_serve_call *c);

#endif
