#include <inttypes.h>
#include <string.h>

#include "prep/canvas.h"

/* Zeros around the picture: one line above and left, two below and right, so that every sample of a place held to
 * -1 … size has its neighbours. */
#define BEFORE 1
#define AFTER  2

/* Torch works in parts of half the picture, in single precision; so do we, with its roundings. */
static void affine(const struct leat_op *op, struct leat_warp *w)
{
    double m[6];
    leat_op_matrix(op, m);
    for (unsigned i = 0; i < 3; i++) {
        w->across[i] = (float)m[i] / (float)(0.5 * w->width);
        w->along[i] = (float)m[3 + i] / (float)(0.5 * w->height);
    }
}

static void perspective(const struct leat_op *op, struct leat_warp *w)
{
    w->perspective = true;
    for (unsigned i = 0; i < 3; i++) {
        w->across[i] = (float)op->v[i] / (float)(0.5 * w->width);
        w->along[i] = (float)op->v[3 + i] / (float)(0.5 * w->height);
    }
    w->below[0] = (float)op->v[6];
    w->below[1] = (float)op->v[7];
    w->below[2] = 1.0f;
}

/* Four bytes a pixel: red, green, blue (or the one plane thrice), and 1 for being there. */
static void gather_source(const struct leat_canvas *c, uint32_t *to, size_t stride)
{
    memset(to, 0, stride * (c->height + BEFORE + AFTER) * sizeof *to);
    const uint8_t *r = c->plane[0];
    const uint8_t *g = c->plane[c->planes == 3 ? 1 : 0];
    const uint8_t *b = c->plane[c->planes == 3 ? 2 : 0];
    for (uint32_t y = 0; y < c->height; y++) {
        uint32_t *row = to + (y + BEFORE) * stride + BEFORE;
        size_t at = (size_t)y * c->width;
        for (uint32_t x = 0; x < c->width; x++)
            row[x] = r[at + x] | (uint32_t)g[at + x] << 8 | (uint32_t)b[at + x] << 16 | 1u << 24;
    }
}

leat_status leat_canvas_warp(struct leat_canvas *c, const struct leat_op *op, struct leat_error *err)
{
    struct leat_warp w = {.width = c->width, .height = c->height, .filled = c->filled};
    size_t stride = (size_t)c->width + BEFORE + AFTER;
    if (stride * ((size_t)c->height + BEFORE + AFTER) > INT32_MAX)
        return leat_fail(err, LEAT_LIMIT, "a picture of %" PRIu32 "x%" PRIu32 " is too large to be moved", c->width,
                         c->height);
    leat_status rc = leat_canvas_others(c, err);
    uint8_t *spare =
        leat_arena_take(c->arena, 2 * ((size_t)c->width + LEAT_ROW_PAD)); /* for planes that are not there */
    uint32_t *source = leat_arena_take(c->arena, stride * ((size_t)c->height + BEFORE + AFTER) * sizeof *source);
    if (rc != LEAT_OK || !source || !spare)
        return rc != LEAT_OK ? rc : leat_arena_fail(c->arena, err);
    if (op->kind == LEAT_OP_AFFINE)
        affine(op, &w);
    else
        perspective(op, &w);
    for (unsigned i = 0; i < 3; i++)
        w.fill[i] = c->fill[i];
    gather_source(c, source, stride);
    w.source = source + BEFORE * stride + BEFORE;
    w.stride = (int32_t)stride;
    for (uint32_t y = 0; y < c->height; y++) {
        uint8_t *out[3];
        for (unsigned p = 0; p < 3; p++)
            out[p] = p < c->planes ? c->other[p] + (size_t)y * c->width
                                   : spare + (p - 1) * ((size_t)c->width + LEAT_ROW_PAD);
        if (op->bilinear)
            c->kernels->pixels->warp_bilinear(&w, y, out);
        else
            c->kernels->pixels->warp_nearest(&w, y, out);
    }
    leat_canvas_swap(c);
    return LEAT_OK;
}
