#include "prep/kernels.h"

/* The algorithm of Loeffler, Ligtenberg and Moschytz with 13 bits after the point, multiplied out so that every
 * output is a sum of products: integers, so the result is that of libjpeg's step-by-step form. Columns first, with two
 * extra bits kept between the passes. */
#define EVEN_2_2 4433
#define EVEN_2_6 (-10704)
#define EVEN_3_2 10703
#define EVEN_3_6 4433

static int16_t clamp16(int v)
{
    return v < INT16_MIN ? INT16_MIN : v > INT16_MAX ? INT16_MAX : (int16_t)v;
}

static uint8_t clamp8(int v)
{
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

static void eight(const int16_t *in, size_t step, unsigned shift, int out[8])
{
    int i1 = in[step];
    int i3 = in[3 * step];
    int i5 = in[5 * step];
    int i7 = in[7 * step];
    int e0 = (in[0] + in[4 * step]) * 8192;
    int e1 = (in[0] - in[4 * step]) * 8192;
    int e2 = in[2 * step] * EVEN_2_2 + in[6 * step] * EVEN_2_6;
    int e3 = in[2 * step] * EVEN_3_2 + in[6 * step] * EVEN_3_6;
    int o0 = i7 * -11363 + i1 * 2260 + i5 * 9633 + i3 * -6436;
    int o1 = i7 * 9633 + i1 * 6437 + i5 * 2261 + i3 * -11362;
    int o2 = i7 * -6436 + i1 * 9633 + i5 * -11362 + i3 * -2259;
    int o3 = i7 * 2260 + i1 * 11363 + i5 * 6437 + i3 * 9633;
    int half = 1 << shift >> 1;
    out[0] = (e0 + e3 + o3 + half) >> shift;
    out[7] = (e0 + e3 - o3 + half) >> shift;
    out[1] = (e1 + e2 + o2 + half) >> shift;
    out[6] = (e1 + e2 - o2 + half) >> shift;
    out[2] = (e1 - e2 + o1 + half) >> shift;
    out[5] = (e1 - e2 - o1 + half) >> shift;
    out[3] = (e0 - e3 + o0 + half) >> shift;
    out[4] = (e0 - e3 - o0 + half) >> shift;
}

void leat_idct_scalar(const int16_t *in, const uint16_t *quant, uint8_t *out, size_t stride)
{
    int16_t whole[64];
    int16_t between[64];
    int v[8];
    for (unsigned i = 0; i < 64; i++)
        whole[i] = (int16_t)(in[i] * quant[i]);
    for (unsigned x = 0; x < 8; x++) {
        eight(whole + x, 8, 11, v);
        for (unsigned y = 0; y < 8; y++)
            between[8 * y + x] = clamp16(v[y]);
    }
    for (unsigned y = 0; y < 8; y++) {
        eight(between + 8 * y, 1, 18, v);
        for (unsigned x = 0; x < 8; x++)
            out[stride * y + x] = clamp8(v[x] + 128);
    }
}

/* Four points: 0.5, 0.653281, 0.270598 with 13 bits. */
static void four(const int *in, size_t step, unsigned shift, int out[4])
{
    int e0 = (in[0] + in[2 * step]) * 4096;
    int e1 = (in[0] - in[2 * step]) * 4096;
    int o0 = in[step] * 5352 + in[3 * step] * 2217;
    int o1 = in[step] * 2217 - in[3 * step] * 5352;
    int half = 1 << shift >> 1;
    out[0] = (e0 + o0 + half) >> shift;
    out[1] = (e1 + o1 + half) >> shift;
    out[2] = (e1 - o1 + half) >> shift;
    out[3] = (e0 - o0 + half) >> shift;
}

void leat_idct_reduced(const int16_t *in, const uint16_t *quant, unsigned size, uint8_t *out, size_t stride)
{
    int columns[16];
    for (unsigned i = 0; i < 16; i++) {
        unsigned at = i / 4 * 8 + i % 4;
        columns[i] = (int16_t)(in[at] * quant[at]);
    }
    if (size == 2) {
        int a = columns[0] + columns[4];
        int b = columns[0] - columns[4];
        int c = columns[1] + columns[5];
        int d = columns[1] - columns[5];
        out[0] = clamp8(((a + c + 4) >> 3) + 128);
        out[1] = clamp8(((a - c + 4) >> 3) + 128);
        out[stride] = clamp8(((b + d + 4) >> 3) + 128);
        out[stride + 1] = clamp8(((b - d + 4) >> 3) + 128);
        return;
    }
    int between[16];
    int v[4];
    for (unsigned x = 0; x < 4; x++) {
        four(columns + x, 4, 11, v);
        for (unsigned y = 0; y < 4; y++)
            between[4 * y + x] = clamp16(v[y]);
    }
    for (unsigned y = 0; y < 4; y++) {
        four(between + 4 * y, 1, 16, v);
        for (unsigned x = 0; x < 4; x++)
            out[stride * y + x] = clamp8(v[x] + 128);
    }
}
