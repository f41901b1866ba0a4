/* WebP by libwebp. It decodes into a buffer, of just the part that is wanted. */
#ifndef LEAT_PREP_WEBP_H
#define LEAT_PREP_WEBP_H

#include "prep/bitmap.h"

leat_status leat_webp_rows(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_rows *to, struct leat_error *err);

/* The same into a bitmap. */
leat_status leat_webp_read(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err);

/* With libwebp's own reduction where the picture is at least twice the size wanted. LEAT_UNSUPPORTED, with nothing
 * written, where it is not. */
leat_status leat_webp_fast(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_target *target, const struct leat_geometry *geometry,
                           struct leat_error *err);

#endif
