/* Whether a request is signed with the right keys. */
#ifndef LEAT_SERVE_AUTH_H
#define LEAT_SERVE_AUTH_H

#include "serve/call.h"

/* Check the call against the server's keys; without keys only S3's region is looked at, where one is set. False: the
 * call has been answered with the error. */

/* Signature Version 4 in the Authorization header, or Google's, which is the same under other names. */
bool leat_serve_authorize_v4(struct leat_serve_call *c);

/* Azure's: an account's key, or a shared access signature (of a service, for a container) in the query. */
bool leat_serve_authorize_azure(struct leat_serve_call *c);
bool leat_serve_azure_key(const char *secret); /* whether it can be one; the server's own must be */

#endif
