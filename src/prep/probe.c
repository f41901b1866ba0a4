#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "prep/image.h"

const char *leat_image_type_name(enum leat_image_type type)
{
    static const char *const names[LEAT_IMAGE_TYPE_COUNT] = {"JPEG", "PNG", "WebP"};
    return type < LEAT_IMAGE_TYPE_COUNT ? names[type] : "unknown";
}

struct leat_image_limits leat_image_limits_filled(const struct leat_image_limits *limits)
{
    struct leat_image_limits l = {0};
    if (limits)
        l = *limits;
    if (!l.memory_bytes)
        l.memory_bytes = LEAT_IMAGE_MEMORY_PRESET;
    if (!l.pixels)
        l.pixels = LEAT_IMAGE_PIXELS_PRESET;
    if (!l.dimension)
        l.dimension = LEAT_IMAGE_DIMENSION_PRESET;
    if (!l.scans)
        l.scans = LEAT_IMAGE_SCANS_PRESET;
    return l;
}

leat_status leat_image_check(const struct leat_image_info *info, const struct leat_image_limits *limits,
                             struct leat_error *err)
{
    if (info->width > limits->dimension || info->height > limits->dimension)
        return leat_fail(err, LEAT_LIMIT, "%s of %" PRIu32 "x%" PRIu32 " is over the limit of %" PRIu32 " a side",
                         leat_image_type_name(info->type), info->width, info->height, limits->dimension);
    if ((uint64_t)info->width * info->height > limits->pixels)
        return leat_fail(err, LEAT_LIMIT, "%s of %" PRIu32 "x%" PRIu32 " is over the limit of %" PRIu64 " pixels",
                         leat_image_type_name(info->type), info->width, info->height, limits->pixels);
    return LEAT_OK;
}

/* Image formats are big-endian, all but WebP's. */
static uint32_t read_be(struct leat_reader *r, unsigned bytes)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | leat_read_u8(r);
    return v;
}

#define EXIF_HEADER      "Exif\0\0"
#define EXIF_HEADER_SIZE 6

/* The next marker's code; 0 at the end. Fill bytes and garbage before it are passed over, as decoders do. */
static uint8_t jpeg_marker(struct leat_reader *r)
{
    while (!r->bad) {
        const uint8_t *ff = memchr(r->data + r->at, 0xff, leat_reader_left(r));
        if (!ff)
            return 0;
        r->at = (size_t)(ff - r->data) + 1;
        uint8_t code = leat_read_u8(r);
        if (code == 0xff)
            r->at--;
        else if (code != 0)
            return r->bad ? 0 : code;
    }
    return 0;
}

static bool is_frame(uint8_t code)
{
    return code >= 0xc0 && code <= 0xcf && code != 0xc4 && code != 0xc8 && code != 0xcc;
}

static leat_status probe_jpeg(struct leat_reader *r, struct leat_image_info *info, struct leat_error *err)
{
    info->type = LEAT_IMAGE_JPEG;
    leat_read_bytes(r, 2);
    for (;;) {
        uint8_t code = jpeg_marker(r);
        if (code == 0 || code == 0xd9 || code == 0xda)
            return leat_fail(err, LEAT_CORRUPT, "JPEG without a frame header in %zu bytes", r->size);
        if (code == 0x01 || (code >= 0xd0 && code <= 0xd8))
            continue;
        uint32_t length = read_be(r, 2);
        const uint8_t *body = length >= 2 ? leat_read_bytes(r, length - 2) : NULL;
        if (!body)
            return leat_fail(err, LEAT_CORRUPT, "JPEG ends inside its headers, after %zu bytes", r->size);
        length -= 2;
        if (code == 0xe1 && length > EXIF_HEADER_SIZE && memcmp(body, EXIF_HEADER, EXIF_HEADER_SIZE) == 0)
            info->orientation = leat_exif_orientation(body + EXIF_HEADER_SIZE, length - EXIF_HEADER_SIZE);
        if (!is_frame(code))
            continue;
        struct leat_reader frame = leat_reader(body, length);
        info->bits = leat_read_u8(&frame);
        info->height = read_be(&frame, 2);
        info->width = read_be(&frame, 2);
        info->components = leat_read_u8(&frame);
        info->progressive = code == 0xc2 || code == 0xc6 || code == 0xca || code == 0xce;
        info->arithmetic = code >= 0xc9;
        if (frame.bad || info->components < 1 || info->components > 4)
            return leat_fail(err, LEAT_CORRUPT, "JPEG frame header of %u bytes makes no sense", (unsigned)length);
        return LEAT_OK;
    }
}

static leat_status probe_png(struct leat_reader *r, struct leat_image_info *info, struct leat_error *err)
{
    static const uint8_t components[] = {1, 0, 3, 1, 2, 0, 4};
    info->type = LEAT_IMAGE_PNG;
    leat_read_bytes(r, 8);
    uint32_t length = read_be(r, 4);
    const uint8_t *name = leat_read_bytes(r, 4);
    info->width = read_be(r, 4);
    info->height = read_be(r, 4);
    info->bits = leat_read_u8(r);
    uint8_t kind = leat_read_u8(r);
    leat_read_bytes(r, 2);
    info->progressive = leat_read_u8(r) != 0;
    read_be(r, 4);
    if (r->bad || length != 13 || memcmp(name, "IHDR", 4) != 0 || kind > 6 || components[kind] == 0)
        return leat_fail(err, LEAT_CORRUPT, "PNG header makes no sense");
    info->components = components[kind];
    info->palette = kind == 3;
    info->alpha = kind >= 4;
    /* Transparency and orientation stand in chunks of their own before the pixels. */
    while (leat_reader_left(r) >= 12) {
        length = read_be(r, 4);
        name = leat_read_bytes(r, 4);
        const uint8_t *body = leat_read_bytes(r, length);
        read_be(r, 4);
        if (r->bad || memcmp(name, "IDAT", 4) == 0)
            break;
        if (memcmp(name, "tRNS", 4) == 0)
            info->alpha = true;
        else if (memcmp(name, "eXIf", 4) == 0)
            info->orientation = leat_exif_orientation(body, length);
    }
    return LEAT_OK;
}

/* Chunks behind the pixels too: EXIF is the last but one in an extended file. */
static void probe_webp_exif(struct leat_reader *r, struct leat_image_info *info)
{
    while (leat_reader_left(r) >= 8) {
        const uint8_t *name = leat_read_bytes(r, 4);
        uint32_t length = leat_read_u32(r);
        if (memcmp(name, "EXIF", 4) == 0) {
            const uint8_t *body = leat_read_bytes(r, length);
            if (body && length > EXIF_HEADER_SIZE && memcmp(body, EXIF_HEADER, EXIF_HEADER_SIZE) == 0)
                info->orientation = leat_exif_orientation(body + EXIF_HEADER_SIZE, length - EXIF_HEADER_SIZE);
            else if (body)
                info->orientation = leat_exif_orientation(body, length);
            return;
        }
        if (!leat_read_bytes(r, (size_t)length + (length & 1)))
            return;
    }
}

static leat_status probe_webp(struct leat_reader *r, struct leat_image_info *info, struct leat_error *err)
{
    info->type = LEAT_IMAGE_WEBP;
    info->components = 3;
    info->bits = 8;
    leat_read_bytes(r, 12);
    const uint8_t *name = leat_read_bytes(r, 4);
    uint32_t length = leat_read_u32(r);
    if (r->bad)
        return leat_fail(err, LEAT_CORRUPT, "WebP of %zu bytes ends inside its header", r->size);
    if (memcmp(name, "VP8X", 4) == 0) {
        uint32_t flags = leat_read_u32(r);
        uint32_t w = leat_read_u16(r);
        w |= (uint32_t)leat_read_u8(r) << 16;
        uint32_t h = leat_read_u16(r);
        h |= (uint32_t)leat_read_u8(r) << 16;
        info->alpha = flags & 0x10;
        info->width = w + 1;
        info->height = h + 1;
        if (flags & 0x02)
            return leat_fail(err, LEAT_UNSUPPORTED, "animated WebP is not decoded");
        if (r->bad || length < 10)
            return leat_fail(err, LEAT_CORRUPT, "extended WebP header makes no sense");
        if (flags & 0x08 && leat_read_bytes(r, length - 10 + (length & 1)))
            probe_webp_exif(r, info);
    } else if (memcmp(name, "VP8L", 4) == 0) {
        uint8_t signature = leat_read_u8(r);
        uint32_t bits = leat_read_u32(r);
        info->width = (bits & 0x3fff) + 1;
        info->height = (bits >> 14 & 0x3fff) + 1;
        info->alpha = bits >> 28 & 1;
        if (r->bad || signature != 0x2f)
            return leat_fail(err, LEAT_CORRUPT, "lossless WebP header makes no sense");
    } else if (memcmp(name, "VP8 ", 4) == 0) {
        leat_read_bytes(r, 3);
        uint32_t start = read_be(r, 3);
        info->width = leat_read_u16(r) & 0x3fff;
        info->height = leat_read_u16(r) & 0x3fff;
        if (r->bad || start != 0x9d012a)
            return leat_fail(err, LEAT_CORRUPT, "lossy WebP header makes no sense");
    } else {
        return leat_fail(err, LEAT_CORRUPT, "WebP without a picture");
    }
    info->components = info->alpha ? 4 : 3;
    return LEAT_OK;
}

leat_status leat_image_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err)
{
    static const uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    const uint8_t *p = data;
    struct leat_reader r = leat_reader(data, size);
    struct leat_image_info info = {.orientation = 1};
    leat_status rc;
    if (size >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff)
        rc = probe_jpeg(&r, &info, err);
    else if (size >= 8 && memcmp(p, png, 8) == 0)
        rc = probe_png(&r, &info, err);
    else if (size >= 12 && memcmp(p, "RIFF", 4) == 0 && memcmp(p + 8, "WEBP", 4) == 0)
        rc = probe_webp(&r, &info, err);
    else if (size == 0)
        return leat_fail(err, LEAT_CORRUPT, "the picture has no bytes");
    else
        return leat_fail(err, LEAT_UNSUPPORTED, "neither JPEG nor PNG nor WebP: the first byte is 0x%02x", p[0]);
    if (rc != LEAT_OK)
        return rc;
    if (info.width == 0 || info.height == 0)
        return leat_fail(err, LEAT_CORRUPT, "%s of %" PRIu32 "x%" PRIu32 " pixels", leat_image_type_name(info.type),
                         info.width, info.height);
    *out = info;
    return LEAT_OK;
}
