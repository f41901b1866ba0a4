#include "prep/resample.h"

#include <math.h>

#define CROSSINGS 6
#define ROLLOFF   0.99

struct ratio {
    uint32_t from; /* without common factors */
    uint32_t to;
    double base;
    int64_t width; /* taps to a side */
};

static struct ratio ratio_of(uint32_t from, uint32_t to)
{
    uint32_t a = from;
    uint32_t b = to;
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    a = a ? a : 1;
    struct ratio r = {.from = from / a, .to = to / a};
    r.to = r.to ? r.to : 1; /* nobody asks for 0 Hz */
    r.base = (r.from < r.to ? r.from : r.to) * ROLLOFF;
    r.width = (int64_t)ceil(CROSSINGS * r.from / r.base);
    return r;
}

uint64_t leat_resample_length(uint64_t n, uint32_t from, uint32_t to)
{
    struct ratio r = ratio_of(from, to);
    return (uint64_t)(((unsigned __int128)n * r.to + r.from - 1) / r.from);
}

/* The sample at the old rate that lies at or before output i, and how far along to the next, in 1 / to. */
static int64_t before(const struct ratio *r, uint64_t i, uint32_t *phase)
{
    unsigned __int128 at = (unsigned __int128)i * r->from;
    *phase = (uint32_t)(at % r->to);
    return (int64_t)(at / r->to);
}

void leat_resample_needs(uint64_t first, uint64_t n, uint32_t from, uint32_t to, int64_t *begin, int64_t *end)
{
    struct ratio r = ratio_of(from, to);
    uint32_t phase;
    *begin = before(&r, first, &phase) - r.width;
    *end = before(&r, first + (n ? n - 1 : 0), &phase) + r.width + 2;
}

/* Taps from -width to width + 1 around the sample before. */
static void make_taps(const struct ratio *r, uint32_t phase, float *out)
{
    for (int64_t k = -r->width; k <= r->width + 1; k++) {
        double t = ((double)k / r->from - (double)phase / r->from / r->to) * r->base;
        t = t < -CROSSINGS ? -CROSSINGS : t > CROSSINGS ? CROSSINGS : t;
        double window = cos(t * M_PI / CROSSINGS / 2);
        t *= M_PI;
        *out++ = (float)((t == 0.0 ? 1.0 : sin(t) / t) * window * window * r->base / r->from);
    }
}

leat_status leat_resample(const float *in, int64_t begin, uint64_t first, uint64_t n, uint32_t from, uint32_t to,
                          struct leat_arena *arena, float *out, struct leat_error *err)
{
    struct ratio r = ratio_of(from, to);
    size_t taps = (size_t)(2 * r.width + 2);
    uint64_t phases = n < r.to ? n : r.to; /* outputs come back to the same taps after `to` of them */
    float *tap = leat_arena_take(arena, phases * taps * sizeof *tap);
    if (!tap)
        return leat_arena_fail(arena, err);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t phase;
        int64_t at = before(&r, first + i, &phase) - r.width - begin;
        float *own = tap + (i % r.to) * taps;
        if (i < phases)
            make_taps(&r, phase, own);
        float sum = 0.0f;
        for (size_t k = 0; k < taps; k++)
            sum += own[k] * in[(size_t)at + k];
        out[i] = sum;
    }
    return LEAT_OK;
}
