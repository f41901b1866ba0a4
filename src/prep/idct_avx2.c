#if defined(__x86_64__)
#include <immintrin.h>

#include "prep/kernels.h"

#define AVX2        __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

/* Of eight rows, row i and row i + 4 share a register, and so do columns after a transposition: shuffles are what this
 * code would wait for, and so it needs half as many. */

AVX2_INLINE __m256i constants(int first, int second)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)first | (uint32_t)(uint16_t)second << 16));
}

/* In each half, what stands in its two halves side by side: 0 4 1 5 2 6 3 7. */
AVX2_INLINE __m256i side_by_side(__m256i v)
{
    return _mm256_shuffle_epi8(
        v, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)));
}

/* Row i and row i + 4 as pairs, in order. */
AVX2_INLINE __m256i pairs(__m256i rows)
{
    return side_by_side(_mm256_permute4x64_epi64(rows, 0xd8));
}

/* One pass over all eight columns, and a transposition; idct.c says what it computes. */
AVX2_INLINE void pass(__m256i v[4], int shift)
{
    const __m256i half = _mm256_set1_epi32(1 << shift >> 1);
    __m256i p04 = pairs(v[0]);
    __m256i p15 = pairs(v[1]);
    __m256i p26 = pairs(v[2]);
    __m256i p37 = pairs(v[3]);
    __m256i e0 = _mm256_add_epi32(_mm256_madd_epi16(p04, constants(8192, 8192)), half);
    __m256i e1 = _mm256_add_epi32(_mm256_madd_epi16(p04, constants(8192, -8192)), half);
    __m256i e2 = _mm256_madd_epi16(p26, constants(4433, -10704));
    __m256i e3 = _mm256_madd_epi16(p26, constants(10703, 4433));
    __m256i o0 = _mm256_add_epi32(_mm256_madd_epi16(p15, constants(2260, 9633)),
                                  _mm256_madd_epi16(p37, constants(-6436, -11363)));
    __m256i o1 = _mm256_add_epi32(_mm256_madd_epi16(p15, constants(6437, 2261)),
                                  _mm256_madd_epi16(p37, constants(-11362, 9633)));
    __m256i o2 = _mm256_add_epi32(_mm256_madd_epi16(p15, constants(9633, -11362)),
                                  _mm256_madd_epi16(p37, constants(-2259, -6436)));
    __m256i o3 =
        _mm256_add_epi32(_mm256_madd_epi16(p15, constants(11363, 6437)), _mm256_madd_epi16(p37, constants(9633, 2260)));
    __m256i t0 = _mm256_add_epi32(e0, e3);
    __m256i t1 = _mm256_add_epi32(e1, e2);
    __m256i t2 = _mm256_sub_epi32(e1, e2);
    __m256i t3 = _mm256_sub_epi32(e0, e3);
    __m256i r01 = side_by_side(_mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(t0, o3), shift),
                                                  _mm256_srai_epi32(_mm256_add_epi32(t1, o2), shift)));
    __m256i r23 = side_by_side(_mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(t2, o1), shift),
                                                  _mm256_srai_epi32(_mm256_add_epi32(t3, o0), shift)));
    __m256i r45 = side_by_side(_mm256_packs_epi32(_mm256_srai_epi32(_mm256_sub_epi32(t3, o0), shift),
                                                  _mm256_srai_epi32(_mm256_sub_epi32(t2, o1), shift)));
    __m256i r67 = side_by_side(_mm256_packs_epi32(_mm256_srai_epi32(_mm256_sub_epi32(t1, o2), shift),
                                                  _mm256_srai_epi32(_mm256_sub_epi32(t0, o3), shift)));
    __m256i a = _mm256_unpacklo_epi32(r01, r23);
    __m256i b = _mm256_unpackhi_epi32(r01, r23);
    __m256i c = _mm256_unpacklo_epi32(r45, r67);
    __m256i d = _mm256_unpackhi_epi32(r45, r67);
    v[0] = _mm256_unpacklo_epi64(a, c);
    v[1] = _mm256_unpackhi_epi64(a, c);
    v[2] = _mm256_unpacklo_epi64(b, d);
    v[3] = _mm256_unpackhi_epi64(b, d);
}

AVX2_INLINE __m256i two_rows(const void *first, const void *second)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)first)),
                                   _mm_loadu_si128((const __m128i *)second), 1);
}

AVX2_INLINE void store_two(__m128i two, uint8_t *out, size_t stride)
{
    _mm_storel_epi64((__m128i *)(void *)out, two);
    _mm_storeh_pd((double *)(void *)(out + stride), _mm_castsi128_pd(two));
}

AVX2 void leat_idct_avx2(const int16_t *in, const uint16_t *quant, uint8_t *out, size_t stride)
{
    const __m256i middle = _mm256_set1_epi8((char)-128);
    __m256i v[4];
    for (unsigned i = 0; i < 4; i++)
        v[i] = _mm256_mullo_epi16(two_rows(in + 8 * i, in + 8 * (i + 4)), two_rows(quant + 8 * i, quant + 8 * (i + 4)));
    pass(v, 11);
    pass(v, 18);
    for (unsigned i = 0; i < 4; i += 2) {
        /* Cut to a signed byte, then moved up: 0 … 255. */
        __m256i four = _mm256_xor_si256(_mm256_packs_epi16(v[i], v[i + 1]), middle);
        store_two(_mm256_castsi256_si128(four), out + stride * i, stride);
        store_two(_mm256_extracti128_si256(four, 1), out + stride * (i + 4), stride);
    }
}
#endif
