/* The Range header of a request. Pure functions. */
#ifndef LEAT_SERVE_RANGE_H
#define LEAT_SERVE_RANGE_H

#include <stdint.h>

enum leat_serve_range_kind {
    LEAT_SERVE_RANGE_ALL,    /* no range, or one that HTTP says to ignore: answer 200 */
    LEAT_SERVE_RANGE_PART,   /* 206 */
    LEAT_SERVE_RANGE_OUTSIDE /* 416 */
};

/* Reads "bytes=0-9", "bytes=5-", "bytes=-3" for an object of `size` bytes; header may be NULL. Several ranges in one
 * header are ignored, as S3 does. *offset and *n are set for ALL and PART. */
enum leat_serve_range_kind leat_serve_range(const char *header, uint64_t size, uint64_t *offset, uint64_t *n);

#endif
