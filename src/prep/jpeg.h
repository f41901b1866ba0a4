/* JPEG: decoding just the rows and columns that are wanted, and lossless transcoding.
 *
 * libjpeg-turbo does the entropy decoding and the inverse DCT; its planes are taken raw, and upsampling,
 * colours and resizing are done here, bit for bit as libjpeg would where that is asked for. */
#ifndef LEAT_PREP_JPEG_H
#define LEAT_PREP_JPEG_H

#include "base/buf.h"
#include "prep/decode.h"

struct leat_jpeg; /* a reused decompressor; one thread at a time */

leat_status leat_jpeg_open(struct leat_arena *arena, struct leat_jpeg **out, struct leat_error *err);
void leat_jpeg_close(struct leat_jpeg *jpeg);

/* Gives the rows of box, exactly as a full decode would have them. */
leat_status leat_jpeg_rows(struct leat_jpeg *jpeg, const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_rows *to, struct leat_error *err);

/* Reduced DCT, planes resized before they are joined: faster, and close. LEAT_UNSUPPORTED, with nothing written, where
 * the crop is not twice the size wanted or the file has no such planes: decode exactly then. */
leat_status leat_jpeg_fast(struct leat_jpeg *jpeg, const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_target *target, const struct leat_geometry *geometry,
                           struct leat_error *err);

enum leat_jpeg_keep {
    LEAT_JPEG_KEEP_NONE,        /* pixels only, and what colours depend on */
    LEAT_JPEG_KEEP_ORIENTATION, /* and a small EXIF block where the picture is not upright */
    LEAT_JPEG_KEEP_ALL          /* comments, EXIF, colour profile, everything */
};

/* The same coefficients as a baseline file with optimised tables. out is appended to. */
leat_status leat_jpeg_transcode(struct leat_jpeg *jpeg, const struct leat_source *source,
                                const struct leat_image_limits *limits, enum leat_jpeg_keep keep, struct leat_buf *out,
                                struct leat_error *err);

#endif
