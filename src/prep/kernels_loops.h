/* Loops the compiler turns into good vector code by itself: written once, compiled for every level by being
 * inlined into a function of that level. */
#ifndef LEAT_PREP_KERNELS_LOOPS_H
#define LEAT_PREP_KERNELS_LOOPS_H

#include <string.h>

#include "prep/kernels.h"

#define LEAT_LOOP static inline __attribute__((always_inline))

LEAT_LOOP void loop_up_h1v2(const uint8_t *near, const uint8_t *far, unsigned bias, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)((3u * near[i] + far[i] + bias) >> 2);
}

/* Round to nearest, ties to even; normalised pictures hold no infinities worth keeping apart from NaN. */
LEAT_LOOP uint16_t bf16_of(float v)
{
    uint32_t u;
    memcpy(&u, &v, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Channels are a constant of each copy and planes repeat one map: the compiler sees a plain loop. */
#define LEAT_LOOP_FLOATS(NAME, TYPE, CONVERT)                                                                          \
    LEAT_LOOP void NAME(const uint8_t *in, size_t n, const struct leat_affine *map, unsigned channels, TYPE *out)      \
    {                                                                                                                  \
        if (channels == 1) {                                                                                           \
            for (size_t i = 0; i < n; i++)                                                                             \
                out[i] = CONVERT((float)in[i] * map[0].scale + map[0].bias);                                           \
            return;                                                                                                    \
        }                                                                                                              \
        for (size_t i = 0; i + 3 <= n; i += 3) {                                                                       \
            out[i] = CONVERT((float)in[i] * map[0].scale + map[0].bias);                                               \
            out[i + 1] = CONVERT((float)in[i + 1] * map[1].scale + map[1].bias);                                       \
            out[i + 2] = CONVERT((float)in[i + 2] * map[2].scale + map[2].bias);                                       \
        }                                                                                                              \
    }

#endif
