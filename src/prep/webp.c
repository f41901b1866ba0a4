#include "prep/webp.h"

#ifndef LEAT_WITHOUT_WEBP
#include <string.h>
#include <webp/decode.h>

#include "base/bytes.h"

/* Chroma is interpolated between neighbours: this much more around the box makes its own pixels come out as in a
 * full decode. Even, because libwebp cuts at even places. */
#define MARGIN 4

struct picture {
    uint8_t *pixels;
    uint32_t left; /* of the buffer, in the picture */
    uint32_t top;
    uint32_t width; /* of the buffer */
    uint32_t height;
    unsigned components;
    uint32_t rows; /* that are there; fewer in a truncated file */
};

#define RIFF_HEAD_BYTES   12
#define FILTER_HORIZONTAL 1

/* A plane of alpha that is filtered horizontally begins each row with a difference to the row above, and libwebp (1.6
 * too) does not decode the rows above a crop there: such a file is decoded from its top. */
static bool needs_top(const struct leat_source *source)
{
    struct leat_reader r = leat_reader(source->data, source->size);
    leat_read_bytes(&r, RIFF_HEAD_BYTES);
    while (leat_reader_left(&r) > 8) {
        const uint8_t *name = leat_read_bytes(&r, 4);
        uint32_t length = leat_read_u32(&r);
        if (memcmp(name, "ALPH", 4) == 0)
            return (leat_read_u8(&r) >> 2 & 3) == FILTER_HORIZONTAL;
        if (!leat_read_bytes(&r, (size_t)length + (length & 1)))
            break;
    }
    return false;
}

static void choose_region(const struct leat_source *source, const struct leat_box *box, struct picture *p)
{
    p->left = (box->x > MARGIN ? box->x - MARGIN : 0) & ~1u;
    p->top = (box->y > MARGIN && !needs_top(source) ? box->y - MARGIN : 0) & ~1u;
    uint32_t right = box->x + box->width + MARGIN;
    uint32_t bottom = box->y + box->height + MARGIN;
    p->width = (right < source->info.width ? right : source->info.width) - p->left;
    p->height = (bottom < source->info.height ? bottom : source->info.height) - p->top;
}

/* "Aborted by the user", which this one never does, is how libwebp reports buffers it could not set up. */
static bool lacks_memory(VP8StatusCode code)
{
    return code == VP8_STATUS_OUT_OF_MEMORY || code == VP8_STATUS_USER_ABORT;
}

static leat_status fail(VP8StatusCode code, struct leat_error *err)
{
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
    case VP8_STATUS_USER_ABORT:
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a WebP");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return leat_fail(err, LEAT_UNSUPPORTED, "WebP with a feature that libwebp does not decode");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return leat_fail(err, LEAT_CORRUPT, "WebP: truncated");
    default:
        return leat_fail(err, LEAT_CORRUPT, "WebP: damaged (%d)", (int)code);
    }
}

/* What arrived of a truncated file. */
static leat_status decode_partly(const struct leat_source *source, WebPDecoderConfig *config, struct picture *p,
                                 struct leat_error *err)
{
    WebPIDecoder *d = WebPIDecode(NULL, 0, config);
    int last = 0;
    if (!d)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a WebP");
    VP8StatusCode code = WebPIUpdate(d, source->data, source->size);
    WebPIDecGetRGB(d, &last, NULL, NULL, NULL);
    WebPIDelete(d);
    if (lacks_memory(code))
        return fail(code, err);
    p->rows = last > 0 ? (uint32_t)last : 0;
    return LEAT_OK;
}

/* p->left … height are set; reduced to width x height where those are smaller. */
static leat_status decode_region(const struct leat_source *source, const struct leat_decode *decode, struct picture *p,
                                 uint32_t width, uint32_t height, struct leat_error *err)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return leat_fail(err, LEAT_INTERNAL, "libwebp of another version than at compile time");
    VP8StatusCode code = WebPGetFeatures(source->data, source->size, &config.input);
    if (code != VP8_STATUS_OK)
        return fail(code, err);
    if (config.input.has_animation)
        return leat_fail(err, LEAT_UNSUPPORTED, "animated WebP is not decoded");
    if ((uint32_t)config.input.width != source->info.width || (uint32_t)config.input.height != source->info.height)
        return leat_fail(err, LEAT_CORRUPT, "WebP with two headers that disagree");
    p->components = config.input.has_alpha ? 4 : 3;
    size_t stride = (size_t)width * p->components;
    size_t bytes = stride * height;
    p->pixels = leat_arena_take(decode->arena, bytes + LEAT_ROW_PAD);
    if (!p->pixels)
        return leat_arena_fail(decode->arena, err);
    memset(p->pixels, 128, bytes + LEAT_ROW_PAD);
    config.options.use_cropping = 1;
    config.options.crop_left = (int)p->left;
    config.options.crop_top = (int)p->top;
    config.options.crop_width = (int)p->width;
    config.options.crop_height = (int)p->height;
    config.options.use_scaling = width != p->width || height != p->height;
    config.options.scaled_width = (int)width;
    config.options.scaled_height = (int)height;
    config.output.colorspace = p->components == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = p->pixels;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = bytes;
    p->rows = height;
    code = WebPDecode(source->data, source->size, &config);
    if (code == VP8_STATUS_OK)
        return LEAT_OK;
    if (decode->damage == LEAT_DAMAGE_ROWS && !lacks_memory(code)) {
        memset(p->pixels, 128, bytes);
        return decode_partly(source, &config, p, err);
    }
    return fail(code, err);
}

static leat_status give_rows(const struct leat_decode *decode, const struct picture *p, uint32_t stride_pixels,
                             const struct leat_box *box, struct leat_rows *to, struct leat_error *err)
{
    struct leat_splitter splitter;
    unsigned planes = decode->colour == LEAT_COLOUR_RGB ? 3 : 1;
    leat_status rc = leat_splitter_open(&splitter, decode, to, p->components, planes, box->width, err);
    for (uint32_t y = box->y; rc == LEAT_OK && y < box->y + box->height; y++) {
        if (y < p->rows)
            leat_splitter_give(&splitter, p->pixels + ((size_t)stride_pixels * y + box->x) * p->components);
        else
            leat_splitter_give_gray(&splitter);
    }
    return rc;
}

static leat_status refuse_index(enum leat_colour colour, struct leat_error *err)
{
    return colour == LEAT_COLOUR_INDEX ? leat_fail(err, LEAT_UNSUPPORTED, "WebP has no index to take") : LEAT_OK;
}

leat_status leat_webp_rows(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_rows *to, struct leat_error *err)
{
    struct picture p = {0};
    choose_region(source, box, &p);
    leat_status rc = refuse_index(decode->colour, err);
    if (rc == LEAT_OK)
        rc = decode_region(source, decode, &p, p.width, p.height, err);
    struct leat_box inside = {box->x - p.left, box->y - p.top, box->width, box->height};
    return rc == LEAT_OK ? give_rows(decode, &p, p.width, &inside, to, err) : rc;
}

leat_status leat_webp_fast(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_target *target, const struct leat_geometry *geometry,
                           struct leat_error *err)
{
    const struct leat_box *crop = &geometry->crop;
    uint32_t x = crop->width / geometry->resized[0];
    uint32_t y = crop->height / geometry->resized[1];
    leat_status rc = refuse_index(decode->colour, err);
    if (rc != LEAT_OK)
        return rc;
    if (x < 2 || y < 2)
        return leat_fail(err, LEAT_UNSUPPORTED, "WebP too small to reduce");
    struct picture p = {0};
    choose_region(source, crop, &p);
    /* From here on the reduced region is the picture. */
    uint32_t width = p.width / x;
    uint32_t height = p.height / y;
    struct leat_geometry inside = *geometry;
    inside.crop.x -= p.left;
    inside.crop.y -= p.top;
    struct leat_plane_scale scale = {(double)width / p.width, (double)height / p.height, width, height};
    struct leat_sink sink;
    unsigned planes = leat_decode_planes(&source->info, decode->colour);
    rc = leat_sink_open(&sink, decode->kernels, decode->arena, target, &inside, planes, false, &scale, err);
    if (rc == LEAT_OK)
        rc = decode_region(source, decode, &p, width, height, err);
    struct leat_box wanted = leat_sink_wants(&sink);
    return rc == LEAT_OK ? give_rows(decode, &p, width, &wanted, &sink.rows, err) : rc;
}

#else

leat_status leat_webp_rows(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_rows *to, struct leat_error *err)
{
    return leat_fail(err, LEAT_UNSUPPORTED, "built without WebP");
}

leat_status leat_webp_fast(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_target *target, const struct leat_geometry *geometry,
                           struct leat_error *err)
{
    return leat_fail(err, LEAT_UNSUPPORTED, "built without WebP");
}

#endif
