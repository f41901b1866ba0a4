#include "prep/bitmap.h"

#include <string.h>

#define MISSING 128

leat_status leat_bitmap_take(const struct leat_decode *decode, const struct leat_box *box, unsigned components,
                             unsigned bytes, struct leat_bitmap *out, struct leat_error *err)
{
    struct leat_bitmap b = {.box = *box, .components = components, .bytes = bytes};
    b.stride = (size_t)box->width * components * bytes;
    b.pixels = leat_arena_take(decode->arena, b.stride * box->height + LEAT_ROW_PAD);
    if (!b.pixels)
        return leat_arena_fail(decode->arena, err);
    memset(b.pixels, MISSING, b.stride * box->height + LEAT_ROW_PAD);
    *out = b;
    return LEAT_OK;
}

static const uint8_t *pixel_at(const struct leat_bitmap *b, uint32_t x, uint32_t y)
{
    return b->pixels + b->stride * (y - b->box.y) + (size_t)(x - b->box.x) * b->components * b->bytes;
}

static uint8_t upper(const struct leat_bitmap *b, const uint8_t *sample)
{
    uint16_t v;
    if (b->bytes == 1)
        return *sample;
    memcpy(&v, sample, sizeof v);
    return (uint8_t)(v >> 8);
}

/* A row of as many samples a pixel as the splitter takes: 1, 3 or 4. */
static void convert_row(const struct leat_bitmap *b, const struct leat_box *box, uint32_t y, unsigned wanted,
                        uint8_t *out)
{
    unsigned c = b->components;
    const uint8_t *from = pixel_at(b, box->x, y);
    unsigned colours = c > 2 ? 3 : 1;
    for (uint32_t i = 0; i < box->width; i++, from += (size_t)c * b->bytes, out += wanted) {
        for (unsigned k = 0; k < wanted && k < 3; k++)
            out[k] = upper(b, from + (size_t)(k < colours ? k : 0) * b->bytes);
        if (wanted == 4)
            out[3] = c % 2 == 0 ? upper(b, from + (size_t)(c - 1) * b->bytes) : 255;
    }
}

leat_status leat_bitmap_give(const struct leat_bitmap *b, const struct leat_source *source,
                             const struct leat_decode *decode, const struct leat_box *box, struct leat_rows *to,
                             struct leat_error *err)
{
    struct leat_splitter splitter;
    unsigned planes = leat_decode_planes(&source->info, decode->colour);
    if (decode->colour == LEAT_COLOUR_INDEX && b->bytes != 1)
        return leat_fail(err, LEAT_UNSUPPORTED, "%s has an index of 16 bits: take it with dtype=uint16",
                         leat_image_type_name(source->info.type));
    bool alpha = source->info.alpha && b->components % 2 == 0 && decode->colour != LEAT_COLOUR_INDEX;
    unsigned wanted = alpha ? 4 : b->components > 2 || planes == 3 ? 3 : 1;
    uint8_t *row = leat_arena_take(decode->arena, (size_t)box->width * wanted + LEAT_ROW_PAD);
    if (!row)
        return leat_arena_fail(decode->arena, err);
    leat_status rc = leat_splitter_open(&splitter, decode, to, wanted, planes, box->width, err);
    for (uint32_t y = box->y; rc == LEAT_OK && y < box->y + box->height; y++) {
        convert_row(b, box, y, wanted, row);
        leat_splitter_give(&splitter, row);
    }
    return rc;
}

void leat_bitmap_pixel(const struct leat_bitmap *b, uint32_t x, uint32_t y, bool index, uint16_t out[4])
{
    const uint8_t *from = pixel_at(b, x, y);
    for (unsigned k = 0; k < b->components; k++) {
        if (b->bytes == 2)
            memcpy(&out[k], from + 2 * (size_t)k, sizeof *out);
        else
            out[k] = index ? from[k] : (uint16_t)(from[k] * 257);
    }
}
