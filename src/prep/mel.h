/* Mel spectrograms as torchaudio.transforms.MelSpectrogram makes them: frames centred on multiples of the hop with the
 * sound reflected at its ends, a periodic Hann window, magnitudes to a power, triangles on the mel scale. */
#ifndef LEAT_PREP_MEL_H
#define LEAT_PREP_MEL_H

#include "prep/arena.h"

enum leat_mel_log { LEAT_MEL_PLAIN, LEAT_MEL_LN, LEAT_MEL_DB };

struct leat_mel_spec {
    uint32_t bands; /* 0: no spectrogram */
    uint32_t n_fft;
    uint32_t hop;    /* 0: half the window */
    uint32_t window; /* 0: n_fft */
    double low;      /* Hz */
    double high;     /* Hz; 0: half the rate */
    double power;
    bool slaney;      /* its scale, else HTK's */
    bool slaney_norm; /* triangles of equal area */
    enum leat_mel_log log;
};

struct leat_mel; /* constant after it is made: any number of threads */

leat_status leat_mel_make(const struct leat_mel_spec *spec, uint32_t rate, struct leat_mel **out,
                          struct leat_error *err);
void leat_mel_free(struct leat_mel *mel); /* NULL is allowed */

/* Frames of n samples; 0 where there are too few to reflect. */
uint64_t leat_mel_frames(const struct leat_mel *mel, uint64_t n);

/* bands rows of this many frames each. */
leat_status leat_mel_run(const struct leat_mel *mel, const float *samples, uint64_t n, struct leat_arena *arena,
                         float *out, struct leat_error *err);

#endif
