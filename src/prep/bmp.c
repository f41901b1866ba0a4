#include "prep/bmp.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"

enum packing { PACKING_NONE = 0, PACKING_RLE8 = 1, PACKING_RLE4 = 2, PACKING_MASKS = 3, PACKING_ALPHA_MASKS = 6 };

#define FILE_HEADER_BYTES 14
#define CORE_HEADER_BYTES 12 /* OS/2's */
#define INFO_HEADER_BYTES 40
#define MASKED_BYTES      52 /* from here on masks are part of the header, */
#define ALPHA_BYTES       56 /* and from here on that of alpha */

struct header {
    size_t pixels; /* where they begin */
    uint32_t width;
    uint32_t height;
    bool from_top;
    unsigned bits; /* of a pixel */
    uint32_t packing;
    uint32_t mask[4]; /* red, green, blue, alpha; 0: none */
    size_t palette;   /* where it stands, */
    unsigned entry;   /* bytes of an entry, */
    uint32_t colours; /* and how many there are */
};

static leat_status fail_header(struct leat_error *err)
{
    return leat_fail(err, LEAT_CORRUPT, "BMP header makes no sense");
}

static void set_masks(struct header *h, struct leat_reader *r, uint32_t bytes)
{
    static const uint32_t presets[3][3] = {{0x7c00, 0x3e0, 0x1f}, {0xff0000, 0xff00, 0xff}, {0xff0000, 0xff00, 0xff}};
    if (h->bits < 16)
        return;
    memcpy(h->mask, presets[h->bits / 8 - 2], sizeof presets[0]);
    bool given = h->packing == PACKING_MASKS || h->packing == PACKING_ALPHA_MASKS;
    if (!given || h->bits == 24)
        return;
    bool alpha = bytes >= ALPHA_BYTES || h->packing == PACKING_ALPHA_MASKS;
    for (unsigned i = 0; i < (alpha ? 4 : 3); i++)
        h->mask[i] = leat_read_u32(r);
    if (bytes == INFO_HEADER_BYTES) /* they stand after it */
        h->palette += alpha ? 16 : 12;
}

/* Bits without a gap. */
static bool is_mask(uint32_t mask)
{
    uint32_t low = mask & (0u - mask);
    return (mask & (mask + low)) == 0;
}

static leat_status read_header(const void *data, size_t size, struct header *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, size);
    struct header h = {0};
    leat_read_bytes(&r, 10);
    h.pixels = leat_read_u32(&r);
    uint32_t bytes = leat_read_u32(&r);
    h.palette = FILE_HEADER_BYTES + (size_t)bytes;
    h.entry = bytes == CORE_HEADER_BYTES ? 3 : 4;
    int64_t height;
    if (bytes == CORE_HEADER_BYTES) {
        h.width = leat_read_u16(&r);
        height = leat_read_u16(&r);
        leat_read_u16(&r);
        h.bits = leat_read_u16(&r);
    } else if (bytes >= INFO_HEADER_BYTES && bytes <= 1024) {
        h.width = leat_read_u32(&r);
        height = (int32_t)leat_read_u32(&r);
        leat_read_u16(&r);
        h.bits = leat_read_u16(&r);
        h.packing = leat_read_u32(&r);
        leat_read_bytes(&r, 12);
        h.colours = leat_read_u32(&r);
        leat_read_u32(&r);
    } else {
        return leat_fail(err, LEAT_UNSUPPORTED, "BMP with a header of %" PRIu32 " bytes", bytes);
    }
    h.from_top = height < 0;
    h.height = (uint32_t)(height < 0 ? -height : height);
    bool known =
        h.bits == 1 || h.bits == 2 || h.bits == 4 || h.bits == 8 || h.bits == 16 || h.bits == 24 || h.bits == 32;
    if (r.bad || !known || h.width > INT32_MAX)
        return fail_header(err);
    bool masks = h.packing == PACKING_MASKS || h.packing == PACKING_ALPHA_MASKS;
    bool runs = (h.packing == PACKING_RLE8 && h.bits == 8) || (h.packing == PACKING_RLE4 && h.bits == 4);
    if (h.packing != PACKING_NONE && !runs && !(masks && h.bits >= 16))
        return leat_fail(err, LEAT_UNSUPPORTED, "BMP of %u bits packed in way %" PRIu32, h.bits, h.packing);
    set_masks(&h, &r, bytes);
    for (unsigned i = 0; i < 4; i++) {
        if (!is_mask(h.mask[i]) || (h.bits >= 16 && i < 3 && !h.mask[i]))
            return leat_fail(err, LEAT_UNSUPPORTED, "BMP with a mask of 0x%" PRIx32, h.mask[i]);
    }
    uint32_t most = h.bits <= 8 ? 1u << h.bits : 0;
    h.colours = h.colours && h.colours < most ? h.colours : most;
    if (r.bad || h.pixels < h.palette || h.pixels > size)
        return fail_header(err);
    *out = h;
    return LEAT_OK;
}

leat_status leat_bmp_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err)
{
    struct header h;
    leat_status rc = read_header(data, size, &h, err);
    if (rc != LEAT_OK)
        return rc;
    *out = (struct leat_image_info){
        .type = LEAT_IMAGE_BMP,
        .width = h.width,
        .height = h.height,
        .components = h.bits <= 8 ? 1
                      : h.mask[3] ? 4
                                  : 3,
        .bits = 8,
        .orientation = 1,
        .palette = h.bits <= 8,
        .alpha = h.mask[3] != 0,
    };
    return LEAT_OK;
}

static uint8_t spread(uint32_t pixel, uint32_t mask)
{
    if (!mask)
        return 255;
    uint32_t low = mask & (0u - mask);
    return (uint8_t)((uint64_t)((pixel & mask) / low) * 255 / (mask / low));
}

struct painting {
    const struct leat_source *source;
    const struct header *h;
    struct leat_bitmap *to;
    bool index;
    uint8_t palette[256][3];
};

static void read_palette(struct painting *p)
{
    const struct header *h = p->h;
    for (uint32_t i = 0; i < h->colours; i++) {
        size_t at = h->palette + (size_t)i * h->entry;
        for (unsigned c = 0; c < 3 && at + 3 <= h->pixels; c++)
            p->palette[i][c] = p->source->data[at + 2 - c];
    }
}

/* One pixel of the box, by its column in it. */
static void paint(const struct painting *p, uint8_t *row, uint32_t x, const uint8_t *line)
{
    const struct header *h = p->h;
    uint32_t column = p->to->box.x + x;
    uint8_t *out = row + (size_t)x * p->to->components;
    if (h->bits <= 8) {
        size_t bit = (size_t)column * h->bits;
        unsigned v = (unsigned)line[bit / 8] >> (8 - h->bits - bit % 8) & ((1u << h->bits) - 1);
        if (p->index)
            *out = (uint8_t)v;
        else
            memcpy(out, p->palette[v], 3);
        return;
    }
    uint32_t v = 0;
    for (unsigned i = 0; i < h->bits / 8; i++)
        v |= (uint32_t)line[(size_t)column * (h->bits / 8) + i] << (8 * i);
    for (unsigned c = 0; c < p->to->components; c++)
        out[c] = spread(v, h->mask[c]);
}

/* Rows stand in the file from the bottom up, unless they do not, each padded to four bytes. */
static leat_status read_plain(const struct painting *p, bool partly, struct leat_error *err)
{
    const struct header *h = p->h;
    const struct leat_box *box = &p->to->box;
    size_t stride = ((size_t)h->width * h->bits + 31) / 32 * 4;
    size_t used = ((size_t)h->width * h->bits + 7) / 8; /* the last row's padding may be missing */
    for (uint32_t y = 0; y < box->height; y++) {
        uint32_t line = h->from_top ? box->y + y : h->height - 1 - box->y - y;
        size_t left = p->source->size - h->pixels;
        if (left < used || (left - used) / stride < line) {
            if (partly)
                continue;
            return leat_fail(err, LEAT_CORRUPT, "BMP ends before its row %" PRIu32, box->y + y);
        }
        const uint8_t *from = p->source->data + h->pixels + stride * line;
        for (uint32_t x = 0; x < box->width; x++)
            paint(p, p->to->pixels + p->to->stride * y, x, from);
    }
    return LEAT_OK;
}

/* Runs of a number, or numbers as they are, into a picture of numbers; what is jumped over is 0. False: it ended early.
 */
static bool unpack_runs(struct leat_reader *r, const struct header *h, uint8_t *numbers)
{
    uint64_t x = 0;
    uint64_t y = 0;
    bool nibbles = h->packing == PACKING_RLE4;
    while (!r->bad && y < h->height) {
        uint8_t count = leat_read_u8(r);
        uint8_t value = leat_read_u8(r);
        bool literal = count == 0 && value > 2;
        uint8_t *row = numbers + (size_t)h->width * (h->from_top ? y : h->height - 1 - y);
        if (r->bad)
            break;
        if (count == 0 && value == 0) {
            x = 0;
            y++;
        } else if (count == 0 && value == 1) {
            return true;
        } else if (count == 0 && value == 2) {
            x += leat_read_u8(r);
            y += leat_read_u8(r);
        } else {
            unsigned n = literal ? value : count;
            uint8_t pair = value;
            for (unsigned i = 0; i < n; i++) {
                if (literal && (!nibbles || i % 2 == 0))
                    pair = leat_read_u8(r);
                uint8_t v = !nibbles ? pair : i % 2 ? pair & 15 : pair >> 4;
                if (x < h->width)
                    row[x] = v;
                x++;
            }
            if (literal && (nibbles ? (n + 1) / 2 : n) % 2)
                leat_read_u8(r);
        }
    }
    return !r->bad;
}

static leat_status read_runs(const struct painting *p, const struct leat_decode *decode, struct leat_error *err)
{
    const struct header *h = p->h;
    const struct leat_box *box = &p->to->box;
    struct leat_reader r = leat_reader(p->source->data + h->pixels, p->source->size - h->pixels);
    size_t bytes = (size_t)h->width * h->height;
    uint8_t *numbers = leat_arena_take(decode->arena, bytes);
    if (!numbers)
        return leat_arena_fail(decode->arena, err);
    memset(numbers, 0, bytes);
    if (!unpack_runs(&r, h, numbers) && decode->damage == LEAT_DAMAGE_ERROR)
        return leat_fail(err, LEAT_CORRUPT, "BMP ends inside its runs");
    for (uint32_t y = 0; y < box->height; y++) {
        const uint8_t *from = numbers + (size_t)h->width * (box->y + y) + box->x;
        uint8_t *to = p->to->pixels + p->to->stride * y;
        for (uint32_t x = 0; x < box->width; x++) {
            if (p->index)
                to[x] = from[x];
            else
                memcpy(to + 3 * (size_t)x, p->palette[from[x]], 3);
        }
    }
    return LEAT_OK;
}

leat_status leat_bmp_read(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    struct header h;
    leat_status rc = read_header(source->data, source->size, &h, err);
    bool index = decode->colour == LEAT_COLOUR_INDEX;
    if (rc == LEAT_OK && index && h.bits > 8)
        return leat_fail(err, LEAT_UNSUPPORTED, "BMP of %u bits has no palette numbers", h.bits);
    if (rc == LEAT_OK)
        rc = leat_bitmap_take(decode, box, index ? 1 : h.bits > 8 && h.mask[3] ? 4 : 3, 1, out, err);
    if (rc != LEAT_OK)
        return rc;
    struct painting p = {.source = source, .h = &h, .to = out, .index = index};
    read_palette(&p);
    if (h.packing == PACKING_RLE8 || h.packing == PACKING_RLE4)
        return read_runs(&p, decode, err);
    return read_plain(&p, decode->damage == LEAT_DAMAGE_ROWS, err);
}
