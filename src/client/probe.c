#include "client/probe.h"

#include "prep/image.h"

leat_status leat_picture_probe(const void *data, size_t n, struct leat_picture *out, struct leat_error *err)
{
    static const uint8_t kinds[LEAT_IMAGE_TYPE_COUNT] = {
        [LEAT_IMAGE_JPEG] = LEAT_PICTURE_JPEG,
        [LEAT_IMAGE_PNG] = LEAT_PICTURE_PNG,
        [LEAT_IMAGE_WEBP] = LEAT_PICTURE_WEBP, /* the format has no numbers for the others: 0, unknown */
    };
    struct leat_image_info info;
    leat_status rc = leat_image_probe(data, n, &info, err);
    if (rc != LEAT_OK)
        return rc;
    /* A palette takes the place of three channels, or four. */
    uint8_t channels = info.palette ? (info.alpha ? 4 : 3) : info.components;
    uint64_t depth = info.bits > 8 ? 2 : 1;
    uint64_t decoded = (uint64_t)info.width * info.height;
    decoded = decoded > UINT32_MAX ? UINT32_MAX : decoded * channels * depth;
    *out = (struct leat_picture){
        .width = info.width,
        .height = info.height,
        .decoded_bytes = decoded > UINT32_MAX ? UINT32_MAX : (uint32_t)decoded,
        .kind = kinds[info.type],
        .channels = channels,
        .orientation = info.orientation,
        .flags = info.progressive ? LEAT_PICTURE_PROGRESSIVE : 0,
    };
    return LEAT_OK;
}
