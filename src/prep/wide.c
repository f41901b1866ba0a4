#include "prep/wide.h"

#include <math.h>
#include <string.h>

#define TOP 65535.0f /* the highest level */

/* Where a place of the upright picture is stored. */
static void stored_at(const struct leat_turning *t, const struct leat_image_info *info, uint32_t *x, uint32_t *y)
{
    uint32_t sx = t->exchanged ? *y : *x;
    uint32_t sy = t->exchanged ? *x : *y;
    *x = t->mirror_x ? info->width - 1 - sx : sx;
    *y = t->mirror_y ? info->height - 1 - sy : sy;
}

struct leat_box leat_wide_wants(const struct leat_geometry *g, const struct leat_image_info *info, uint8_t orientation)
{
    struct leat_turning t = leat_turning_of(orientation);
    uint32_t x[2] = {g->crop.x, g->crop.x + g->crop.width - 1};
    uint32_t y[2] = {g->crop.y, g->crop.y + g->crop.height - 1};
    for (unsigned i = 0; i < 2; i++)
        stored_at(&t, info, &x[i], &y[i]);
    uint32_t left = x[0] < x[1] ? x[0] : x[1];
    uint32_t top = y[0] < y[1] ? y[0] : y[1];
    return (struct leat_box){left, top, (x[0] < x[1] ? x[1] : x[0]) - left + 1, (y[0] < y[1] ? y[1] : y[0]) - top + 1};
}

/* One direction: of every output its first sample, how many there are and their weights. */
struct taps {
    uint32_t count;
    uint32_t most;
    uint32_t *first;
    uint32_t *n;
    float *weight; /* most of each output */
};

static double filter_at(enum leat_filter filter, double x)
{
    x = fabs(x);
    if (filter == LEAT_FILTER_BILINEAR)
        return x < 1.0 ? 1.0 - x : 0.0;
    const double a = -0.5;
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

/* Pillow's rules, as in axis.c, but for weights that are not rounded. */
static void weigh(struct taps *t, enum leat_filter filter, uint32_t i, double centre, double support, double scale,
                  uint32_t samples)
{
    double begin = centre - support + 0.5;
    double end = centre + support + 0.5;
    uint32_t low = begin > 0.0 ? (uint32_t)begin : 0;
    uint32_t high = end < samples ? (uint32_t)end : samples;
    float *w = t->weight + (size_t)t->most * i;
    double sum = 0.0;
    high = high > low ? high : low + 1;
    for (uint32_t k = low; k < high; k++)
        sum += filter_at(filter, (k - centre + 0.5) / scale);
    for (uint32_t k = low; k < high; k++)
        w[k - low] = (float)(sum != 0.0 ? filter_at(filter, (k - centre + 0.5) / scale) / sum : 0.0);
    t->first[i] = low;
    t->n[i] = high - low;
}

static leat_status make_taps(struct taps *t, enum leat_filter filter, uint32_t samples, uint32_t size, uint32_t first,
                             uint32_t count, struct leat_arena *arena, struct leat_error *err)
{
    double ratio = (double)samples / size;
    bool copy = samples == size || filter == LEAT_FILTER_NEAREST;
    double scale = ratio > 1.0 ? ratio : 1.0;
    double support = (filter == LEAT_FILTER_BICUBIC ? 2.0 : 1.0) * scale;
    *t = (struct taps){.count = count, .most = copy ? 1 : (uint32_t)ceil(support) * 2 + 2};
    t->first = leat_arena_take(arena, count * sizeof *t->first);
    t->n = leat_arena_take(arena, count * sizeof *t->n);
    t->weight = leat_arena_take(arena, (size_t)count * t->most * sizeof *t->weight);
    if (!t->first || !t->n || !t->weight)
        return leat_arena_fail(arena, err);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t output = (uint64_t)first + i;
        if (copy) {
            t->first[i] = (uint32_t)((2 * output + 1) * samples / (2 * (uint64_t)size));
            t->n[i] = 1;
            t->weight[i] = 1.0f;
        } else {
            weigh(t, filter, i, ((double)output + 0.5) * ratio, support, scale, samples);
        }
    }
    return LEAT_OK;
}

struct work {
    const struct leat_bitmap *bitmap;
    const struct leat_source *source;
    const struct leat_decode *decode;
    const struct leat_geometry *geometry;
    const struct leat_target *target;
    struct leat_turning turn;
    struct taps across;
    struct taps down;
    float *row;      /* of the crop, upright: channels side by side */
    float *squeezed; /* all rows of the crop after the horizontal pass */
};

/* A pixel as the output's channels: grey, colour, or colour and alpha. */
static void take_pixel(const struct work *w, uint32_t x, uint32_t y, float *out)
{
    uint16_t v[4];
    bool index = w->decode->colour == LEAT_COLOUR_INDEX;
    unsigned c = w->bitmap->components;
    stored_at(&w->turn, &w->source->info, &x, &y);
    leat_bitmap_pixel(w->bitmap, x, y, index, v);
    uint32_t alpha = c % 2 == 0 ? v[c - 1] : 65535;
    uint32_t colour[3];
    for (unsigned k = 0; k < 3; k++) {
        colour[k] = v[c > 2 ? k : 0];
        if (w->target->channels != 4 && w->source->info.alpha)
            colour[k] = (uint32_t)(((uint64_t)colour[k] * alpha + w->decode->background[k] * 257u * (65535ull - alpha) +
                                    32767) /
                                   65535);
    }
    if (w->target->channels == 1) {
        *out = c > 2 ? (float)((19595u * (uint64_t)colour[0] + 38470u * (uint64_t)colour[1] +
                                7471u * (uint64_t)colour[2] + 32768) >>
                               16)
                     : (float)colour[0];
        return;
    }
    for (unsigned k = 0; k < 3; k++)
        out[k] = (float)colour[k];
    if (w->target->channels == 4)
        out[3] = (float)alpha;
}

static void squeeze_row(const struct work *w, uint32_t y)
{
    unsigned c = w->target->channels;
    const struct leat_box *crop = &w->geometry->crop;
    float *to = w->squeezed + (size_t)w->across.count * c * y;
    for (uint32_t x = 0; x < crop->width; x++)
        take_pixel(w, crop->x + x, crop->y + y, w->row + (size_t)c * x);
    for (uint32_t i = 0; i < w->across.count; i++) {
        const float *weight = w->across.weight + (size_t)w->across.most * i;
        for (unsigned k = 0; k < c; k++) {
            float sum = 0.0f;
            for (uint32_t j = 0; j < w->across.n[i]; j++)
                sum += weight[j] * w->row[(size_t)(w->across.first[i] + j) * c + k];
            *to++ = sum;
        }
    }
}

/* A level of 0 … 65535 to sample `at` of the destination. */
static void put_level(const struct leat_target *t, float level, unsigned channel, size_t at)
{
    level = level < 0.0f ? 0.0f : level > TOP ? TOP : level;
    const struct leat_affine plain = {1.0f / 255.0f, 0.0f};
    const struct leat_affine *map = channel < 3 ? &t->map[channel] : &plain;
    float v = level / 257.0f * map->scale + map->bias;
    switch (t->dtype) {
    case LEAT_DTYPE_UINT8:
        ((uint8_t *)t->data)[at] = (uint8_t)(level / 257.0f + 0.5f);
        break;
    case LEAT_DTYPE_UINT16:
        ((uint16_t *)t->data)[at] = (uint16_t)(level + 0.5f);
        break;
    case LEAT_DTYPE_FLOAT32:
        ((float *)t->data)[at] = v;
        break;
    case LEAT_DTYPE_FLOAT16:
        ((uint16_t *)t->data)[at] = leat_f16_of(v);
        break;
    default:
        ((uint16_t *)t->data)[at] = leat_bf16_of(v);
        break;
    }
}

static size_t place_of(const struct leat_target *t, size_t pixel, unsigned channel, size_t pixels)
{
    return t->layout == LEAT_LAYOUT_NHWC ? pixel * t->channels + channel : pixels * channel + pixel;
}

void leat_wide_fill(const struct leat_target *t, uint64_t pixels)
{
    for (uint64_t i = 0; i < pixels; i++) {
        for (unsigned c = 0; c < t->channels; c++) /* and transparent */
            put_level(t, c < 3 ? (float)t->fill[c] * 257.0f : 0.0f, c, place_of(t, i, c, pixels));
    }
}

static void put_row(const struct work *w, uint32_t y)
{
    const struct leat_geometry *g = w->geometry;
    unsigned c = w->target->channels;
    size_t pixels = (size_t)g->output[0] * g->output[1];
    size_t line = g->place[1] + y;
    line = g->vflip ? g->output[1] - 1 - line : line;
    for (uint32_t x = 0; x < w->across.count; x++) {
        size_t column = g->place[0] + x;
        column = g->flip ? g->output[0] - 1 - column : column;
        for (unsigned k = 0; k < c; k++) {
            float sum = 0.0f;
            for (uint32_t j = 0; j < w->down.n[y]; j++)
                sum += w->down.weight[(size_t)w->down.most * y + j] *
                       w->squeezed[((size_t)w->across.count * (w->down.first[y] + j) + x) * c + k];
            put_level(w->target, sum, k, place_of(w->target, line * g->output[0] + column, k, pixels));
        }
    }
}

leat_status leat_wide_put(const struct leat_bitmap *bitmap, const struct leat_source *source,
                          const struct leat_decode *decode, const struct leat_geometry *g, uint8_t orientation,
                          const struct leat_target *target, struct leat_error *err)
{
    struct work w = {.bitmap = bitmap, .source = source, .decode = decode, .geometry = g, .target = target};
    struct leat_arena *arena = decode->arena;
    w.turn = leat_turning_of(orientation);
    leat_status rc =
        make_taps(&w.across, target->filter, g->crop.width, g->resized[0], g->window.x, g->window.width, arena, err);
    if (rc == LEAT_OK)
        rc = make_taps(&w.down, target->filter, g->crop.height, g->resized[1], g->window.y, g->window.height, arena,
                       err);
    if (rc != LEAT_OK)
        return rc;
    size_t channels = target->channels;
    w.row = leat_arena_take(arena, g->crop.width * channels * sizeof *w.row);
    w.squeezed = leat_arena_take(arena, (size_t)w.across.count * g->crop.height * channels * sizeof *w.squeezed);
    if (!w.row || !w.squeezed)
        return leat_arena_fail(arena, err);
    if (g->window.width != g->output[0] || g->window.height != g->output[1])
        leat_wide_fill(target, (uint64_t)g->output[0] * g->output[1]);
    for (uint32_t y = 0; y < g->crop.height; y++)
        squeeze_row(&w, y);
    for (uint32_t y = 0; y < w.down.count; y++)
        put_row(&w, y);
    return LEAT_OK;
}
