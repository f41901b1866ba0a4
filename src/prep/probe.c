#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "base/bytes.h"
#include "prep/avif.h"
#include "prep/bmp.h"
#include "prep/gif.h"
#include "prep/jxl.h"
#include "prep/tiff.h"

const char *leat_image_type_name(enum leat_image_type type)
{
    static const char *const names[LEAT_IMAGE_TYPE_COUNT] = {"JPEG", "PNG", "WebP", "TIFF",
                                                             "BMP",  "GIF", "AVIF", "JPEG XL"};
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
        return leat_fail(err, LEAT_LIMIT,
                         "%s of %" PRIu32 "x%" PRIu32 " is over the limit of %" PRIu32 " pixels per side",
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

/* What a file says of its orientation, as Pillow weighs it: EXIF in its own place, else EXIF in a text, else XMP. */
struct said {
    uint8_t exif;
    uint8_t profile;
    uint8_t xmp;
};

static void settle(const struct said *said, struct leat_image_info *info)
{
    uint8_t exif = said->exif ? said->exif : said->profile;
    info->orientation = exif ? exif : said->xmp ? said->xmp : 1;
}

#define EXIF_HEADER      "Exif\0\0"
#define EXIF_HEADER_SIZE 6
#define XMP_HEADER       "http://ns.adobe.com/xap/1.0/"

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

/* APP1 holds either; of several blocks of EXIF the first has the directory. */
static void jpeg_orientation(const uint8_t *body, size_t size, struct said *said)
{
    if (size > EXIF_HEADER_SIZE && memcmp(body, EXIF_HEADER, EXIF_HEADER_SIZE) == 0 && !said->exif)
        said->exif = leat_exif_orientation(body, size);
    else if (size > sizeof XMP_HEADER && memcmp(body, XMP_HEADER, sizeof XMP_HEADER) == 0)
        said->xmp = leat_xmp_orientation(body + sizeof XMP_HEADER, size - sizeof XMP_HEADER);
}

static bool jpeg_frame(uint8_t code, const uint8_t *body, size_t size, struct leat_image_info *info)
{
    struct leat_reader frame = leat_reader(body, size);
    info->bits = leat_read_u8(&frame);
    info->height = read_be(&frame, 2);
    info->width = read_be(&frame, 2);
    info->components = leat_read_u8(&frame);
    info->progressive = code == 0xc2 || code == 0xc6 || code == 0xca || code == 0xce;
    info->arithmetic = code >= 0xc9;
    if ((code & 7) == 3)
        info->process = LEAT_JPEG_LOSSLESS;
    else if ((code & 7) >= 5)
        info->process = LEAT_JPEG_HIERARCHICAL;
    return !frame.bad && info->components >= 1 && info->components <= 4;
}

static leat_status probe_jpeg(struct leat_reader *r, struct leat_image_info *info, struct leat_error *err)
{
    struct said said = {0};
    bool framed = false;
    info->type = LEAT_IMAGE_JPEG;
    leat_read_bytes(r, 2);
    /* The orientation may stand after the frame's header, before the first scan. */
    for (;;) {
        uint8_t code = jpeg_marker(r);
        bool ends = code == 0 || code == 0xd9 || code == 0xda;
        if (ends && !framed)
            return leat_fail(err, LEAT_CORRUPT, "JPEG without a frame header in %zu bytes", r->size);
        if (ends)
            break;
        if (code == 0x01 || (code >= 0xd0 && code <= 0xd8))
            continue;
        /* A length that does not even count itself is taken as that of an empty body, as decoders do. */
        uint32_t length = read_be(r, 2);
        const uint8_t *body = leat_read_bytes(r, length >= 2 ? length - 2 : 0);
        if (r->bad && framed)
            break;
        if (r->bad)
            return leat_fail(err, LEAT_CORRUPT, "JPEG ends inside its headers, after %zu bytes", r->size);
        length = length >= 2 ? length - 2 : 0;
        if (code == 0xe1)
            jpeg_orientation(body, length, &said);
        else if (code == 0xde)
            info->process = LEAT_JPEG_HIERARCHICAL;
        else if (is_frame(code) && !framed && !jpeg_frame(code, body, length, info))
            return leat_fail(err, LEAT_CORRUPT, "JPEG frame header of %u bytes makes no sense", (unsigned)length);
        framed = framed || is_frame(code);
    }
    settle(&said, info);
    return LEAT_OK;
}

#define TEXT_BYTES 16384 /* of a text that is packed, as much as is looked at */

/* A text in PNG: its keyword, a NUL, and by the kind of chunk flags and languages, then the text, packed or not. */
static void png_text(const uint8_t *name, const uint8_t *body, size_t size, struct said *said)
{
    static const char profile[] = "Raw profile type exif";
    static const char xmp[] = "XML:com.adobe.xmp";
    bool is_profile = size > sizeof profile && memcmp(body, profile, sizeof profile) == 0;
    bool is_xmp = size > sizeof xmp && memcmp(body, xmp, sizeof xmp) == 0;
    bool packed = name[0] == 'z';
    uint8_t text[TEXT_BYTES];
    if (!is_profile && !is_xmp)
        return;
    struct leat_reader r = leat_reader(body, size);
    leat_read_bytes(&r, is_profile ? sizeof profile : sizeof xmp);
    if (name[0] == 'i')
        packed = leat_read_u8(&r);
    if (name[0] != 't')
        leat_read_u8(&r); /* there is one way to pack */
    for (unsigned i = 0; name[0] == 'i' && i < 2; i++) {
        while (!r.bad && leat_read_u8(&r) != 0)
            ;
    }
    const uint8_t *from = r.data + r.at;
    size_t n = leat_reader_left(&r);
    if (packed) {
        z_stream z = {
            .next_in = (Bytef *)(uintptr_t)from, .avail_in = (uInt)n, .next_out = text, .avail_out = sizeof text};
        if (inflateInit(&z) != Z_OK)
            return;
        inflate(&z, Z_SYNC_FLUSH); /* what came out before the room or the data ended is enough */
        inflateEnd(&z);
        from = text;
        n = sizeof text - z.avail_out;
    }
    if (is_profile)
        said->profile = leat_exif_profile_orientation(from, n);
    else
        said->xmp = leat_xmp_orientation(from, n);
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
    /* Transparency stands in a chunk of its own before the pixels, the orientation before or after them. */
    struct said said = {0};
    bool pixels = false;
    while (leat_reader_left(r) >= 12) {
        length = read_be(r, 4);
        name = leat_read_bytes(r, 4);
        const uint8_t *body = leat_read_bytes(r, length);
        read_be(r, 4);
        if (r->bad || memcmp(name, "IEND", 4) == 0)
            break;
        pixels = pixels || memcmp(name, "IDAT", 4) == 0;
        if (memcmp(name, "tRNS", 4) == 0 && !pixels)
            info->alpha = true;
        else if (memcmp(name, "eXIf", 4) == 0)
            said.exif = leat_exif_orientation(body, length);
        else if (memcmp(name, "tEXt", 4) == 0 || memcmp(name, "zTXt", 4) == 0 || memcmp(name, "iTXt", 4) == 0)
            png_text(name, body, length, &said);
    }
    settle(&said, info);
    return LEAT_OK;
}

#define WEBP_ANIMATION 0x02
#define WEBP_XMP       0x04
#define WEBP_EXIF      0x08
#define WEBP_ALPHA     0x10

/* Chunks after the pixels too: EXIF and XMP are the last ones of an extended file, where its header announces them. */
static void probe_webp_orientation(struct leat_reader *r, uint32_t flags, struct leat_image_info *info)
{
    struct said said = {0};
    while (leat_reader_left(r) >= 8) {
        const uint8_t *name = leat_read_bytes(r, 4);
        uint32_t length = leat_read_u32(r);
        bool exif = flags & WEBP_EXIF && memcmp(name, "EXIF", 4) == 0;
        bool xmp = flags & WEBP_XMP && memcmp(name, "XMP ", 4) == 0;
        size_t whole = (size_t)length + (length & 1);
        const uint8_t *body = leat_read_bytes(r, (exif || xmp) && leat_reader_left(r) == length ? length : whole);
        if (!body)
            break;
        if (exif && !said.exif)
            said.exif = leat_exif_orientation(body, length);
        else if (xmp && !said.xmp)
            said.xmp = leat_xmp_orientation(body, length);
    }
    settle(&said, info);
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
        info->alpha = flags & WEBP_ALPHA;
        info->width = w + 1;
        info->height = h + 1;
        info->animated = flags & WEBP_ANIMATION;
        if (r->bad || length < 10)
            return leat_fail(err, LEAT_CORRUPT, "extended WebP header makes no sense");
        if (flags & (WEBP_EXIF | WEBP_XMP) && leat_read_bytes(r, length - 10 + (length & 1)))
            probe_webp_orientation(r, flags, info);
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

static bool begins(const uint8_t *data, size_t size, size_t at, const char *with, size_t n)
{
    return size >= at + n && memcmp(data + at, with, n) == 0;
}

static bool is_tiff(const uint8_t *p, size_t size)
{
    return begins(p, size, 0, "II*\0", 4) || begins(p, size, 0, "MM\0*", 4) || begins(p, size, 0, "II+\0", 4) ||
           begins(p, size, 0, "MM\0+", 4);
}

static bool is_jxl(const uint8_t *p, size_t size)
{
    return begins(p, size, 0, "\xff\x0a", 2) || begins(p, size, 0, "\0\0\0\x0cJXL \r\n\x87\n", 12);
}

/* A file of boxes whose first says that it is AVIF, or compatible with it. */
static bool is_avif(const uint8_t *p, size_t size)
{
    if (!begins(p, size, 4, "ftyp", 4))
        return false;
    size_t n = (size_t)p[2] << 8 | p[3];
    for (size_t at = 8; at + 4 <= n && at + 4 <= size; at += 4) {
        if (memcmp(p + at, "avif", 4) == 0 || memcmp(p + at, "avis", 4) == 0)
            return true;
    }
    return false;
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
    else if (begins(p, size, 0, "BM", 2) && size > 14)
        rc = leat_bmp_probe(data, size, &info, err);
    else if (begins(p, size, 0, "GIF87a", 6) || begins(p, size, 0, "GIF89a", 6))
        rc = leat_gif_probe(data, size, &info, err);
    else if (is_tiff(p, size))
        rc = leat_tiff_probe(data, size, &info, err);
    else if (is_avif(p, size))
        rc = leat_avif_probe(data, size, &info, err);
    else if (is_jxl(p, size))
        rc = leat_jxl_probe(data, size, &info, err);
    else if (size == 0)
        return leat_fail(err, LEAT_CORRUPT, "the picture has no bytes");
    else
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "none of JPEG, PNG, WebP, TIFF, BMP, GIF, AVIF and JPEG XL: the first byte is 0x%02x", p[0]);
    if (rc != LEAT_OK)
        return rc;
    if (info.width == 0 || info.height == 0)
        return leat_fail(err, LEAT_CORRUPT, "%s of %" PRIu32 "x%" PRIu32 " pixels", leat_image_type_name(info.type),
                         info.width, info.height);
    *out = info;
    return LEAT_OK;
}
