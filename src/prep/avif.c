#include "prep/avif.h"

#ifdef LEAT_AVIF_SONAME
#include <avif/avif.h>
#include <string.h>

#include "base/library.h"

#define CALLS(X)                                                                                                       \
    X(avifDecoderCreate)                                                                                               \
    X(avifDecoderDestroy)                                                                                              \
    X(avifDecoderNextImage)                                                                                            \
    X(avifDecoderParse)                                                                                                \
    X(avifDecoderSetIOMemory)                                                                                          \
    X(avifImageYUVToRGB)                                                                                               \
    X(avifRGBImageSetDefaults)                                                                                         \
    X(avifResultToString)

#define X(f) __typeof__(&(f)) f; /* NOLINT(bugprone-macro-parentheses) */
static struct {
    CALLS(X)
} avif;
#undef X
#define X(f) #f,
static const char *const names[] = {CALLS(X) NULL};
#undef X

static struct leat_library library = {
    .soname = LEAT_AVIF_SONAME,
    .package = "libavif",
    .names = names,
    .calls = (leat_library_call *)(void *)&avif,
};

static leat_status fail(avifResult code, struct leat_error *err)
{
    switch (code) {
    case AVIF_RESULT_OUT_OF_MEMORY:
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an AVIF");
    case AVIF_RESULT_NO_CODEC_AVAILABLE:
        return leat_fail(err, LEAT_UNSUPPORTED, "AVIF: libavif has no AV1 decoder: install libdav1d");
    case AVIF_RESULT_NOT_IMPLEMENTED:
    case AVIF_RESULT_UNSUPPORTED_DEPTH:
        return leat_fail(err, LEAT_UNSUPPORTED, "AVIF: %s", avif.avifResultToString(code));
    default:
        return leat_fail(err, LEAT_CORRUPT, "AVIF: %s", avif.avifResultToString(code));
    }
}

static leat_status open_file(const void *data, size_t size, avifDecoder **out, struct leat_error *err)
{
    leat_status rc = leat_library_open(&library, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "AVIF");
    avifDecoder *d = avif.avifDecoderCreate();
    if (!d)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an AVIF");
    d->maxThreads = 1;
    d->ignoreExif = AVIF_TRUE;
    d->ignoreXMP = AVIF_TRUE;
    /* Our own limits come first, with an error that names them; these are the widest they can be. */
    d->imageDimensionLimit = LEAT_IMAGE_DIMENSION_PRESET;
    d->strictFlags &= ~(avifStrictFlags)(AVIF_STRICT_PIXI_REQUIRED | AVIF_STRICT_CLAP_VALID);
    avifResult code = avif.avifDecoderSetIOMemory(d, data, size);
    if (code == AVIF_RESULT_OK)
        code = avif.avifDecoderParse(d);
    if (code != AVIF_RESULT_OK) {
        avif.avifDecoderDestroy(d);
        return fail(code, err);
    }
    *out = d;
    return LEAT_OK;
}

/* Turned and mirrored by boxes of its own, not by EXIF: as the EXIF value that does the same. */
static uint8_t orientation_of(const avifImage *image)
{
#if AVIF_VERSION_MAJOR >= 1
    bool sideways = image->imir.axis;
#else
    bool sideways = image->imir.mode;
#endif
    bool mirrored = image->transformFlags & AVIF_TRANSFORM_IMIR;
    unsigned angle = image->transformFlags & AVIF_TRANSFORM_IROT ? image->irot.angle & 3 : 0;
    static const uint8_t turned[4] = {1, 8, 3, 6};
    static const uint8_t over[4] = {4, 5, 2, 7}; /* upside down after turning */
    static const uint8_t side[4] = {2, 7, 4, 5};
    return !mirrored ? turned[angle] : sideways ? side[angle] : over[angle];
}

leat_status leat_avif_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err)
{
    avifDecoder *d = NULL;
    leat_status rc = open_file(data, size, &d, err);
    if (rc != LEAT_OK || !d)
        return rc;
    *out = (struct leat_image_info){
        .type = LEAT_IMAGE_AVIF,
        .width = d->image->width,
        .height = d->image->height,
        .components = d->alphaPresent ? 4 : 3,
        .bits = (uint8_t)d->image->depth,
        .orientation = orientation_of(d->image),
        .alpha = d->alphaPresent,
        .animated = d->imageCount > 1,
    };
    avif.avifDecoderDestroy(d);
    return LEAT_OK;
}

static leat_status convert(const avifImage *image, const struct leat_source *source, const struct leat_decode *decode,
                           struct leat_bitmap *out, struct leat_error *err)
{
    avifRGBImage rgb;
    struct leat_box whole = {0, 0, source->info.width, source->info.height};
    if (image->width != whole.width || image->height != whole.height)
        return leat_fail(err, LEAT_CORRUPT, "AVIF with two headers that disagree");
    unsigned bytes = decode->wide && image->depth > 8 ? 2 : 1;
    leat_status rc = leat_bitmap_take(decode, &whole, image->alphaPlane ? 4 : 3, bytes, out, err);
    if (rc != LEAT_OK)
        return rc;
    avif.avifRGBImageSetDefaults(&rgb, image);
    rgb.depth = 8 * bytes;
    /* Without alpha in its format libavif would lay the picture on black. */
    rgb.format = image->alphaPlane ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
    rgb.pixels = out->pixels;
    rgb.rowBytes = (uint32_t)out->stride;
    avifResult code = avif.avifImageYUVToRGB(image, &rgb);
    return code == AVIF_RESULT_OK ? LEAT_OK : fail(code, err);
}

leat_status leat_avif_read(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    avifDecoder *d = NULL;
    (void)box; /* there is no decoding of a part */
    if (decode->colour == LEAT_COLOUR_INDEX)
        return leat_fail(err, LEAT_UNSUPPORTED, "AVIF has no palette numbers");
    leat_status rc = open_file(source->data, source->size, &d, err);
    if (rc != LEAT_OK || !d)
        return rc;
    avifResult code = avif.avifDecoderNextImage(d);
    rc = code == AVIF_RESULT_OK ? convert(d->image, source, decode, out, err) : fail(code, err);
    avif.avifDecoderDestroy(d);
    return rc;
}

#else

leat_status leat_avif_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err)
{
    (void)data, (void)size, (void)out;
    return leat_fail(err, LEAT_UNSUPPORTED, "an AVIF: this was built without libavif (libavif-dev)");
}

leat_status leat_avif_read(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    (void)decode, (void)box, (void)out;
    return leat_avif_probe(source->data, source->size, NULL, err);
}

#endif
