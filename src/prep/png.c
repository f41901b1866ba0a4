#include "prep/png.h"

#ifndef LEAT_WITHOUT_PNG
#include <spng.h>
#include <stdlib.h>
#include <string.h>

/* Of text, profiles and whatever else a file brings along. */
#define CHUNK_MAX  ((size_t)16 << 20)
#define CHUNKS_MAX 1000 /* libspng's own, which its option for it refuses to raise */

struct format {
    int spng; /* SPNG_FMT_… */
    int flags;
    unsigned components;
    unsigned bits; /* of a sample in a row: below 8 only for palette numbers */
};

static leat_status choose_format(const struct leat_image_info *info, enum leat_colour colour, bool wide,
                                 struct format *out, struct leat_error *err)
{
    if (colour == LEAT_COLOUR_INDEX) {
        if (info->components != 1 || (info->bits > 8 && !wide))
            return leat_fail(err, LEAT_UNSUPPORTED, "PNG of %u components of %u bits has no palette numbers",
                             info->components, info->bits);
        *out = (struct format){SPNG_FMT_PNG, 0, 1, info->bits};
    } else if (wide && info->bits == 16 && info->components == 1 && !info->alpha) {
        *out = (struct format){SPNG_FMT_PNG, 0, 1, 16};
    } else if (wide && info->bits == 16) {
        *out = (struct format){SPNG_FMT_RGBA16, info->alpha ? SPNG_DECODE_TRNS : 0, 4, 16};
    } else if (info->alpha) {
        *out = (struct format){SPNG_FMT_RGBA8, SPNG_DECODE_TRNS, 4, 8};
    } else if (info->components == 1 && !info->palette && info->bits <= 8) {
        *out = (struct format){SPNG_FMT_G8, 0, 1, 8};
    } else {
        *out = (struct format){SPNG_FMT_RGB8, 0, 3, 8};
    }
    return LEAT_OK;
}

/* zlib's want of memory reaches us as damaged data: the allocator has to say which it was, and libspng passes it no
 * pointer of ours. */
static _Thread_local bool lacked_memory;

static void *note(void *p)
{
    lacked_memory = lacked_memory || !p;
    return p;
}

static void *png_malloc(size_t n)
{
    return note(malloc(n));
}

static void *png_calloc(size_t n, size_t size)
{
    return note(calloc(n, size));
}

static void *png_realloc(void *p, size_t n)
{
    return note(realloc(p, n));
}

static leat_status fail(int code, struct leat_error *err)
{
    if (lacked_memory)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a PNG");
    if (code == SPNG_ECHUNK_LIMITS)
        return leat_fail(err, LEAT_LIMIT, "PNG with more beside its pixels than the limits: %zu bytes, %d chunks",
                         CHUNK_MAX, CHUNKS_MAX);
    return leat_fail(err, LEAT_CORRUPT, "PNG: %s", spng_strerror(code));
}

static void unpack(const uint8_t *row, unsigned bits, uint32_t from, uint32_t n, uint8_t *out)
{
    unsigned mask = (1u << bits) - 1;
    for (uint32_t i = 0; i < n; i++) {
        size_t bit = ((size_t)from + i) * bits;
        out[i] = (uint8_t)(row[bit / 8] >> (8 - bits - bit % 8) & mask);
    }
}

/* Where the file stands, for libspng's reading in blocks: it takes a whole buffer's chunks only complete, which would
 * lose every row of a truncated file that is one chunk. It reads whole blocks of a chunk, too: so a chunk that the
 * file's end cuts off says that it ends there, and what there is of it is read before the error comes. */
struct reading {
    const uint8_t *data;
    size_t size;
    size_t at;
    size_t cut;      /* where the length of the chunk stands that is cut off; size: none is */
    uint8_t rest[4]; /* what it says instead */
};

#define SIGNATURE_BYTES   ((size_t)8)
#define CHUNK_HEAD_BYTES  ((size_t)8) /* length, type */
#define CHUNK_FRAME_BYTES (CHUNK_HEAD_BYTES + 4)

static struct reading reading_of(const uint8_t *data, size_t size)
{
    struct reading r = {.data = data, .size = size, .cut = size};
    size_t at = SIGNATURE_BYTES;
    while (at < size && size - at > CHUNK_HEAD_BYTES) {
        const uint8_t *d = data + at;
        size_t length = (size_t)d[0] << 24 | (size_t)d[1] << 16 | (size_t)d[2] << 8 | d[3];
        size_t left = size - at - CHUNK_HEAD_BYTES;
        if (length > left) {
            r.cut = at;
            for (unsigned i = 0; i < 4; i++)
                r.rest[i] = (uint8_t)(left >> (24 - 8 * i));
            break;
        }
        at += CHUNK_FRAME_BYTES + length;
    }
    return r;
}

static int read_block(spng_ctx *ctx, void *user, void *to, size_t n)
{
    struct reading *r = user;
    (void)ctx;
    if (n > r->size - r->at)
        return SPNG_IO_EOF;
    memcpy(to, r->data + r->at, n);
    for (size_t i = 0; i < 4; i++) {
        size_t place = r->cut + i;
        if (place >= r->at && place - r->at < n)
            ((uint8_t *)to)[place - r->at] = r->rest[i];
    }
    r->at += n;
    return 0;
}

struct job {
    spng_ctx *ctx;
    struct reading reading;
    const struct leat_source *source;
    const struct leat_decode *decode;
    const struct leat_box *box;
    struct format format;
    struct leat_splitter splitter;
    struct leat_bitmap *bitmap; /* where rows go instead; NULL: to the splitter */
    uint32_t given;
    size_t row_bytes;
    uint8_t *unpacked;
};

static void give(struct job *j, const uint8_t *row)
{
    const uint8_t *part = j->unpacked;
    if (j->format.bits < 8)
        unpack(row, j->format.bits, j->box->x, j->box->width, j->unpacked);
    else
        part = row + (size_t)j->box->x * j->format.components * (j->format.bits / 8);
    if (j->bitmap)
        memcpy(j->bitmap->pixels + j->bitmap->stride * j->given++, part, j->bitmap->stride);
    else
        leat_splitter_give(&j->splitter, part);
}

/* A row that is missing. A bitmap is grey to begin with. */
static void give_gray(struct job *j)
{
    if (j->bitmap)
        j->given++;
    else
        leat_splitter_give_gray(&j->splitter);
}

/* Whether the rows that are there will not do. */
static bool is_refused(const struct job *j, int code)
{
    return j->decode->damage == LEAT_DAMAGE_ERROR || lacked_memory || code == SPNG_ECHUNK_LIMITS;
}

static leat_status stream(struct job *j, struct leat_error *err)
{
    uint32_t end = j->box->y + j->box->height;
    uint8_t *row = leat_arena_take(j->decode->arena, j->row_bytes + LEAT_ROW_PAD);
    if (!row)
        return leat_arena_fail(j->decode->arena, err);
    int code = spng_decode_image(j->ctx, NULL, 0, j->format.spng, j->format.flags | SPNG_DECODE_PROGRESSIVE);
    for (uint32_t y = 0; y < end; y++) {
        if (code == 0)
            code = spng_decode_row(j->ctx, row, j->row_bytes);
        if (code == SPNG_EOI && y + 1 == j->source->info.height)
            code = 0;
        if (code != 0 && is_refused(j, code))
            return fail(code, err);
        if (y >= j->box->y && code == 0)
            give(j, row);
        else if (y >= j->box->y)
            give_gray(j);
    }
    return LEAT_OK;
}

static leat_status interlaced(struct job *j, struct leat_error *err)
{
    size_t bytes = j->row_bytes * j->source->info.height;
    uint8_t *image = leat_arena_take(j->decode->arena, bytes + LEAT_ROW_PAD);
    if (!image)
        return leat_arena_fail(j->decode->arena, err);
    memset(image, 128, bytes);
    int code = spng_decode_image(j->ctx, image, bytes, j->format.spng, j->format.flags);
    if (code != 0 && is_refused(j, code))
        return fail(code, err);
    for (uint32_t y = 0; y < j->box->height; y++)
        give(j, image + j->row_bytes * (j->box->y + y));
    return LEAT_OK;
}

static leat_status prepare(struct job *j, struct leat_rows *to, struct leat_error *err)
{
    const struct leat_image_limits *l = &j->decode->limits;
    unsigned planes = leat_decode_planes(&j->source->info, j->decode->colour);
    size_t image_bytes;
    leat_status rc = choose_format(&j->source->info, j->decode->colour, j->decode->wide, &j->format, err);
    if (rc != LEAT_OK)
        return rc;
    int code = spng_set_image_limits(j->ctx, l->dimension, l->dimension);
    if (code == 0)
        code = spng_set_chunk_limits(j->ctx, CHUNK_MAX, 2 * CHUNK_MAX);
    j->reading = reading_of(j->source->data, j->source->size);
    if (code == 0 && j->decode->damage == LEAT_DAMAGE_ROWS)
        code = spng_set_png_stream(j->ctx, read_block, &j->reading);
    else if (code == 0)
        code = spng_set_png_buffer(j->ctx, j->source->data, j->source->size);
    if (code == 0)
        code = spng_decoded_image_size(j->ctx, j->format.spng, &image_bytes);
    if (code != 0)
        return fail(code, err);
    j->row_bytes = image_bytes / j->source->info.height;
    j->unpacked = leat_arena_take(j->decode->arena, (size_t)j->box->width + LEAT_ROW_PAD);
    if (!j->unpacked)
        return leat_arena_fail(j->decode->arena, err);
    if (j->bitmap)
        return leat_bitmap_take(j->decode, j->box, j->format.components, j->format.bits > 8 ? 2 : 1, j->bitmap, err);
    return leat_splitter_open(&j->splitter, j->decode, to, j->format.components, planes, j->box->width, err);
}

static leat_status decode_file(struct job *j, struct leat_rows *to, struct leat_error *err)
{
    struct spng_alloc alloc = {png_malloc, png_realloc, png_calloc, free};
    lacked_memory = false;
    j->ctx = spng_ctx_new2(&alloc, 0);
    if (!j->ctx)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a PNG decoder");
    leat_status rc = prepare(j, to, err);
    if (rc == LEAT_OK)
        rc = j->source->info.progressive ? interlaced(j, err) : stream(j, err);
    spng_ctx_free(j->ctx);
    return rc;
}

leat_status leat_png_rows(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_rows *to, struct leat_error *err)
{
    struct job j = {.source = source, .decode = decode, .box = box};
    return decode_file(&j, to, err);
}

leat_status leat_png_read(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    struct job j = {.source = source, .decode = decode, .box = box, .bitmap = out};
    return decode_file(&j, NULL, err);
}

#else

leat_status leat_png_rows(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_rows *to, struct leat_error *err)
{
    return leat_fail(err, LEAT_UNSUPPORTED, "built without PNG");
}

leat_status leat_png_read(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    return leat_fail(err, LEAT_UNSUPPORTED, "built without PNG");
}

#endif
