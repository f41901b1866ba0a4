#if defined(__x86_64__)
#include <immintrin.h>

#include "prep/kernels.h"
#include "prep/kernels_loops.h"

#define AVX2        __attribute__((target("avx2,f16c")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2,f16c")))

#define GROUP 8
#define LANE  4

/* 16 bytes to 16 numbers of 16 bits. */
AVX2_INLINE __m256i widen(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* And back, cut to 0 … 255. */
AVX2_INLINE __m128i narrow(__m256i v)
{
    __m256i bytes = _mm256_packus_epi16(v, v);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(bytes, 0x08));
}

AVX2_INLINE void store16(uint8_t *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)(void *)p, v);
}

AVX2_INLINE __m256i times3(__m256i v)
{
    return _mm256_add_epi16(v, _mm256_add_epi16(v, v));
}

/* Even and odd outputs, 16 of each, as 32 bytes in order. */
AVX2_INLINE void store_pairs(uint8_t *out, __m256i even, __m256i odd)
{
    __m256i v = _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
    _mm256_storeu_si256((__m256i *)(void *)out, v);
}

AVX2 static void up_h2v2(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out)
{
    const __m256i seven = _mm256_set1_epi16(7);
    const __m256i eight = _mm256_set1_epi16(8);
    for (size_t i = 0; i < n; i += 16) {
        __m256i last = _mm256_add_epi16(times3(widen(near + i - 1)), widen(far + i - 1));
        __m256i this = _mm256_add_epi16(times3(widen(near + i)), widen(far + i));
        __m256i next = _mm256_add_epi16(times3(widen(near + i + 1)), widen(far + i + 1));
        this = times3(this);
        __m256i even = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(this, last), eight), 4);
        __m256i odd = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(this, next), seven), 4);
        store_pairs(out + 2 * i, even, odd);
    }
}

AVX2 static void up_h2v1(const uint8_t *row, size_t n, uint8_t *out)
{
    const __m256i one = _mm256_set1_epi16(1);
    const __m256i two = _mm256_set1_epi16(2);
    for (size_t i = 0; i < n; i += 16) {
        __m256i this = times3(widen(row + i));
        __m256i even = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(this, widen(row + i - 1)), one), 2);
        __m256i odd = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(this, widen(row + i + 1)), two), 2);
        store_pairs(out + 2 * i, even, odd);
    }
}

AVX2 static void up_h1v2(const uint8_t *near, const uint8_t *far, unsigned bias, size_t n, uint8_t *out)
{
    loop_up_h1v2(near, far, bias, n, out);
}

/* (c·x + 2^15) >> 16 for c below 1, from the high half of c·2x: floors nest, so no bit is lost. */
AVX2_INLINE __m256i fraction(__m256i x, int c)
{
    __m256i high = _mm256_mulhi_epi16(_mm256_add_epi16(x, x), _mm256_set1_epi16((short)c));
    return _mm256_srai_epi16(_mm256_add_epi16(high, _mm256_set1_epi16(1)), 1);
}

AVX2 static void ycc_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n, uint8_t *r, uint8_t *g,
                         uint8_t *b)
{
    const __m256i middle = _mm256_set1_epi16(128);
    const __m256i half = _mm256_set1_epi32(1 << 15);
    /* -0.34414 for cb; 1 - 0.71414 for cr, whose missing -1 is added afterwards. */
    const __m256i green = _mm256_set1_epi32((int)((uint32_t)18734 << 16 | (uint16_t)-22554));
    for (size_t i = 0; i < n; i += 16) {
        __m256i l = widen(y + i);
        __m256i u = _mm256_sub_epi16(widen(cb + i), middle);
        __m256i v = _mm256_sub_epi16(widen(cr + i), middle);
        __m256i red = _mm256_add_epi16(_mm256_add_epi16(l, v), fraction(v, 91881 - 65536));
        __m256i blue = _mm256_add_epi16(_mm256_add_epi16(l, _mm256_add_epi16(u, u)), fraction(u, 116130 - 2 * 65536));
        __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(u, v), green);
        __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(u, v), green);
        low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16);
        high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
        __m256i grass = _mm256_sub_epi16(_mm256_add_epi16(l, _mm256_packs_epi32(low, high)), v);
        store16(r + i, narrow(red));
        store16(g + i, narrow(grass));
        store16(b + i, narrow(blue));
    }
}

AVX2_INLINE __m256i windows(const uint8_t *in, uint32_t first, uint32_t second)
{
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)(in + first));
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(in + second));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

AVX2_INLINE void store_group(uint8_t *out, __m256i sum, __m128i shift)
{
    __m256i v = _mm256_sra_epi32(sum, shift);
    v = _mm256_packs_epi32(v, v);
    v = _mm256_packus_epi16(v, v);
    __m128i low = _mm256_castsi256_si128(v);
    __m128i high = _mm256_extracti128_si256(v, 1);
    _mm_storel_epi64((__m128i *)(void *)out, _mm_unpacklo_epi32(low, high));
}

AVX2_INLINE void across_groups(const struct leat_axis *axis, unsigned rows, const uint8_t *const *in,
                               uint8_t *const *out)
{
    uint32_t pairs = (axis->taps + 1) / 2;
    const __m128i shift = _mm_cvtsi32_si128((int)axis->shift);
    const __m256i half = _mm256_set1_epi32(1 << axis->shift >> 1);
    const int16_t *packed = axis->packed;
    for (uint32_t g = 0; g < axis->groups; g++) {
        __m256i index = _mm256_loadu_si256((const __m256i *)(const void *)(axis->index + (size_t)g * GROUP * 4));
        uint32_t first = axis->base[2 * g];
        uint32_t second = axis->base[2 * g + 1];
        __m256i sum[3] = {half, half, half};
        for (uint32_t p = 0; p < pairs; p++) {
            __m256i weight = _mm256_loadu_si256((const __m256i *)(const void *)packed);
            packed += GROUP * 2;
            for (unsigned r = 0; r < rows; r++) {
                __m256i v = _mm256_shuffle_epi8(windows(in[r], first + 2 * p, second + 2 * p), index);
                sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(v, weight));
            }
        }
        for (unsigned r = 0; r < rows; r++)
            store_group(out[r] + (size_t)g * GROUP, sum[r], shift);
    }
}

/* Large reductions: an output has so many taps that they fill vectors of their own. */
AVX2 static void across_long(const struct leat_axis *axis, const uint8_t *in, uint8_t *out)
{
    for (uint32_t i = 0; i < axis->count; i++) {
        const uint8_t *sample = in + axis->start[i];
        const int16_t *weight = axis->weight + (size_t)i * axis->stride;
        __m256i sum = _mm256_setzero_si256();
        for (uint32_t j = 0; j < axis->taps; j += 16) {
            __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)(weight + j));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(widen(sample + j), w));
        }
        __m128i v = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
        v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
        int total = (_mm_cvtsi128_si32(v) + (1 << axis->shift >> 1)) >> axis->shift;
        out[i] = total < 0 ? 0 : total > 255 ? 255 : (uint8_t)total;
    }
}

AVX2 static void across(const struct leat_axis *axis, unsigned rows, const uint8_t *const *in, uint8_t *const *out)
{
    if (axis->groups && rows == 3)
        across_groups(axis, 3, in, out);
    else if (axis->groups)
        across_groups(axis, rows, in, out);
    else if (axis->stride % 32)
        leat_kernels_scalar.across(axis, rows, in, out);
    else
        for (unsigned r = 0; r < rows; r++)
            across_long(axis, in[r], out[r]);
}

AVX2 static void down(const uint8_t *const *rows, const int16_t *weight, unsigned taps, unsigned shift, size_t n,
                      uint8_t *out)
{
    const __m128i count = _mm_cvtsi32_si128((int)shift);
    const __m256i half = _mm256_set1_epi32(1 << shift >> 1);
    const __m256i zero = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 32) {
        __m256i s0 = half;
        __m256i s1 = half;
        __m256i s2 = half;
        __m256i s3 = half;
        for (unsigned j = 0; j < taps; j += 2) {
            __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(rows[j] + i));
            __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(rows[j + 1] + i));
            __m256i w =
                _mm256_set1_epi32((int)((uint32_t)(uint16_t)weight[j] | (uint32_t)(uint16_t)weight[j + 1] << 16));
            __m256i low = _mm256_unpacklo_epi8(a, b);
            __m256i high = _mm256_unpackhi_epi8(a, b);
            s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), w));
            s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), w));
            s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), w));
            s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), w));
        }
        __m256i low = _mm256_packs_epi32(_mm256_sra_epi32(s0, count), _mm256_sra_epi32(s1, count));
        __m256i high = _mm256_packs_epi32(_mm256_sra_epi32(s2, count), _mm256_sra_epi32(s3, count));
        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_packus_epi16(low, high));
    }
}

#define Z (-1)

AVX2 static void interleave(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out)
{
    const __m128i r0 = _mm_setr_epi8(0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z, Z, 5);
    const __m128i g0 = _mm_setr_epi8(Z, 0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z, Z);
    const __m128i b0 = _mm_setr_epi8(Z, Z, 0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z);
    const __m128i r1 = _mm_setr_epi8(Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z, 10, Z);
    const __m128i g1 = _mm_setr_epi8(5, Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z, 10);
    const __m128i b1 = _mm_setr_epi8(Z, 5, Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z);
    const __m128i r2 = _mm_setr_epi8(Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15, Z, Z);
    const __m128i g2 = _mm_setr_epi8(Z, Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15, Z);
    const __m128i b2 = _mm_setr_epi8(10, Z, Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(r + i));
        __m128i y = _mm_loadu_si128((const __m128i *)(const void *)(g + i));
        __m128i z = _mm_loadu_si128((const __m128i *)(const void *)(b + i));
        uint8_t *to = out + 3 * i;
        store16(to,
                _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(x, r0), _mm_shuffle_epi8(y, g0)), _mm_shuffle_epi8(z, b0)));
        store16(to + 16,
                _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(x, r1), _mm_shuffle_epi8(y, g1)), _mm_shuffle_epi8(z, b1)));
        store16(to + 32,
                _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(x, r2), _mm_shuffle_epi8(y, g2)), _mm_shuffle_epi8(z, b2)));
    }
    leat_kernels_scalar.interleave(r + i, g + i, b + i, n - i, out + 3 * i);
}

/* Channel c of 16 pixels lies at c, c+3, … of 48 bytes: from three vectors, 5 or 6 bytes each. */
AVX2 static void split(const uint8_t *rgb, size_t n, uint8_t *r, uint8_t *g, uint8_t *b)
{
    const __m128i r0 = _mm_setr_epi8(0, 3, 6, 9, 12, 15, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z);
    const __m128i r1 = _mm_setr_epi8(Z, Z, Z, Z, Z, Z, 2, 5, 8, 11, 14, Z, Z, Z, Z, Z);
    const __m128i r2 = _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 1, 4, 7, 10, 13);
    const __m128i g0 = _mm_setr_epi8(1, 4, 7, 10, 13, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z);
    const __m128i g1 = _mm_setr_epi8(Z, Z, Z, Z, Z, 0, 3, 6, 9, 12, 15, Z, Z, Z, Z, Z);
    const __m128i g2 = _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 2, 5, 8, 11, 14);
    const __m128i b0 = _mm_setr_epi8(2, 5, 8, 11, 14, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z);
    const __m128i b1 = _mm_setr_epi8(Z, Z, Z, Z, Z, 1, 4, 7, 10, 13, Z, Z, Z, Z, Z, Z);
    const __m128i b2 = _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 0, 3, 6, 9, 12, 15);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(rgb + 3 * i));
        __m128i y = _mm_loadu_si128((const __m128i *)(const void *)(rgb + 3 * i + 16));
        __m128i z = _mm_loadu_si128((const __m128i *)(const void *)(rgb + 3 * i + 32));
        store16(r + i,
                _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(x, r0), _mm_shuffle_epi8(y, r1)), _mm_shuffle_epi8(z, r2)));
        store16(g + i,
                _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(x, g0), _mm_shuffle_epi8(y, g1)), _mm_shuffle_epi8(z, g2)));
        store16(b + i,
                _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(x, b0), _mm_shuffle_epi8(y, b1)), _mm_shuffle_epi8(z, b2)));
    }
    leat_kernels_scalar.split(rgb + 3 * i, n - i, r + i, g + i, b + i);
}

/* Eight samples as floats, mapped. Interleaved rows see their maps repeat every 24 samples: three phases. */
AVX2_INLINE __m256 mapped(const uint8_t *in, __m256 scale, __m256 bias)
{
    __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)in)));
    return _mm256_add_ps(_mm256_mul_ps(v, scale), bias);
}

AVX2_INLINE void phases(const struct leat_affine *map, unsigned channels, __m256 *scale, __m256 *bias)
{
    float s[24];
    float b[24];
    for (unsigned i = 0; i < 24; i++) {
        s[i] = map[i % channels].scale;
        b[i] = map[i % channels].bias;
    }
    for (unsigned i = 0; i < 3; i++) {
        scale[i] = _mm256_loadu_ps(s + 8 * i);
        bias[i] = _mm256_loadu_ps(b + 8 * i);
    }
}

AVX2 static void to_f32(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, float *out)
{
    __m256 scale[3];
    __m256 bias[3];
    size_t i = 0;
    phases(map, channels, scale, bias);
    for (; i + 24 <= n; i += 24) {
        for (unsigned k = 0; k < 3; k++)
            _mm256_storeu_ps(out + i + 8 * k, mapped(in + i + 8 * k, scale[k], bias[k]));
    }
    leat_kernels_scalar.to_f32(in + i, n - i, map, channels, out + i);
}

AVX2 static void to_f16(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, uint16_t *out)
{
    __m256 scale[3];
    __m256 bias[3];
    size_t i = 0;
    phases(map, channels, scale, bias);
    for (; i + 24 <= n; i += 24) {
        for (unsigned k = 0; k < 3; k++) {
            __m256 v = mapped(in + i + 8 * k, scale[k], bias[k]);
            _mm_storeu_si128((__m128i *)(void *)(out + i + 8 * k), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
        }
    }
    leat_kernels_scalar.to_f16(in + i, n - i, map, channels, out + i);
}

AVX2 static void to_bf16(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, uint16_t *out)
{
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i round = _mm256_set1_epi32(0x7fff);
    __m256 scale[3];
    __m256 bias[3];
    size_t i = 0;
    phases(map, channels, scale, bias);
    for (; i + 24 <= n; i += 24) {
        for (unsigned k = 0; k < 3; k++) {
            __m256i v = _mm256_castps_si256(mapped(in + i + 8 * k, scale[k], bias[k]));
            __m256i odd = _mm256_and_si256(_mm256_srli_epi32(v, 16), one);
            v = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(v, round), odd), 16);
            v = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08);
            _mm_storeu_si128((__m128i *)(void *)(out + i + 8 * k), _mm256_castsi256_si128(v));
        }
    }
    leat_kernels_scalar.to_bf16(in + i, n - i, map, channels, out + i);
}

const struct leat_kernels leat_kernels_avx2 = {
    .name = "avx2",
    .pixels = &leat_pixels_avx2,
    .shape = {.group = GROUP, .lane = LANE, .window = 16},
    .up_h2v2 = up_h2v2,
    .up_h2v1 = up_h2v1,
    .up_h1v2 = up_h1v2,
    .ycc_rgb = ycc_rgb,
    .idct = leat_idct_avx2,
    .across = across,
    .down = down,
    .interleave = interleave,
    .split = split,
    .to_f32 = to_f32,
    .to_f16 = to_f16,
    .to_bf16 = to_bf16,
};
#endif
