#include <inttypes.h>
#include <string.h>

#include "prep/canvas.h"
#include "prep/deviate.h"

#define LIGHTEST 1e-10 /* of all taps together: a lighter one moves no level by more than 1e-7 */

/* weight[0] is the middle tap; all of both sides together make 1. Returns how many to a side weigh anything. */
static unsigned gaussian(double sigma, unsigned half, float *weight)
{
    double total = 1.0;
    double at[128] = {1.0};
    for (unsigned j = 1; j <= half; j++) {
        at[j] = leat_prep_exp(-((double)j * j) / (2.0 * sigma * sigma));
        total += 2.0 * at[j];
    }
    unsigned used = 0;
    for (unsigned j = 0; j <= half; j++) {
        weight[j] = (float)(at[j] / total);
        used = at[j] / total > LIGHTEST ? j : used;
    }
    return used;
}

static size_t reflected(ptrdiff_t i, size_t n)
{
    if (i < 0)
        return (size_t)-i;
    return (size_t)i < n ? (size_t)i : 2 * n - 2 - (size_t)i;
}

leat_status leat_canvas_blur(struct leat_canvas *c, const struct leat_op *op, struct leat_error *err)
{
    unsigned half = (unsigned)op->v[0] / 2;
    size_t stride = ((size_t)c->width + 31) / 32 * 32;
    float weight[128];
    if (half >= c->width || half >= c->height)
        return leat_fail(err, LEAT_INVALID, "gaussian_blur of %u taps needs more than %" PRIu32 "x%" PRIu32 " pixels",
                         2 * half + 1, c->width, c->height);
    leat_status rc = leat_canvas_others(c, err);
    float *line = leat_arena_take(c->arena, (stride + 2 * (size_t)half) * sizeof *line);
    float *across = leat_arena_take(c->arena, stride * c->height * sizeof *across);
    const float **rows = leat_arena_take(c->arena, (c->height + 2 * (size_t)half) * sizeof *rows);
    if (rc != LEAT_OK || !line || !across || !rows)
        return rc != LEAT_OK ? rc : leat_arena_fail(c->arena, err);
    half = gaussian(op->v[1], half, weight);
    memset(line, 0, (stride + 2 * (size_t)half) * sizeof *line);
    for (size_t y = 0; y < c->height + 2 * (size_t)half; y++)
        rows[y] = across + reflected((ptrdiff_t)y - half, c->height) * stride;
    for (unsigned p = 0; p < c->planes; p++) {
        for (uint32_t y = 0; y < c->height; y++) {
            const uint8_t *in = c->plane[p] + (size_t)y * c->width;
            for (uint32_t x = 0; x < c->width; x++)
                line[half + x] = in[x];
            for (unsigned j = 1; j <= half; j++) {
                line[half - j] = in[j];
                line[half + c->width - 1 + j] = in[c->width - 1 - j];
            }
            c->kernels->pixels->smooth_across(line + half, c->width, weight, half, across + y * stride);
        }
        /* A row may be written past its end: the next one comes after it, and after the last there is room. */
        for (uint32_t y = 0; y < c->height; y++)
            c->kernels->pixels->smooth_down(rows + half + y, c->width, weight, half,
                                            c->other[p] + (size_t)y * c->width);
    }
    leat_canvas_swap(c);
    return LEAT_OK;
}

leat_status leat_canvas_sharpen(struct leat_canvas *c, double factor, struct leat_error *err)
{
    size_t w = c->width;
    if (c->width <= 2 || c->height <= 2)
        return LEAT_OK;
    leat_status rc = leat_canvas_others(c, err);
    if (rc != LEAT_OK)
        return rc;
    for (unsigned p = 0; p < c->planes; p++) {
        const uint8_t *in = c->plane[p];
        uint8_t *out = c->other[p];
        memcpy(out, in, w);
        for (uint32_t y = 1; y + 1 < c->height; y++) {
            const uint8_t *row = in + y * w;
            c->kernels->pixels->sharpen(row - w, row, row + w, w, (float)(1.0 - factor), out + y * w);
            out[y * w] = row[0];
            out[y * w + w - 1] = row[w - 1];
        }
        memcpy(out + (c->height - 1) * w, in + (c->height - 1) * w, w);
    }
    leat_canvas_swap(c);
    return LEAT_OK;
}
