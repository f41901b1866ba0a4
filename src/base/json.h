/* JSON by jansson, made safe for days without memory: its reader and its writer leave out what they find no memory for
 * and go on. These two notice. */
#ifndef LEAT_BASE_JSON_H
#define LEAT_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* LEAT_NO_MEMORY, or LEAT_INVALID: then *why (which may be NULL) says what is wrong. `flags` are jansson's. *out is the
 * caller's to json_decref(). */
leat_status leat_json_read(const char *text, size_t n, size_t flags, json_t **out, json_error_t *why);

/* The caller's to free(); NULL when memory ran out, or when there is no value. */
char *leat_json_write(const json_t *value, size_t flags);

/* Whether all of it is one JSON value in UTF-8, at most LEAT_JSON_DEPTH deep. *at (which may be NULL): where it is not.
 * For texts that others will read: numbers of any length are fine, duplicate names too. */
#define LEAT_JSON_DEPTH 256
bool leat_json_check(const char *text, size_t n, size_t *at);

#endif
