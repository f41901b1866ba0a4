/* Loops over pixels, written once and compiled for every level by being inlined into functions of that level.
 *
 * The order of operations is torchvision's and PyTorch's: where a level is to come out the same, a multiplication and
 * an addition that PyTorch fuses are fused here, and others are not. */
#ifndef LEAT_PREP_PIXELS_LOOPS_H
#define LEAT_PREP_PIXELS_LOOPS_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "prep/pixels.h"

#define PIXELS_LOOP static inline __attribute__((always_inline))

PIXELS_LOOP float luma_of(uint8_t r, uint8_t g, uint8_t b)
{
    float sum = fmaf((float)b, 0.114f, fmaf((float)g, 0.587f, (float)r * 0.2989f));
    return (float)(int)sum;
}

PIXELS_LOOP uint8_t cut_to_byte(float v)
{
    v = v < 0.0f ? 0.0f : v;
    v = v > 255.0f ? 255.0f : v;
    return (uint8_t)(int)v;
}

PIXELS_LOOP void loop_luma(const uint8_t *restrict r, const uint8_t *restrict g, const uint8_t *restrict b, size_t n,
                           uint8_t *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(int)luma_of(r[i], g[i], b[i]);
}

PIXELS_LOOP uint64_t loop_sum(const uint8_t *in, size_t n)
{
    uint64_t total = 0;
    for (size_t at = 0; at < n; at += 4096) {
        size_t end = n - at < 4096 ? n : at + 4096;
        uint32_t part = 0;
        for (size_t i = at; i < end; i++)
            part += in[i];
        total += part;
    }
    return total;
}

PIXELS_LOOP void loop_saturate(uint8_t *restrict r, uint8_t *restrict g, uint8_t *restrict b, size_t n, float factor,
                               float rest)
{
    for (size_t i = 0; i < n; i++) {
        float l = luma_of(r[i], g[i], b[i]);
        r[i] = cut_to_byte(fmaf(l, rest, (float)r[i] * factor));
        g[i] = cut_to_byte(fmaf(l, rest, (float)g[i] * factor));
        b[i] = cut_to_byte(fmaf(l, rest, (float)b[i] * factor));
    }
}

PIXELS_LOOP float unit(float v)
{
    v = v < 0.0f ? 0.0f : v;
    return v > 1.0f ? 1.0f : v;
}

/* To hue, saturation and value, the hue moved, and back. Everything is computed and the right part chosen: that way the
 * compiler makes vector code of it. */
PIXELS_LOOP void loop_turn_hue(uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, size_t n,
                               float by)
{
    const float to_unit = (float)(1.0 / 255.0);
    const float sixth = (float)(1.0 / 6.0);
    const float to_byte = (float)(255.0 + 1.0 - 1e-3);
    for (size_t i = 0; i < n; i++) {
        float r = (float)red[i] * to_unit;
        float g = (float)green[i] * to_unit;
        float b = (float)blue[i] * to_unit;
        float low = r < g ? r : g;
        float v = r < g ? g : r;
        low = b < low ? b : low;
        v = b > v ? b : v;
        float range = v - low;
        float whole = v == low ? 1.0f : v;
        float divisor = v == low ? 1.0f : range;
        float s = range / whole;
        float rc = (v - r) / divisor;
        float gc = (v - g) / divisor;
        float bc = (v - b) / divisor;
        float from_red = bc - gc;
        float from_green = (rc + 2.0f) - bc;
        float from_blue = (gc + 4.0f) - rc;
        float h = v == g ? from_green : from_blue;
        h = v == r ? from_red : h;
        h = h * sixth + 1.0f;
        h = h - (h >= 1.0f ? 1.0f : 0.0f);
        h = h + by;
        h = h - (h >= 1.0f ? 1.0f : 0.0f);
        h = h + (h < 0.0f ? 1.0f : 0.0f);
        float h6 = h * 6.0f;
        int sector = (int)h6;
        float f = h6 - (float)sector;
        float sf = s * f;
        float rest = 1.0f - s;
        float q = unit((1.0f - sf) * v);
        float t = unit((sf + rest) * v);
        float p = unit(rest * v);
        sector = sector >= 6 ? 0 : sector;
        float nr = sector == 1 ? q : p;
        float ng = sector == 3 ? q : p;
        float nb = sector == 5 ? q : p;
        nr = sector == 4 ? t : nr;
        ng = sector == 0 ? t : ng;
        nb = sector == 2 ? t : nb;
        nr = ((sector == 0) | (sector == 5)) ? v : nr;
        ng = ((sector == 1) | (sector == 2)) ? v : ng;
        nb = ((sector == 3) | (sector == 4)) ? v : nb;
        red[i] = (uint8_t)(int)(nr * to_byte);
        green[i] = (uint8_t)(int)(ng * to_byte);
        blue[i] = (uint8_t)(int)(nb * to_byte);
    }
}

PIXELS_LOOP void loop_sharpen(const uint8_t *restrict above, const uint8_t *restrict row, const uint8_t *restrict below,
                              size_t n, float rest, uint8_t *restrict out)
{
    for (size_t i = 1; i + 1 < n; i++) {
        int sum = above[i - 1] + above[i] + above[i + 1] + row[i - 1] + 5 * row[i] + row[i + 1] + below[i - 1] +
                  below[i] + below[i + 1];
        /* A thirteenth of a whole number is never half a level: rounding is the same whichever way. 80660 / 2^21 stands
         * for 1 / 26, exact for all sums up to 13 * 255. */
        int smooth = ((2 * sum + 13) * 80660) >> 21;
        out[i] = cut_to_byte(fmaf((float)(smooth - row[i]), rest, (float)row[i]));
    }
}

#define SMOOTH_BLOCK 32

PIXELS_LOOP void loop_smooth_across(const float *restrict row, size_t n, const float *restrict weight, unsigned half,
                                    float *restrict out)
{
    for (size_t at = 0; at < n; at += SMOOTH_BLOCK) {
        float sum[SMOOTH_BLOCK];
        const float *middle = row + at;
        for (unsigned k = 0; k < SMOOTH_BLOCK; k++)
            sum[k] = middle[k] * weight[0];
        for (unsigned j = 1; j <= half; j++) {
            const float *left = middle - j;
            const float *right = middle + j;
            for (unsigned k = 0; k < SMOOTH_BLOCK; k++)
                sum[k] = fmaf(left[k] + right[k], weight[j], sum[k]);
        }
        for (unsigned k = 0; k < SMOOTH_BLOCK; k++)
            out[at + k] = sum[k];
    }
}

PIXELS_LOOP void loop_smooth_down(const float *const *rows, size_t n, const float *restrict weight, unsigned half,
                                  uint8_t *restrict out)
{
    for (size_t at = 0; at < n; at += SMOOTH_BLOCK) {
        float sum[SMOOTH_BLOCK];
        const float *middle = rows[0] + at;
        for (unsigned k = 0; k < SMOOTH_BLOCK; k++)
            sum[k] = middle[k] * weight[0];
        for (unsigned j = 1; j <= half; j++) {
            const float *above = rows[-(ptrdiff_t)j] + at;
            const float *below = rows[j] + at;
            for (unsigned k = 0; k < SMOOTH_BLOCK; k++)
                sum[k] = fmaf(above[k] + below[k], weight[j], sum[k]);
        }
        for (unsigned k = 0; k < SMOOTH_BLOCK; k++)
            out[at + k] = (uint8_t)(int)rintf(sum[k]);
    }
}

#define WARP_BLOCK 64

/* From parts of half the picture to pixels. */
#define WARP_PIXEL(PART, HALF) ((PART) * (HALF)-0.5f)

/* Where `count` pixels from column `first` on lie in the source, held to -1 … size: beyond is nothing, as there. Rows
 * and columns count from the middle for an affine warp and from the corner for perspective, as torchvision has them. */
PIXELS_LOOP void find_places(const struct leat_warp *w, uint32_t line, uint32_t first, float *restrict x_out,
                             float *restrict y_out)
{
    float left = w->perspective ? 0.5f : (float)((1.0 - w->width) * 0.5);
    float y = (float)line + (w->perspective ? 0.5f : (float)((1.0 - w->height) * 0.5));
    float width = (float)w->width;
    float height = (float)w->height;
    float half_width = width / 2.0f;
    float half_height = height / 2.0f;
    float a0 = w->across[0];
    float a2 = w->across[2];
    float b0 = w->along[0];
    float b2 = w->along[2];
    float ay = y * w->across[1];
    float by = y * w->along[1];
    if (!w->perspective) {
        for (unsigned i = 0; i < WARP_BLOCK; i++) {
            float x = (float)(int)(first + i) + left;
            x_out[i] = WARP_PIXEL(((x * a0 + ay) + a2) + 1.0f, half_width);
            y_out[i] = WARP_PIXEL(((x * b0 + by) + b2) + 1.0f, half_height);
        }
    } else {
        float c0 = w->below[0];
        float c2 = w->below[2];
        float cy = y * w->below[1];
        for (unsigned i = 0; i < WARP_BLOCK; i++) {
            float x = (float)(int)(first + i) + left;
            float under = (x * c0 + cy) + c2;
            x_out[i] = WARP_PIXEL((((x * a0 + ay) + a2) / under - 1.0f) + 1.0f, half_width);
            y_out[i] = WARP_PIXEL((((x * b0 + by) + b2) / under - 1.0f) + 1.0f, half_height);
        }
    }
    for (unsigned i = 0; i < WARP_BLOCK; i++) {
        /* Written so that what is no number becomes -1 too. */
        float px = x_out[i] > -1.0f ? x_out[i] : -1.0f;
        float py = y_out[i] > -1.0f ? y_out[i] : -1.0f;
        x_out[i] = px < width ? px : width;
        y_out[i] = py < height ? py : height;
    }
}

PIXELS_LOOP void loop_warp_nearest(const struct leat_warp *w, uint32_t line, uint8_t *const *out)
{
    uint32_t fill = w->filled ? (uint32_t)w->fill[0] | (uint32_t)w->fill[1] << 8 | (uint32_t)w->fill[2] << 16 : 0;
    const uint32_t *source = w->source;
    int stride = w->stride;
    for (uint32_t at = 0; at < w->width; at += WARP_BLOCK) {
        float x[WARP_BLOCK];
        float y[WARP_BLOCK];
        uint32_t found[WARP_BLOCK];
        unsigned count = w->width - at < WARP_BLOCK ? w->width - at : WARP_BLOCK;
        find_places(w, line, at, x, y);
        for (unsigned i = 0; i < WARP_BLOCK; i++) {
            int index = (int)rintf(y[i]) * stride + (int)rintf(x[i]);
            found[i] = source[index];
        }
        for (unsigned i = 0; i < WARP_BLOCK; i++)
            found[i] = found[i] >> 24 ? found[i] : fill;
        uint8_t *r = out[0] + at;
        uint8_t *g = out[1] + at;
        uint8_t *b = out[2] + at;
        for (unsigned i = 0; i < count; i++)
            r[i] = (uint8_t)found[i];
        for (unsigned i = 0; i < count; i++)
            g[i] = (uint8_t)(found[i] >> 8);
        for (unsigned i = 0; i < count; i++)
            b[i] = (uint8_t)(found[i] >> 16);
    }
}

/* One channel of four neighbours, weighed. */
#define BLEND(SHIFT)                                                                                                   \
    ((((float)(int)(nw[i] >> (SHIFT)&255) * wnw + (float)(int)(ne[i] >> (SHIFT)&255) * wne) +                          \
      (float)(int)(sw[i] >> (SHIFT)&255) * wsw) +                                                                      \
     (float)(int)(se[i] >> (SHIFT)&255) * wse)

PIXELS_LOOP void loop_warp_bilinear(const struct leat_warp *w, uint32_t line, uint8_t *const *out)
{
    const uint32_t *source = w->source;
    int stride = w->stride;
    float fr = w->fill[0];
    float fg = w->fill[1];
    float fb = w->fill[2];
    for (uint32_t at = 0; at < w->width; at += WARP_BLOCK) {
        float x[WARP_BLOCK];
        float y[WARP_BLOCK];
        uint32_t nw[WARP_BLOCK];
        uint32_t ne[WARP_BLOCK];
        uint32_t sw[WARP_BLOCK];
        uint32_t se[WARP_BLOCK];
        uint8_t done[3][WARP_BLOCK];
        find_places(w, line, at, x, y);
        for (unsigned i = 0; i < WARP_BLOCK; i++) {
            int index = (int)floorf(y[i]) * stride + (int)floorf(x[i]);
            nw[i] = source[index];
            ne[i] = source[index + 1];
            sw[i] = source[index + stride];
            se[i] = source[index + stride + 1];
        }
        for (unsigned i = 0; i < WARP_BLOCK; i++) {
            float west = x[i] - floorf(x[i]);
            float east = 1.0f - west;
            float north = y[i] - floorf(y[i]);
            float south = 1.0f - north;
            float wnw = east * south;
            float wne = west * south;
            float wsw = east * north;
            float wse = west * north;
            float r = BLEND(0);
            float g = BLEND(8);
            float b = BLEND(16);
            if (w->filled) {
                float there = BLEND(24);
                r = (r - fr) * there + fr;
                g = (g - fg) * there + fg;
                b = (b - fb) * there + fb;
            }
            done[0][i] = (uint8_t)(int)rintf(r);
            done[1][i] = (uint8_t)(int)rintf(g);
            done[2][i] = (uint8_t)(int)rintf(b);
        }
        unsigned count = w->width - at < WARP_BLOCK ? w->width - at : WARP_BLOCK;
        for (unsigned p = 0; p < 3; p++)
            memcpy(out[p] + at, done[p], count);
    }
}

PIXELS_LOOP void loop_weigh(const uint8_t *restrict in, size_t n, float weight, float *restrict sum)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = (float)in[i] * weight;
}

PIXELS_LOOP void loop_add_weighed(const uint8_t *restrict in, size_t n, float weight, float *restrict sum)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = sum[i] + (float)in[i] * weight;
}

PIXELS_LOOP void loop_cut(const float *restrict sum, size_t n, uint8_t *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(int)sum[i];
}

/* The functions of one level, but for the table look-up. ATTRIBUTE says which. */
#define PIXELS_FUNCTIONS(ATTRIBUTE)                                                                                    \
    ATTRIBUTE static void luma(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out)           \
    {                                                                                                                  \
        loop_luma(r, g, b, n, out);                                                                                    \
    }                                                                                                                  \
    ATTRIBUTE static uint64_t sum(const uint8_t *in, size_t n)                                                         \
    {                                                                                                                  \
        return loop_sum(in, n);                                                                                        \
    }                                                                                                                  \
    ATTRIBUTE static void saturate(uint8_t *r, uint8_t *g, uint8_t *b, size_t n, float factor, float rest)             \
    {                                                                                                                  \
        loop_saturate(r, g, b, n, factor, rest);                                                                       \
    }                                                                                                                  \
    ATTRIBUTE static void turn_hue(uint8_t *r, uint8_t *g, uint8_t *b, size_t n, float by)                             \
    {                                                                                                                  \
        loop_turn_hue(r, g, b, n, by);                                                                                 \
    }                                                                                                                  \
    ATTRIBUTE static void sharpen(const uint8_t *above, const uint8_t *row, const uint8_t *below, size_t n,            \
                                  float rest, uint8_t *out)                                                            \
    {                                                                                                                  \
        loop_sharpen(above, row, below, n, rest, out);                                                                 \
    }                                                                                                                  \
    ATTRIBUTE static void smooth_across(const float *row, size_t n, const float *weight, unsigned half, float *out)    \
    {                                                                                                                  \
        loop_smooth_across(row, n, weight, half, out);                                                                 \
    }                                                                                                                  \
    ATTRIBUTE static void smooth_down(const float *const *rows, size_t n, const float *weight, unsigned half,          \
                                      uint8_t *out)                                                                    \
    {                                                                                                                  \
        loop_smooth_down(rows, n, weight, half, out);                                                                  \
    }                                                                                                                  \
    ATTRIBUTE static void warp_nearest(const struct leat_warp *warp, uint32_t y, uint8_t *const *out)                  \
    {                                                                                                                  \
        loop_warp_nearest(warp, y, out);                                                                               \
    }                                                                                                                  \
    ATTRIBUTE static void warp_bilinear(const struct leat_warp *warp, uint32_t y, uint8_t *const *out)                 \
    {                                                                                                                  \
        loop_warp_bilinear(warp, y, out);                                                                              \
    }                                                                                                                  \
    ATTRIBUTE static void weigh(const uint8_t *in, size_t n, float weight, float *out)                                 \
    {                                                                                                                  \
        loop_weigh(in, n, weight, out);                                                                                \
    }                                                                                                                  \
    ATTRIBUTE static void add_weighed(const uint8_t *in, size_t n, float weight, float *out)                           \
    {                                                                                                                  \
        loop_add_weighed(in, n, weight, out);                                                                          \
    }                                                                                                                  \
    ATTRIBUTE static void cut(const float *in, size_t n, uint8_t *out)                                                 \
    {                                                                                                                  \
        loop_cut(in, n, out);                                                                                          \
    }

#define PIXELS_TABLE                                                                                                   \
    {                                                                                                                  \
        .lookup = lookup, .luma = luma, .sum = sum, .saturate = saturate, .turn_hue = turn_hue, .sharpen = sharpen,    \
        .smooth_across = smooth_across, .smooth_down = smooth_down, .warp_nearest = warp_nearest,                      \
        .warp_bilinear = warp_bilinear, .weigh = weigh, .add_weighed = add_weighed, .cut = cut,                        \
    }

#endif
