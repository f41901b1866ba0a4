#include "prep/tiff.h"

#ifdef LEAT_TIFF_SONAME
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tiffio.h>

#include "base/library.h"

#define CALLS(X)                                                                                                       \
    X(TIFFClientOpenExt)                                                                                               \
    X(TIFFClose)                                                                                                       \
    X(TIFFGetField)                                                                                                    \
    X(TIFFGetFieldDefaulted)                                                                                           \
    X(TIFFIsTiled)                                                                                                     \
    X(TIFFOpenOptionsAlloc)                                                                                            \
    X(TIFFOpenOptionsFree)                                                                                             \
    X(TIFFOpenOptionsSetErrorHandlerExtR)                                                                              \
    X(TIFFOpenOptionsSetMaxSingleMemAlloc)                                                                             \
    X(TIFFOpenOptionsSetWarningHandlerExtR)                                                                            \
    X(TIFFRGBAImageBegin)                                                                                              \
    X(TIFFRGBAImageEnd)                                                                                                \
    X(TIFFRGBAImageGet)                                                                                                \
    X(TIFFRGBAImageOK)                                                                                                 \
    X(TIFFReadEncodedStrip)                                                                                            \
    X(TIFFReadEncodedTile)                                                                                             \
    X(TIFFStripSize64)                                                                                                 \
    X(TIFFTileSize64)

#define X(f) __typeof__(&(f)) f; /* NOLINT(bugprone-macro-parentheses) */
static struct {
    CALLS(X)
} tiff;
#undef X
#define X(f) #f,
static const char *const names[] = {CALLS(X) NULL};
#undef X

static struct leat_library library = {
    .soname = LEAT_TIFF_SONAME,
    .package = "libtiff6",
    .names = names,
    .calls = (leat_library_call *)(void *)&tiff,
};

/* A file in memory, as libtiff reads one, and the first thing it complains of. */
struct file {
    const uint8_t *data;
    uint64_t size;
    uint64_t at;
    char complaint[200];
    TIFF *tif;
};

static tmsize_t read_some(thandle_t user, void *to, tmsize_t n)
{
    struct file *f = user;
    uint64_t left = f->at < f->size ? f->size - f->at : 0;
    uint64_t take = (uint64_t)n < left ? (uint64_t)n : left;
    memcpy(to, f->data + (take ? f->at : 0), take);
    f->at += take;
    return (tmsize_t)take;
}

static tmsize_t write_some(thandle_t user, void *from, tmsize_t n)
{
    (void)user, (void)from, (void)n;
    return -1;
}

static toff_t seek(thandle_t user, toff_t offset, int whence)
{
    struct file *f = user;
    f->at = whence == SEEK_SET ? offset : whence == SEEK_CUR ? f->at + offset : f->size + offset;
    return f->at;
}

static int close_file(thandle_t user)
{
    (void)user;
    return 0;
}

static toff_t size_of(thandle_t user)
{
    return ((struct file *)user)->size;
}

static int map(thandle_t user, void **base, toff_t *size)
{
    struct file *f = user;
    *base = (void *)(uintptr_t)f->data; /* it is opened for reading only */
    *size = f->size;
    return 1;
}

static void unmap(thandle_t user, void *base, toff_t size)
{
    (void)user, (void)base, (void)size;
}

__attribute__((format(printf, 4, 0))) static int on_error(TIFF *tif, void *user, const char *module, const char *format,
                                                          va_list args)
{
    struct file *f = user;
    (void)tif, (void)module;
    if (!f->complaint[0])
        vsnprintf(f->complaint, sizeof f->complaint, format, args);
    return 1;
}

__attribute__((format(printf, 4, 0))) static int on_warning(TIFF *tif, void *user, const char *module,
                                                            const char *format, va_list args)
{
    (void)tif, (void)user, (void)module, (void)format, (void)args;
    return 1;
}

static leat_status fail(const struct file *f, const char *what, struct leat_error *err)
{
    if (strstr(f->complaint, "compression support is not configured") || strstr(f->complaint, "scheme is not"))
        return leat_fail(err, LEAT_UNSUPPORTED, "TIFF: %s", f->complaint);
    if (strstr(f->complaint, "ut of memory") || strstr(f->complaint, "o space for"))
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a TIFF: %s", f->complaint);
    if (strstr(f->complaint, "Memory allocation of"))
        return leat_fail(err, LEAT_LIMIT, "TIFF: %s", f->complaint);
    return leat_fail(err, LEAT_CORRUPT, "TIFF: %s", f->complaint[0] ? f->complaint : what);
}

static leat_status open_file(struct file *f, const void *data, size_t size, uint64_t memory, struct leat_error *err)
{
    leat_status rc = leat_library_open(&library, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "TIFF");
    *f = (struct file){.data = data, .size = size};
    TIFFOpenOptions *options = tiff.TIFFOpenOptionsAlloc();
    if (!options)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a TIFF");
    tiff.TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, f);
    tiff.TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, f);
    tiff.TIFFOpenOptionsSetMaxSingleMemAlloc(options, memory < INT64_MAX ? (tmsize_t)memory : INT64_MAX);
    f->tif =
        tiff.TIFFClientOpenExt("TIFF", "r", f, read_some, write_some, seek, close_file, size_of, map, unmap, options);
    tiff.TIFFOpenOptionsFree(options);
    return f->tif ? LEAT_OK : fail(f, "cannot be opened", err);
}

/* What decides how a picture is read. */
struct layout {
    uint32_t width;
    uint32_t height;
    uint16_t bits;
    uint16_t samples; /* of a pixel */
    uint16_t format;
    uint16_t photometric;
    uint16_t planar;
    uint16_t compression;
    uint16_t orientation;
    bool alpha;
    bool plain; /* samples are what they say: no need for libtiff's RGB */
    bool tiled;
    uint32_t block[2]; /* width and height of a tile or strip */
};

static leat_status read_layout(struct file *f, struct layout *out, struct leat_error *err)
{
    struct layout l = {0};
    uint16_t extra = 0;
    uint16_t *kinds = NULL;
    TIFF *t = f->tif;
    if (!tiff.TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &l.width) || !tiff.TIFFGetField(t, TIFFTAG_IMAGELENGTH, &l.height) ||
        !tiff.TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &l.photometric))
        return fail(f, "without a size or without colours", err);
    tiff.TIFFGetFieldDefaulted(t, TIFFTAG_BITSPERSAMPLE, &l.bits);
    tiff.TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLESPERPIXEL, &l.samples);
    tiff.TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLEFORMAT, &l.format);
    tiff.TIFFGetFieldDefaulted(t, TIFFTAG_PLANARCONFIG, &l.planar);
    tiff.TIFFGetFieldDefaulted(t, TIFFTAG_COMPRESSION, &l.compression);
    tiff.TIFFGetFieldDefaulted(t, TIFFTAG_ORIENTATION, &l.orientation);
    tiff.TIFFGetFieldDefaulted(t, TIFFTAG_EXTRASAMPLES, &extra, &kinds);
    bool grey = l.photometric == PHOTOMETRIC_MINISBLACK || l.photometric == PHOTOMETRIC_MINISWHITE;
    bool numbers = l.photometric == PHOTOMETRIC_PALETTE && l.bits == 8;
    unsigned colours = l.photometric == PHOTOMETRIC_RGB ? 3 : 1;
    l.alpha =
        extra > 0 && l.samples > colours && (kinds[0] == EXTRASAMPLE_UNASSALPHA || kinds[0] == EXTRASAMPLE_ASSOCALPHA);
    if (l.format != SAMPLEFORMAT_UINT && l.format != SAMPLEFORMAT_VOID)
        return leat_fail(err, LEAT_UNSUPPORTED, "TIFF of signed or floating-point samples");
    l.plain = (l.bits == 8 || l.bits == 16) && (grey || numbers || l.photometric == PHOTOMETRIC_RGB) &&
              l.samples >= colours && l.compression != COMPRESSION_OJPEG;
    l.tiled = tiff.TIFFIsTiled(t);
    l.block[0] = l.width;
    if (l.tiled) {
        tiff.TIFFGetField(t, TIFFTAG_TILEWIDTH, &l.block[0]);
        tiff.TIFFGetField(t, TIFFTAG_TILELENGTH, &l.block[1]);
    } else {
        tiff.TIFFGetFieldDefaulted(t, TIFFTAG_ROWSPERSTRIP, &l.block[1]);
    }
    l.block[1] = !l.tiled && l.block[1] > l.height ? l.height : l.block[1];
    if (l.plain && (!l.block[0] || !l.block[1]))
        return fail(f, "with strips or tiles of no size", err);
    *out = l;
    return LEAT_OK;
}

leat_status leat_tiff_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err)
{
    struct file f = {0};
    struct layout l = {0};
    leat_status rc = open_file(&f, data, size, LEAT_IMAGE_MEMORY_PRESET, err);
    if (rc != LEAT_OK)
        return rc;
    rc = read_layout(&f, &l, err);
    tiff.TIFFClose(f.tif);
    if (rc != LEAT_OK)
        return rc;
    bool palette = l.photometric == PHOTOMETRIC_PALETTE;
    bool colour = !l.plain || l.photometric == PHOTOMETRIC_RGB;
    *out = (struct leat_image_info){
        .type = LEAT_IMAGE_TIFF,
        .width = l.width,
        .height = l.height,
        .components = (uint8_t)(palette ? 1 : (colour ? 3 : 1) + (l.plain && l.alpha)),
        .bits = (uint8_t)(l.plain ? l.bits : 8),
        .orientation = (uint8_t)(l.orientation >= 1 && l.orientation <= 8 ? l.orientation : 1),
        .palette = palette,
        .alpha = l.plain && l.alpha,
        .turned = true,
    };
    return LEAT_OK;
}

struct reading {
    struct file file;
    struct layout l;
    const struct leat_decode *decode;
    struct leat_bitmap *to;
    unsigned taken;      /* samples that are taken of a pixel */
    uint16_t *colour[3]; /* of a palette; NULL: none is wanted */
    uint8_t *block;
    uint64_t block_bytes;
};

static void put_sample(const struct reading *r, const uint8_t *from, uint8_t *to)
{
    const struct layout *l = &r->l;
    uint16_t wide;
    if (r->colour[0]) {
        for (unsigned c = 0; c < 3; c++) {
            wide = r->colour[c][*from];
            memcpy(to + 2 * (size_t)c, &wide, sizeof wide);
        }
    } else if (l->bits == 8) {
        *to = l->photometric == PHOTOMETRIC_MINISWHITE ? (uint8_t) ~*from : *from;
    } else {
        memcpy(&wide, from, sizeof wide);
        wide = l->photometric == PHOTOMETRIC_MINISWHITE ? (uint16_t)~wide : wide;
        memcpy(to, &wide, sizeof wide);
    }
}

/* What the box wants of a block that has been read: all samples of its pixels, or of one plane those of `plane`. */
static void put_block(const struct reading *r, uint32_t left, uint32_t top, unsigned plane)
{
    const struct layout *l = &r->l;
    const struct leat_box *box = &r->to->box;
    bool apart = l->planar == PLANARCONFIG_SEPARATE;
    size_t bytes = l->bits / 8;
    size_t pixel = bytes * (apart ? 1 : l->samples);
    for (uint32_t y = 0; y < l->block[1] && top + y < box->y + box->height; y++) {
        if (top + y < box->y)
            continue;
        for (uint32_t x = 0; x < l->block[0] && left + x < box->x + box->width; x++) {
            if (left + x < box->x)
                continue;
            const uint8_t *from = r->block + ((size_t)l->block[0] * y + x) * pixel;
            uint8_t *to = r->to->pixels + r->to->stride * (top + y - box->y) +
                          (size_t)(left + x - box->x) * r->to->components * r->to->bytes;
            for (unsigned s = 0; s < (apart ? 1 : r->taken); s++)
                put_sample(r, from + s * bytes, to + (s + plane) * (size_t)r->to->bytes);
        }
    }
}

/* Blocks that the box touches, of one plane or of all together. */
static leat_status read_blocks(struct reading *r, unsigned plane, struct leat_error *err)
{
    const struct layout *l = &r->l;
    const struct leat_box *box = &r->to->box;
    uint32_t across = (l->width - 1) / l->block[0] + 1;
    uint32_t down = (l->height - 1) / l->block[1] + 1;
    for (uint32_t j = box->y / l->block[1]; j <= (box->y + box->height - 1) / l->block[1]; j++) {
        for (uint32_t i = box->x / l->block[0]; i <= (box->x + box->width - 1) / l->block[0]; i++) {
            uint64_t number = ((uint64_t)plane * down + j) * across + i;
            uint32_t rows = l->height - j * l->block[1] < l->block[1] ? l->height - j * l->block[1] : l->block[1];
            uint64_t wanted = l->tiled ? r->block_bytes : r->block_bytes / l->block[1] * rows;
            if (number > UINT32_MAX)
                return fail(&r->file, "with too many blocks", err);
            memset(r->block, 128, r->block_bytes);
            tmsize_t got =
                l->tiled ? tiff.TIFFReadEncodedTile(r->file.tif, (uint32_t)number, r->block, (tmsize_t)r->block_bytes)
                         : tiff.TIFFReadEncodedStrip(r->file.tif, (uint32_t)number, r->block, (tmsize_t)wanted);
            if ((got < 0 || (uint64_t)got < wanted) && r->decode->damage == LEAT_DAMAGE_ERROR)
                return fail(&r->file, "with a block that ends early", err);
            if (got >= 0)
                put_block(r, i * l->block[0], j * l->block[1], plane);
        }
    }
    return LEAT_OK;
}

static leat_status read_plain(struct reading *r, const struct leat_box *box, bool index, struct leat_error *err)
{
    const struct layout *l = &r->l;
    bool palette = l->photometric == PHOTOMETRIC_PALETTE && !index;
    bool apart = l->planar == PLANARCONFIG_SEPARATE;
    unsigned colours = l->photometric == PHOTOMETRIC_RGB ? 3 : 1;
    if (palette && !tiff.TIFFGetField(r->file.tif, TIFFTAG_COLORMAP, &r->colour[0], &r->colour[1], &r->colour[2]))
        return fail(&r->file, "with a palette that is missing", err);
    if (index && colours == 3)
        return leat_fail(err, LEAT_UNSUPPORTED, "TIFF of three colours has no palette numbers");
    r->taken = index || l->photometric == PHOTOMETRIC_PALETTE ? 1 : colours + l->alpha;
    leat_status rc = leat_bitmap_take(r->decode, box, palette ? 3 : r->taken, palette ? 2 : l->bits / 8, r->to, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t least = (uint64_t)l->block[0] * l->block[1] * (l->bits / 8) * (apart ? 1 : l->samples);
    r->block_bytes = l->tiled ? tiff.TIFFTileSize64(r->file.tif) : tiff.TIFFStripSize64(r->file.tif);
    if (r->block_bytes != least)
        return fail(&r->file, "whose blocks are of another size than its pixels", err);
    r->block = leat_arena_take(r->decode->arena, r->block_bytes + 16);
    if (!r->block)
        return leat_arena_fail(r->decode->arena, err);
    for (unsigned plane = 0; rc == LEAT_OK && plane < (apart ? r->taken : 1); plane++)
        rc = read_blocks(r, plane, err);
    return rc;
}

/* libtiff's own RGB: the whole picture, as it is stored. */
static leat_status read_made(struct reading *r, const struct leat_box *box, struct leat_error *err)
{
    struct file *f = &r->file;
    TIFFRGBAImage image;
    uint32_t *raster = leat_arena_take(r->decode->arena, (size_t)r->l.width * r->l.height * sizeof *raster);
    if (!raster)
        return leat_arena_fail(r->decode->arena, err);
    leat_status rc = leat_bitmap_take(r->decode, box, 3, 1, r->to, err);
    if (rc != LEAT_OK)
        return rc;
    char why[1024] = ""; /* as large as libtiff asks for */
    if (!tiff.TIFFRGBAImageOK(f->tif, why) || !tiff.TIFFRGBAImageBegin(&image, f->tif, 1, why))
        return f->complaint[0] ? fail(f, why, err) : leat_fail(err, LEAT_UNSUPPORTED, "TIFF: %.160s", why);
    image.orientation = ORIENTATION_TOPLEFT;
    image.req_orientation = ORIENTATION_TOPLEFT;
    int fine = tiff.TIFFRGBAImageGet(&image, raster, r->l.width, r->l.height);
    tiff.TIFFRGBAImageEnd(&image);
    if (!fine || f->complaint[0])
        return fail(f, "damaged", err);
    for (uint32_t y = 0; y < box->height; y++) {
        const uint32_t *from = raster + (size_t)r->l.width * (box->y + y) + box->x;
        uint8_t *to = r->to->pixels + r->to->stride * y;
        for (uint32_t x = 0; x < box->width; x++, to += 3) {
            to[0] = (uint8_t)TIFFGetR(from[x]);
            to[1] = (uint8_t)TIFFGetG(from[x]);
            to[2] = (uint8_t)TIFFGetB(from[x]);
        }
    }
    return LEAT_OK;
}

leat_status leat_tiff_read(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    struct reading r = {.decode = decode, .to = out};
    bool index = decode->colour == LEAT_COLOUR_INDEX;
    leat_status rc = open_file(&r.file, source->data, source->size, decode->arena->max, err);
    if (rc != LEAT_OK)
        return rc;
    rc = read_layout(&r.file, &r.l, err);
    if (rc == LEAT_OK && index && !r.l.plain)
        rc = leat_fail(err, LEAT_UNSUPPORTED, "TIFF of this kind has no palette numbers");
    if (rc == LEAT_OK)
        rc = r.l.plain ? read_plain(&r, box, index, err) : read_made(&r, box, err);
    tiff.TIFFClose(r.file.tif);
    return rc;
}

#else

leat_status leat_tiff_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err)
{
    (void)data, (void)size, (void)out;
    return leat_fail(err, LEAT_UNSUPPORTED, "a TIFF: this was built without libtiff (libtiff-dev)");
}

leat_status leat_tiff_read(const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    (void)decode, (void)box, (void)out;
    return leat_tiff_probe(source->data, source->size, NULL, err);
}

#endif
