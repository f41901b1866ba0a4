/* What is computed over a body while it arrives: its MD5, which becomes the ETag, and every checksum that the
 * request states, compared at the end. */
#ifndef LEAT_SERVE_DIGEST_H
#define LEAT_SERVE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "serve/error.h"

struct leat_serve_digest;

#define LEAT_SERVE_MD5 16

/* NULL when memory runs out. */
struct leat_serve_digest *leat_serve_digest_open(void);
void leat_serve_digest_close(struct leat_serve_digest *d); /* NULL is allowed */

/* Before the first byte. What the body must have: Content-MD5's value, a hexadecimal SHA-256, and checksums by
 * their header's name and value ("x-amz-checksum-crc32c", base64). False: not a value of its kind. */
bool leat_serve_digest_expect_md5(struct leat_serve_digest *d, const char *base64);
bool leat_serve_digest_expect_sha256(struct leat_serve_digest *d, const char *hex);
bool leat_serve_digest_expect_checksum(struct leat_serve_digest *d, const char *header, const char *base64);

void leat_serve_digest_add(struct leat_serve_digest *d, const void *data, size_t n);

/* True when all is as stated. Fills in the MD5. */
bool leat_serve_digest_finish(struct leat_serve_digest *d, unsigned char md5[LEAT_SERVE_MD5],
                              enum leat_serve_code *why);

/* After finish: the checksum's header and value, to be kept with the object; NULL: none was stated. */
const char *leat_serve_digest_header(const struct leat_serve_digest *d, const char **base64);

#endif
