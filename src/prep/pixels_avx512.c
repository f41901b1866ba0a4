#if defined(__x86_64__)
#include <immintrin.h>

#include "prep/pixels_loops.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx2,fma,f16c")))

/* The table lies in four registers; the two upper bits of a byte choose among them. */
AVX512 static void lookup(const uint8_t *in, size_t n, const uint8_t *table, uint8_t *out)
{
    const __m512i t0 = _mm512_loadu_si512(table);
    const __m512i t1 = _mm512_loadu_si512(table + 64);
    const __m512i t2 = _mm512_loadu_si512(table + 128);
    const __m512i t3 = _mm512_loadu_si512(table + 192);
    for (size_t i = 0; i < n; i += 64) {
        __mmask64 there = n - i >= 64 ? ~0ull : (1ull << (n - i)) - 1;
        __m512i v = _mm512_maskz_loadu_epi8(there, in + i);
        __m512i low = _mm512_permutex2var_epi8(t0, v, t1);
        __m512i high = _mm512_permutex2var_epi8(t2, v, t3);
        __m512i both = _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high);
        _mm512_mask_storeu_epi8(out + i, there, both);
    }
}

PIXELS_FUNCTIONS(AVX512)

const struct leat_pixels leat_pixels_avx512 = PIXELS_TABLE;
#endif
