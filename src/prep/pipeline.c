#include "prep/pipeline.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "leat/loader.h"
#include "prep/avif.h"
#include "prep/bmp.h"
#include "prep/canvas.h"
#include "prep/gif.h"
#include "prep/jpeg.h"
#include "prep/jxl.h"
#include "prep/png.h"
#include "prep/tiff.h"
#include "prep/webp.h"
#include "prep/wide.h"

struct leat_pipeline {
    struct leat_prep_description d;
    struct leat_image_limits limits;
    struct leat_target target; /* all but its data */
    bool wide;                 /* more than 8 bits or three channels: wide.h's way */
};

struct leat_scratch {
    struct leat_arena arena;
    struct leat_jpeg *jpeg;
    const struct leat_kernels *kernels;
};

static bool is_wide(const struct leat_prep_description *d)
{
    return d->deep || d->dtype == LEAT_DTYPE_UINT16 || d->colour == LEAT_COLOUR_RGBA;
}

static leat_status check_wide(const struct leat_prep_description *d, struct leat_error *err)
{
    if (!is_wide(d))
        return LEAT_OK;
    if (d->effects.count)
        return leat_fail(err, LEAT_INVALID,
                         "augmentations work on three channels of 8 bits: with bits=16, dtype=uint16 or colour=rgba "
                         "there are only steps");
    for (unsigned i = 0; i < d->steps.count; i++) {
        if (d->steps.step[i].border != LEAT_BORDER_CONSTANT)
            return leat_fail(err, LEAT_INVALID, "with bits=16, dtype=uint16 or colour=rgba padding is border=constant");
    }
    if (d->colour == LEAT_COLOUR_RGBA && d->blend)
        return leat_fail(err, LEAT_INVALID, "colour=rgba keeps alpha: alpha=blend makes rgb of it");
    if (d->deep && d->dtype == LEAT_DTYPE_UINT8)
        return leat_fail(err, LEAT_INVALID, "dtype=uint8 cannot hold bits=16: choose uint16 or a float type");
    return LEAT_OK;
}

static leat_status check(const struct leat_prep_description *d, struct leat_error *err)
{
    if ((unsigned)d->colour >= LEAT_COLOUR_COUNT || (unsigned)d->filter >= LEAT_FILTER_COUNT ||
        (unsigned)d->layout >= LEAT_LAYOUT_COUNT || (unsigned)d->dtype >= LEAT_DTYPE_COUNT ||
        (unsigned)d->damage >= LEAT_DAMAGE_COUNT)
        return leat_fail(err, LEAT_INVALID, "a choice in the description is out of range");
    if (d->colour == LEAT_COLOUR_INDEX && d->filter != LEAT_FILTER_NEAREST)
        return leat_fail(err, LEAT_INVALID, "colour=index needs filter=nearest: mixed palette numbers mean nothing");
    for (unsigned i = 0; d->colour == LEAT_COLOUR_INDEX && i < d->effects.count; i++) {
        const struct leat_effect *e = &d->effects.effect[i];
        if (!leat_effect_is_geometric(e->kind) || e->bilinear)
            return leat_fail(err, LEAT_INVALID,
                             "colour=index: palette numbers can be moved (interpolation=nearest), "
                             "not blended or changed");
    }
    for (int c = 0; c < 3; c++) {
        if (d->background[c] && !d->blend)
            return leat_fail(err, LEAT_INVALID, "background needs alpha=blend");
        if (!(d->std[c] >= 0.0) || !(d->std[c] <= 1e6) || !(d->mean[c] >= -1e6) || !(d->mean[c] <= 1e6))
            return leat_fail(err, LEAT_INVALID, "mean %g and std %g of channel %d cannot be used to normalise",
                             d->mean[c], d->std[c], c);
        if ((d->dtype == LEAT_DTYPE_UINT8 || d->dtype == LEAT_DTYPE_UINT16) && (d->std[c] > 0.0 || d->mean[c] != 0.0))
            return leat_fail(err, LEAT_INVALID, "uint8 and uint16 cannot hold normalised values");
    }
    leat_status rc = check_wide(d, err);
    if (rc == LEAT_OK)
        rc = leat_steps_check(&d->steps, err);
    return rc == LEAT_OK ? leat_effects_check(&d->effects, err) : rc;
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
    p->wide = is_wide(description);
    p->target.channels = description->colour == LEAT_COLOUR_RGB ? 3 : description->colour == LEAT_COLOUR_RGBA ? 4 : 1;
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
    return pipeline->d.upright || info->turned ? info->orientation : 1;
}

void leat_pipeline_upright(const struct leat_pipeline *pipeline, const struct leat_image_info *info, uint32_t *width,
                           uint32_t *height)
{
    bool swaps = leat_turning_of(orientation_of(pipeline, info)).exchanged;
    *width = swaps ? info->height : info->width;
    *height = swaps ? info->width : info->height;
}

leat_status leat_pipeline_plan(const struct leat_pipeline *pipeline, const struct leat_image_info *info,
                               struct leat_rng draws, struct leat_drawn *out, struct leat_error *err)
{
    uint32_t width;
    uint32_t height;
    leat_pipeline_upright(pipeline, info, &width, &height);
    leat_status rc = leat_steps_apply(&pipeline->d.steps, width, height, draws, &out->geometry, err);
    if (rc == LEAT_OK)
        leat_effects_draw(&pipeline->d.effects, out->geometry.output[0], out->geometry.output[1], draws, &out->ops);
    return rc;
}

/* One direction of a crop, from a picture of `from` pixels to one of `to`. */
static void carry_over(uint32_t *at, uint32_t *size, uint32_t from, uint32_t to)
{
    uint64_t begin = ((uint64_t)*at * to * 2 + from) / (2 * (uint64_t)from);
    uint64_t end = (((uint64_t)*at + *size) * to * 2 + from) / (2 * (uint64_t)from);
    begin = begin < to ? begin : to - 1;
    end = end > begin ? end : begin + 1;
    *at = (uint32_t)begin;
    *size = (uint32_t)(end - begin);
}

leat_status leat_view_plan(const struct leat_view *view, const struct leat_image_info *info, struct leat_drawn *out,
                           struct leat_error *err)
{
    const struct leat_image_info *like = view->like ? view->like : info;
    leat_status rc = leat_pipeline_plan(view->pipeline, like, view->draws, out, err);
    struct leat_box *crop = &out->geometry.crop;
    if (rc != LEAT_OK || like == info || !crop->width || !crop->height)
        return rc;
    uint32_t from[2];
    uint32_t to[2];
    leat_pipeline_upright(view->pipeline, like, &from[0], &from[1]);
    leat_pipeline_upright(view->pipeline, info, &to[0], &to[1]);
    carry_over(&crop->x, &crop->width, from[0], to[0]);
    carry_over(&crop->y, &crop->height, from[1], to[1]);
    return rc;
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

struct leat_arena *leat_scratch_begin(struct leat_scratch *scratch)
{
    leat_arena_reset(&scratch->arena);
    return &scratch->arena;
}

/* Of formats that are not decoded row by row; of PNG and WebP, for wide samples. */
static leat_status read_bitmap(const struct leat_source *source, const struct leat_decode *decode,
                               const struct leat_box *box, struct leat_bitmap *out, struct leat_error *err)
{
    switch (source->info.type) {
    case LEAT_IMAGE_PNG:
        return leat_png_read(source, decode, box, out, err);
    case LEAT_IMAGE_WEBP:
        return leat_webp_read(source, decode, box, out, err);
    case LEAT_IMAGE_TIFF:
        return leat_tiff_read(source, decode, box, out, err);
    case LEAT_IMAGE_BMP:
        return leat_bmp_read(source, decode, box, out, err);
    case LEAT_IMAGE_GIF:
        return leat_gif_read(source, decode, box, out, err);
    case LEAT_IMAGE_AVIF:
        return leat_avif_read(source, decode, box, out, err);
    default:
        return leat_jxl_read(source, decode, box, out, err);
    }
}

static leat_status give_rows(struct leat_scratch *scratch, const struct leat_source *source,
                             const struct leat_decode *decode, const struct leat_box *box, struct leat_rows *to,
                             struct leat_error *err)
{
    struct leat_bitmap bitmap;
    leat_status rc;
    switch (source->info.type) {
    case LEAT_IMAGE_JPEG:
        if (decode->colour == LEAT_COLOUR_INDEX)
            return leat_fail(err, LEAT_UNSUPPORTED, "JPEG has no palette numbers");
        return leat_jpeg_rows(scratch->jpeg, source, decode, box, to, err);
    case LEAT_IMAGE_PNG:
        return leat_png_rows(source, decode, box, to, err);
    case LEAT_IMAGE_WEBP:
        return leat_webp_rows(source, decode, box, to, err);
    default:
        rc = read_bitmap(source, decode, box, &bitmap, err);
        return rc == LEAT_OK ? leat_bitmap_give(&bitmap, source, decode, box, to, err) : rc;
    }
}

/* One view on its way: what was drawn for it, where its rows go. */
struct run {
    const struct leat_view *view;
    struct leat_drawn drawn;
    struct leat_target target; /* the caller's memory, or the canvas */
    struct leat_canvas canvas; /* where operations follow */
    struct leat_sink sink;
    struct leat_box wanted;
    bool staged;
    bool done;
};

/* Rows of a JPEG, on their way into a bitmap. */
struct collector {
    struct leat_rows rows;
    struct leat_bitmap *to;
    uint32_t y;
};

static void collect(struct leat_rows *rows, const uint8_t *const *row)
{
    struct collector *c = (struct collector *)rows;
    unsigned n = c->to->components;
    uint8_t *to = c->to->pixels + c->to->stride * c->y++;
    for (uint32_t x = 0; x < c->to->box.width; x++) {
        for (unsigned k = 0; k < n; k++)
            *to++ = row[k][x];
    }
}

/* The whole of one view with wide samples. */
static leat_status run_wide(struct leat_scratch *scratch, const struct leat_source *source,
                            const struct leat_decode *decode, struct run *run, uint8_t orientation,
                            struct leat_error *err)
{
    const struct leat_geometry *g = &run->drawn.geometry;
    struct leat_box box = leat_wide_wants(g, &source->info, orientation);
    struct leat_bitmap bitmap;
    leat_status rc;
    if (source->info.type == LEAT_IMAGE_JPEG) {
        struct collector c = {.rows.give = collect, .to = &bitmap};
        struct leat_decode opaque = *decode;
        opaque.colour = decode->colour == LEAT_COLOUR_RGBA ? LEAT_COLOUR_RGB : decode->colour;
        rc = leat_bitmap_take(decode, &box, leat_decode_planes(&source->info, decode->colour), 1, &bitmap, err);
        if (rc == LEAT_OK)
            rc = give_rows(scratch, source, &opaque, &box, &c.rows, err);
    } else {
        rc = read_bitmap(source, decode, &box, &bitmap, err);
    }
    return rc == LEAT_OK ? leat_wide_put(&bitmap, source, decode, g, orientation, &run->target, err) : rc;
}

/* Rows of one decode for several sinks, each of which wants a box of its own out of the box that holds them all. */
struct fan {
    struct leat_rows rows;
    struct run **runs;
    unsigned n;
    unsigned planes;
    struct leat_box all;
    uint32_t y;
};

static void give_fan(struct leat_rows *rows, const uint8_t *const *row)
{
    struct fan *f = (struct fan *)rows;
    uint32_t y = f->all.y + f->y++;
    for (unsigned i = 0; i < f->n; i++) {
        const struct leat_box *b = &f->runs[i]->wanted;
        const uint8_t *part[3];
        if (y < b->y || y - b->y >= b->height)
            continue;
        for (unsigned p = 0; p < f->planes; p++)
            part[p] = row[p] + (b->x - f->all.x);
        f->runs[i]->sink.rows.give(&f->runs[i]->sink.rows, part);
    }
}

static struct leat_box around(const struct leat_box *a, const struct leat_box *b)
{
    uint32_t x = a->x < b->x ? a->x : b->x;
    uint32_t y = a->y < b->y ? a->y : b->y;
    uint32_t right = a->x + a->width > b->x + b->width ? a->x + a->width : b->x + b->width;
    uint32_t bottom = a->y + a->height > b->y + b->height ? a->y + a->height : b->y + b->height;
    return (struct leat_box){x, y, right - x, bottom - y};
}

/* Rows on their way into memory that keeps the whole picture, and from there to those who want some of them. */
struct keeper {
    struct leat_rows rows;
    uint8_t *to;
    unsigned planes;
    uint32_t width, height;
    uint32_t y;
};

static void keep(struct leat_rows *rows, const uint8_t *const *row)
{
    struct keeper *k = (struct keeper *)rows;
    size_t plane = (size_t)k->width * k->height;
    for (unsigned p = 0; p < k->planes; p++)
        memcpy(k->to + p * plane + (size_t)k->y * k->width, row[p], k->width);
    k->y++;
}

static void give_kept(const uint8_t *whole, const struct leat_image_info *info, unsigned planes,
                      const struct leat_box *box, struct leat_rows *to)
{
    size_t plane = (size_t)info->width * info->height;
    for (uint32_t y = box->y; y < box->y + box->height; y++) {
        const uint8_t *row[3];
        for (unsigned p = 0; p < planes; p++)
            row[p] = whole + p * plane + (size_t)y * info->width + box->x;
        to->give(to, row);
    }
}

/* Decodes once for all runs, which share how it is done. */
static leat_status run_exact(struct leat_scratch *scratch, const struct leat_source *source,
                             const struct leat_decode *decode, struct run **runs, unsigned n, uint8_t orientation,
                             struct leat_error *err)
{
    const struct leat_image_info *info = &source->info;
    bool swaps = leat_turning_of(orientation).exchanged;
    struct fan fan = {.rows.give = give_fan, .runs = runs, .n = n};
    fan.planes = leat_decode_planes(info, decode->colour);
    struct leat_plane_scale whole = {1.0, 1.0, swaps ? info->height : info->width, swaps ? info->width : info->height,
                                     orientation};
    for (unsigned i = 0; i < n; i++) {
        struct run *r = runs[i];
        leat_status rc = leat_sink_open(&r->sink, decode->kernels, decode->arena, &r->target, &r->drawn.geometry,
                                        fan.planes, false, &whole, err);
        if (rc != LEAT_OK)
            return rc;
        r->wanted = leat_sink_wants(&r->sink);
        fan.all = i ? around(&fan.all, &r->wanted) : r->wanted;
    }
    /* Sinks want boxes of the picture as it is stored, and turn what they are given themselves. */
    struct leat_rows *to = n == 1 ? &runs[0]->sink.rows : &fan.rows;
    if (!runs[0]->view->whole)
        return give_rows(scratch, source, decode, &fan.all, to, err);
    give_kept(runs[0]->view->whole, info, fan.planes, &fan.all, to);
    return LEAT_OK;
}

static leat_status run_fast(struct leat_scratch *scratch, const struct leat_source *source,
                            const struct leat_decode *decode, struct run *run, uint8_t orientation,
                            struct leat_error *err)
{
    leat_status rc = LEAT_UNSUPPORTED;
    bool plain = orientation == 1 && run->target.filter != LEAT_FILTER_NEAREST;
    if (plain && source->info.type == LEAT_IMAGE_JPEG)
        rc = leat_jpeg_fast(scratch->jpeg, source, decode, &run->target, &run->drawn.geometry, err);
    else if (plain && source->info.type == LEAT_IMAGE_WEBP)
        rc = leat_webp_fast(source, decode, &run->target, &run->drawn.geometry, err);
    if (rc == LEAT_UNSUPPORTED)
        rc = run_exact(scratch, source, decode, &run, 1, orientation, err);
    return rc;
}

static leat_status check_animation(const struct leat_prep_description *d, const struct leat_image_info *info,
                                   struct leat_error *err)
{
    if (info->animated && d->refuse_animation)
        return leat_fail(err, LEAT_UNSUPPORTED, "this is an animation; animation=first takes its first frame");
    return LEAT_OK;
}

/* Draws, and makes ready where rows will go. */
static leat_status begin(const struct leat_view *view, struct leat_scratch *scratch, const struct leat_source *source,
                         struct run *run, struct leat_error *err)
{
    const struct leat_pipeline *pipeline = view->pipeline;
    const struct leat_geometry *g = &run->drawn.geometry;
    leat_status rc = leat_image_check(&source->info, &pipeline->limits, err);
    if (rc == LEAT_OK)
        rc = check_animation(&pipeline->d, &source->info, err);
    if (rc == LEAT_OK)
        rc = leat_view_plan(view, &source->info, &run->drawn, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t bytes = leat_pipeline_bytes(pipeline, g->output[0], g->output[1]);
    if (bytes != view->to_bytes)
        return leat_fail(err, LEAT_INVALID,
                         "an output of %" PRIu32 "x%" PRIu32 " takes %" PRIu64 " bytes, not %" PRIu64, g->output[0],
                         g->output[1], bytes, view->to_bytes);
    run->view = view;
    run->target = pipeline->target;
    run->target.data = view->to;
    run->staged = run->drawn.ops.count || g->border != LEAT_BORDER_CONSTANT;
    if (run->staged) {
        rc = leat_canvas_open(&run->canvas, scratch->kernels, &scratch->arena, pipeline->target.channels, g->output[0],
                              g->output[1], err);
        run->canvas.filled = pipeline->d.filled;
        memcpy(run->canvas.fill, pipeline->d.fill, sizeof run->canvas.fill);
        run->target.data = run->canvas.plane[0];
        run->target.layout = LEAT_LAYOUT_NCHW;
        run->target.dtype = LEAT_DTYPE_UINT8;
    }
    run->done = g->window.width == 0 || g->window.height == 0;
    if (rc == LEAT_OK && run->done && pipeline->wide)
        leat_wide_fill(&run->target, (uint64_t)g->output[0] * g->output[1]);
    else if (rc == LEAT_OK && run->done)
        leat_target_fill(&run->target, scratch->kernels, (uint64_t)g->output[0] * g->output[1]);
    return rc;
}

static leat_status finish(struct run *run, struct leat_scratch *scratch, struct leat_error *err)
{
    if (!run->staged)
        return LEAT_OK;
    struct leat_target target = run->view->pipeline->target;
    size_t pixels = (size_t)run->canvas.width * run->canvas.height;
    if (run->drawn.geometry.border != LEAT_BORDER_CONSTANT)
        leat_canvas_border(&run->canvas, &run->drawn.geometry);
    leat_status rc = leat_canvas_run(&run->canvas, &run->drawn.ops, err);
    if (rc != LEAT_OK)
        return rc;
    target.data = run->view->to;
    leat_target_put(&target, scratch->kernels, (const uint8_t *const *)run->canvas.plane, pixels, 0, pixels);
    return LEAT_OK;
}

/* One decode serves two views when nothing but their boxes differs. */
static bool decodes_alike(const struct leat_prep_description *a, const struct leat_prep_description *b)
{
    return !a->fast && !b->fast && !is_wide(a) && !is_wide(b) && a->colour == b->colour && a->damage == b->damage &&
           a->upright == b->upright && a->blend == b->blend &&
           memcmp(a->background, b->background, sizeof a->background) == 0 &&
           memcmp(&a->limits, &b->limits, sizeof a->limits) == 0;
}

static struct leat_decode decode_of(const struct leat_pipeline *pipeline, struct leat_scratch *scratch)
{
    struct leat_decode decode = {
        .colour = pipeline->d.colour,
        .damage = pipeline->d.damage,
        .wide = pipeline->wide,
        .limits = pipeline->limits,
        .kernels = scratch->kernels,
        .arena = &scratch->arena,
    };
    memcpy(decode.background, pipeline->d.background, sizeof decode.background);
    return decode;
}

/* Alpha that is dropped is decoded as if it were not there. */
static struct leat_image_info seen_by(const struct leat_pipeline *pipeline, const struct leat_image_info *info)
{
    struct leat_image_info seen = *info;
    if (!pipeline->d.blend && pipeline->d.colour != LEAT_COLOUR_RGBA)
        seen.alpha = false;
    return seen;
}

/* Decodes for the first view that is left and for all that go with it. */
static leat_status decode_some(struct leat_scratch *scratch, const struct leat_source *source, struct run *runs,
                               unsigned n, struct run **group, struct leat_error *err)
{
    const struct leat_pipeline *pipeline = runs[0].view->pipeline;
    uint8_t orientation = orientation_of(pipeline, &source->info);
    struct leat_source seen = *source;
    unsigned count = 0;
    seen.info = seen_by(pipeline, &source->info);
    struct leat_decode decode = decode_of(pipeline, scratch);
    for (unsigned i = 0; i < n; i++) {
        if (i == 0 || (!runs[i].done && decodes_alike(&pipeline->d, &runs[i].view->pipeline->d)))
            group[count++] = &runs[i];
    }
    leat_status rc = pipeline->wide     ? run_wide(scratch, &seen, &decode, &runs[0], orientation, err)
                     : pipeline->d.fast ? run_fast(scratch, &seen, &decode, &runs[0], orientation, err)
                                        : run_exact(scratch, &seen, &decode, group, count, orientation, err);
    for (unsigned i = 0; i < count; i++)
        group[i]->done = true;
    return rc;
}

leat_status leat_pipeline_run_views(struct leat_scratch *scratch, const void *data, size_t data_bytes,
                                    const struct leat_view *views, unsigned n, struct leat_error *err)
{
    struct leat_source source = {.data = data, .size = data_bytes};
    leat_arena_reset(&scratch->arena);
    struct run *runs = leat_arena_take(&scratch->arena, n * sizeof *runs);
    struct run **group = leat_arena_take(&scratch->arena, n * sizeof *group);
    if (!runs || !group)
        return leat_arena_fail(&scratch->arena, err);
    leat_status rc = leat_image_probe(data, data_bytes, &source.info, err);
    for (unsigned i = 0; rc == LEAT_OK && i < n; i++)
        rc = begin(&views[i], scratch, &source, &runs[i], err);
    for (unsigned i = 0; rc == LEAT_OK && i < n; i++) {
        if (!runs[i].done)
            rc = decode_some(scratch, &source, runs + i, n - i, group, err);
    }
    for (unsigned i = 0; rc == LEAT_OK && i < n; i++)
        rc = finish(&runs[i], scratch, err);
    return rc;
}

leat_status leat_pipeline_run(const struct leat_pipeline *pipeline, struct leat_scratch *scratch, const void *data,
                              size_t data_bytes, struct leat_rng draws, void *to, uint64_t to_bytes,
                              struct leat_error *err)
{
    struct leat_view view = {.pipeline = pipeline, .draws = draws, .to = to, .to_bytes = to_bytes};
    return leat_pipeline_run_views(scratch, data, data_bytes, &view, 1, err);
}

bool leat_pipeline_takes_whole(const struct leat_pipeline *pipeline)
{
    return !pipeline->d.fast && !pipeline->wide;
}

bool leat_pipelines_decode_alike(const struct leat_pipeline *a, const struct leat_pipeline *b)
{
    return decodes_alike(&a->d, &b->d);
}

void leat_pipeline_identify_decode(const struct leat_pipeline *pipeline, struct leat_buf *id)
{
    const struct leat_prep_description *d = &pipeline->d;
    leat_buf_printf(id, "%d %d %d %u %u %u ", d->colour, d->blend, d->refuse_animation, d->background[0],
                    d->background[1], d->background[2]);
    leat_buf_add(id, &pipeline->limits, sizeof pipeline->limits);
}

uint64_t leat_whole_bytes(const struct leat_pipeline *pipeline, const struct leat_image_info *info)
{
    struct leat_image_info seen = seen_by(pipeline, info);
    return (uint64_t)info->width * info->height * leat_decode_planes(&seen, pipeline->d.colour) + LEAT_ROW_PAD;
}

leat_status leat_whole_decode(const struct leat_pipeline *pipeline, struct leat_scratch *scratch, const void *data,
                              size_t data_bytes, uint8_t *to, struct leat_error *err)
{
    struct leat_source source = {.data = data, .size = data_bytes};
    leat_arena_reset(&scratch->arena);
    leat_status rc = leat_image_probe(data, data_bytes, &source.info, err);
    if (rc == LEAT_OK)
        rc = leat_image_check(&source.info, &pipeline->limits, err);
    if (rc == LEAT_OK)
        rc = check_animation(&pipeline->d, &source.info, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_decode decode = decode_of(pipeline, scratch);
    struct keeper keeper = {.rows.give = keep, .width = source.info.width, .height = source.info.height};
    struct leat_box all = {0, 0, source.info.width, source.info.height};
    decode.damage = LEAT_DAMAGE_ERROR;
    source.info = seen_by(pipeline, &source.info);
    keeper.to = to;
    keeper.planes = leat_decode_planes(&source.info, decode.colour);
    rc = give_rows(scratch, &source, &decode, &all, &keeper.rows, err);
    if (rc == LEAT_OK && keeper.y != keeper.height)
        rc = leat_fail(err, LEAT_CORRUPT, "%" PRIu32 " of %" PRIu32 " rows are there", keeper.y, keeper.height);
    return rc;
}

#define SAMPLE_BITS     40
#define OCCURRENCE_BITS 16
static_assert(LEAT_VIEW_MAX < 1 << (64 - SAMPLE_BITS - OCCURRENCE_BITS), "every view has draws of its own");

struct leat_rng leat_prep_draws(uint64_t key, uint64_t sample, uint32_t occurrence, uint32_t view)
{
    return leat_rng(key,
                    sample ^ (uint64_t)occurrence << SAMPLE_BITS ^ (uint64_t)view << (SAMPLE_BITS + OCCURRENCE_BITS));
}
