/* GIF: the first frame, on the whole canvas. */
#ifndef LEAT_PREP_GIF_H
#define LEAT_PREP_GIF_H

#include "prep/bitmap.h"

leat_status leat_gif_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err);
leat_status leat_gif_read(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err);

#endif
