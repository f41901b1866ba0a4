#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/abi.h"
#include "leat/dataset.h"
#include "prep/pipeline.h"
#include "prep/png_write.h"

#define PIXELS_MAX ((uint64_t)4 << 30) /* bytes of one result */

static leat_status describe(const char *text, struct leat_prep_description *out, struct leat_error *err)
{
    leat_status rc = leat_prep_parse(text ? text : "", out, err);
    if (rc == LEAT_OK && (out->dtype != LEAT_DTYPE_UINT8 || out->deep))
        rc = leat_fail(err, LEAT_INVALID, "a single picture is always uint8: dtype and deep are for loaders");
    if (rc == LEAT_OK && *out->follow)
        rc = leat_fail(err, LEAT_INVALID, "follow=%s: a single picture has no other fields", out->follow);
    out->layout = LEAT_LAYOUT_NHWC;
    return rc;
}

static leat_status run(const struct leat_pipeline *pipeline, struct leat_scratch *scratch, const void *image,
                       size_t bytes, struct leat_data_pixels *out, struct leat_error *err)
{
    struct leat_rng draws = leat_prep_draws(leat_key("augment", 0, 0, NULL, 0), 0, 0, 0);
    struct leat_image_info info;
    struct leat_drawn drawn;
    struct leat_image_limits limits = leat_image_limits_filled(NULL);
    leat_status rc = leat_image_probe(image, bytes, &info, err);
    if (rc == LEAT_OK)
        rc = leat_image_check(&info, &limits, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_plan(pipeline, &info, draws, &drawn, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t size = leat_pipeline_bytes(pipeline, drawn.geometry.output[0], drawn.geometry.output[1]);
    if (size > PIXELS_MAX)
        return leat_fail(err, LEAT_LIMIT, "a picture of %" PRIu32 "x%" PRIu32 " is too large", drawn.geometry.output[0],
                         drawn.geometry.output[1]);
    uint8_t *pixels = malloc((size_t)size);
    if (!pixels)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a picture of %" PRIu64 " bytes", size);
    rc = leat_pipeline_run(pipeline, scratch, image, bytes, draws, pixels, size, err);
    if (rc != LEAT_OK) {
        free(pixels);
        return rc;
    }
    *out = (struct leat_data_pixels){.width = drawn.geometry.output[0],
                                     .height = drawn.geometry.output[1],
                                     .channels = leat_pipeline_channels(pipeline),
                                     .pixels = pixels};
    return LEAT_OK;
}

leat_status leat_data_decode(const void *image, size_t bytes, const char *text, struct leat_data_pixels *out,
                             struct leat_error *err)
{
    struct leat_prep_description description;
    struct leat_data_pixels mine = {0};
    struct leat_pipeline *pipeline = NULL;
    struct leat_scratch *scratch = NULL;
    leat_status rc = describe(text, &description, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_make(&description, &pipeline, err);
    if (rc == LEAT_OK)
        rc = leat_scratch_open(0, NULL, &scratch, err);
    if (rc == LEAT_OK)
        rc = run(pipeline, scratch, image, bytes, &mine, err);
    if (rc == LEAT_OK)
        rc = leat_abi_give(&mine, sizeof mine, "leat_data_pixels", out, err);
    if (rc != LEAT_OK)
        free(mine.pixels);
    leat_scratch_close(scratch);
    leat_pipeline_free(pipeline);
    return rc;
}

leat_status leat_data_png(const struct leat_data_pixels *theirs, void **out, size_t *bytes, struct leat_error *err)
{
    struct leat_data_pixels p;
    struct leat_buf png;
    leat_status rc = leat_abi_take(theirs, "leat_data_pixels", &p, sizeof p, err);
    if (rc == LEAT_OK && (!p.width || !p.height || (p.channels != 1 && p.channels != 3 && p.channels != 4)))
        rc = leat_fail(err, LEAT_INVALID, "a PNG has 1, 3 or 4 channels and at least one pixel");
    if (rc != LEAT_OK)
        return rc;
    leat_buf_init(&png, PIXELS_MAX);
    rc = leat_png_write(p.pixels, p.width, p.height, p.channels, &png, err);
    if (rc == LEAT_OK) {
        *bytes = png.len;
        *out = leat_buf_take(&png);
    }
    leat_buf_free(&png);
    return rc;
}
