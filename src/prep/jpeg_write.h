/* Pixels to JPEG: for pictures that are stored smaller than they were. */
#ifndef LEAT_PREP_JPEG_WRITE_H
#define LEAT_PREP_JPEG_WRITE_H

#include <stdint.h>

#include "base/buf.h"

/* Baseline with optimised tables, chroma at half the size, 1 or 3 channels side by side. quality: 1 … 100. out is
 * appended to. */
leat_status leat_jpeg_write(const uint8_t *pixels, uint32_t width, uint32_t height, unsigned channels, unsigned quality,
                            struct leat_buf *out, struct leat_error *err);

#endif
