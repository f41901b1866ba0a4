#include "prep/kernels.h"

#include <string.h>

#include "prep/kernels_loops.h"

static uint8_t clamp8(int v)
{
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

static void up_h2v2(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out)
{
    unsigned last = 3u * near[-1] + far[-1];
    unsigned this = 3u * near[0] + far[0];
    for (size_t i = 0; i < n; i++) {
        unsigned next = 3u * near[i + 1] + far[i + 1];
        out[2 * i] = (uint8_t)((3 * this + last + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((3 * this + next + 7) >> 4);
        last = this;
        this = next;
    }
}

static void up_h2v1(const uint8_t *row, size_t n, uint8_t *out)
{
    const uint8_t *before = row - 1;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = (uint8_t)((3u * row[i] + before[i] + 1) >> 2);
        out[2 * i + 1] = (uint8_t)((3u * row[i] + row[i + 1] + 2) >> 2);
    }
}

static void up_h1v2(const uint8_t *near, const uint8_t *far, unsigned bias, size_t n, uint8_t *out)
{
    loop_up_h1v2(near, far, bias, n, out);
}

/* Constants with 16 bits after the point: 1.40200, 1.77200, 0.34414, 0.71414. */
static void ycc_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n, uint8_t *r, uint8_t *g,
                    uint8_t *b)
{
    for (size_t i = 0; i < n; i++) {
        int l = y[i];
        int u = cb[i] - 128;
        int v = cr[i] - 128;
        r[i] = clamp8(l + ((91881 * v + 32768) >> 16));
        g[i] = clamp8(l + ((-22554 * u - 46802 * v + 32768) >> 16));
        b[i] = clamp8(l + ((116130 * u + 32768) >> 16));
    }
}

static void across(const struct leat_axis *axis, unsigned rows, const uint8_t *const *in, uint8_t *const *out)
{
    int half = 1 << axis->shift >> 1;
    for (unsigned r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < axis->count; i++) {
            const uint8_t *sample = in[r] + axis->start[i];
            const int16_t *weight = axis->weight + (size_t)i * axis->stride;
            int sum = half;
            for (uint32_t j = 0; j < axis->taps; j++)
                sum += sample[j] * weight[j];
            out[r][i] = clamp8(sum >> axis->shift);
        }
    }
}

static void down(const uint8_t *const *rows, const int16_t *weight, unsigned taps, unsigned shift, size_t n,
                 uint8_t *out)
{
    int half = 1 << shift >> 1;
    for (size_t i = 0; i < n; i++) {
        int sum = half;
        for (unsigned j = 0; j < taps; j++)
            sum += rows[j][i] * weight[j];
        out[i] = clamp8(sum >> shift);
    }
}

static void interleave(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[3 * i] = r[i];
        out[3 * i + 1] = g[i];
        out[3 * i + 2] = b[i];
    }
}

static void split(const uint8_t *rgb, size_t n, uint8_t *r, uint8_t *g, uint8_t *b)
{
    for (size_t i = 0; i < n; i++) {
        r[i] = rgb[3 * i];
        g[i] = rgb[3 * i + 1];
        b[i] = rgb[3 * i + 2];
    }
}

/* IEEE half, round to nearest even, as the vector unit's own conversion does it. */
uint16_t leat_f16_of(float v)
{
    uint32_t u;
    memcpy(&u, &v, 4);
    uint32_t sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x47800000)
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) {
        /* Too small for a normal half: adding this float leaves the wanted bits at the bottom of the sum. */
        const uint32_t magic_bits = (127 - 15 + 23 - 10 + 1) << 23;
        float magic;
        float a;
        memcpy(&magic, &magic_bits, 4);
        memcpy(&a, &u, 4);
        a += magic;
        memcpy(&u, &a, 4);
        return (uint16_t)(sign | (u - magic_bits));
    }
    return (uint16_t)(sign | ((u - ((uint32_t)(127 - 15) << 23) + 0xfff + (u >> 13 & 1)) >> 13));
}

#define SAME(v) (v)
LEAT_LOOP_FLOATS(loop_f32, float, SAME)

uint16_t leat_bf16_of(float v)
{
    return bf16_of(v);
}

LEAT_LOOP_FLOATS(loop_f16, uint16_t, leat_f16_of)
LEAT_LOOP_FLOATS(loop_bf16, uint16_t, bf16_of)

static void to_f32(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, float *out)
{
    loop_f32(in, n, map, channels, out);
}

static void to_f16(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, uint16_t *out)
{
    loop_f16(in, n, map, channels, out);
}

static void to_bf16(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, uint16_t *out)
{
    loop_bf16(in, n, map, channels, out);
}

const struct leat_kernels leat_kernels_scalar = {
    .name = "scalar",
    .pixels = &leat_pixels_scalar,
    .up_h2v2 = up_h2v2,
    .up_h2v1 = up_h2v1,
    .up_h1v2 = up_h1v2,
    .ycc_rgb = ycc_rgb,
    .idct = leat_idct_scalar,
    .across = across,
    .down = down,
    .interleave = interleave,
    .split = split,
    .to_f32 = to_f32,
    .to_f16 = to_f16,
    .to_bf16 = to_bf16,
};

const struct leat_kernels *leat_kernels_named(const char *name)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    /* No processor has AVX2 without F16C and the others, but a virtual one may hide them. */
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("fma");
    /* Byte permutations over 64 bytes carry the horizontal pass: AVX-512 without VBMI is no gain over AVX2. */
    bool avx512 = avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vbmi") &&
                  __builtin_cpu_supports("avx512vnni");
    if (avx512 && strcmp(name, "avx512") == 0)
        return &leat_kernels_avx512;
    if (avx2 && strcmp(name, "avx2") == 0)
        return &leat_kernels_avx2;
#endif
    return strcmp(name, "scalar") == 0 ? &leat_kernels_scalar : NULL;
}

const struct leat_kernels *leat_kernels(void)
{
    static const char *const best_first[] = {"avx512", "avx2", "scalar"};
    const struct leat_kernels *k = NULL;
    for (size_t i = 0; !k; i++)
        k = leat_kernels_named(best_first[i]);
    return k;
}
