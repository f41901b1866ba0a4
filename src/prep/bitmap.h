/* A decoded part of a picture as it comes from decoders that do not work row by row: samples of a pixel side by side,
 * of one byte or two. All memory comes from the arena. */
#ifndef LEAT_PREP_BITMAP_H
#define LEAT_PREP_BITMAP_H

#include "prep/decode.h"

struct leat_bitmap {
    struct leat_box box; /* of the picture as it is stored: what is in here */
    unsigned components; /* 1 grey or an index, 2 grey and alpha, 3 colour, 4 colour and alpha */
    unsigned bytes;      /* of a sample: 1, or 2 in the machine's order */
    size_t stride;       /* of a row, in bytes */
    uint8_t *pixels;
};

/* Grey everywhere, 128 or 32896, until something is written. */
leat_status leat_bitmap_take(const struct leat_decode *decode, const struct leat_box *box, unsigned components,
                             unsigned bytes, struct leat_bitmap *out, struct leat_error *err);

/* Rows of `box`, which must lie in the bitmap's, as planes of 8 bits; of 16 bits the upper 8. Alpha is blended where
 * the source has it. */
leat_status leat_bitmap_give(const struct leat_bitmap *bitmap, const struct leat_source *source,
                             const struct leat_decode *decode, const struct leat_box *box, struct leat_rows *to,
                             struct leat_error *err);

/* A pixel's samples, 0 … 65535 each: those of 8 bits times 257; an index as it is. x and y count in the picture. */
void leat_bitmap_pixel(const struct leat_bitmap *bitmap, uint32_t x, uint32_t y, bool index, uint16_t out[4]);

#endif
