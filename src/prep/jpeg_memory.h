/* libjpeg's memory for one picture, taken from an arena: nothing is allocated a picture, and the arena's limit
 * holds for what libjpeg needs too (the coefficients of a progressive file above all). */
#ifndef LEAT_PREP_JPEG_MEMORY_H
#define LEAT_PREP_JPEG_MEMORY_H

#include <stdio.h>

#include <jpeglib.h>

#include "prep/arena.h"

struct leat_jpeg_memory {
    struct leat_arena *arena;
    struct jpeg_memory_mgr original; /* still holds what was there before */
    struct jvirt_sarray_control *samples;
    struct jvirt_barray_control *blocks;
};

/* After jpeg_create_decompress() or jpeg_create_compress(); takes cinfo->client_data. The arena may be reset
 * whenever the object is idle (aborted or finished); pointers to what was taken from it, tables above all, must be
 * cleared before the object is used again. Destroying the object stays as usual. */
void leat_jpeg_memory_install(j_common_ptr cinfo, struct leat_jpeg_memory *memory, struct leat_arena *arena);

#endif
