/* Bytes for people: what comes from a dataset may be anything, and must not move the cursor of a terminal or pretend to
 * be another line. */
#ifndef LEAT_CLI_TEXT_H
#define LEAT_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define LEAT_CLI_UNCUT ((size_t)-1)

/* Appends bytes as UTF-8 that is safe to print: control characters, marks that turn the direction of writing, bytes
 * that are no UTF-8, and the backslash come as \xHH, byte by byte, so that the bytes can be recovered. What takes more
 * than this many characters is cut, and ends with '…'. True: nothing was cut. */
bool leat_cli_escape(struct leat_buf *out, const void *data, size_t n, size_t columns);

/* The same but for backslashes, which stay: for texts that have been written with them, such as JSON. */
bool leat_cli_escape_rest(struct leat_buf *out, const void *data, size_t n, size_t columns);

/* Characters that fit on a line of standard output; 100 where that is not a terminal. */
size_t leat_cli_columns(void);

#endif
