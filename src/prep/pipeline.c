#include "prep/pipeline.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "leat/loader.h"
#include "prep/jpeg.h"
#include "prep/png.h"
#include "prep/webp.h"

struct leat_pipeline {
    struct leat_prep_description d;
    struct leat_image_limits limits;
    struct leat_target target; /* all but its data */
};

struct leat_scratch {
    struct leat_arena arena;
    struct leat_jpeg *jpeg;
    const struct leat_kernels *kernels;
};

static leat_status check(const struct leat_prep_description *d, struct leat_error *err)
{
    if ((unsigned)d->colour >= LEAT_COLOUR_COUNT || (unsigned)d->filter >= LEAT_FILTER_COUNT ||
        (unsigned)d->layout >= LEAT_LAYOUT_COUNT || (unsigned)d->dtype >= LEAT_DTYPE_COUNT ||
        (unsigned)d->damage >= LEAT_DAMAGE_COUNT)
        return leat_fail(err, LEAT_INVALID, "a choice in the description is out of range");
    if (d->colour == LEAT_COLOUR_INDEX && d->filter != LEAT_FILTER_NEAREST)
        return leat_fail(err, LEAT_INVALID, "colour=index needs filter=nearest: mixed palette numbers mean nothing");
    for (int c = 0; c < 3; c++) {
        if (d->background[c] && !d->blend)
            return leat_fail(err, LEAT_INVALID,
                             "a background without alpha=blend: dropped alpha leaves nothing under it");
        if (!(d->std[c] >= 0.0) || !(d->std[c] <= 1e6) || !(d->mean[c] >= -1e6) || !(d->mean[c] <= 1e6))
            return leat_fail(err, LEAT_INVALID, "mean %g and std %g of channel %d cannot normalise", d->mean[c],
                             d->std[c], c);
        if (d->dtype == LEAT_DTYPE_UINT8 && (d->std[c] > 0.0 || d->mean[c] != 0.0))
            return leat_fail(err, LEAT_INVALID, "uint8 cannot hold normalised values");
    }
    return leat_steps_check(&d->steps, err);
}

leat_status leat_pipeline_make(const struct leat_prep_description *description, struct leat_pipeline **out,
                               struct leat_error *err)
{
    leat_status rc = check(description, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a pipeline");
    p->d = *description;
    p->limits = leat_image_limits_filled(&description->limits);
    p->target.channels = description->colour == LEAT_COLOUR_RGB ? 3 : 1;
    p->target.layout = description->layout;
    p->target.dtype = description->dtype;
    p->target.filter = description->filter;
    memcpy(p->target.fill, description->fill, sizeof p->target.fill);
    for (int c = 0; c < 3; c++) {
        double std = description->std[c] > 0.0 ? description->std[c] : 1.0;
        p->target.map[c].scale = (float)(1.0 / (255.0 * std));
        p->target.map[c].bias = (float)(-description->mean[c] / std);
    }
    *out = p;
    return LEAT_OK;
}

void leat_pipeline_free(struct leat_pipeline *pipeline)
{
    free(pipeline);
}

unsigned leat_pipeline_channels(const struct leat_pipeline *pipeline)
{
    return pipeline->target.channels;
}

void leat_pipeline_size(const struct leat_pipeline *pipeline, uint32_t *width, uint32_t *height)
{
    leat_steps_output(&pipeline->d.steps, width, height);
}

uint64_t leat_pipeline_bytes(const struct leat_pipeline *pipeline, uint32_t width, uint32_t height)
{
    return (uint64_t)width * height * pipeline->target.channels * leat_dtype_size(pipeline->target.dtype);
}

static uint8_t orientation_of(const struct leat_pipeline *pipeline, const struct leat_image_info *info)
{
    return pipeline->d.upright ? info->orientation : 1;
}

leat_status leat_pipeline_plan(const struct leat_pipeline *pipeline, const struct leat_image_info *info,
                               struct leat_rng draws, struct leat_geometry *out, struct leat_error *err)
{
    bool swaps = leat_turning_of(orientation_of(pipeline, info)).exchanged;
    return leat_steps_apply(&pipeline->d.steps, swaps ? info->height : info->width, swaps ? info->width : info->height,
                            draws, out, err);
}

leat_status leat_scratch_open(uint64_t memory_bytes, const struct leat_kernels *kernels, struct leat_scratch **out,
                              struct leat_error *err)
{
    struct leat_scratch *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a scratch");
    leat_arena_init(&s->arena, memory_bytes ? memory_bytes : LEAT_IMAGE_MEMORY_PRESET);
    s->kernels = kernels ? kernels : leat_kernels();
    leat_status rc = leat_jpeg_open(&s->arena, &s->jpeg, err);
    if (rc != LEAT_OK) {
        leat_scratch_close(s);
        return rc;
    }
    *out = s;
    return LEAT_OK;
}

void leat_scratch_close(struct leat_scratch *scratch)
{
    if (!scratch)
        return;
    leat_jpeg_close(scratch->jpeg);
    leat_arena_free(&scratch->arena);
    free(scratch);
}

static leat_status give_rows(struct leat_scratch *scratch, const struct leat_source *source,
                             const struct leat_decode *decode, const struct leat_box *box, struct leat_rows *to,
                             struct leat_error *err)
{
    switch (source->info.type) {
    case LEAT_IMAGE_JPEG:
        if (decode->colour == LEAT_COLOUR_INDEX)
            return leat_fail(err, LEAT_UNSUPPORTED, "JPEG has no index to take");
        return leat_jpeg_rows(scratch->jpeg, source, decode, box, to, err);
    case LEAT_IMAGE_PNG:
        return leat_png_rows(source, decode, box, to, err);
    default:
        return leat_webp_rows(source, decode, box, to, err);
    }
}

static leat_status run_exact(struct leat_scratch *scratch, const struct leat_source *source,
                             const struct leat_decode *decode, const struct leat_target *target,
                             const struct leat_geometry *geometry, uint8_t orientation, struct leat_error *err)
{
    const struct leat_image_info *info = &source->info;
    bool swaps = leat_turning_of(orientation).exchanged;
    unsigned planes = leat_decode_planes(info, decode->colour);
    struct leat_plane_scale whole = {1.0, 1.0, swaps ? info->height : info->width, swaps ? info->width : info->height,
                                     orientation};
    struct leat_sink sink;
    leat_status rc =
        leat_sink_open(&sink, decode->kernels, decode->arena, target, geometry, planes, false, &whole, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_box wanted = leat_sink_wants(&sink);
    return give_rows(scratch, source, decode, &wanted, &sink.rows, err);
}

static leat_status run_fast(struct leat_scratch *scratch, const struct leat_source *source,
                            const struct leat_decode *decode, const struct leat_target *target,
                            const struct leat_geometry *geometry, uint8_t orientation, struct leat_error *err)
{
    leat_status rc = LEAT_UNSUPPORTED;
    bool plain = orientation == 1 && target->filter != LEAT_FILTER_NEAREST;
    if (plain && source->info.type == LEAT_IMAGE_JPEG)
        rc = leat_jpeg_fast(scratch->jpeg, source, decode, target, geometry, err);
    else if (plain && source->info.type == LEAT_IMAGE_WEBP)
        rc = leat_webp_fast(source, decode, target, geometry, err);
    if (rc == LEAT_UNSUPPORTED)
        rc = run_exact(scratch, source, decode, target, geometry, orientation, err);
    return rc;
}

leat_status leat_pipeline_run(const struct leat_pipeline *pipeline, struct leat_scratch *scratch, const void *data,
                              size_t data_bytes, struct leat_rng draws, void *to, uint64_t to_bytes,
                              struct leat_error *err)
{
    struct leat_source source = {.data = data, .size = data_bytes};
    struct leat_geometry geometry;
    leat_arena_reset(&scratch->arena);
    leat_status rc = leat_image_probe(data, data_bytes, &source.info, err);
    if (rc == LEAT_OK)
        rc = leat_image_check(&source.info, &pipeline->limits, err);
    if (rc == LEAT_OK && source.info.animated && pipeline->d.refuse_animation)
        rc = leat_fail(err, LEAT_UNSUPPORTED, "an animation; animation=first takes its first frame");
    if (rc == LEAT_OK)
        rc = leat_pipeline_plan(pipeline, &source.info, draws, &geometry, err);
    if (rc != LEAT_OK)
        return rc;
    if (!pipeline->d.blend)
        source.info.alpha = false; /* decoded as if it were not there */
    uint64_t bytes = leat_pipeline_bytes(pipeline, geometry.output[0], geometry.output[1]);
    if (bytes != to_bytes)
        return leat_fail(err, LEAT_INVALID,
                         "an output of %" PRIu32 "x%" PRIu32 " takes %" PRIu64 " bytes, not %" PRIu64,
                         geometry.output[0], geometry.output[1], bytes, to_bytes);
    struct leat_target target = pipeline->target;
    target.data = to;
    if (geometry.window.width == 0 || geometry.window.height == 0) {
        leat_target_fill(&target, scratch->kernels, (uint64_t)geometry.output[0] * geometry.output[1]);
        return LEAT_OK;
    }
    struct leat_decode decode = {
        .colour = pipeline->d.colour,
        .damage = pipeline->d.damage,
        .limits = pipeline->limits,
        .kernels = scratch->kernels,
        .arena = &scratch->arena,
    };
    memcpy(decode.background, pipeline->d.background, sizeof decode.background);
    uint8_t orientation = orientation_of(pipeline, &source.info);
    if (pipeline->d.fast)
        return run_fast(scratch, &source, &decode, &target, &geometry, orientation, err);
    return run_exact(scratch, &source, &decode, &target, &geometry, orientation, err);
}

#define SAMPLE_BITS     40
#define OCCURRENCE_BITS 16
static_assert(LEAT_VIEW_MAX < 1 << (64 - SAMPLE_BITS - OCCURRENCE_BITS), "every view has draws of its own");

struct leat_rng leat_prep_draws(uint64_t key, uint64_t sample, uint32_t occurrence, uint32_t view)
{
    return leat_rng(key,
                    sample ^ (uint64_t)occurrence << SAMPLE_BITS ^ (uint64_t)view << (SAMPLE_BITS + OCCURRENCE_BITS));
}
