#include "prep/canvas.h"

#include <math.h>
#include <string.h>

static size_t pixels_of(const struct leat_canvas *c)
{
    return (size_t)c->width * c->height;
}

static leat_status take_planes(struct leat_canvas *c, uint8_t **out, struct leat_error *err)
{
    uint8_t *all = leat_arena_take(c->arena, pixels_of(c) * c->planes + LEAT_ROW_PAD);
    if (!all)
        return leat_arena_fail(c->arena, err);
    for (unsigned i = 0; i < c->planes; i++)
        out[i] = all + i * pixels_of(c);
    return LEAT_OK;
}

leat_status leat_canvas_open(struct leat_canvas *canvas, const struct leat_kernels *kernels, struct leat_arena *arena,
                             unsigned planes, uint32_t width, uint32_t height, struct leat_error *err)
{
    *canvas = (struct leat_canvas){
        .width = width,
        .height = height,
        .planes = planes,
        .kernels = kernels,
        .arena = arena,
    };
    return take_planes(canvas, canvas->plane, err);
}

leat_status leat_canvas_others(struct leat_canvas *canvas, struct leat_error *err)
{
    return canvas->other[0] ? LEAT_OK : take_planes(canvas, canvas->other, err);
}

void leat_canvas_swap(struct leat_canvas *canvas)
{
    for (unsigned i = 0; i < canvas->planes; i++) {
        uint8_t *kept = canvas->plane[i];
        canvas->plane[i] = canvas->other[i];
        canvas->other[i] = kept;
    }
}

/* Where pixel i of a line comes from whose own pixels are from … to - 1. */
static uint32_t mirrored(enum leat_border border, uint32_t i, uint32_t from, uint32_t to)
{
    if (i >= from && i < to)
        return i;
    if (border == LEAT_BORDER_EDGE)
        return i < from ? from : to - 1;
    uint32_t again = border == LEAT_BORDER_SYMMETRIC; /* the last pixel comes twice */
    return i < from ? 2 * from - i - again : 2 * (to - 1) - i + again;
}

void leat_canvas_border(struct leat_canvas *canvas, const struct leat_geometry *g)
{
    uint32_t left = g->flip ? g->output[0] - g->place[0] - g->window.width : g->place[0];
    uint32_t top = g->vflip ? g->output[1] - g->place[1] - g->window.height : g->place[1];
    uint32_t right = left + g->window.width;
    uint32_t bottom = top + g->window.height;
    for (unsigned c = 0; c < canvas->planes; c++) {
        for (uint32_t y = top; y < bottom; y++) {
            uint8_t *row = canvas->plane[c] + (size_t)y * canvas->width;
            for (uint32_t x = 0; x < left; x++)
                row[x] = row[mirrored(g->border, x, left, right)];
            for (uint32_t x = right; x < canvas->width; x++)
                row[x] = row[mirrored(g->border, x, left, right)];
        }
        for (uint32_t y = 0; y < canvas->height; y++) {
            if (y < top || y >= bottom)
                memcpy(canvas->plane[c] + (size_t)y * canvas->width,
                       canvas->plane[c] + (size_t)mirrored(g->border, y, top, bottom) * canvas->width, canvas->width);
        }
    }
}

static void flush(struct leat_canvas *c)
{
    if (!c->pending)
        return;
    for (unsigned i = 0; i < c->planes; i++)
        c->kernels->pixels->lookup(c->plane[i], pixels_of(c), c->table[i], c->plane[i]);
    c->pending = false;
}

/* Puts a map of levels after those that are waiting. */
static void follow(struct leat_canvas *c, unsigned plane, const uint8_t map[256])
{
    for (unsigned i = 0; i < 256; i++)
        c->table[plane][i] = map[c->pending ? c->table[plane][i] : i];
}

static void follow_all(struct leat_canvas *c, const uint8_t map[256])
{
    for (unsigned i = 0; i < c->planes; i++)
        follow(c, i, map);
    c->pending = true;
}

static uint8_t cut_to_byte(float v)
{
    return v < 0.0f ? 0 : v > 255.0f ? 255 : (uint8_t)v;
}

/* Of luma rounded down, as torchvision has it; a single plane is its own luma. */
static leat_status mean_luma(struct leat_canvas *c, float *out, struct leat_error *err)
{
    size_t n = pixels_of(c);
    const uint8_t *luma = c->plane[0];
    if (c->planes == 3) {
        leat_status rc = leat_canvas_others(c, err);
        if (rc != LEAT_OK)
            return rc;
        c->kernels->pixels->luma(c->plane[0], c->plane[1], c->plane[2], n, c->other[0]);
        luma = c->other[0];
    }
    *out = (float)c->kernels->pixels->sum(luma, n) / (float)n;
    return LEAT_OK;
}

static leat_status contrast(struct leat_canvas *c, double factor, struct leat_error *err)
{
    uint8_t map[256];
    float mean;
    flush(c);
    leat_status rc = mean_luma(c, &mean, err);
    if (rc != LEAT_OK)
        return rc;
    for (unsigned i = 0; i < 256; i++)
        map[i] = cut_to_byte(fmaf(mean, (float)(1.0 - factor), (float)i * (float)factor));
    follow_all(c, map);
    return LEAT_OK;
}

/* Of the levels as the waiting tables will make them. */
static void histogram(const struct leat_canvas *c, unsigned plane, uint32_t out[256])
{
    /* Four at a time, so that equal neighbours do not wait for each other. */
    uint32_t part[4][256] = {{0}};
    const uint8_t *p = c->plane[plane];
    size_t n = pixels_of(c);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        part[0][p[i]]++;
        part[1][p[i + 1]]++;
        part[2][p[i + 2]]++;
        part[3][p[i + 3]]++;
    }
    for (; i < n; i++)
        part[0][p[i]]++;
    memset(out, 0, 256 * sizeof *out);
    for (unsigned v = 0; v < 256; v++)
        out[c->pending ? c->table[plane][v] : v] += part[0][v] + part[1][v] + part[2][v] + part[3][v];
}

/* Pillow's rule, which torchvision keeps. */
static void equalize_map(const uint32_t count[256], size_t pixels, uint8_t map[256])
{
    unsigned last = 255;
    while (last > 0 && !count[last])
        last--;
    uint64_t step = (pixels - count[last]) / 255;
    uint64_t below = 0;
    for (unsigned i = 0; i < 256; i++) {
        uint64_t level = step ? (below + step / 2) / step : i;
        map[i] = (uint8_t)(level > 255 ? 255 : level);
        below += count[i];
    }
}

static void autocontrast_map(const uint32_t count[256], uint8_t map[256])
{
    unsigned low = 0;
    unsigned high = 255;
    while (low < 255 && !count[low])
        low++;
    while (high > 0 && !count[high])
        high--;
    bool flat = low >= high;
    float scale = flat ? 1.0f : (float)(high - low) * (float)(1.0 / 255.0);
    for (unsigned i = 0; i < 256; i++)
        map[i] = cut_to_byte(((float)i - (flat ? 0.0f : (float)low)) / scale);
}

static void stretch(struct leat_canvas *c, bool equalize)
{
    for (unsigned i = 0; i < c->planes; i++) {
        uint32_t count[256];
        uint8_t map[256];
        histogram(c, i, count);
        if (equalize)
            equalize_map(count, pixels_of(c), map);
        else
            autocontrast_map(count, map);
        follow(c, i, map);
    }
    c->pending = true;
}

/* What needs a level alone. */
static void map_levels(struct leat_canvas *c, const struct leat_op *op)
{
    uint8_t map[256];
    unsigned bits = (unsigned)op->v[0];
    for (unsigned i = 0; i < 256; i++) {
        switch (op->kind) {
        case LEAT_OP_BRIGHTNESS:
            map[i] = cut_to_byte((float)i * (float)op->v[0]);
            break;
        case LEAT_OP_SOLARIZE:
            map[i] = (uint8_t)((float)i >= (float)op->v[0] ? 255 - i : i);
            break;
        case LEAT_OP_POSTERIZE:
            map[i] = (uint8_t)(bits >= 8 ? i : i & (((1u << bits) - 1) << (8 - bits)));
            break;
        default:
            map[i] = (uint8_t)(255 - i);
            break;
        }
    }
    follow_all(c, map);
}

static void erase(struct leat_canvas *c, const struct leat_op *op)
{
    for (unsigned i = 0; i < c->planes; i++) {
        for (uint32_t y = 0; y < (uint32_t)op->v[3]; y++) {
            size_t at = ((size_t)op->v[1] + y) * c->width + (size_t)op->v[0];
            memset(c->plane[i] + at, (int)op->v[4 + i], (size_t)op->v[2]);
        }
    }
}

static void grayscale(struct leat_canvas *c)
{
    size_t n = pixels_of(c);
    if (c->planes != 3)
        return;
    c->kernels->pixels->luma(c->plane[0], c->plane[1], c->plane[2], n, c->other[0]);
    for (unsigned i = 0; i < 3; i++)
        memcpy(c->plane[i], c->other[0], n);
}

static leat_status begin_mix(struct leat_canvas *c, float weight, struct leat_error *err)
{
    size_t n = pixels_of(c);
    leat_status rc = c->kept[0] ? LEAT_OK : take_planes(c, c->kept, err);
    for (unsigned i = 0; rc == LEAT_OK && i < c->planes; i++) {
        if (!c->sum[i])
            c->sum[i] = leat_arena_take(c->arena, n * sizeof(float) + LEAT_ROW_PAD);
        if (!c->sum[i] || !c->kept[i])
            return leat_arena_fail(c->arena, err);
        memcpy(c->kept[i], c->plane[i], n);
        c->kernels->pixels->weigh(c->plane[i], n, weight, c->sum[i]);
    }
    c->weight = -1.0f;
    return rc;
}

/* Ends a chain, if one is under way, and begins the next one from the picture as it was, or makes the sum the picture.
 */
static void next_chain(struct leat_canvas *c, float weight, bool last)
{
    size_t n = pixels_of(c);
    for (unsigned i = 0; i < c->planes; i++) {
        if (c->weight >= 0.0f)
            c->kernels->pixels->add_weighed(c->plane[i], n, c->weight, c->sum[i]);
        if (last)
            c->kernels->pixels->cut(c->sum[i], n, c->plane[i]);
        else
            memcpy(c->plane[i], c->kept[i], n);
    }
    c->weight = weight;
}

static leat_status run_op(struct leat_canvas *c, const struct leat_op *op, struct leat_error *err)
{
    const struct leat_pixels *pixels = c->kernels->pixels;
    bool coloured = c->planes == 3;
    switch (op->kind) {
    case LEAT_OP_SATURATION:
        if (coloured)
            pixels->saturate(c->plane[0], c->plane[1], c->plane[2], pixels_of(c), (float)op->v[0],
                             (float)(1.0 - op->v[0]));
        return LEAT_OK;
    case LEAT_OP_HUE:
        if (coloured)
            pixels->turn_hue(c->plane[0], c->plane[1], c->plane[2], pixels_of(c), (float)op->v[0]);
        return LEAT_OK;
    case LEAT_OP_GRAYSCALE: {
        leat_status rc = leat_canvas_others(c, err);
        if (rc == LEAT_OK)
            grayscale(c);
        return rc;
    }
    case LEAT_OP_SHARPNESS:
        return leat_canvas_sharpen(c, op->v[0], err);
    case LEAT_OP_GAUSSIAN_BLUR:
        return leat_canvas_blur(c, op, err);
    case LEAT_OP_AFFINE:
    case LEAT_OP_PERSPECTIVE:
        return leat_canvas_warp(c, op, err);
    case LEAT_OP_ERASE:
        erase(c, op);
        return LEAT_OK;
    case LEAT_OP_MIX:
        return begin_mix(c, (float)op->v[0], err);
    case LEAT_OP_CHAIN:
        next_chain(c, (float)op->v[0], false);
        return LEAT_OK;
    default:
        next_chain(c, -1.0f, true);
        return LEAT_OK;
    }
}

leat_status leat_canvas_run(struct leat_canvas *canvas, const struct leat_ops *ops, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (unsigned i = 0; rc == LEAT_OK && i < ops->count; i++) {
        const struct leat_op *op = &ops->op[i];
        switch (op->kind) {
        case LEAT_OP_BRIGHTNESS:
        case LEAT_OP_SOLARIZE:
        case LEAT_OP_POSTERIZE:
        case LEAT_OP_INVERT:
            map_levels(canvas, op);
            break;
        case LEAT_OP_CONTRAST:
            rc = contrast(canvas, op->v[0], err);
            break;
        case LEAT_OP_EQUALIZE:
        case LEAT_OP_AUTOCONTRAST:
            stretch(canvas, op->kind == LEAT_OP_EQUALIZE);
            break;
        default:
            flush(canvas);
            rc = run_op(canvas, op, err);
            break;
        }
    }
    if (rc == LEAT_OK)
        flush(canvas);
    return rc;
}
