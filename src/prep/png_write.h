/* Pixels to PNG: what people look at. */
#ifndef LEAT_PREP_PNG_WRITE_H
#define LEAT_PREP_PNG_WRITE_H

#include <stdint.h>

#include "base/buf.h"

/* 8 bits, 1, 3 or 4 channels side by side. out is appended to. */
leat_status leat_png_write(const uint8_t *pixels, uint32_t width, uint32_t height, unsigned channels,
                           struct leat_buf *out, struct leat_error *err);

#endif
