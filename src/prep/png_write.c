#include "prep/png_write.h"

#ifndef LEAT_WITHOUT_PNG
#include <spng.h>
#include <stdlib.h>

leat_status leat_png_write(const uint8_t *pixels, uint32_t width, uint32_t height, unsigned channels,
                           struct leat_buf *out, struct leat_error *err)
{
    struct spng_ihdr header = {
        .width = width,
        .height = height,
        .bit_depth = 8,
        .color_type = channels == 4   ? SPNG_COLOR_TYPE_TRUECOLOR_ALPHA
                      : channels == 3 ? SPNG_COLOR_TYPE_TRUECOLOR
                                      : SPNG_COLOR_TYPE_GRAYSCALE,
    };
    size_t size = 0;
    void *png = NULL;
    spng_ctx *ctx = spng_ctx_new(SPNG_CTX_ENCODER);
    int code = ctx ? 0 : SPNG_EMEM;
    if (code == 0)
        code = spng_set_option(ctx, SPNG_ENCODE_TO_BUFFER, 1);
    if (code == 0)
        code = spng_set_ihdr(ctx, &header);
    if (code == 0)
        code = spng_encode_image(ctx, pixels, (size_t)width * height * channels, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    if (code == 0)
        png = spng_get_png_buffer(ctx, &size, &code);
    leat_status rc = LEAT_OK;
    if (code == SPNG_EMEM)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a PNG");
    else if (code != 0)
        rc = leat_fail(err, LEAT_INVALID, "cannot write a PNG of %ux%u: %s", width, height, spng_strerror(code));
    else if (!leat_buf_add(out, png, size))
        rc = leat_buf_check(out, "the PNG", err);
    free(png);
    spng_ctx_free(ctx);
    return rc;
}

#else

leat_status leat_png_write(const uint8_t *pixels, uint32_t width, uint32_t height, unsigned channels,
                           struct leat_buf *out, struct leat_error *err)
{
    return leat_fail(err, LEAT_UNSUPPORTED, "built without PNG");
}

#endif
