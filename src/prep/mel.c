#include "prep/mel.h"

#include <complex.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct leat_mel {
    struct leat_mel_spec spec;
    uint32_t freqs;       /* n_fft / 2 + 1 */
    double *window;       /* n_fft, zeros around it */
    double complex *root; /* n_fft-th roots of 1 */
    float *weight;        /* bands rows of freqs */
    uint32_t *from;       /* by band: the first frequency that counts, */
    uint32_t *to;         /* and one after the last */
};

static double mel_of(double hz, bool slaney)
{
    if (!slaney)
        return 2595.0 * log10(1.0 + hz / 700.0);
    return hz < 1000.0 ? hz * 3.0 / 200.0 : 15.0 + log(hz / 1000.0) / (log(6.4) / 27.0);
}

static double hz_of(double mel, bool slaney)
{
    if (!slaney)
        return 700.0 * (pow(10.0, mel / 2595.0) - 1.0);
    return mel < 15.0 ? mel * 200.0 / 3.0 : 1000.0 * exp(log(6.4) / 27.0 * (mel - 15.0));
}

static void make_bands(struct leat_mel *m, uint32_t rate)
{
    const struct leat_mel_spec *s = &m->spec;
    uint32_t half = rate / 2; /* a whole number, as torchaudio has it */
    double low = mel_of(s->low, s->slaney);
    double step = (mel_of(s->high, s->slaney) - low) / (s->bands + 1);
    for (uint32_t b = 0; b < s->bands; b++) {
        double left = hz_of(low + b * step, s->slaney);
        double middle = hz_of(low + (b + 1) * step, s->slaney);
        double right = hz_of(low + (b + 2) * step, s->slaney);
        double norm = s->slaney_norm ? 2.0 / (right - left) : 1.0;
        m->from[b] = m->freqs;
        for (uint32_t k = 0; k < m->freqs; k++) {
            double hz = (double)half * k / (m->freqs - 1);
            double up = (hz - left) / (middle - left);
            double down = (right - hz) / (right - middle);
            double w = up < down ? up : down;
            m->weight[(size_t)m->freqs * b + k] = w > 0.0 ? (float)(w * norm) : 0.0f;
            if (w > 0.0) {
                m->from[b] = k < m->from[b] ? k : m->from[b];
                m->to[b] = k + 1;
            }
        }
    }
}

static leat_status check(const struct leat_mel_spec *s, uint32_t rate, struct leat_error *err)
{
    if (s->window > s->n_fft)
        return leat_fail(err, LEAT_INVALID, "a window of %" PRIu32 " samples is longer than n_fft=%" PRIu32, s->window,
                         s->n_fft);
    if (!(s->low < s->high) || s->high > rate / 2.0)
        return leat_fail(err, LEAT_INVALID, "mel bands from %g to %g Hz do not fit a rate of %" PRIu32, s->low, s->high,
                         rate);
    return LEAT_OK;
}

leat_status leat_mel_make(const struct leat_mel_spec *spec, uint32_t rate, struct leat_mel **out,
                          struct leat_error *err)
{
    struct leat_mel_spec s = *spec;
    s.window = s.window ? s.window : s.n_fft;
    s.hop = s.hop ? s.hop : s.window / 2;
    s.hop = s.hop ? s.hop : 1;
    uint32_t half = rate / 2;
    s.high = s.high > 0.0 ? s.high : half;
    leat_status rc = check(&s, rate, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_mel *m = calloc(1, sizeof *m);
    if (!m)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a spectrogram");
    m->spec = s;
    m->freqs = s.n_fft / 2 + 1;
    m->window = calloc(s.n_fft, sizeof *m->window);
    m->root = calloc(s.n_fft, sizeof *m->root);
    m->weight = calloc((size_t)s.bands * m->freqs, sizeof *m->weight);
    m->from = calloc(s.bands, sizeof *m->from);
    m->to = calloc(s.bands, sizeof *m->to);
    if (!m->window || !m->root || !m->weight || !m->from || !m->to) {
        leat_mel_free(m);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a spectrogram");
    }
    uint32_t left = (s.n_fft - s.window) / 2;
    for (uint32_t i = 0; i < s.window; i++)
        m->window[left + i] = 0.5 - 0.5 * cos(2.0 * M_PI * i / s.window);
    for (uint32_t i = 0; i < s.n_fft; i++)
        m->root[i] = cos(2.0 * M_PI * i / s.n_fft) - sin(2.0 * M_PI * i / s.n_fft) * I;
    make_bands(m, rate);
    *out = m;
    return LEAT_OK;
}

void leat_mel_free(struct leat_mel *mel)
{
    if (!mel)
        return;
    free(mel->window);
    free(mel->root);
    free(mel->weight);
    free(mel->from);
    free(mel->to);
    free(mel);
}

uint64_t leat_mel_frames(const struct leat_mel *mel, uint64_t n)
{
    uint32_t odd = mel->spec.n_fft % 2; /* half of it, rounded down, is added on both sides */
    return n > mel->spec.n_fft / 2 && n > odd ? 1 + (n - odd) / mel->spec.hop : 0;
}

static uint32_t factor_of(uint32_t n)
{
    for (uint32_t f = n % 4 == 0 ? 4 : 2; f * f <= n; f++) {
        if (n % f == 0)
            return f;
    }
    return n;
}

/* Out of place: n numbers that lie `stride` apart, by the smallest factor of n. */
static void transform(const struct leat_mel *m, const double complex *in, size_t stride, uint32_t n,
                      double complex *out, double complex *spare)
{
    if (n <= 1) {
        *out = *in;
        return;
    }
    uint32_t f = factor_of(n);
    uint32_t part = n / f;
    uint32_t turn = m->spec.n_fft / n;
    for (uint32_t j = 0; j < f; j++)
        transform(m, in + stride * j, stride * f, part, spare + (size_t)part * j, out + (size_t)part * j);
    for (uint32_t k = 0; k < n; k++) {
        double complex sum = 0.0;
        for (uint32_t j = 0; j < f; j++)
            sum += spare[(size_t)part * j + k % part] * m->root[(uint64_t)j * k % n * turn];
        out[k] = sum;
    }
}

/* Sample i of the sound, reflected at both ends. */
static float reflected(const float *samples, uint64_t n, int64_t i)
{
    i = i < 0 ? -i : i;
    return samples[i < (int64_t)n ? i : 2 * ((int64_t)n - 1) - i];
}

static float finished(const struct leat_mel_spec *s, float v)
{
    if (s->log == LEAT_MEL_PLAIN)
        return v;
    double bounded = v > 1e-10f ? v : 1e-10;
    return (float)(s->log == LEAT_MEL_LN ? log(bounded) : (s->power == 1.0 ? 20.0 : 10.0) * log10(bounded));
}

leat_status leat_mel_run(const struct leat_mel *m, const float *samples, uint64_t n, struct leat_arena *arena,
                         float *out, struct leat_error *err)
{
    const struct leat_mel_spec *s = &m->spec;
    uint64_t frames = leat_mel_frames(m, n);
    double complex *in = leat_arena_take(arena, s->n_fft * sizeof *in);
    double complex *spectrum = leat_arena_take(arena, s->n_fft * sizeof *spectrum);
    double complex *spare = leat_arena_take(arena, s->n_fft * sizeof *spare);
    float *level = leat_arena_take(arena, m->freqs * sizeof *level);
    if (!in || !spectrum || !spare || !level)
        return leat_arena_fail(arena, err);
    for (uint64_t frame = 0; frame < frames; frame++) {
        int64_t begin = (int64_t)(frame * s->hop) - s->n_fft / 2;
        for (uint32_t i = 0; i < s->n_fft; i++)
            in[i] = reflected(samples, n, begin + i) * m->window[i];
        transform(m, in, 1, s->n_fft, spectrum, spare);
        for (uint32_t k = 0; k < m->freqs; k++) {
            double square = creal(spectrum[k]) * creal(spectrum[k]) + cimag(spectrum[k]) * cimag(spectrum[k]);
            level[k] = (float)(s->power == 2.0 ? square : s->power == 1.0 ? sqrt(square) : pow(square, s->power / 2));
        }
        for (uint32_t b = 0; b < s->bands; b++) {
            const float *weight = m->weight + (size_t)m->freqs * b;
            float sum = 0.0f;
            for (uint32_t k = m->from[b]; k < m->to[b]; k++)
                sum += weight[k] * level[k];
            out[frames * b + frame] = finished(s, sum);
        }
    }
    return LEAT_OK;
}
