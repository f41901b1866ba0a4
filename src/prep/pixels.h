/* The inner loops of augmentations, once per vector unit, as kernels.h has those of decoding. Every level gives the
 * same bytes: sums are taken in one order, and a multiplication and an addition are fused only where they say so.
 *
 * smooth_across and smooth_down take and write rows up to a multiple of 32; the others exactly n. */
#ifndef LEAT_PREP_PIXELS_H
#define LEAT_PREP_PIXELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the sample of an output pixel lies in the picture: (x * a + y * b + c), and for perspective the same over
 * a common divisor. In torch's grid coordinates, -1 … 1 from edge to edge. */
struct leat_warp {
    float across[3];
    float along[3];
    float below[3]; /* perspective only */
    bool perspective;
    bool filled; /* with `fill`, as torchvision's fill=; otherwise what lies outside is 0 */
    float fill[3];
    uint32_t width;
    uint32_t height;
    /* Pixel 0, 0: red, green, blue and 1 in the bytes of a word, lowest first; zeros one pixel before and two after
     * every edge. */
    const uint32_t *source;
    int32_t stride;
};

struct leat_pixels {
    /* out may be in. */
    void (*lookup)(const uint8_t *in, size_t n, const uint8_t *table, uint8_t *out);

    /* Luma as torchvision rounds it: down. */
    void (*luma)(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out);
    uint64_t (*sum)(const uint8_t *in, size_t n);

    /* In place. */
    void (*saturate)(uint8_t *r, uint8_t *g, uint8_t *b, size_t n, float factor, float rest);
    void (*turn_hue)(uint8_t *r, uint8_t *g, uint8_t *b, size_t n, float by);

    /* One row without its first and last pixel: in + (smoothed - in) * rest. */
    void (*sharpen)(const uint8_t *above, const uint8_t *row, const uint8_t *below, size_t n, float rest, uint8_t *out);

    /* A symmetric filter of 2 * half + 1 taps; weight[0] is the middle one. Across: from row[-half …]. Down: from
     * rows[-half …]. */
    void (*smooth_across)(const float *row, size_t n, const float *weight, unsigned half, float *out);
    void (*smooth_down)(const float *const *rows, size_t n, const float *weight, unsigned half, uint8_t *out);

    /* Row y of three planes. */
    void (*warp_nearest)(const struct leat_warp *warp, uint32_t y, uint8_t *const *out);
    void (*warp_bilinear)(const struct leat_warp *warp, uint32_t y, uint8_t *const *out);

    /* sum = in * weight, and sum += in * weight. */
    void (*weigh)(const uint8_t *in, size_t n, float weight, float *sum);
    void (*add_weighed)(const uint8_t *in, size_t n, float weight, float *sum);
    void (*cut)(const float *sum, size_t n, uint8_t *out); /* toward 0 */
};

extern const struct leat_pixels leat_pixels_scalar;
#if defined(__x86_64__)
extern const struct leat_pixels leat_pixels_avx2;
extern const struct leat_pixels leat_pixels_avx512;
#endif

#endif
