#include "prep/gif.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"

#define HEADER_BYTES  6
#define TABLE_FLAG    0x80
#define INTERLACED    0x40
#define TRANSPARENT   1
#define CODE_BITS_MAX 12
#define CODES         (1 << CODE_BITS_MAX)

struct frame {
    uint32_t canvas[2];    /* width and height, large enough for the frame, as Pillow makes it */
    struct leat_box box;   /* of the canvas */
    const uint8_t *colour; /* three bytes each */
    unsigned colours;      /* 0: numbers are grey values */
    int transparent;       /* this number is; -1: none is */
    bool interlaced;
    size_t codes; /* where they begin: the length of the first one, then blocks */
    bool more;    /* another frame follows */
};

static void skip_blocks(struct leat_reader *r)
{
    uint8_t n;
    while ((n = leat_read_u8(r)) != 0)
        leat_read_bytes(r, n);
}

static void read_control(struct leat_reader *r, struct frame *f)
{
    uint8_t n = leat_read_u8(r);
    const uint8_t *body = leat_read_bytes(r, n);
    if (body && n >= 4)
        f->transparent = body[0] & TRANSPARENT ? body[3] : -1;
    if (n)
        skip_blocks(r);
}

static bool read_table(struct leat_reader *r, uint8_t flags, struct frame *f)
{
    if (!(flags & TABLE_FLAG))
        return true;
    unsigned n = 2u << (flags & 7);
    const uint8_t *colours = leat_read_bytes(r, (size_t)n * 3);
    f->colour = colours ? colours : f->colour;
    f->colours = colours ? n : f->colours;
    return colours;
}

static void read_frame(struct leat_reader *r, struct frame *f)
{
    f->box.x = leat_read_u16(r);
    f->box.y = leat_read_u16(r);
    f->box.width = leat_read_u16(r);
    f->box.height = leat_read_u16(r);
    uint8_t flags = leat_read_u8(r);
    f->interlaced = flags & INTERLACED;
    read_table(r, flags, f);
    f->codes = r->at;
    uint32_t right = f->box.x + f->box.width;
    uint32_t bottom = f->box.y + f->box.height;
    f->canvas[0] = f->canvas[0] > right ? f->canvas[0] : right;
    f->canvas[1] = f->canvas[1] > bottom ? f->canvas[1] : bottom;
}

/* Up to the second frame, if there is one. */
static leat_status find_frame(const void *data, size_t size, struct frame *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, size);
    struct frame f = {.transparent = -1};
    bool found = false;
    leat_read_bytes(&r, HEADER_BYTES);
    f.canvas[0] = leat_read_u16(&r);
    f.canvas[1] = leat_read_u16(&r);
    uint8_t flags = leat_read_u8(&r);
    leat_read_u16(&r);
    read_table(&r, flags, &f);
    while (!r.bad) {
        uint8_t kind = leat_read_u8(&r);
        f.more = kind == ',' && found;
        if (r.bad || kind == ';' || f.more)
            break;
        if (kind == ',') {
            read_frame(&r, &f);
            found = !r.bad;
            leat_read_u8(&r);
            skip_blocks(&r);
        } else if (kind == '!') {
            uint8_t label = leat_read_u8(&r);
            if (label == 0xf9 && !found)
                read_control(&r, &f);
            else
                skip_blocks(&r);
        }
        /* Anything else is passed over, as Pillow does. */
    }
    if (!found)
        return leat_fail(err, LEAT_CORRUPT, "GIF without a picture in %zu bytes", size);
    *out = f;
    return LEAT_OK;
}

leat_status leat_gif_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err)
{
    struct frame f;
    leat_status rc = find_frame(data, size, &f, err);
    if (rc != LEAT_OK)
        return rc;
    *out = (struct leat_image_info){
        .type = LEAT_IMAGE_GIF,
        .width = f.canvas[0],
        .height = f.canvas[1],
        .components = 1,
        .bits = 8,
        .orientation = 1,
        .palette = true,
        .alpha = f.transparent >= 0,
        .animated = f.more,
    };
    return LEAT_OK;
}

/* Codes out of blocks, the lowest bits first. */
struct codes {
    struct leat_reader r;
    uint32_t bits;
    unsigned count;
    unsigned left; /* of the block */
};

static int next_code(struct codes *c, unsigned length)
{
    while (c->count < length) {
        if (!c->left)
            c->left = leat_read_u8(&c->r);
        if (!c->left || c->r.bad)
            return -1;
        c->bits |= (uint32_t)leat_read_u8(&c->r) << c->count;
        c->left--;
        c->count += 8;
    }
    int code = (int)(c->bits & ((1u << length) - 1));
    c->bits >>= length;
    c->count -= length;
    return c->r.bad ? -1 : code;
}

struct lzw {
    uint16_t before[CODES]; /* the string without its last number */
    uint8_t last[CODES];
    uint8_t text[CODES + 1]; /* a string, from its end */
};

/* Numbers until there are n of them; how many there are. */
static size_t unpack(struct codes *c, struct lzw *z, unsigned start, uint8_t *out, size_t n)
{
    unsigned clear = 1u << start;
    unsigned next = clear + 2;
    unsigned length = start + 1;
    int previous = -1;
    uint8_t first = 0;
    size_t at = 0;
    while (at < n) {
        int code = next_code(c, length);
        if (code < 0 || code == (int)clear + 1)
            break;
        if (code == (int)clear) {
            next = clear + 2;
            length = start + 1;
            previous = -1;
            continue;
        }
        if ((unsigned)code > next || ((unsigned)code == next && previous < 0) || (previous < 0 && code >= (int)clear))
            break;
        unsigned filled = 0;
        unsigned walk = (unsigned)code;
        if (walk == next) { /* the string that this code is about to make */
            z->text[filled++] = first;
            walk = (unsigned)previous;
        }
        while (walk >= clear) {
            z->text[filled++] = z->last[walk];
            walk = z->before[walk];
        }
        first = (uint8_t)walk;
        z->text[filled++] = first;
        while (filled && at < n)
            out[at++] = z->text[--filled];
        if (previous >= 0 && next < CODES) {
            z->before[next] = (uint16_t)previous;
            z->last[next] = first;
            next++;
            if (next == 1u << length && length < CODE_BITS_MAX)
                length++;
        }
        previous = code;
    }
    return at;
}

/* The frame's row that is the n-th in the file. */
static uint32_t row_of(const struct frame *f, uint32_t n)
{
    static const uint8_t from[] = {0, 4, 2, 1};
    static const uint8_t step[] = {8, 8, 4, 2};
    for (unsigned pass = 0; f->interlaced && pass < 4; pass++) {
        uint32_t rows = f->box.height > from[pass] ? (f->box.height - from[pass] - 1) / step[pass] + 1 : 0;
        if (n < rows)
            return from[pass] + n * step[pass];
        n -= rows;
    }
    return n;
}

static void paint(const struct frame *f, uint8_t number, bool index, struct leat_bitmap *to, uint8_t *out)
{
    if (index) {
        *out = number;
        return;
    }
    for (unsigned c = 0; c < 3; c++)
        out[c] = !f->colours ? number : number < f->colours ? f->colour[3 * number + c] : 0;
    if (to->components == 4)
        out[3] = number == f->transparent ? 0 : 255;
}

leat_status leat_gif_read(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    struct frame f;
    bool index = decode->colour == LEAT_COLOUR_INDEX;
    leat_status rc = find_frame(source->data, source->size, &f, err);
    if (rc == LEAT_OK)
        rc = leat_bitmap_take(decode, box, index ? 1 : source->info.alpha ? 4 : 3, 1, out, err);
    if (rc != LEAT_OK)
        return rc;
    size_t wanted = (size_t)f.box.width * f.box.height;
    uint8_t *numbers = leat_arena_take(decode->arena, wanted + 1);
    struct lzw *z = leat_arena_take(decode->arena, sizeof *z);
    if (!numbers || !z)
        return leat_arena_fail(decode->arena, err);
    struct codes c = {.r = leat_reader(source->data, source->size)};
    leat_read_bytes(&c.r, f.codes);
    unsigned start = leat_read_u8(&c.r);
    size_t there = start >= 1 && start < CODE_BITS_MAX ? unpack(&c, z, start, numbers, wanted) : 0;
    if (there < wanted && decode->damage == LEAT_DAMAGE_ERROR)
        return leat_fail(err, LEAT_CORRUPT, "GIF with %zu of %zu pixels", there, wanted);
    /* Around the frame is what is transparent, else number 0. */
    uint8_t around = f.transparent >= 0 ? (uint8_t)f.transparent : 0;
    for (size_t i = 0; i < (size_t)box->width * box->height; i++)
        paint(&f, around, index, out, out->pixels + i * out->components);
    for (uint32_t n = 0; n < f.box.height; n++) {
        uint32_t y = f.box.y + row_of(&f, n);
        for (uint32_t i = 0; y >= box->y && y - box->y < box->height && i < f.box.width; i++) {
            uint32_t x = f.box.x + i;
            size_t at = (size_t)f.box.width * n + i;
            if (x < box->x || x - box->x >= box->width)
                continue;
            uint8_t *to = out->pixels + out->stride * (y - box->y) + (size_t)(x - box->x) * out->components;
            if (at < there)
                paint(&f, numbers[at], index, out, to);
            else if (!index)
                memset(to, 128, out->components);
        }
    }
    return LEAT_OK;
}
