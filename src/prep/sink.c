#include "prep/sink.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Planes of a picture arrive in turns of up to 32 rows and wait for each other. */
#define RING_SLACK 64

size_t leat_dtype_size(enum leat_dtype dtype)
{
    static const uint8_t sizes[LEAT_DTYPE_COUNT] = {1, 4, 2, 2, 2};
    return sizes[dtype];
}

static size_t padded(size_t n)
{
    return (n + 63) / 64 * 64 + LEAT_ROW_PAD;
}

/* n samples of one channel, or of all in turn, to the destination at sample `at`. */
static void put(const struct leat_target *t, const struct leat_kernels *k, const uint8_t *in, size_t n,
                unsigned channel, unsigned channels, size_t at)
{
    const struct leat_affine *map = t->map + channel;
    switch (t->dtype) {
    case LEAT_DTYPE_UINT8:
        /* Every channel of the output has rows: the analyzer cannot know that three channels come with three planes. */
        memcpy((uint8_t *)t->data + at, in, n); /* NOLINT(clang-analyzer-core.NonNullParamChecker) */
        break;
    case LEAT_DTYPE_FLOAT32:
        k->to_f32(in, n, map, channels, (float *)t->data + at);
        break;
    case LEAT_DTYPE_FLOAT16:
        k->to_f16(in, n, map, channels, (uint16_t *)t->data + at);
        break;
    default:
        k->to_bf16(in, n, map, channels, (uint16_t *)t->data + at);
        break;
    }
}

void leat_target_fill(const struct leat_target *target, const struct leat_kernels *kernels, uint64_t pixels)
{
    /* A stretch of fill, copied out until all is covered: rows of colour repeat every 3 samples, planes every 1. */
    uint8_t stretch[192 + LEAT_ROW_PAD] = {0};
    bool mixed = target->layout == LEAT_LAYOUT_NHWC && target->channels == 3;
    unsigned passes = mixed ? 1 : target->channels;
    uint64_t n = mixed ? pixels * 3 : pixels;
    for (unsigned c = 0; c < passes; c++) {
        for (unsigned i = 0; i < 192; i++)
            stretch[i] = target->fill[mixed ? i % 3 : c];
        for (uint64_t at = 0; at < n; at += 192)
            put(target, kernels, stretch, n - at < 192 ? n - at : 192, c, mixed ? 3 : 1, (size_t)(c * pixels + at));
    }
}

#define PUT_BLOCK 1024 /* pixels put in order on the stack on their way to floats */

void leat_target_put(const struct leat_target *t, const struct leat_kernels *kernels, const uint8_t *const *row,
                     size_t n, size_t at, size_t pixels)
{
    assert(t->channels <= 3); /* as many as there are rows */
    if (t->channels != 3 || t->layout != LEAT_LAYOUT_NHWC) {
        for (unsigned c = 0; c < t->channels; c++)
            put(t, kernels, row[c], n, c, 1, c * pixels + at);
        return;
    }
    if (t->dtype == LEAT_DTYPE_UINT8) {
        kernels->interleave(row[0], row[1], row[2], n, (uint8_t *)t->data + 3 * at);
        return;
    }
    uint8_t mixed[3 * PUT_BLOCK + LEAT_ROW_PAD];
    for (size_t i = 0; i < n; i += PUT_BLOCK) {
        size_t part = n - i < PUT_BLOCK ? n - i : PUT_BLOCK;
        kernels->interleave(row[0] + i, row[1] + i, row[2] + i, part, mixed);
        put(t, kernels, mixed, 3 * part, 0, 3, 3 * (at + i));
    }
}

/* The upright picture's axis d, 0 across it and 1 down. Outputs along a row stand in their order, those from row to row
 * in the order in which rows arrive. The filter runs upright, and its weights are mirrored: so nothing is rounded
 * otherwise than in a picture that was turned first. */
static leat_status open_axis(struct leat_sink *s, int d, const struct leat_plane_scale *scale, struct leat_axis *axis,
                             uint32_t *first, struct leat_error *err)
{
    const struct leat_geometry *g = &s->geometry;
    double ratio = d ? scale->y : scale->x;
    uint32_t at = d ? g->crop.y : g->crop.x;
    uint32_t size = d ? g->crop.height : g->crop.width;
    uint32_t limit = d ? scale->height : scale->width;
    double begin = at * ratio;
    double end = ((double)at + size) * ratio;
    uint32_t low = (uint32_t)begin;
    uint32_t high = (uint32_t)ceil(end);
    high = high > limit ? limit : high;
    low = low >= high ? high - 1 : low;
    struct leat_axis_spec spec = {
        .filter = s->target.filter,
        .samples = high - low,
        .offset = begin - low,
        .length = end - begin,
        .size = g->resized[d],
        .first = d ? g->window.y : g->window.x,
        .count = d ? g->window.height : g->window.width,
    };
    bool along = d == (s->turn.exchanged ? 1 : 0);
    spec.mirrored = along ? s->turn.mirror_x : s->turn.mirror_y;
    spec.reversed = along ? d == 0 && g->flip : spec.mirrored;
    static const struct leat_axis_shape none = {0};
    leat_status rc = leat_axis_make(axis, &spec, along ? &s->kernels->shape : &none, s->arena, err);
    if (rc == LEAT_OK)
        *first = (spec.mirrored ? limit - high : low) + axis->begin;
    return rc;
}

static leat_status open_plane(struct leat_sink *s, unsigned i, const struct leat_plane_scale *scale,
                              struct leat_error *err)
{
    struct leat_sink_plane *p = &s->plane[i];
    leat_status rc = LEAT_OK;
    unsigned own = s->ycc ? 2 : 1; /* red, green and blue are alike, and so are the two chroma planes */
    if (i >= own) {
        const struct leat_sink_plane *twin = &s->plane[own - 1];
        p->across = twin->across;
        p->down = twin->down;
        p->left = twin->left;
        p->top = twin->top;
    } else {
        rc = open_axis(s, s->turn.exchanged, scale, &p->across, &p->left, err);
        if (rc == LEAT_OK)
            rc = open_axis(s, !s->turn.exchanged, scale, &p->down, &p->top, err);
    }
    if (rc != LEAT_OK)
        return rc;
    p->width = p->across.end - p->across.begin;
    p->height = p->down.end - p->down.begin;
    p->taken = 0;
    p->rows = p->down.taps + (s->ycc ? RING_SLACK : 2);
    p->rows = p->rows > p->height ? p->height : p->rows;
    p->stride = padded(s->turn.exchanged ? p->width : p->across.count);
    p->ring = leat_arena_take(s->arena, p->stride * p->rows);
    s->line[i] = leat_arena_take(s->arena, p->stride);
    return p->ring && s->line[i] ? LEAT_OK : leat_arena_fail(s->arena, err);
}

/* Whole rows: all planes at once, so that weights are loaded once for three. */
static void give(struct leat_rows *rows, const uint8_t *const *row)
{
    struct leat_sink *s = (struct leat_sink *)rows;
    struct leat_sink_plane *p = s->plane;
    uint8_t *to[3];
    if (p->taken == p->height)
        return;
    for (unsigned i = 0; i < s->planes; i++)
        to[i] = s->plane[i].ring + s->plane[i].stride * (p->taken % p->rows);
    if (p->across.copy || s->turn.exchanged) {
        for (unsigned i = 0; i < s->planes; i++)
            memcpy(to[i], row[i], p->width);
    } else {
        s->kernels->across(&p->across, s->planes, row, to);
    }
    for (unsigned i = 0; i < s->planes; i++)
        s->plane[i].taken++;
    leat_sink_drain(s);
}

static size_t columns_of(const struct leat_sink *s)
{
    return ((size_t)s->geometry.window.width + 7) / 8 * 8;
}

/* And room for eight rows after them. */
static leat_status take_columns(struct leat_sink *s, struct leat_error *err)
{
    s->column_stride = padded(s->geometry.window.height);
    for (unsigned i = 0; i < s->planes; i++) {
        s->column[i] = leat_arena_take(s->arena, columns_of(s) * (s->column_stride + 8) + LEAT_ROW_PAD);
        if (!s->column[i])
            return leat_arena_fail(s->arena, err);
    }
    return LEAT_OK;
}

leat_status leat_sink_open(struct leat_sink *sink, const struct leat_kernels *kernels, struct leat_arena *arena,
                           const struct leat_target *target, const struct leat_geometry *geometry, unsigned planes,
                           bool ycc, const struct leat_plane_scale *scale, struct leat_error *err)
{
    *sink = (struct leat_sink){
        .rows.give = give,
        .kernels = kernels,
        .arena = arena,
        .target = *target,
        .geometry = *geometry,
        .planes = planes,
        .ycc = ycc,
        .turn = leat_turning_of(scale->orientation),
    };
    uint32_t taps = 0;
    for (unsigned i = 0; i < planes; i++) {
        leat_status rc = open_plane(sink, i, &scale[ycc ? i : 0], err);
        if (rc != LEAT_OK)
            return rc;
        taps = sink->plane[i].down.taps > taps ? sink->plane[i].down.taps : taps;
    }
    sink->taps = leat_arena_take(arena, ((size_t)taps + 1) * sizeof *sink->taps);
    if (!sink->taps)
        return leat_arena_fail(arena, err);
    if (sink->turn.exchanged) {
        leat_status rc = take_columns(sink, err);
        if (rc != LEAT_OK)
            return rc;
    }
    if (geometry->window.width != geometry->output[0] || geometry->window.height != geometry->output[1])
        leat_target_fill(target, kernels, (uint64_t)geometry->output[0] * geometry->output[1]);
    return LEAT_OK;
}

struct leat_box leat_sink_wants(const struct leat_sink *sink)
{
    const struct leat_sink_plane *p = sink->plane;
    return (struct leat_box){p->left, p->top, p->width, p->height};
}

void leat_sink_give_plane(struct leat_sink *sink, unsigned plane, const uint8_t *row)
{
    struct leat_sink_plane *p = &sink->plane[plane];
    if (p->taken == p->height)
        return;
    /* The slot's old row must not be needed any more. */
    assert(p->taken < p->rows || sink->next == p->down.count || p->down.copy ||
           p->taken - p->rows < p->down.start[sink->next]);
    uint8_t *to = p->ring + p->stride * (p->taken % p->rows);
    if (p->across.copy)
        memcpy(to, row, p->across.count);
    else
        sink->kernels->across(&p->across, 1, &row, &to);
    p->taken++;
    if (sink->planes == 1) /* waits for no other plane, and has no room to */
        leat_sink_drain(sink);
}

static bool ready(const struct leat_sink_plane *p, uint32_t y)
{
    if (p->down.copy)
        return p->taken > y;
    return p->taken >= p->down.start[y] + p->down.taps;
}

static const uint8_t *sum_rows(struct leat_sink *s, unsigned plane, uint32_t y)
{
    struct leat_sink_plane *p = &s->plane[plane];
    const struct leat_axis *down = &p->down;
    if (down->copy)
        return p->ring + p->stride * (y % p->rows);
    unsigned taps = (down->taps + 1) & ~1u;
    for (unsigned i = 0; i < taps; i++) {
        uint32_t row = down->start[y] + i;
        /* After the last row there is at most one, to make them even; its weight is 0. */
        s->taps[i] = p->ring + p->stride * ((row < p->height ? row : p->height - 1) % p->rows);
    }
    s->kernels->down(s->taps, down->weight + (size_t)y * down->stride, taps, down->shift,
                     s->turn.exchanged ? p->width : p->across.count, s->line[plane]);
    return s->line[plane];
}

static void write_row(struct leat_sink *s, uint32_t y, const uint8_t *const *row)
{
    const struct leat_geometry *g = &s->geometry;
    size_t n = g->window.width;
    size_t x = g->flip ? g->output[0] - g->place[0] - n : g->place[0];
    size_t line = g->place[1] + y;
    line = g->vflip ? g->output[1] - 1 - line : line;
    leat_target_put(&s->target, s->kernels, row, n, line * g->output[0] + x, (size_t)g->output[0] * g->output[1]);
}

/* A row from the vertical sum is an upright column: what is left is the other pass. */
static void keep_column(struct leat_sink *s, uint32_t x, const uint8_t *const *row)
{
    const struct leat_axis *across = &s->plane[0].across;
    uint8_t *to[3];
    if (s->turn.mirror_y != s->geometry.flip)
        x = s->geometry.window.width - 1 - x;
    for (unsigned i = 0; i < s->planes; i++)
        to[i] = s->column[i] + s->column_stride * x;
    for (unsigned i = 0; across->copy && i < s->planes; i++)
        memcpy(to[i], row[i], across->count);
    if (!across->copy)
        s->kernels->across(across, s->planes, row, to);
}

static void write_columns(struct leat_sink *s)
{
    uint32_t height = s->geometry.window.height;
    size_t n = columns_of(s);
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *row[3] = {0};
        for (unsigned i = 0; i < 3; i++) {
            uint8_t *rows = s->column[i < s->planes ? i : 0] + n * s->column_stride;
            if (y % 8 == 0 && i < s->planes)
                leat_turn_rows(s->column[i] + y, s->column_stride, n, rows);
            row[i] = rows + n * (y % 8);
        }
        write_row(s, y, row);
    }
}

void leat_sink_drain(struct leat_sink *s)
{
    const uint8_t *row[3] = {0};
    uint32_t count = s->plane[0].down.count;
    while (s->next < count) {
        for (unsigned i = 0; i < s->planes; i++) {
            if (!ready(&s->plane[i], s->next))
                return;
        }
        for (unsigned i = 0; i < s->planes; i++)
            row[i] = sum_rows(s, i, s->next);
        if (s->turn.exchanged) {
            keep_column(s, s->next++, row);
            if (s->next == count)
                write_columns(s);
            continue;
        }
        for (unsigned i = s->planes; i < 3; i++)
            row[i] = row[0];
        if (s->ycc) {
            s->kernels->ycc_rgb(row[0], row[1], row[2], s->geometry.window.width, s->line[0], s->line[1], s->line[2]);
            for (unsigned i = 0; i < 3; i++)
                row[i] = s->line[i];
        }
        write_row(s, s->turn.mirror_y ? count - 1 - s->next : s->next, row);
        s->next++;
    }
}
