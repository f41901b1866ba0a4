/* Filling in a struct leat_error. The pattern everywhere is
 *     return leat_fail(err, LEAT_NOT_FOUND, "no bucket called '%s'", name);
 * The text is one sentence for a person: what, where, what to do. */
#ifndef LEAT_BASE_ERROR_H
#define LEAT_BASE_ERROR_H

#include "leat/error.h"

#define LEAT_STATUS_COUNT (LEAT_INTERNAL + 1) /* not public: it grows */

/* Both return the status, so that they can stand in a return statement. err may be NULL. */
leat_status leat_fail(struct leat_error *err, leat_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Takes the status from errno (ENOSPC: LEAT_NO_SPACE, …) and appends its description. */
leat_status leat_fail_errno(struct leat_error *err, int os_error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "CONTEXT: " before the text already there. Keeps the status. */
leat_status leat_fail_context(struct leat_error *err, leat_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For code that keeps an error in the place of a status, as a thread does that hands it to another: *err is `rc` from
 * here on. A call that succeeds at its second attempt may leave in *err what the first one met. */
void leat_error_settle(struct leat_error *err, leat_status rc);

#ifdef __clang_analyzer__
/* A failure is never LEAT_OK. Without being told so the analyzer follows impossible paths. */
#define leat_fail(err, status, ...)         (leat_fail(err, status, __VA_ARGS__), status)
#define leat_fail_errno(err, os_error, ...) (leat_fail_errno(err, os_error, __VA_ARGS__), LEAT_IO)
#endif

leat_status leat_status_from_errno(int os_error);

/* Makes a text safe for one line of a terminal: control characters become spaces (bytes of a key or an answer must
 * not move the cursor), bytes that are no UTF-8 become '?'. The texts of errors and of the log have been through it. */
void leat_one_line(char *text);

#endif
