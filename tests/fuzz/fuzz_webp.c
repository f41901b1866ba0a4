/* Our crops of WebP against libwebp's whole picture. */
#include <webp/decode.h>

#include "differ.h"

static void library_decode(const struct leat_source *source, struct differ_whole *out)
{
    int stride = (int)source->info.width * 3;
    int width = 0;
    int height = 0;
    out->fine = WebPGetInfo(source->data, source->size, &width, &height) && width == (int)source->info.width &&
                height == (int)source->info.height &&
                WebPDecodeRGBInto(source->data, source->size, out->rgb, sizeof out->rgb, stride);
}

FUZZ(webp)
{
    static struct differ_whole library;
    static uint8_t ours[DIFFER_PIXELS * 3];
    struct leat_prep_description d = {0};
    struct leat_source source;
    struct leat_error err;
    if (!differ_source(data, size, LEAT_IMAGE_WEBP, &source))
        return;
    d.blend = true;
    differ_ours(d, data, &source, ours, &err);
    d.blend = false;
    bool fine = differ_ours(d, data, &source, ours, &err);
    if (source.info.animated) /* the library's simple functions refuse it */
        return;
    library_decode(&source, &library);
    PROMISE(fine == library.fine);
    if (fine)
        PROMISE(memcmp(library.rgb, ours, (size_t)source.info.width * source.info.height * 3) == 0);
}
