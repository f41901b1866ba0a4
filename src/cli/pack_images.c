#include "cli/pack_images.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/probe.h"
#include "prep/arena.h"
#include "prep/jpeg.h"
#include "prep/jpeg_write.h"
#include "prep/pipeline.h"
#include "prep/png_write.h"

/* One thread's. */
struct context {
    const struct leat_cli_images *settings;
    struct leat_scratch *scratch;
    struct leat_arena arena; /* of the transcoder */
    struct leat_jpeg *jpeg;
};

static void close_context(void *context)
{
    struct context *c = context;
    if (!c)
        return;
    leat_scratch_close(c->scratch);
    leat_jpeg_close(c->jpeg);
    leat_arena_free(&c->arena);
    free(c);
}

static leat_status open_context(const void *user, void **out, struct leat_error *err)
{
    struct context *c = calloc(1, sizeof *c);
    if (!c)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for packing");
    c->settings = user;
    leat_arena_init(&c->arena, LEAT_IMAGE_MEMORY_PRESET);
    leat_status rc = LEAT_OK;
    if (c->settings->max_side)
        rc = leat_scratch_open(0, NULL, &c->scratch, err);
    if (rc == LEAT_OK && c->settings->baseline)
        rc = leat_jpeg_open(&c->arena, &c->jpeg, err);
    if (rc != LEAT_OK) {
        close_context(c);
        return rc;
    }
    *out = c;
    return LEAT_OK;
}

static leat_status transcode(struct context *c, const void *data, size_t n, const struct leat_image_info *info,
                             struct leat_buf *out, struct leat_error *err)
{
    struct leat_source source = {.data = data, .size = n, .info = *info};
    struct leat_image_limits limits = leat_image_limits_filled(NULL);
    leat_arena_reset(&c->arena);
    return leat_jpeg_transcode(c->jpeg, &source, &limits, LEAT_JPEG_KEEP_ALL, out, err);
}

/* The pixels, upright, since what is written has no EXIF; grey and alpha stay what they are. */
static leat_status shrink(struct context *c, const void *data, size_t n, const struct leat_image_info *info,
                          struct leat_buf *out, struct leat_error *err)
{
    const char *colour = info->alpha ? "rgba" : info->components == 1 && !info->palette ? "gray" : "rgb";
    struct leat_rng draws = leat_prep_draws(leat_key("augment", 0, 0, NULL, 0), 0, 0, 0);
    struct leat_prep_description description;
    struct leat_pipeline *pipeline = NULL;
    struct leat_drawn drawn;
    uint8_t *pixels = NULL;
    char text[100];
    snprintf(text, sizeof text, "longest=%u colour=%s orientation=upright", c->settings->max_side, colour);
    leat_status rc = leat_prep_parse(text, &description, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_make(&description, &pipeline, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_plan(pipeline, info, draws, &drawn, err);
    if (rc == LEAT_OK) {
        const uint32_t *size = drawn.geometry.output;
        uint64_t bytes = leat_pipeline_bytes(pipeline, size[0], size[1]);
        pixels = malloc((size_t)bytes);
        rc = pixels ? leat_pipeline_run(pipeline, c->scratch, data, n, draws, pixels, bytes, err)
                    : leat_fail(err, LEAT_NO_MEMORY, "no memory for a picture");
        if (rc == LEAT_OK && info->type == LEAT_IMAGE_JPEG)
            rc = leat_jpeg_write(pixels, size[0], size[1], leat_pipeline_channels(pipeline), c->settings->quality, out,
                                 err);
        else if (rc == LEAT_OK)
            rc = leat_png_write(pixels, size[0], size[1], leat_pipeline_channels(pipeline), out, err);
    }
    free(pixels);
    leat_pipeline_free(pipeline);
    return rc;
}

static leat_status look(void *context, const void *data, size_t n, struct leat_buf *out, struct leat_picture *picture,
                        struct leat_error *err)
{
    struct context *c = context;
    const struct leat_cli_images *s = c->settings;
    struct leat_image_limits limits = leat_image_limits_filled(NULL);
    struct leat_image_info info;
    leat_status rc = LEAT_OK;
    if (!s->max_side && !s->baseline)
        return leat_picture_probe(data, n, picture, err);
    rc = leat_image_probe(data, n, &info, err);
    if (rc == LEAT_OK)
        rc = leat_image_check(&info, &limits, err);
    if (rc == LEAT_OK && s->max_side && (info.width > s->max_side || info.height > s->max_side))
        rc = shrink(c, data, n, &info, out, err);
    else if (rc == LEAT_OK && s->baseline && info.type == LEAT_IMAGE_JPEG && info.progressive)
        rc = transcode(c, data, n, &info, out, err);
    if (rc != LEAT_OK)
        return rc;
    return out->len ? leat_picture_probe(out->data, out->len, picture, err) : leat_picture_probe(data, n, picture, err);
}

void leat_cli_images(struct leat_cli_images *s, struct leat_pack_images *out)
{
    int n = 0;
    s->what[0] = '\0';
    if (s->baseline)
        n = snprintf(s->what, sizeof s->what, "baseline ");
    if (s->max_side)
        snprintf(s->what + n, sizeof s->what - (size_t)n, "side %u quality %u", s->max_side, s->quality);
    *out = (struct leat_pack_images){.open = open_context,
                                     .close = close_context,
                                     .image = look,
                                     .user = s,
                                     .changes = s->baseline || s->max_side,
                                     .what = s->what};
}
