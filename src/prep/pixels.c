#include "prep/pixels_loops.h"

static void lookup(const uint8_t *in, size_t n, const uint8_t *table, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = table[in[i]];
}

PIXELS_FUNCTIONS()

const struct leat_pixels leat_pixels_scalar = PIXELS_TABLE;
