/* A growable byte buffer with a maximum. After a failed append (`failed`) every further append does
 * nothing, so a text can be built in many steps and checked once. Always NUL-terminated. */
#ifndef LEAT_BASE_BUF_H
#define LEAT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct leat_buf {
    char *data; /* "" until something is appended */
    size_t len;
    size_t cap;
    size_t max;
    bool failed;
    bool full; /* failed because of the maximum, not of memory */
};

void leat_buf_init(struct leat_buf *b, size_t max);
void leat_buf_free(struct leat_buf *b); /* back to empty, same maximum */
void leat_buf_clear(struct leat_buf *b);
bool leat_buf_add(struct leat_buf *b, const void *data, size_t n);
bool leat_buf_str(struct leat_buf *b, const char *text);
bool leat_buf_char(struct leat_buf *b, char c);
bool leat_buf_printf(struct leat_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool leat_buf_xml(struct leat_buf *b, const char *text); /* as text or a value of XML and HTML */
char *leat_buf_take(struct leat_buf *b);                 /* the caller frees it; NULL when an append had failed */

/* LEAT_OK, or why the buffer failed: `what` was too large or memory ran out. */
leat_status leat_buf_check(const struct leat_buf *b, const char *what, struct leat_error *err);

#endif
