#if defined(__x86_64__)
#include <immintrin.h>

#include "prep/kernels.h"

#define AVX2        __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

/* Two rows of eight as pairs, in order. */
AVX2_INLINE __m256i pairs(__m128i a, __m128i b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi16(a, b)), _mm_unpackhi_epi16(a, b), 1);
}

AVX2_INLINE __m256i constants(int first, int second)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)first | (uint32_t)(uint16_t)second << 16));
}

AVX2_INLINE __m128i finish(__m256i v, int shift)
{
    v = _mm256_srai_epi32(v, shift);
    return _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

/* One pass over all eight columns; idct.c says what it computes. */
AVX2_INLINE void pass(__m128i r[8], int shift)
{
    const __m256i half = _mm256_set1_epi32(1 << shift >> 1);
    __m256i p04 = pairs(r[0], r[4]);
    __m256i p26 = pairs(r[2], r[6]);
    __m256i p71 = pairs(r[7], r[1]);
    __m256i p53 = pairs(r[5], r[3]);
    __m256i e0 = _mm256_add_epi32(_mm256_madd_epi16(p04, constants(8192, 8192)), half);
    __m256i e1 = _mm256_add_epi32(_mm256_madd_epi16(p04, constants(8192, -8192)), half);
    __m256i e2 = _mm256_madd_epi16(p26, constants(4433, -10704));
    __m256i e3 = _mm256_madd_epi16(p26, constants(10703, 4433));
    __m256i o0 = _mm256_add_epi32(_mm256_madd_epi16(p71, constants(-11363, 2260)),
                                  _mm256_madd_epi16(p53, constants(9633, -6436)));
    __m256i o1 = _mm256_add_epi32(_mm256_madd_epi16(p71, constants(9633, 6437)),
                                  _mm256_madd_epi16(p53, constants(2261, -11362)));
    __m256i o2 = _mm256_add_epi32(_mm256_madd_epi16(p71, constants(-6436, 9633)),
                                  _mm256_madd_epi16(p53, constants(-11362, -2259)));
    __m256i o3 =
        _mm256_add_epi32(_mm256_madd_epi16(p71, constants(2260, 11363)), _mm256_madd_epi16(p53, constants(6437, 9633)));
    __m256i t0 = _mm256_add_epi32(e0, e3);
    __m256i t3 = _mm256_sub_epi32(e0, e3);
    __m256i t1 = _mm256_add_epi32(e1, e2);
    __m256i t2 = _mm256_sub_epi32(e1, e2);
    r[0] = finish(_mm256_add_epi32(t0, o3), shift);
    r[7] = finish(_mm256_sub_epi32(t0, o3), shift);
    r[1] = finish(_mm256_add_epi32(t1, o2), shift);
    r[6] = finish(_mm256_sub_epi32(t1, o2), shift);
    r[2] = finish(_mm256_add_epi32(t2, o1), shift);
    r[5] = finish(_mm256_sub_epi32(t2, o1), shift);
    r[3] = finish(_mm256_add_epi32(t3, o0), shift);
    r[4] = finish(_mm256_sub_epi32(t3, o0), shift);
}

AVX2_INLINE void transpose(__m128i r[8])
{
    __m128i a0 = _mm_unpacklo_epi16(r[0], r[1]);
    __m128i a1 = _mm_unpackhi_epi16(r[0], r[1]);
    __m128i a2 = _mm_unpacklo_epi16(r[2], r[3]);
    __m128i a3 = _mm_unpackhi_epi16(r[2], r[3]);
    __m128i a4 = _mm_unpacklo_epi16(r[4], r[5]);
    __m128i a5 = _mm_unpackhi_epi16(r[4], r[5]);
    __m128i a6 = _mm_unpacklo_epi16(r[6], r[7]);
    __m128i a7 = _mm_unpackhi_epi16(r[6], r[7]);
    __m128i b0 = _mm_unpacklo_epi32(a0, a2);
    __m128i b1 = _mm_unpackhi_epi32(a0, a2);
    __m128i b2 = _mm_unpacklo_epi32(a1, a3);
    __m128i b3 = _mm_unpackhi_epi32(a1, a3);
    __m128i b4 = _mm_unpacklo_epi32(a4, a6);
    __m128i b5 = _mm_unpackhi_epi32(a4, a6);
    __m128i b6 = _mm_unpacklo_epi32(a5, a7);
    __m128i b7 = _mm_unpackhi_epi32(a5, a7);
    r[0] = _mm_unpacklo_epi64(b0, b4);
    r[1] = _mm_unpackhi_epi64(b0, b4);
    r[2] = _mm_unpacklo_epi64(b1, b5);
    r[3] = _mm_unpackhi_epi64(b1, b5);
    r[4] = _mm_unpacklo_epi64(b2, b6);
    r[5] = _mm_unpackhi_epi64(b2, b6);
    r[6] = _mm_unpacklo_epi64(b3, b7);
    r[7] = _mm_unpackhi_epi64(b3, b7);
}

AVX2 void leat_idct_avx2(const int16_t *in, const uint16_t *quant, uint8_t *out, size_t stride)
{
    const __m128i middle = _mm_set1_epi8((char)-128);
    __m128i r[8];
    for (unsigned i = 0; i < 8; i++)
        r[i] = _mm_mullo_epi16(_mm_loadu_si128((const __m128i *)(const void *)(in + 8 * i)),
                               _mm_loadu_si128((const __m128i *)(const void *)(quant + 8 * i)));
    pass(r, 11);
    transpose(r);
    pass(r, 18);
    transpose(r);
    for (unsigned i = 0; i < 8; i += 2) {
        /* Cut to a signed byte, then moved up: 0 … 255. */
        __m128i two = _mm_xor_si128(_mm_packs_epi16(r[i], r[i + 1]), middle);
        _mm_storel_epi64((__m128i *)(void *)(out + stride * i), two);
        _mm_storeh_pd((double *)(void *)(out + stride * (i + 1)), _mm_castsi128_pd(two));
    }
}
#endif
