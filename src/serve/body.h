/* A request's body on its way: paced, hashed, and written to a file or memory. */
#ifndef LEAT_SERVE_BODY_H
#define LEAT_SERVE_BODY_H

#include "serve/call.h"

bool leat_serve_body_open(struct leat_serve_call *c); /* before the first byte; false: answered */

void leat_serve_body_add(struct leat_serve_call *c, const void *data, size_t n); /* may answer with an error */

/* All of it is in: length and checksums are as stated, and c->md5 is set. False: answered. */
bool leat_serve_body_finish(struct leat_serve_call *c);

void leat_serve_body_close(struct leat_serve_call *c);

#endif
