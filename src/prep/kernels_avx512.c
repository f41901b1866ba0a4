#if defined(__x86_64__)
#include <immintrin.h>

#include "prep/kernels.h"
#include "prep/kernels_loops.h"

#define TARGET        "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni,avx2,f16c"
#define AVX512        __attribute__((target(TARGET)))
#define AVX512_INLINE static inline __attribute__((always_inline, target(TARGET)))

#define GROUP 16

/* 32 bytes to 32 numbers of 16 bits. */
AVX512_INLINE __m512i widen(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

AVX512_INLINE __m512i load(const void *p)
{
    return _mm512_loadu_si512(p);
}

AVX512_INLINE void store_clamped(uint8_t *p, __m512i v)
{
    __m256i bytes = _mm512_cvtusepi16_epi8(_mm512_max_epi16(v, _mm512_setzero_si512()));
    _mm256_storeu_si256((__m256i *)(void *)p, bytes);
}

AVX512_INLINE __m512i times3(__m512i v)
{
    return _mm512_add_epi16(v, _mm512_add_epi16(v, v));
}

AVX512_INLINE void store_pairs(uint8_t *out, __m512i even, __m512i odd)
{
    _mm512_storeu_si512(out, _mm512_or_si512(even, _mm512_slli_epi16(odd, 8)));
}

AVX512 static void up_h2v2(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out)
{
    const __m512i seven = _mm512_set1_epi16(7);
    const __m512i eight = _mm512_set1_epi16(8);
    for (size_t i = 0; i < n; i += 32) {
        __m512i last = _mm512_add_epi16(times3(widen(near + i - 1)), widen(far + i - 1));
        __m512i this = _mm512_add_epi16(times3(widen(near + i)), widen(far + i));
        __m512i next = _mm512_add_epi16(times3(widen(near + i + 1)), widen(far + i + 1));
        this = times3(this);
        __m512i even = _mm512_srli_epi16(_mm512_add_epi16(_mm512_add_epi16(this, last), eight), 4);
        __m512i odd = _mm512_srli_epi16(_mm512_add_epi16(_mm512_add_epi16(this, next), seven), 4);
        store_pairs(out + 2 * i, even, odd);
    }
}

AVX512 static void up_h2v1(const uint8_t *row, size_t n, uint8_t *out)
{
    const __m512i one = _mm512_set1_epi16(1);
    const __m512i two = _mm512_set1_epi16(2);
    for (size_t i = 0; i < n; i += 32) {
        __m512i this = times3(widen(row + i));
        __m512i even = _mm512_srli_epi16(_mm512_add_epi16(_mm512_add_epi16(this, widen(row + i - 1)), one), 2);
        __m512i odd = _mm512_srli_epi16(_mm512_add_epi16(_mm512_add_epi16(this, widen(row + i + 1)), two), 2);
        store_pairs(out + 2 * i, even, odd);
    }
}

AVX512 static void up_h1v2(const uint8_t *near, const uint8_t *far, unsigned bias, size_t n, uint8_t *out)
{
    loop_up_h1v2(near, far, bias, n, out);
}

/* See kernels_avx2.c. */
AVX512_INLINE __m512i fraction(__m512i x, int c)
{
    __m512i high = _mm512_mulhi_epi16(_mm512_add_epi16(x, x), _mm512_set1_epi16((short)c));
    return _mm512_srai_epi16(_mm512_add_epi16(high, _mm512_set1_epi16(1)), 1);
}

AVX512 static void ycc_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n, uint8_t *r, uint8_t *g,
                           uint8_t *b)
{
    const __m512i middle = _mm512_set1_epi16(128);
    const __m512i half = _mm512_set1_epi32(1 << 15);
    const __m512i green = _mm512_set1_epi32((int)((uint32_t)18734 << 16 | (uint16_t)-22554));
    for (size_t i = 0; i < n; i += 32) {
        __m512i l = widen(y + i);
        __m512i u = _mm512_sub_epi16(widen(cb + i), middle);
        __m512i v = _mm512_sub_epi16(widen(cr + i), middle);
        __m512i red = _mm512_add_epi16(_mm512_add_epi16(l, v), fraction(v, 91881 - 65536));
        __m512i blue = _mm512_add_epi16(_mm512_add_epi16(l, _mm512_add_epi16(u, u)), fraction(u, 116130 - 2 * 65536));
        __m512i low = _mm512_dpwssd_epi32(half, _mm512_unpacklo_epi16(u, v), green);
        __m512i high = _mm512_dpwssd_epi32(half, _mm512_unpackhi_epi16(u, v), green);
        __m512i mixed = _mm512_packs_epi32(_mm512_srai_epi32(low, 16), _mm512_srai_epi32(high, 16));
        store_clamped(r + i, red);
        store_clamped(g + i, _mm512_sub_epi16(_mm512_add_epi16(l, mixed), v));
        store_clamped(b + i, blue);
    }
}

AVX512_INLINE void across_groups(const struct leat_axis *axis, unsigned rows, bool wide, const uint8_t *const *in,
                                 uint8_t *const *out)
{
    const __mmask64 even = 0x5555555555555555;
    uint32_t pairs = (axis->taps + 1) / 2;
    const __m128i shift = _mm_cvtsi32_si128((int)axis->shift);
    const __m512i half = _mm512_set1_epi32(1 << axis->shift >> 1);
    const int16_t *packed = axis->packed;
    for (uint32_t g = 0; g < axis->groups; g++) {
        __m512i index = load(axis->index + (size_t)g * GROUP * 4);
        uint32_t base = axis->base[g];
        __m512i sum[3] = {half, half, half};
        for (uint32_t p = 0; p < pairs; p++) {
            __m512i weight = load(packed);
            packed += GROUP * 2;
            for (unsigned r = 0; r < rows; r++) {
                const uint8_t *from = in[r] + base + 2 * p;
                __m512i v = wide ? _mm512_maskz_permutex2var_epi8(even, load(from), index, load(from + 64))
                                 : _mm512_maskz_permutexvar_epi8(even, index, load(from));
                sum[r] = _mm512_dpwssd_epi32(sum[r], v, weight);
            }
        }
        for (unsigned r = 0; r < rows; r++) {
            __m512i v = _mm512_max_epi32(_mm512_sra_epi32(sum[r], shift), _mm512_setzero_si512());
            _mm_storeu_si128((__m128i *)(void *)(out[r] + (size_t)g * GROUP), _mm512_cvtusepi32_epi8(v));
        }
    }
}

AVX512 static void across_long(const struct leat_axis *axis, const uint8_t *in, uint8_t *out)
{
    for (uint32_t i = 0; i < axis->count; i++) {
        const uint8_t *sample = in + axis->start[i];
        const int16_t *weight = axis->weight + (size_t)i * axis->stride;
        __m512i sum = _mm512_setzero_si512();
        for (uint32_t j = 0; j < axis->taps; j += 32)
            sum = _mm512_dpwssd_epi32(sum, widen(sample + j), load(weight + j));
        int total = (_mm512_reduce_add_epi32(sum) + (1 << axis->shift >> 1)) >> axis->shift;
        out[i] = total < 0 ? 0 : total > 255 ? 255 : (uint8_t)total;
    }
}

AVX512 static void across(const struct leat_axis *axis, unsigned rows, const uint8_t *const *in, uint8_t *const *out)
{
    if (axis->groups && axis->wide && rows == 3)
        across_groups(axis, 3, true, in, out);
    else if (axis->groups && rows == 3)
        across_groups(axis, 3, false, in, out);
    else if (axis->groups)
        across_groups(axis, rows, axis->wide, in, out);
    else if (axis->stride % 32)
        leat_kernels_scalar.across(axis, rows, in, out);
    else
        for (unsigned r = 0; r < rows; r++)
            across_long(axis, in[r], out[r]);
}

AVX512 static void down(const uint8_t *const *rows, const int16_t *weight, unsigned taps, unsigned shift, size_t n,
                        uint8_t *out)
{
    const __m128i count = _mm_cvtsi32_si128((int)shift);
    const __m512i half = _mm512_set1_epi32(1 << shift >> 1);
    const __m512i zero = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 64) {
        __m512i s0 = half;
        __m512i s1 = half;
        __m512i s2 = half;
        __m512i s3 = half;
        for (unsigned j = 0; j < taps; j += 2) {
            __m512i a = load(rows[j] + i);
            __m512i b = load(rows[j + 1] + i);
            __m512i w =
                _mm512_set1_epi32((int)((uint32_t)(uint16_t)weight[j] | (uint32_t)(uint16_t)weight[j + 1] << 16));
            __m512i low = _mm512_unpacklo_epi8(a, b);
            __m512i high = _mm512_unpackhi_epi8(a, b);
            s0 = _mm512_dpwssd_epi32(s0, _mm512_unpacklo_epi8(low, zero), w);
            s1 = _mm512_dpwssd_epi32(s1, _mm512_unpackhi_epi8(low, zero), w);
            s2 = _mm512_dpwssd_epi32(s2, _mm512_unpacklo_epi8(high, zero), w);
            s3 = _mm512_dpwssd_epi32(s3, _mm512_unpackhi_epi8(high, zero), w);
        }
        __m512i low = _mm512_packs_epi32(_mm512_sra_epi32(s0, count), _mm512_sra_epi32(s1, count));
        __m512i high = _mm512_packs_epi32(_mm512_sra_epi32(s2, count), _mm512_sra_epi32(s3, count));
        _mm512_storeu_si512(out + i, _mm512_packus_epi16(low, high));
    }
}

static const struct {
    uint8_t two[3][64];   /* by third of 192 bytes: which byte of r (0 …) or g (64 …) */
    uint8_t three[3][64]; /* which byte of b */
} spread = {
#define R(i) (i)
#define G(i) (64 + (i))
#define T(i) R(i), G(i), 0
    .two = {{T(0),  T(1),  T(2),  T(3),  T(4),  T(5),  T(6),  T(7),  T(8),  T(9),  T(10),
             T(11), T(12), T(13), T(14), T(15), T(16), T(17), T(18), T(19), T(20), R(21)},
            {G(21), 0,     T(22), T(23), T(24), T(25), T(26), T(27), T(28), T(29), T(30), T(31),
             T(32), T(33), T(34), T(35), T(36), T(37), T(38), T(39), T(40), T(41), R(42), G(42)},
            {0,     T(43), T(44), T(45), T(46), T(47), T(48), T(49), T(50), T(51), T(52),
             T(53), T(54), T(55), T(56), T(57), T(58), T(59), T(60), T(61), T(62), T(63)}},
#undef T
#define T(i) 0, 0, (i)
    .three = {{T(0),  T(1),  T(2),  T(3),  T(4),  T(5),  T(6),  T(7),  T(8),  T(9),  T(10),
               T(11), T(12), T(13), T(14), T(15), T(16), T(17), T(18), T(19), T(20), 0},
              {0,     21,    T(22), T(23), T(24), T(25), T(26), T(27), T(28), T(29), T(30), T(31),
               T(32), T(33), T(34), T(35), T(36), T(37), T(38), T(39), T(40), T(41), 0,     0},
              {42,    T(43), T(44), T(45), T(46), T(47), T(48), T(49), T(50), T(51), T(52),
               T(53), T(54), T(55), T(56), T(57), T(58), T(59), T(60), T(61), T(62), T(63)}},
#undef T
#undef R
#undef G
};

AVX512 static void interleave(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t n, uint8_t *out)
{
    static const __mmask64 blue[3] = {0x4924924924924924, 0x2492492492492492, 0x9249249249249249};
    size_t left = 3 * n;
    for (size_t i = 0; i < n; i += 64) {
        __m512i x = load(r + i);
        __m512i y = load(g + i);
        __m512i z = load(b + i);
        for (unsigned k = 0; k < 3; k++) {
            __m512i v = _mm512_permutex2var_epi8(x, load(spread.two[k]), y);
            v = _mm512_mask_permutexvar_epi8(v, blue[k], load(spread.three[k]), z);
            __mmask64 keep = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
            _mm512_mask_storeu_epi8(out + 3 * i + 64 * k, keep, v);
            left -= left < 64 ? left : 64;
        }
    }
}

AVX512 static void split(const uint8_t *rgb, size_t n, uint8_t *r, uint8_t *g, uint8_t *b)
{
    leat_kernels_avx2.split(rgb, n, r, g, b);
}

AVX512_INLINE __m512 mapped(const uint8_t *in, __m512 scale, __m512 bias)
{
    __m512 v = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)in)));
    return _mm512_add_ps(_mm512_mul_ps(v, scale), bias);
}

AVX512_INLINE void phases(const struct leat_affine *map, unsigned channels, __m512 *scale, __m512 *bias)
{
    float s[48];
    float b[48];
    for (unsigned i = 0; i < 48; i++) {
        s[i] = map[i % channels].scale;
        b[i] = map[i % channels].bias;
    }
    for (unsigned i = 0; i < 3; i++) {
        scale[i] = _mm512_loadu_ps(s + 16 * i);
        bias[i] = _mm512_loadu_ps(b + 16 * i);
    }
}

AVX512 static void to_f32(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, float *out)
{
    __m512 scale[3];
    __m512 bias[3];
    size_t i = 0;
    phases(map, channels, scale, bias);
    for (; i + 48 <= n; i += 48) {
        for (unsigned k = 0; k < 3; k++)
            _mm512_storeu_ps(out + i + 16 * k, mapped(in + i + 16 * k, scale[k], bias[k]));
    }
    leat_kernels_scalar.to_f32(in + i, n - i, map, channels, out + i);
}

AVX512 static void to_f16(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, uint16_t *out)
{
    __m512 scale[3];
    __m512 bias[3];
    size_t i = 0;
    phases(map, channels, scale, bias);
    for (; i + 48 <= n; i += 48) {
        for (unsigned k = 0; k < 3; k++) {
            __m512 v = mapped(in + i + 16 * k, scale[k], bias[k]);
            __m256i half = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            _mm256_storeu_si256((__m256i *)(void *)(out + i + 16 * k), half);
        }
    }
    leat_kernels_scalar.to_f16(in + i, n - i, map, channels, out + i);
}

AVX512 static void to_bf16(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, uint16_t *out)
{
    const __m512i one = _mm512_set1_epi32(1);
    const __m512i round = _mm512_set1_epi32(0x7fff);
    __m512 scale[3];
    __m512 bias[3];
    size_t i = 0;
    phases(map, channels, scale, bias);
    for (; i + 48 <= n; i += 48) {
        for (unsigned k = 0; k < 3; k++) {
            __m512i v = _mm512_castps_si512(mapped(in + i + 16 * k, scale[k], bias[k]));
            __m512i odd = _mm512_and_si512(_mm512_srli_epi32(v, 16), one);
            v = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(v, round), odd), 16);
            _mm256_storeu_si256((__m256i *)(void *)(out + i + 16 * k), _mm512_cvtepi32_epi16(v));
        }
    }
    leat_kernels_scalar.to_bf16(in + i, n - i, map, channels, out + i);
}

const struct leat_kernels leat_kernels_avx512 = {
    .name = "avx512",
    .pixels = &leat_pixels_avx512,
    .shape = {.group = GROUP, .lane = GROUP, .window = 64, .wide = 128},
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
