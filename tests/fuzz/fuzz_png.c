/* Our rows of PNG against libspng's whole picture. */
#include <spng.h>

#include "differ.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct differ_whole library;
    static uint8_t ours[DIFFER_PIXELS * 3];
    struct leat_prep_description d = {0};
    struct leat_source source;
    struct leat_error err;
    if (!differ_source(data, size, LEAT_IMAGE_PNG, &source))
        return 0;
    d.blend = true;
    differ_ours(d, data, &source, ours, &err);
    d.blend = false;
    bool fine = differ_ours(d, data, &source, ours, &err);
    library_decode(&source, &library);
    PROMISE(fine == library.fine || err.status == LEAT_LIMIT);
    if (fine)
        PROMISE(memcmp(library.rgb, ours, (size_t)source.info.width * source.info.height * 3) == 0);
    return 0;
}
