/* Pictures whose samples are more than 8 bits, or whose pixels have four channels: cut, resized in single precision and
 * rounded once, at the end. Plain C; the 8-bit way (sink.h) is the fast one. */
#ifndef LEAT_PREP_WIDE_H
#define LEAT_PREP_WIDE_H

#include "prep/bitmap.h"

/* The part of the picture, as it is stored, that a geometry wants of it. */
struct leat_box leat_wide_wants(const struct leat_geometry *geometry, const struct leat_image_info *info,
                                uint8_t orientation);

/* From a bitmap that holds at least that part to the whole output. */
leat_status leat_wide_put(const struct leat_bitmap *bitmap, const struct leat_source *source,
                          const struct leat_decode *decode, const struct leat_geometry *geometry, uint8_t orientation,
                          const struct leat_target *target, struct leat_error *err);

/* Fills the whole destination. */
void leat_wide_fill(const struct leat_target *target, uint64_t pixels);

#endif
