#include "prep/axis.h"

#include <math.h>
#include <string.h>

/* Outputs whose taps are added up in a row of their own are read in steps of this. */
#define LONG_STEP 32

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    if (x < 2.0)
        return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    return 0.0;
}

struct span {
    uint32_t start;
    uint32_t taps;
};

/* The samples output i of the whole box sees, and their weights, which add up to 1. */
static struct span weigh(const struct leat_axis_spec *s, uint32_t i, double scale, double support, double *w)
{
    double filter_scale = scale < 1.0 ? 1.0 : scale;
    double step = 1.0 / filter_scale;
    double center = s->offset + (i + 0.5) * scale;
    double low = center - support + 0.5;
    double high = center + support + 0.5;
    uint32_t begin = low > 0.0 ? (uint32_t)low : 0;
    uint32_t end = high < s->samples ? (uint32_t)high : s->samples;
    if (begin >= end) {
        w[0] = 1.0;
        return (struct span){begin < s->samples ? begin : s->samples - 1, 1};
    }
    double total = 0.0;
    for (uint32_t j = 0; j < end - begin; j++) {
        double x = (j + begin - center + 0.5) * step;
        w[j] = s->filter == LEAT_FILTER_BICUBIC ? bicubic(x) : bilinear(x);
        total += w[j];
    }
    for (uint32_t j = 0; total != 0.0 && j < end - begin; j++)
        w[j] /= total;
    return (struct span){begin, end - begin};
}

/* Weights as large as 16 bits allow; sums of products stay inside 32. */
static uint32_t choose_shift(double largest)
{
    uint32_t shift = 0;
    while (shift < 22 && (int)(0.5 + largest * (1 << (shift + 1))) < 1 << 15)
        shift++;
    return shift;
}

static bool take_weights(struct leat_axis *a, struct leat_arena *arena)
{
    size_t bytes = (size_t)a->count * a->stride * sizeof *a->weight;
    a->weight = leat_arena_take(arena, bytes);
    if (a->weight)
        memset(a->weight, 0, bytes);
    return a->weight;
}

static void rebase(struct leat_axis *a, const uint32_t *taps_of)
{
    uint32_t begin = UINT32_MAX;
    uint32_t end = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t taps = taps_of ? taps_of[i] : 1;
        if (a->start[i] < begin)
            begin = a->start[i];
        if (a->start[i] + taps > end)
            end = a->start[i] + taps;
    }
    for (uint32_t i = 0; i < a->count; i++)
        a->start[i] -= begin;
    a->begin = begin;
    a->end = end;
    /* Every output is summed over as many samples as the one with the most: those of the last ones, which have fewer,
     * start earlier, with weights of 0, and so end where the samples end. */
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t last = end - begin - a->taps;
        if (a->start[i] <= last)
            continue;
        int16_t *weight = a->weight + (size_t)i * a->stride;
        uint32_t by = a->start[i] - last;
        memmove(weight + by, weight, (a->taps - by) * sizeof *weight);
        memset(weight, 0, by * sizeof *weight);
        a->start[i] = last;
    }
}

static leat_status make_nearest(struct leat_axis *a, const struct leat_axis_spec *s, struct leat_arena *arena,
                                struct leat_error *err)
{
    a->taps = 1;
    a->stride = 2;
    a->shift = 14;
    a->start = leat_arena_take(arena, a->count * sizeof *a->start);
    if (!a->start || !take_weights(a, arena))
        return leat_arena_fail(arena, err);
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t at = s->reversed ? s->count - 1 - i : i;
        /* The box is whole samples wherever a mask is cut, so integers say exactly which sample a centre is in. */
        uint64_t source = ((uint64_t)2 * (s->first + at) + 1) * (uint64_t)s->length / ((uint64_t)2 * s->size);
        a->start[i] = (uint32_t)s->offset + (uint32_t)source;
        a->weight[(size_t)i * 2] = 1 << 14;
    }
    rebase(a, NULL);
    return LEAT_OK;
}

static leat_status make_filtered(struct leat_axis *a, const struct leat_axis_spec *s, struct leat_arena *arena,
                                 struct leat_error *err)
{
    double scale = s->length / s->size;
    double support = (s->filter == LEAT_FILTER_BICUBIC ? 2.0 : 1.0) * (scale < 1.0 ? 1.0 : scale);
    uint32_t most = (uint32_t)ceil(support) * 2 + 1;
    double *w = leat_arena_take(arena, (size_t)s->count * most * sizeof *w);
    double *other = leat_arena_take(arena, most * sizeof *other);
    uint32_t *taps_of = leat_arena_take(arena, s->count * sizeof *taps_of);
    a->start = leat_arena_take(arena, a->count * sizeof *a->start);
    if (!w || !other || !taps_of || !a->start)
        return leat_arena_fail(arena, err);
    double largest = 0.0;
    /* All outputs decide the shift, wanted or not: a cut-out of a resize equals the whole one, cut out. */
    for (uint32_t i = 0; i < s->size; i++) {
        bool wanted = i >= s->first && i - s->first < s->count;
        uint32_t at = i - s->first;
        if (s->reversed)
            at = s->count - 1 - at;
        double *to = wanted ? w + (size_t)at * most : other;
        struct span span = weigh(s, i, scale, support, to);
        for (uint32_t j = 0; j < span.taps; j++)
            largest = to[j] > largest ? to[j] : largest;
        if (wanted) {
            a->start[at] = span.start;
            taps_of[at] = span.taps;
            a->taps = span.taps > a->taps ? span.taps : a->taps;
        }
    }
    a->stride = a->taps >= LONG_STEP / 4 ? (a->taps + LONG_STEP - 1) / LONG_STEP * LONG_STEP : (a->taps + 1) & ~1u;
    if (!take_weights(a, arena))
        return leat_arena_fail(arena, err);
    a->shift = choose_shift(largest);
    double one = (double)(1 << a->shift);
    for (uint32_t i = 0; i < s->count; i++) {
        for (uint32_t j = 0; j < taps_of[i]; j++) {
            double v = w[(size_t)i * most + j] * one;
            a->weight[(size_t)i * a->stride + j] = (int16_t)(v < 0 ? v - 0.5 : v + 0.5);
        }
    }
    rebase(a, taps_of);
    return LEAT_OK;
}

/* Sample j of n becomes sample n - 1 - j. */
static void mirror(struct leat_axis *a, uint32_t samples)
{
    uint32_t length = a->end - a->begin;
    for (uint32_t i = 0; !a->copy && i < a->count; i++) {
        int16_t *weight = a->weight + (size_t)i * a->stride;
        a->start[i] = length - a->start[i] - a->taps;
        for (uint32_t j = 0; j < a->taps / 2; j++) {
            int16_t w = weight[j];
            weight[j] = weight[a->taps - 1 - j];
            weight[a->taps - 1 - j] = w;
        }
    }
    a->begin = samples - a->end;
    a->end = a->begin + length;
}

/* Falls back to groups = 0 where some output's samples lie outside its lane's window. */
static leat_status pack_groups(struct leat_axis *a, const struct leat_axis_shape *shape, struct leat_arena *arena,
                               struct leat_error *err)
{
    uint32_t pairs = (a->taps + 1) / 2;
    uint32_t groups = (a->count + shape->group - 1) / shape->group;
    a->lanes = shape->group / shape->lane;
    a->base = leat_arena_take(arena, (size_t)groups * a->lanes * sizeof *a->base);
    a->index = leat_arena_take(arena, (size_t)groups * shape->group * 4);
    a->packed = leat_arena_take(arena, (size_t)groups * pairs * shape->group * 2 * sizeof *a->packed);
    if (!a->base || !a->index || !a->packed)
        return leat_arena_fail(arena, err);
    for (uint32_t lane = 0; lane < groups * a->lanes; lane++) {
        uint32_t low = UINT32_MAX;
        for (uint32_t j = 0; j < shape->lane; j++) {
            uint32_t i = lane * shape->lane + j;
            if (i < a->count && a->start[i] < low)
                low = a->start[i];
        }
        a->base[lane] = low == UINT32_MAX ? 0 : low;
    }
    for (uint32_t i = 0; i < groups * shape->group; i++) {
        uint32_t at = i < a->count ? a->start[i] - a->base[i / shape->lane] : 0;
        if (at + 2 > shape->window && at + 2 > shape->wide)
            return LEAT_OK;
        a->wide = a->wide || at + 2 > shape->window;
        /* 0x80 makes a zero: pairs of bytes become pairs of 16-bit numbers on the way. */
        uint8_t *index = a->index + (size_t)i * 4;
        index[0] = (uint8_t)at;
        index[1] = 0x80;
        index[2] = (uint8_t)(at + 1);
        index[3] = 0x80;
        for (uint32_t p = 0; p < pairs; p++) {
            int16_t *to = a->packed + (((size_t)i / shape->group * pairs + p) * shape->group + i % shape->group) * 2;
            to[0] = i < a->count ? a->weight[(size_t)i * a->stride + 2 * p] : 0;
            to[1] = i < a->count ? a->weight[(size_t)i * a->stride + 2 * p + 1] : 0;
        }
    }
    a->groups = groups;
    return LEAT_OK;
}

leat_status leat_axis_make(struct leat_axis *axis, const struct leat_axis_spec *spec,
                           const struct leat_axis_shape *shape, struct leat_arena *arena, struct leat_error *err)
{
    struct leat_axis a = {.count = spec->count};
    bool whole = spec->offset == floor(spec->offset) && spec->length == spec->size;
    leat_status rc = LEAT_OK;
    if (whole && spec->reversed == spec->mirrored) {
        a.copy = true;
        a.taps = 1;
        a.begin = (uint32_t)spec->offset + spec->first;
        a.end = a.begin + spec->count;
    } else if (whole || spec->filter == LEAT_FILTER_NEAREST) {
        rc = make_nearest(&a, spec, arena, err);
    } else {
        rc = make_filtered(&a, spec, arena, err);
    }
    if (rc == LEAT_OK && spec->mirrored)
        mirror(&a, spec->samples);
    if (rc == LEAT_OK && !a.copy && shape->group)
        rc = pack_groups(&a, shape, arena, err);
    if (rc == LEAT_OK)
        *axis = a;
    return rc;
}
