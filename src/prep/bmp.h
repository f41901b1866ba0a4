/* Windows and OS/2 bitmaps: 1 to 32 bits, run lengths, masks. */
#ifndef LEAT_PREP_BMP_H
#define LEAT_PREP_BMP_H

#include "prep/bitmap.h"

leat_status leat_bmp_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err);
leat_status leat_bmp_read(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err);

#endif
