/* Whether a request is signed with the right keys: Signature Version 4 in the Authorization header or in the query. */
#ifndef LEAT_SERVE_AUTH_H
#define LEAT_SERVE_AUTH_H

#include "serve/call.h"
#include "serve/chunked.h"

/* Checks the call against the server's keys and region; without keys only the region is looked at, where one is set.
 * False: the call has been answered with the error. On success with keys, *chunks is what signatures of chunks are
 * checked with, and *checked is true. */
bool leat_serve_authorize(struct leat_serve_call *c, struct leat_serve_chunk_key *chunks, bool *checked);

#endif
