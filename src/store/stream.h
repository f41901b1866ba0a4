/* Reading an object from front to back: parts are fetched ahead in parallel and handed out in order. Memory is
 * bounded by the number of parts. One thread at a time. */
#ifndef LEAT_STORE_STREAM_H
#define LEAT_STORE_STREAM_H

#include "store/store.h"

struct leat_stream;

/* Bytes [offset, offset + length) of the object that `object` describes; its ETag is held to. Lengths beyond the
 * end are cut. part_size 0: 8 MiB; parts 0: 16. */
leat_status leat_stream_open(struct leat_store *store, const char *key, const struct leat_object *object,
                             uint64_t offset, uint64_t length, uint64_t part_size, uint32_t parts,
                             struct leat_stream **out, struct leat_error *err);

/* The next piece, valid until the next call; *n is 0 at the end. */
leat_status leat_stream_next(struct leat_stream *stream, const void **data, size_t *n, struct leat_error *err);
void leat_stream_close(struct leat_stream *stream); /* cancels what is on its way; NULL is allowed */

#endif
