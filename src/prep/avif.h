/* AVIF by libavif, which is looked for at run time: the picture, or an animation's first frame. */
#ifndef LEAT_PREP_AVIF_H
#define LEAT_PREP_AVIF_H

#include "prep/bitmap.h"

leat_status leat_avif_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err);
leat_status leat_avif_read(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err);

#endif
