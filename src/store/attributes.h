/* What a bucket keeps of an object besides its bytes: its content type and the like, pairs of the user's own, its
 * storage class. Here they are lines "name: value", each ended by a line break, under names that are no vendor's:
 * "content-type", "cache-control", "meta-NAME", "storage-class". */
#ifndef LEAT_STORE_ATTRIBUTES_H
#define LEAT_STORE_ATTRIBUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

#define LEAT_ATTRIBUTES_MAX   (16u << 10)
#define LEAT_ATTRIBUTES_LINES 40u

/* Adds what a line of an answer's head ("Name: value") says, if it is one of these. */
void leat_attributes_take(struct leat_buf *out, const char *line, size_t n);

/* Sets one, in place of what it was. LEAT_INVALID: it could not be sent. */
leat_status leat_attributes_set(struct leat_buf *text, const char *name, const char *value, struct leat_error *err);

/* Sets all of `lines`; NULL is none. */
leat_status leat_attributes_merge(struct leat_buf *text, const char *lines, struct leat_error *err);

/* Whether one of that name is there. */
bool leat_attributes_has(const char *text, const char *name);

/* Of lines that are as above, one after the other: name and value in place. False: there are no more, or it is none. */
bool leat_attributes_next(const char **text, const char **name, size_t *name_n, const char **value, size_t *value_n);

/* The content type that a file of this name most likely has, by its end; NULL: not known. */
const char *leat_attributes_guess(const char *name);

#endif
