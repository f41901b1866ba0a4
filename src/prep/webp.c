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
#define CHUNK_HEAD_BYTES  8
#define FRAME_HEAD_BYTES  16
#define FILTER_HORIZONTAL 1

/* The picture, or an animation's first frame: bytes that libwebp takes by themselves, and a box of the canvas. */
struct frame {
    const uint8_t *data;
    size_t size;
    struct leat_box box;
};

static uint32_t read_u24(struct leat_reader *r)
{
    uint32_t v = leat_read_u16(r);
    return v | (uint32_t)leat_read_u8(r) << 16;
}

static leat_status find_frame(const struct leat_source *source, struct frame *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(source->data, source->size);
    const struct leat_image_info *info = &source->info;
    *out = (struct frame){source->data, source->size, {0, 0, info->width, info->height}};
    if (!info->animated)
        return LEAT_OK;
    leat_read_bytes(&r, RIFF_HEAD_BYTES);
    while (leat_reader_left(&r) > CHUNK_HEAD_BYTES) {
        const uint8_t *name = leat_read_bytes(&r, 4);
        size_t length = leat_read_u32(&r);
        if (memcmp(name, "ANMF", 4) != 0) {
            if (!leat_read_bytes(&r, length + (length & 1)))
                break;
            continue;
        }
        struct leat_box b = {0};
        b.x = 2 * read_u24(&r);
        b.y = 2 * read_u24(&r);
        b.width = read_u24(&r) + 1;
        b.height = read_u24(&r) + 1;
        leat_read_u32(&r); /* how long it is shown, and what becomes of it */
        if (r.bad || length < FRAME_HEAD_BYTES || b.x + b.width > info->width || b.y + b.height > info->height)
            return leat_fail(err, LEAT_CORRUPT, "animated WebP whose first frame makes no sense");
        length -= FRAME_HEAD_BYTES;
        *out = (struct frame){r.data + r.at, length < leat_reader_left(&r) ? length : leat_reader_left(&r), b};
        return LEAT_OK;
    }
    return leat_fail(err, LEAT_CORRUPT, "animated WebP without a frame");
}

/* A plane of alpha that is filtered horizontally begins each row with a difference to the row above, and libwebp (1.6
 * too) does not decode the rows above a crop there: such a file is decoded from its top. */
static bool needs_top(const struct frame *frame)
{
    struct leat_reader r = leat_reader(frame->data, frame->size);
    if (frame->size > RIFF_HEAD_BYTES && memcmp(frame->data, "RIFF", 4) == 0)
        leat_read_bytes(&r, RIFF_HEAD_BYTES);
    while (leat_reader_left(&r) > CHUNK_HEAD_BYTES) {
        const uint8_t *name = leat_read_bytes(&r, 4);
        uint32_t length = leat_read_u32(&r);
        if (memcmp(name, "ALPH", 4) == 0)
            return (leat_read_u8(&r) >> 2 & 3) == FILTER_HORIZONTAL;
        if (!leat_read_bytes(&r, (size_t)length + (length & 1)))
            break;
    }
    return false;
}

/* box lies in the frame, and so does what is chosen. */
static void choose_region(const struct frame *frame, const struct leat_box *box, struct picture *p)
{
    p->left = (box->x > MARGIN ? box->x - MARGIN : 0) & ~1u;
    p->top = (box->y > MARGIN && !needs_top(frame) ? box->y - MARGIN : 0) & ~1u;
    uint32_t right = box->x + box->width + MARGIN;
    uint32_t bottom = box->y + box->height + MARGIN;
    p->width = (right < frame->box.width ? right : frame->box.width) - p->left;
    p->height = (bottom < frame->box.height ? bottom : frame->box.height) - p->top;
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
static leat_status decode_partly(const struct frame *frame, WebPDecoderConfig *config, struct picture *p,
                                 struct leat_error *err)
{
    WebPIDecoder *d = WebPIDecode(NULL, 0, config);
    int last = 0;
    if (!d)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a WebP");
    VP8StatusCode code = WebPIUpdate(d, frame->data, frame->size);
    WebPIDecGetRGB(d, &last, NULL, NULL, NULL);
    WebPIDelete(d);
    if (lacks_memory(code))
        return fail(code, err);
    p->rows = last > 0 ? (uint32_t)last : 0;
    return LEAT_OK;
}

/* p->left … height are set; reduced to width x height where those are smaller. */
static leat_status decode_region(const struct frame *frame, bool alpha, const struct leat_decode *decode,
                                 struct picture *p, uint32_t width, uint32_t height, struct leat_error *err)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return leat_fail(err, LEAT_INTERNAL, "libwebp of another version than at compile time");
    VP8StatusCode code = WebPGetFeatures(frame->data, frame->size, &config.input);
    if (code != VP8_STATUS_OK)
        return fail(code, err);
    if ((uint32_t)config.input.width != frame->box.width || (uint32_t)config.input.height != frame->box.height)
        return leat_fail(err, LEAT_CORRUPT, "WebP with two headers that disagree");
    p->components = alpha && config.input.has_alpha ? 4 : 3;
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
    code = WebPDecode(frame->data, frame->size, &config);
    if (code == VP8_STATUS_OK)
        return LEAT_OK;
    if (decode->damage == LEAT_DAMAGE_ROWS && !lacks_memory(code)) {
        memset(p->pixels, 128, bytes);
        return decode_partly(frame, &config, p, err);
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
    return colour == LEAT_COLOUR_INDEX ? leat_fail(err, LEAT_UNSUPPORTED, "WebP has no palette numbers") : LEAT_OK;
}

static bool covers(const struct frame *frame, const struct leat_box *box)
{
    const struct leat_box *f = &frame->box;
    return box->x >= f->x && box->y >= f->y && box->x + box->width <= f->x + f->width &&
           box->y + box->height <= f->y + f->height;
}

static struct leat_box overlap(const struct leat_box *a, const struct leat_box *b)
{
    uint32_t left = a->x > b->x ? a->x : b->x;
    uint32_t top = a->y > b->y ? a->y : b->y;
    uint32_t right = a->x + a->width < b->x + b->width ? a->x + a->width : b->x + b->width;
    uint32_t bottom = a->y + a->height < b->y + b->height ? a->y + a->height : b->y + b->height;
    if (left >= right || top >= bottom)
        return (struct leat_box){0};
    return (struct leat_box){left, top, right - left, bottom - top};
}

/* Lays what the frame has of the box onto an empty canvas: transparent, or black where alpha is dropped. */
static leat_status lay_out(const struct leat_decode *decode, const struct leat_box *box, const struct leat_box *part,
                           const struct leat_box *inside, struct picture *p, struct leat_error *err)
{
    size_t bytes = (size_t)box->width * box->height * 4;
    uint8_t *canvas = leat_arena_take(decode->arena, bytes + LEAT_ROW_PAD);
    if (!canvas)
        return leat_arena_fail(decode->arena, err);
    memset(canvas, 0, bytes + LEAT_ROW_PAD);
    for (uint32_t y = 0; y < part->height; y++) {
        const uint8_t *from = p->pixels + ((size_t)p->width * (inside->y + y) + inside->x) * p->components;
        uint8_t *to = canvas + ((size_t)box->width * (part->y - box->y + y) + (part->x - box->x)) * 4;
        for (uint32_t x = 0; x < part->width; x++, from += p->components, to += 4) {
            memcpy(to, from, 3);
            to[3] = p->components == 4 ? from[3] : 255;
        }
    }
    *p = (struct picture){.pixels = canvas, .width = box->width, .height = box->height, .components = 4};
    p->rows = box->height;
    return LEAT_OK;
}

/* The part of the picture that holds the box, and where in it the box is. */
static leat_status decode_box(const struct leat_source *source, const struct leat_decode *decode,
                              const struct leat_box *box, struct picture *p, struct leat_box *inside,
                              struct leat_error *err)
{
    struct frame frame;
    leat_status rc = refuse_index(decode->colour, err);
    if (rc == LEAT_OK)
        rc = find_frame(source, &frame, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_box part = overlap(box, &frame.box);
    *inside = (struct leat_box){part.x - frame.box.x, part.y - frame.box.y, part.width, part.height};
    if (part.width) {
        choose_region(&frame, inside, p);
        inside->x -= p->left;
        inside->y -= p->top;
        rc = decode_region(&frame, source->info.alpha, decode, p, p->width, p->height, err);
    }
    if (rc == LEAT_OK && !covers(&frame, box)) {
        rc = lay_out(decode, box, &part, inside, p, err);
        *inside = (struct leat_box){0, 0, box->width, box->height};
    }
    return rc;
}

leat_status leat_webp_rows(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_rows *to, struct leat_error *err)
{
    struct picture p = {0};
    struct leat_box inside;
    leat_status rc = decode_box(source, decode, box, &p, &inside, err);
    return rc == LEAT_OK ? give_rows(decode, &p, p.width, &inside, to, err) : rc;
}

leat_status leat_webp_read(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    struct picture p = {0};
    struct leat_box inside;
    leat_status rc = decode_box(source, decode, box, &p, &inside, err);
    if (rc != LEAT_OK)
        return rc;
    size_t stride = (size_t)p.width * p.components;
    *out = (struct leat_bitmap){.box = *box, .components = p.components, .bytes = 1, .stride = stride};
    out->pixels = p.pixels + stride * inside.y + (size_t)inside.x * p.components;
    return LEAT_OK;
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
    struct frame frame;
    rc = find_frame(source, &frame, err);
    if (rc != LEAT_OK)
        return rc;
    if (frame.box.width != source->info.width || frame.box.height != source->info.height)
        return leat_fail(err, LEAT_UNSUPPORTED, "WebP whose first frame is not the whole canvas");
    choose_region(&frame, crop, &p);
    /* From here on the reduced region is the picture. */
    uint32_t width = p.width / x;
    uint32_t height = p.height / y;
    struct leat_geometry inside = *geometry;
    inside.crop.x -= p.left;
    inside.crop.y -= p.top;
    struct leat_plane_scale scale = {(double)width / p.width, (double)height / p.height, width, height, 1};
    struct leat_sink sink;
    unsigned planes = leat_decode_planes(&source->info, decode->colour);
    rc = leat_sink_open(&sink, decode->kernels, decode->arena, target, &inside, planes, false, &scale, err);
    if (rc == LEAT_OK)
        rc = decode_region(&frame, source->info.alpha, decode, &p, width, height, err);
    struct leat_box wanted = leat_sink_wants(&sink);
    return rc == LEAT_OK ? give_rows(decode, &p, width, &wanted, &sink.rows, err) : rc;
}

#else

leat_status leat_webp_rows(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_rows *to, struct leat_error *err)
{
    return leat_fail(err, LEAT_UNSUPPORTED, "built without WebP");
}

leat_status leat_webp_read(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
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
