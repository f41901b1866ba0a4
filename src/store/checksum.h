/* What a server says of an object's bytes, and whether they are the ones. */
#ifndef LEAT_STORE_CHECKSUM_H
#define LEAT_STORE_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http.h"

enum leat_checksum_kind {
    LEAT_CHECKSUM_NONE,
    LEAT_CHECKSUM_MD5,
    LEAT_CHECKSUM_CRC32,
    LEAT_CHECKSUM_CRC32C,
    LEAT_CHECKSUM_CRC64NVME,
    LEAT_CHECKSUM_SHA1,
    LEAT_CHECKSUM_SHA256,
    LEAT_CHECKSUM_GIT /* SHA-1 of the size and the bytes, as git names them */
};

#define LEAT_CHECKSUM_BYTES 32

/* With `parts`: the checksum of the checksums of this many parts, each `part_size` long but for the last. S3 gives such
 * a one to objects that were put in parts. */
struct leat_checksum {
    enum leat_checksum_kind kind;
    uint8_t value[LEAT_CHECKSUM_BYTES];
    uint32_t parts; /* 0: it is of the bytes themselves */
    uint64_t part_size;
};

const char *leat_checksum_name(enum leat_checksum_kind kind);   /* "crc32c" */
enum leat_checksum_kind leat_checksum_called(const char *name); /* NONE: there is no such kind */

/* What an answer's head says of the whole object: its x-amz-checksum, unless that is made of its parts' (COMPOSITE,
 * with a number at the end); else, where etags are MD5s, an ETag that looks like one. False: nothing. */
bool leat_checksum_of(const struct leat_http_head *head, bool etags, struct leat_checksum *out);

/* The x-amz-checksum that is made of the parts'. How long those are is not in it. False: nothing. */
bool leat_checksum_of_parts(const struct leat_http_head *head, struct leat_checksum *out);

/* As headers carry a CRC: big-endian, base64. */
#define LEAT_CHECKSUM_TEXT 16
void leat_checksum_write(enum leat_checksum_kind kind, uint64_t crc, char out[LEAT_CHECKSUM_TEXT]);

/* Whether the bytes are the ones that the checksum is of. */
bool leat_checksum_fits(const struct leat_checksum *c, const void *data, size_t n);

/* The same for bytes that come in pieces, in order; `size` of them in all. `open` returns NULL when memory runs out. */
struct leat_checksum_run;
struct leat_checksum_run *leat_checksum_open(const struct leat_checksum *c, uint64_t size);
void leat_checksum_add(struct leat_checksum_run *run, const void *data, size_t n);
bool leat_checksum_close(struct leat_checksum_run *run); /* whether they fit; NULL is allowed and does */

/* For pieces that come in any order: the CRC of each, and that of the whole from those of its pieces. False: this kind
 * cannot be put together. `nest` adds a piece's to the checksum of checksums. */
bool leat_checksum_joins(enum leat_checksum_kind kind);
uint64_t leat_checksum_piece(enum leat_checksum_kind kind, const void *data, size_t n);
uint64_t leat_checksum_join(enum leat_checksum_kind kind, uint64_t a, uint64_t b, uint64_t b_bytes);
uint64_t leat_checksum_nest(enum leat_checksum_kind kind, uint64_t outer, uint64_t piece);
bool leat_checksum_fits_piece(const struct leat_checksum *c, uint64_t crc);

/* The MD5 in an ETag that looks like one, with or without quotes. */
bool leat_checksum_etag_md5(const char *etag, uint8_t out[LEAT_CHECKSUM_BYTES]);

#endif
