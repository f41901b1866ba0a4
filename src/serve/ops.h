/* The calls. Each answers its call; the bucket is open where the call names one, the body is in. */
#ifndef LEAT_SERVE_OPS_H
#define LEAT_SERVE_OPS_H

#include "serve/call.h"

void leat_serve_list_objects(struct leat_serve_call *c);
void leat_serve_get_object(struct leat_serve_call *c); /* and HEAD */
void leat_serve_put_object(struct leat_serve_call *c); /* and copies */
void leat_serve_copy_object(struct leat_serve_call *c);

/* A part that is copied: its bytes go into the call's writer (false: answered), and it has an answer of its own. */
bool leat_serve_copy_part(struct leat_serve_call *c);
void leat_serve_reply_part_copied(struct leat_serve_call *c, const char *md5);

void leat_serve_delete_object(struct leat_serve_call *c);
void leat_serve_create_upload(struct leat_serve_call *c);
void leat_serve_upload_part(struct leat_serve_call *c);
void leat_serve_complete_upload(struct leat_serve_call *c);
void leat_serve_abort_upload(struct leat_serve_call *c);
void leat_serve_list_parts(struct leat_serve_call *c);

/* Refuses what a web page of somebody else asks for, and names that lead here only by DNS. False: answered. */
bool leat_serve_guard_origin(struct leat_serve_call *c, bool control);

/* Refuses what the protocol does and this does not. False: answered. */
bool leat_serve_guard_features(struct leat_serve_call *c);

/* Everything under /-/: statistics and log. */
void leat_serve_control(struct leat_serve_call *c);

/* The call that method, level and arguments mean, or NULL; *why then says what to answer. */
const struct leat_serve_op *leat_serve_route(const struct leat_serve_call *c, const char *method,
                                             enum leat_serve_code *why);

#endif
