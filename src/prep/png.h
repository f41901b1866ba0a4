/* PNG by libspng, a row at a time where the file is not interlaced. Pictures of 16 bits keep the upper 8. */
#ifndef LEAT_PREP_PNG_H
#define LEAT_PREP_PNG_H

#include "prep/bitmap.h"

leat_status leat_png_rows(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_rows *to, struct leat_error *err);

/* The same into a bitmap, with all bits. */
leat_status leat_png_read(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err);

#endif
