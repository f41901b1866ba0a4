/* From encoded sound to numbers in a batch: described once, made once, run for every sample. Constant after it is made;
 * the scratch belongs to one thread at a time. Same bytes and same draws, same output. */
#ifndef LEAT_PREP_SOUND_H
#define LEAT_PREP_SOUND_H

#include "prep/mel.h"
#include "prep/pipeline.h"
#include "prep/words.h"

enum leat_sound_place { LEAT_SOUND_RANDOM, LEAT_SOUND_MIDDLE, LEAT_SOUND_BEGIN };

struct leat_sound_description {
    uint32_t rate;     /* Hz; 0: as stored */
    uint32_t channels; /* 1: the mean of all */
    uint32_t excerpt;  /* samples at that rate; a shorter sound is followed by silence; 0: the whole, however long */
    enum leat_sound_place place;
    struct leat_mel_spec mel;
    bool half; /* float16, else float32 */
};

/* The words of the text form, as those of pictures in words.h: "resample=16000 excerpt=48000 mel=80 n_fft=400". */
extern const struct leat_word leat_sound_words[];

leat_status leat_sound_parse(const char *text, struct leat_sound_description *out, struct leat_error *err);

struct leat_sound;

leat_status leat_sound_make(const struct leat_sound_description *description, struct leat_sound **out,
                            struct leat_error *err);
void leat_sound_free(struct leat_sound *sound); /* NULL is allowed */

/* Channels, bands (0: samples, no spectrogram) and samples or frames of every output; 0 where it depends on the sound.
 */
void leat_sound_shape(const struct leat_sound *sound, uint32_t *channels, uint32_t *bands, uint64_t *length);

/* Bytes of the output of this sound, from its header. */
leat_status leat_sound_bytes(const struct leat_sound *sound, const void *data, size_t data_bytes, uint64_t *out,
                             struct leat_error *err);

/* Writes exactly that many; to_bytes says how many there is room for. */
leat_status leat_sound_run(const struct leat_sound *sound, struct leat_scratch *scratch, const void *data,
                           size_t data_bytes, struct leat_rng draws, void *to, uint64_t to_bytes,
                           struct leat_error *err);

#endif
