/* The bytes of a scan without the zeros stuffed in after every 0xff, a stretch at a time, so that a reader of bits can
 * take any eight bytes as they come: no test, no branch that depends on the data. */
#ifndef LEAT_PREP_JPEG_STREAM_H
#define LEAT_PREP_JPEG_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What a block takes at most, 64 symbols of 31 bits, and what a reader looks at beyond it. */
#define LEAT_JPEG_STREAM_BLOCK (64 * 31 / 8 + 16)
#define LEAT_JPEG_STREAM_BYTES 4096

struct leat_jpeg_stream {
    const uint8_t *at; /* in the file: what comes next, or the marker that ended the data */
    const uint8_t *end;
    const uint8_t *low;      /* a reader at or after this has less than a block before it, and calls fill */
    const uint8_t *data_end; /* in `clean`; zeros follow. NULL: the file has more */
    uint8_t *filled;         /* where `clean` ends */
    uint8_t clean[LEAT_JPEG_STREAM_BYTES + 16 + 2 * LEAT_JPEG_STREAM_BLOCK];
};

/* The reader's state, kept in registers. `bits` is left-aligned; what stands in it after the first `count` is what
 * follows in the file, or zeros. Only the low six bits of count mean anything: whole entries of tables are subtracted
 * from it. */
struct leat_jpeg_reader {
    uint64_t bits;
    uint64_t count;
    const uint8_t *at;
};

/* The bytes from `at` to `end`, which must stay where they are. */
void leat_jpeg_stream_begin(struct leat_jpeg_stream *stream, const uint8_t *at, const uint8_t *end,
                            struct leat_jpeg_reader *reader);

/* Moves what the reader has before it to the front, and adds what follows in the file. Returns its new `at`. */
const uint8_t *leat_jpeg_stream_fill(struct leat_jpeg_stream *stream, const uint8_t *at);

/* Passes the restart marker of a number; false when another marker comes, or none. */
bool leat_jpeg_stream_restart(struct leat_jpeg_stream *stream, struct leat_jpeg_reader *reader, unsigned number);

/* Before every block. */
static inline __attribute__((always_inline)) void leat_jpeg_stream_check(struct leat_jpeg_stream *stream,
                                                                         struct leat_jpeg_reader *reader)
{
    if (__builtin_expect(reader->at >= stream->low, 0))
        reader->at = leat_jpeg_stream_fill(stream, reader->at);
}

/* Whether the reader has taken bits after the end of the data. */
static inline __attribute__((always_inline)) bool leat_jpeg_stream_over(const struct leat_jpeg_stream *stream,
                                                                        const struct leat_jpeg_reader *reader)
{
    return stream->data_end && (reader->at - stream->data_end) * 8 > (ptrdiff_t)(reader->count & 63);
}

/* At least 56 bits. */
static inline __attribute__((always_inline)) void leat_jpeg_refill(struct leat_jpeg_reader *reader)
{
    uint64_t x;
    memcpy(&x, reader->at, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    reader->bits |= x >> (reader->count & 63);
    reader->at += ~reader->count >> 3 & 7;
    reader->count |= 56;
}

#endif
