/* Our rows of PNG against libspng's whole picture. Mutations are made where they are not refused at once: rows before
 * they are packed, and chunks whose checksums are put right afterwards. */
#include <spng.h>
#include <zlib.h>

#include "differ.h"

#define SIGNATURE 8
#define ROWS_MAX  ((size_t)1 << 16)

static uint32_t get_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_be(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* The chunk at data[at], 0 where there is none: its whole size. */
static size_t chunk_at(const uint8_t *data, size_t size, size_t at)
{
    if (at > size || size - at < 12)
        return 0;
    size_t length = get_be(data + at);
    return length <= size - at - 12 ? length + 12 : 0;
}

static void right_checksums(uint8_t *data, size_t size)
{
    size_t n;
    for (size_t at = DIFFER_HEAD + SIGNATURE; (n = chunk_at(data, size, at)) != 0; at += n)
        put_be(data + at + n - 4, (uint32_t)crc32(0, data + at + 4, (uInt)(n - 8)));
}

/* Mutates what is packed in the first IDAT. 0: it could not. */
static size_t mutate_rows(uint8_t *data, size_t size, size_t max)
{
    static uint8_t rows[ROWS_MAX];
    static uint8_t out[ROWS_MAX * 2];
    uLongf room = ROWS_MAX / 2;
    uLongf packed = sizeof out - 64;
    size_t at = DIFFER_HEAD + SIGNATURE;
    size_t n;
    while ((n = chunk_at(data, size, at)) != 0 && memcmp(data + at + 4, "IDAT", 4) != 0)
        at += n;
    if (!n || uncompress(rows, &room, data + at + 8, (uLong)(n - 12)) != Z_OK || !room)
        return 0;
    room = LLVMFuzzerMutate(rows, room, ROWS_MAX);
    if (compress2(out, &packed, rows, room, 1) != Z_OK || size - n + packed + 12 > max)
        return 0;
    memmove(data + at + 12 + packed, data + at + n, size - at - n);
    put_be(data + at, (uint32_t)packed);
    memcpy(data + at + 8, out, packed);
    return size - n + packed + 12;
}

static size_t mutate(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    size_t n = seed % 2 ? mutate_rows(data, size, max) : 0;
    if (!n)
        n = LLVMFuzzerMutate(data, size, max);
    right_checksums(data, n);
    return n;
}

static void library_decode(const struct leat_source *source, struct differ_whole *out)
{
    spng_ctx *ctx = spng_ctx_new(0);
    size_t bytes = 0;
    PROMISE(ctx);
    spng_set_chunk_limits(ctx, 16 << 20, 32 << 20);
    out->fine = spng_set_png_buffer(ctx, source->data, source->size) == 0 &&
                spng_decoded_image_size(ctx, SPNG_FMT_RGB8, &bytes) == 0 && bytes <= sizeof out->rgb &&
                spng_decode_image(ctx, out->rgb, bytes, SPNG_FMT_RGB8, 0) == 0;
    spng_ctx_free(ctx);
}

FUZZ_MUTATED(png, mutate)
{
    static struct differ_whole library;
    static uint8_t ours[DIFFER_PIXELS * 3];
    struct leat_prep_description d = {0};
    struct leat_source source;
    struct leat_error err;
    if (!differ_source(data, size, LEAT_IMAGE_PNG, &source))
        return;
    d.blend = true;
    differ_ours(d, data, &source, ours, &err);
    d.blend = false;
    bool fine = differ_ours(d, data, &source, ours, &err);
    library_decode(&source, &library);
    PROMISE(fine == library.fine || err.status == LEAT_LIMIT);
    if (fine)
        PROMISE(memcmp(library.rgb, ours, (size_t)source.info.width * source.info.height * 3) == 0);
}
