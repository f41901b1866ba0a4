/* Encoded sound to floats of -1 … 1: WAV (PCM of 8 to 32 bits, floats) by our own reader, FLAC by libFLAC, which is
 * looked for at run time. */
#ifndef LEAT_PREP_WAVE_H
#define LEAT_PREP_WAVE_H

#include "prep/arena.h"

enum leat_wave_type { LEAT_WAVE_WAV, LEAT_WAVE_FLAC };

struct leat_wave_info {
    enum leat_wave_type type;
    uint32_t rate; /* Hz */
    uint32_t channels;
    uint64_t frames; /* samples of one channel; a WAV that is cut off has those that are there */
    size_t data;     /* of a WAV: where its samples begin, */
    uint32_t bits;   /* how wide they are */
    bool real;       /* and whether they are floating-point numbers */
};

#define LEAT_WAVE_CHANNELS_MAX 64

/* Reads the header only. */
leat_status leat_wave_probe(const void *data, size_t size, struct leat_wave_info *out, struct leat_error *err);

/* n samples of each channel from `first` on, channel after channel; all of them must be there. A WAV's are read where
 * they stand, a FLAC is sought in. */
leat_status leat_wave_read(const void *data, size_t size, const struct leat_wave_info *info, uint64_t first, uint64_t n,
                           float *out, struct leat_error *err);

#endif
