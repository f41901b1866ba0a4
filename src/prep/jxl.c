#include "prep/jxl.h"

#ifdef LEAT_JXL_SONAME
#include <jxl/decode.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

#define CALLS(X)                                                                                                       \
    X(JxlDecoderCloseInput)                                                                                            \
    X(JxlDecoderCreate)                                                                                                \
    X(JxlDecoderDestroy)                                                                                               \
    X(JxlDecoderGetBasicInfo)                                                                                          \
    X(JxlDecoderImageOutBufferSize)                                                                                    \
    X(JxlDecoderProcessInput)                                                                                          \
    X(JxlDecoderSetImageOutBuffer)                                                                                     \
    X(JxlDecoderSetInput)                                                                                              \
    X(JxlDecoderSetKeepOrientation)                                                                                    \
    X(JxlDecoderSetUnpremultiplyAlpha)                                                                                 \
    X(JxlDecoderSubscribeEvents)

#define X(f) __typeof__(&(f)) f; /* NOLINT(bugprone-macro-parentheses) */
static struct {
    CALLS(X)
} jxl;
#undef X
#define X(f) #f,
static const char *const names[] = {CALLS(X) NULL};
#undef X

static struct leat_library library = {
    .soname = LEAT_JXL_SONAME,
    .package = "libjxl0.7",
    .names = names,
    .calls = (leat_library_call *)(void *)&jxl,
};

/* libjxl's memory, within a limit: small files may ask for much. */
struct memory {
    uint64_t used;
    uint64_t max;
    bool full;
    bool lacked;
};

#define BLOCK_HEAD 64 /* keeps the alignment that malloc() has */

static void *take(void *user, size_t n)
{
    struct memory *m = user;
    if (n > m->max - m->used) {
        m->full = true;
        return NULL;
    }
    char *block = malloc(n + BLOCK_HEAD);
    if (!block) {
        m->lacked = true;
        return NULL;
    }
    memcpy(block, &n, sizeof n);
    m->used += n;
    return block + BLOCK_HEAD;
}

static void give_back(void *user, void *p)
{
    struct memory *m = user;
    size_t n;
    if (!p)
        return;
    char *block = (char *)p - BLOCK_HEAD;
    memcpy(&n, block, sizeof n);
    m->used -= n;
    free(block);
}

static leat_status fail(const struct memory *m, struct leat_error *err)
{
    if (m->lacked)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a JPEG XL");
    if (m->full)
        return leat_fail(err, LEAT_LIMIT, "JPEG XL needs more than the limit of %llu bytes",
                         (unsigned long long)m->max);
    return leat_fail(err, LEAT_CORRUPT, "JPEG XL: damaged or cut off");
}

struct reading {
    JxlDecoder *decoder;
    struct memory memory;
    JxlBasicInfo basic;
};

static void close_file(struct reading *r)
{
    if (r->decoder)
        jxl.JxlDecoderDestroy(r->decoder);
}

/* Up to the header. */
static leat_status open_file(struct reading *r, const void *data, size_t size, uint64_t memory, struct leat_error *err)
{
    leat_status rc = leat_library_open(&library, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "JPEG XL");
    r->memory.max = memory;
    JxlMemoryManager manager = {&r->memory, take, give_back};
    r->decoder = jxl.JxlDecoderCreate(&manager);
    if (!r->decoder)
        return fail(&r->memory, err);
    jxl.JxlDecoderSetKeepOrientation(r->decoder, JXL_TRUE);
    jxl.JxlDecoderSetUnpremultiplyAlpha(r->decoder, JXL_TRUE);
    if (jxl.JxlDecoderSubscribeEvents(r->decoder, JXL_DEC_BASIC_INFO | JXL_DEC_FULL_IMAGE) != JXL_DEC_SUCCESS ||
        jxl.JxlDecoderSetInput(r->decoder, data, size) != JXL_DEC_SUCCESS)
        return leat_fail(err, LEAT_INTERNAL, "libjxl refuses its settings");
    jxl.JxlDecoderCloseInput(r->decoder);
    if (jxl.JxlDecoderProcessInput(r->decoder) != JXL_DEC_BASIC_INFO ||
        jxl.JxlDecoderGetBasicInfo(r->decoder, &r->basic) != JXL_DEC_SUCCESS)
        return fail(&r->memory, err);
    return LEAT_OK;
}

leat_status leat_jxl_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err)
{
    struct reading r = {0};
    leat_status rc = open_file(&r, data, size, LEAT_IMAGE_MEMORY_PRESET, err);
    if (rc == LEAT_OK) {
        const JxlBasicInfo *b = &r.basic;
        *out = (struct leat_image_info){
            .type = LEAT_IMAGE_JXL,
            .width = b->xsize,
            .height = b->ysize,
            .components = (uint8_t)((b->num_color_channels == 1 ? 1 : 3) + (b->alpha_bits != 0)),
            .bits = b->bits_per_sample > 8 ? 16 : 8,
            .orientation = (uint8_t)(b->orientation >= 1 && b->orientation <= 8 ? b->orientation : 1),
            .alpha = b->alpha_bits != 0,
            .animated = b->have_animation,
            .turned = true,
        };
    }
    close_file(&r);
    return rc;
}

static leat_status read_pixels(struct reading *r, const struct leat_bitmap *to, struct leat_error *err)
{
    JxlPixelFormat format = {to->components, to->bytes == 2 ? JXL_TYPE_UINT16 : JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
    size_t bytes = to->stride * to->box.height;
    size_t wanted;
    for (;;) {
        JxlDecoderStatus status = jxl.JxlDecoderProcessInput(r->decoder);
        if (status == JXL_DEC_FULL_IMAGE)
            return LEAT_OK;
        if (status != JXL_DEC_NEED_IMAGE_OUT_BUFFER)
            return fail(&r->memory, err);
        if (jxl.JxlDecoderImageOutBufferSize(r->decoder, &format, &wanted) != JXL_DEC_SUCCESS || wanted != bytes ||
            jxl.JxlDecoderSetImageOutBuffer(r->decoder, &format, to->pixels, bytes) != JXL_DEC_SUCCESS)
            return leat_fail(err, LEAT_CORRUPT, "JPEG XL whose pixels do not fit its header");
    }
}

leat_status leat_jxl_read(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    const struct leat_image_info *info = &source->info;
    struct leat_box whole = {0, 0, info->width, info->height};
    struct reading r = {0};
    (void)box; /* there is no decoding of a part */
    if (decode->colour == LEAT_COLOUR_INDEX)
        return leat_fail(err, LEAT_UNSUPPORTED, "JPEG XL has no palette numbers");
    leat_status rc = open_file(&r, source->data, source->size, decode->arena->max, err);
    if (rc == LEAT_OK) {
        bool grey = r.basic.num_color_channels == 1;
        rc = leat_bitmap_take(decode, &whole, (grey ? 1 : 3) + info->alpha, info->bits > 8 ? 2 : 1, out, err);
    }
    if (rc == LEAT_OK)
        rc = read_pixels(&r, out, err);
    close_file(&r);
    return rc;
}

#else

leat_status leat_jxl_probe(const void *data, size_t size, struct leat_image_info *out, struct leat_error *err)
{
    (void)data, (void)size, (void)out;
    return leat_fail(err, LEAT_UNSUPPORTED, "a JPEG XL: this was built without libjxl (libjxl-dev)");
}

leat_status leat_jxl_read(const struct leat_source *source, const struct leat_decode *decode,
                          const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    (void)decode, (void)box, (void)out;
    return leat_jxl_probe(source->data, source->size, NULL, err);
}

#endif
