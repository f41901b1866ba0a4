/* The inner loops, once in plain C and once per vector unit. The plain ones are the definition: every level
 * gives the same bytes. A new unit (NEON) is one more file and one more entry in leat_kernels().
 *
 * Rows handed in may be read LEAT_ROW_PAD bytes beyond their end, and upsampling reads one byte before their
 * start; rows written into scratch memory may be written up to the next multiple of 64. */
#ifndef LEAT_PREP_KERNELS_H
#define LEAT_PREP_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "prep/axis.h"
#include "prep/pixels.h"

#define LEAT_ROW_PAD 192

/* Per channel: out = (float)sample * scale + bias, two roundings, on every level. */
struct leat_affine {
    float scale;
    float bias;
};

struct leat_kernels {
    const char *name; /* "scalar", "avx2", "avx512" */
    struct leat_axis_shape shape;
    const struct leat_pixels *pixels; /* of augmentations */

    /* libjpeg's "fancy" upsampling of n chroma samples, exactly: near[-1], near[n] and the same of far are
     * the neighbours, repeated at the picture's edge. */
    void (*up_h2v2)(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out); /* 2n out */
    void (*up_h2v1)(const uint8_t *row, size_t n, uint8_t *out);                      /* 2n out */
    void (*up_h1v2)(const uint8_t *near, const uint8_t *far, unsigned bias, size_t n, uint8_t *out);

    /* JFIF's colours, exactly as libjpeg rounds them. r, g, b may be y, cb, cr. */
    void (*ycc_rgb)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n, uint8_t *r, uint8_t *g,
                    uint8_t *b);

    /* The inverse DCT of 64 coefficients times quant, as libjpeg's accurate one rounds it. */
    void (*idct)(const int16_t *in, const uint16_t *quant, uint8_t *out, size_t stride);

    /* Horizontal pass over 1 to 3 rows that share an axis. */
    void (*across)(const struct leat_axis *axis, unsigned rows, const uint8_t *const *in, uint8_t *const *out);

    /* Vertical pass: one output row of n samples from an even number of taps. Also writes scratch only. */
    void (*down)(const uint8_t *const *rows, const int16_t *weight, unsigned taps, unsigned shift, size_t n,
                 uint8_t *out);

    /* Into the caller's memory: exactly 3n samples, no more. */
    void (*interleave)(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out);

    /* The other way, from a decoder's row; writes scratch. */
    void (*split)(const uint8_t *rgb, size_t n, uint8_t *r, uint8_t *g, uint8_t *b);

    /* Into the caller's memory: exactly n samples, from in[0], in[1], … with maps repeating every `channels`. */
    void (*to_f32)(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, float *out);
    void (*to_f16)(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, uint16_t *out);
    void (*to_bf16)(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, uint16_t *out);
};

/* The same from the lowest 4x4 or 2x2 coefficients, to a block of that size; size is 4 or 2. */
void leat_idct_reduced(const int16_t *in, const uint16_t *quant, unsigned size, uint8_t *out, size_t stride);

/* Floats of 16 bits, rounded to nearest even. */
uint16_t leat_f16_of(float v);
uint16_t leat_bf16_of(float v);

/* The best level this processor has. */
const struct leat_kernels *leat_kernels(void);

/* By name, for tests and measurements; NULL when this processor does not have it. */
const struct leat_kernels *leat_kernels_named(const char *name);

extern const struct leat_kernels leat_kernels_scalar;
void leat_idct_scalar(const int16_t *in, const uint16_t *quant, uint8_t *out, size_t stride);
#if defined(__x86_64__)
extern const struct leat_kernels leat_kernels_avx2;
extern const struct leat_kernels leat_kernels_avx512;
void leat_idct_avx2(const int16_t *in, const uint16_t *quant, uint8_t *out, size_t stride);
#endif

#endif
