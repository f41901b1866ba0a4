#if defined(__x86_64__)
#include "prep/pixels_loops.h"

#define AVX2 __attribute__((target("avx2,fma,f16c")))

/* One byte at a time: sixteen shuffles with their choices are no faster. */
static void lookup(const uint8_t *in, size_t n, const uint8_t *table, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = table[in[i]];
}

PIXELS_FUNCTIONS(AVX2)

const struct leat_pixels leat_pixels_avx2 = PIXELS_TABLE;
#endif
