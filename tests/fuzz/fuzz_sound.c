/* Any bytes as a sound, through a description the first byte chooses. */
#include "fuzz.h"
#include "prep/sound.h"

#define NUMBERS (1 << 16)

static const char *const texts[] = {
    "",
    "excerpt=300 channels=2",
    "resample=8000 excerpt=200 place=middle",
    "resample=16000 excerpt=1000 mel=20 n_fft=60 log=db dtype=float16",
    "resample=9001 mel=9 n_fft=37 hop=20",
};

#define TEXTS (sizeof texts / sizeof *texts)

FUZZ(sound)
{
    static struct leat_scratch *scratch;
    static struct leat_sound *sounds[TEXTS];
    static float out[NUMBERS];
    struct leat_error err;
    if (!scratch) {
        PROMISE(leat_scratch_open((uint64_t)256 << 20, NULL, &scratch, &err) == LEAT_OK);
        for (size_t i = 0; i < TEXTS; i++) {
            struct leat_sound_description d;
            PROMISE(leat_sound_parse(texts[i], &d, &err) == LEAT_OK);
            PROMISE(leat_sound_make(&d, &sounds[i], &err) == LEAT_OK);
        }
    }
    if (size < 1)
        return;
    const struct leat_sound *s = sounds[data[0] % TEXTS];
    uint64_t bytes = 0;
    leat_status rc = leat_sound_bytes(s, data + 1, size - 1, &bytes, &err);
    fuzz_check_error(rc, &err);
    if (rc != LEAT_OK || bytes > sizeof out)
        return;
    rc = leat_sound_run(s, scratch, data + 1, size - 1, leat_rng(data[0], 1), out, bytes, &err);
    fuzz_check_error(rc, &err);
}
