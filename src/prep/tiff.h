/* TIFF by libtiff, which is looked for at run time: the first directory, 8 and 16 bits as they are, everything else
 * that libtiff can make RGB of. */
#ifndef LEAT_PREP_TIFF_H
#define LEAT_PREP_TIFF_H

#include "prep/bitmap.h"

leat_status leat_tiff_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err);
leat_status leat_tiff_read(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err);

#endif
