/* Where an object's key lies in its bucket's folder. Pure functions.
 *
 * A key that can be a path is that path. Every other key (an empty, "." or ".." component, a NUL, a component
 * of more than 255 bytes, a place inside the reserved folder) lies in the reserved folder under an escaped
 * name, from which it can be read back; so does one whose path is taken by a folder or blocked by a file. */
#ifndef LEAT_SERVE_KEY_H
#define LEAT_SERVE_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define LEAT_SERVE_KEY_MAX  1024          /* bytes: S3's limit */
#define LEAT_SERVE_RESERVED ".leat-serve" /* in each bucket: escaped keys, uploads, files being written */

/* Bytes, not text: a NUL may be among them. */
struct leat_serve_key {
    const char *data;
    size_t n;
};

bool leat_serve_key_plain(struct leat_serve_key key);

/* Appends the escaped path: letters, digits, '-' and '_' stay, all else is %XX; pieces of 200 bytes are folders
 * with a '+' after their name, the last piece is the file. */
bool leat_serve_key_escape(struct leat_serve_key key, struct leat_buf *out);

/* Appends the key; false when the path is not one that escape makes. */
bool leat_serve_key_unescape(const char *path, struct leat_buf *out);

#endif
