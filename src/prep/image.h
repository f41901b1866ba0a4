/* What an encoded picture is before it is decoded, and what is allowed of it. */
#ifndef LEAT_PREP_IMAGE_H
#define LEAT_PREP_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum leat_image_type {
    LEAT_IMAGE_JPEG,
    LEAT_IMAGE_PNG,
    LEAT_IMAGE_WEBP,
    LEAT_IMAGE_TIFF,
    LEAT_IMAGE_BMP,
    LEAT_IMAGE_GIF,
    LEAT_IMAGE_AVIF,
    LEAT_IMAGE_JXL,
    LEAT_IMAGE_TYPE_COUNT
};

enum leat_jpeg_process { LEAT_JPEG_DCT, LEAT_JPEG_LOSSLESS, LEAT_JPEG_HIERARCHICAL }; /* only the first is decoded */

struct leat_image_info {
    enum leat_image_type type;
    uint32_t width; /* as stored, before any rotation */
    uint32_t height;
    uint8_t components;  /* as stored: 1 grey or palette, 2 grey and alpha, 3 colour, 4 with alpha or CMYK */
    uint8_t bits;        /* of one component */
    uint8_t orientation; /* EXIF: 1 upright … 8; above 4 width and height change places */
    bool progressive;    /* JPEG in several scans, PNG interlaced */
    bool arithmetic;     /* JPEG with arithmetic coding: known, not decoded */
    enum leat_jpeg_process process;
    bool alpha;
    bool palette;
    bool animated; /* width and height are the canvas's; the first frame is the picture */
    bool turned;   /* of a format whose readers turn it upright unasked */
};

/* Caps against files made to hurt. 0 in any of them: the preset. */
struct leat_image_limits {
    uint64_t memory_bytes; /* of one scratch, everything an image needs included */
    uint64_t pixels;
    uint32_t dimension; /* width and height, each */
    uint32_t scans;     /* of a progressive JPEG */
};

#define LEAT_IMAGE_MEMORY_PRESET    ((uint64_t)1 << 30)
#define LEAT_IMAGE_PIXELS_PRESET    ((uint64_t)200 * 1000 * 1000)
#define LEAT_IMAGE_DIMENSION_PRESET 65535u
#define LEAT_IMAGE_SCANS_PRESET     500u

struct leat_image_limits leat_image_limits_filled(const struct leat_image_limits *limits); /* NULL: all presets */

const char *leat_image_type_name(enum leat_image_type type); /* "JPEG" */

/* Reads the header only. LEAT_UNSUPPORTED for a format that is not known or whose library is missing, LEAT_CORRUPT for
 * a header that makes no sense. Where EXIF is missing or damaged the picture counts as upright. */
leat_status leat_image_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err);

/* Refuses dimensions over the limits, with a sentence that names the limit. */
leat_status leat_image_check(const struct leat_image_info *info, const struct leat_image_limits *limits,
                             struct leat_error *err);

/* Orientation out of a TIFF block, as EXIF keeps it ("II*\0…"), with "Exif\0\0" before it or not; out of a text that
 * holds such a block in hexadecimal digits, as some programs put it into PNG; out of XMP. 0 where nothing is said of
 * it, 1 where what is said makes no sense. */
uint8_t leat_exif_orientation(const void *exif, size_t size);
uint8_t leat_exif_profile_orientation(const void *text, size_t size);
uint8_t leat_xmp_orientation(const void *text, size_t size);

#endif
