#include "prep/sound.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/guess.h"
#include "prep/resample.h"
#include "prep/wave.h"

#define D(field) offsetof(struct leat_sound_description, field)
#define M(field) offsetof(struct leat_sound_description, mel.field)

#define WORD(NAME, PLACE, TYPE, OFFSET, LOW, HIGH, PRESET, CHOICES, HELP)                                              \
    {                                                                                                                  \
        NAME, LEAT_WORD_##PLACE, LEAT_WORD_##TYPE, 0, OFFSET, LOW, HIGH, PRESET, CHOICES, HELP                         \
    }

static const char *const places[] = {"random", "middle", "begin", NULL};
static const char *const scales[] = {"htk", "slaney", NULL};
static const char *const norms[] = {"none", "slaney", NULL};
static const char *const logs[] = {"none", "ln", "db", NULL};
static const char *const dtypes[] = {"float32", "float16", NULL};

#define RATE_MAX    768000
#define NUMBERS_MAX ((uint64_t)1 << 28) /* of an output: 1 GiB */
#define EXCERPT_MAX ((double)(1 << 28))

const struct leat_word leat_sound_words[] = {
    WORD("resample", STEP, COUNT, D(rate), 1, RATE_MAX, NULL, NULL, "to this rate in Hz, by a windowed sinc"),
    WORD("channels", STEP, COUNT, D(channels), 1, LEAT_WAVE_CHANNELS_MAX, "1", NULL,
         "1: the mean of all; more: files must have as many, or one, which is repeated"),
    WORD("excerpt", STEP, COUNT, D(excerpt), 1, EXCERPT_MAX, NULL, NULL,
         "this many samples at the new rate; silence follows a shorter sound"),
    WORD("place", PARAMETER, CHOICE, D(place), 0, 0, "random", places, "where it is taken"),
    WORD("mel", EFFECT, COUNT, M(bands), 1, 1024, NULL, NULL, "mel spectrogram of this many bands; needs resample"),
    WORD("n_fft", PARAMETER, COUNT, M(n_fft), 16, 65536, "400", NULL, "samples of a frame"),
    WORD("hop", PARAMETER, COUNT, M(hop), 0, 65536, "0", NULL, "samples from frame to frame; 0: half the window"),
    WORD("window", PARAMETER, COUNT, M(window), 0, 65536, "0", NULL, "samples of the window; 0: the frame"),
    WORD("low", PARAMETER, NUMBER, M(low), 0, RATE_MAX, "0", NULL, "Hz, where the bands begin"),
    WORD("high", PARAMETER, NUMBER, M(high), 0, RATE_MAX, "0", NULL, "Hz, where they end; 0: half the rate"),
    WORD("power", PARAMETER, NUMBER, M(power), 0.1, 4, "2", NULL, "of magnitudes: 1, or 2 for energy"),
    WORD("scale", PARAMETER, FLAG, M(slaney), 0, 0, "htk", scales, "whose mel scale"),
    WORD("norm", PARAMETER, FLAG, M(slaney_norm), 0, 0, "none", norms, "slaney: bands of equal area"),
    WORD("log", PARAMETER, CHOICE, M(log), 0, 0, "none", logs, "of what is at least 1e-10: natural, or decibels"),
    WORD("dtype", SETTING, FLAG, D(half), 0, 0, "float32", dtypes, "of the output"),
    {0},
};

/* The word, unless it is a parameter of something that has not been said. */
static const struct leat_word *find(const char *name, const struct leat_word *last)
{
    const struct leat_word *owner = NULL;
    for (const struct leat_word *w = leat_sound_words; w->name; w++) {
        owner = w->place == LEAT_WORD_PARAMETER ? owner : w;
        if (strcmp(w->name, name) == 0 && (w->place != LEAT_WORD_PARAMETER || owner == last))
            return w;
    }
    return NULL;
}

static leat_status refuse(const char *name, struct leat_error *err)
{
    char meant[LEAT_GUESS_TEXT];
    struct leat_guess g = leat_guess_of(name);
    const struct leat_word *owner = leat_sound_words;
    for (const struct leat_word *w = leat_sound_words; w->name; w++) {
        owner = w->place == LEAT_WORD_PARAMETER ? owner : w;
        leat_guess_try(&g, w->name);
        if (strcmp(w->name, name) == 0)
            return leat_fail(err, LEAT_INVALID, "%s belongs after %s", name, owner->name);
    }
    return leat_fail(err, LEAT_INVALID, "'%s' is not a word for sounds%s", name, leat_guess_text(&g, meant));
}

leat_status leat_sound_parse(const char *text, struct leat_sound_description *out, struct leat_error *err)
{
    struct leat_sound_description d = {.channels = 1};
    const struct leat_word *last = NULL;
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        char word[LEAT_WORD_MAX];
        size_t n = strcspn(at, " ");
        if (n >= sizeof word)
            return leat_fail(err, LEAT_INVALID, "'%.40s…' is too long for a word", at);
        memcpy(word, at, n);
        word[n] = '\0';
        at += n;
        char *value = strchr(word, '=');
        if (value)
            *value++ = '\0';
        const struct leat_word *w = find(word, last);
        if (!w)
            return refuse(word, err);
        if (w->place != LEAT_WORD_PARAMETER) {
            last = w;
            leat_word_preset(w, &d);
        }
        leat_status rc = leat_word_parse(w, value ? value : "", &d, err);
        if (rc != LEAT_OK)
            return rc;
    }
    if (d.mel.bands && !d.rate)
        return leat_fail(err, LEAT_INVALID, "mel needs resample=RATE: bands of different rates are not the same");
    *out = d;
    return LEAT_OK;
}

struct leat_sound {
    struct leat_sound_description d;
    struct leat_mel *mel;
};

leat_status leat_sound_make(const struct leat_sound_description *description, struct leat_sound **out,
                            struct leat_error *err)
{
    struct leat_sound *s = calloc(1, sizeof *s);
    leat_status rc = LEAT_OK;
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a sound");
    s->d = *description;
    if (s->d.mel.bands)
        rc = leat_mel_make(&s->d.mel, s->d.rate, &s->mel, err);
    if (rc == LEAT_OK && s->mel && s->d.excerpt && !leat_mel_frames(s->mel, s->d.excerpt))
        rc = leat_fail(err, LEAT_INVALID,
                       "excerpt=%" PRIu32 " is too short for n_fft=%" PRIu32 ": it takes more than half of it",
                       s->d.excerpt, s->d.mel.n_fft);
    if (rc != LEAT_OK) {
        leat_sound_free(s);
        return rc;
    }
    *out = s;
    return LEAT_OK;
}

void leat_sound_free(struct leat_sound *sound)
{
    if (!sound)
        return;
    leat_mel_free(sound->mel);
    free(sound);
}

void leat_sound_shape(const struct leat_sound *s, uint32_t *channels, uint32_t *bands, uint64_t *length)
{
    *channels = s->d.channels;
    *bands = s->d.mel.bands;
    *length = s->mel && s->d.excerpt ? leat_mel_frames(s->mel, s->d.excerpt) : s->d.excerpt;
}

/* What a sound becomes. */
struct plan {
    struct leat_wave_info info;
    uint32_t rate;
    uint64_t whole;  /* samples at that rate, */
    uint64_t first;  /* of them the first that is taken */
    uint64_t taken;  /* and how many; */
    uint64_t length; /* with the silence after them */
    uint64_t frames; /* of the spectrogram */
};

/* Sounds that say they are huge, or would become so. */
static leat_status check_plan(const struct leat_sound *s, const struct plan *p, struct leat_error *err)
{
    if (p->info.rate > RATE_MAX)
        return leat_fail(err, LEAT_LIMIT, "a sound at %" PRIu32 " Hz is over the limit of %d", p->info.rate, RATE_MAX);
    if (p->length > NUMBERS_MAX / s->d.channels || (s->mel && p->frames > NUMBERS_MAX / s->d.channels / s->d.mel.bands))
        return leat_fail(err, LEAT_LIMIT,
                         "a sound of %" PRIu64 " samples is over the limit of %llu: excerpt=N takes a part", p->length,
                         (unsigned long long)NUMBERS_MAX / s->d.channels);
    return LEAT_OK;
}

static leat_status make_plan(const struct leat_sound *s, const void *data, size_t size, struct leat_rng *draws,
                             struct plan *out, struct leat_error *err)
{
    const struct leat_sound_description *d = &s->d;
    struct plan p = {0};
    leat_status rc = leat_wave_probe(data, size, &p.info, err);
    if (rc != LEAT_OK)
        return rc;
    if (d->channels != 1 && p.info.channels != 1 && p.info.channels != d->channels)
        return leat_fail(err, LEAT_INVALID, "a sound of %" PRIu32 " channels cannot become %" PRIu32 ": 1 mixes them",
                         p.info.channels, d->channels);
    p.rate = d->rate ? d->rate : p.info.rate;
    p.whole = leat_resample_length(p.info.frames, p.info.rate, p.rate);
    p.length = d->excerpt ? d->excerpt : p.whole;
    p.taken = p.whole < p.length ? p.whole : p.length;
    uint64_t room = p.whole - p.taken;
    if (d->excerpt && d->place == LEAT_SOUND_RANDOM)
        p.first = leat_rng_below(draws, room + 1);
    else if (d->excerpt && d->place == LEAT_SOUND_MIDDLE)
        p.first = room / 2;
    p.frames = s->mel ? leat_mel_frames(s->mel, p.length) : 0;
    if (s->mel && !p.frames)
        return leat_fail(err, LEAT_INVALID,
                         "a sound of %" PRIu64 " samples is too short for n_fft=%" PRIu32 ": excerpt=N adds silence",
                         p.length, d->mel.n_fft);
    *out = p;
    return check_plan(s, &p, err);
}

static uint64_t numbers_of(const struct leat_sound *s, const struct plan *p)
{
    return (uint64_t)s->d.channels * (s->mel ? p->frames * s->d.mel.bands : p->length);
}

leat_status leat_sound_bytes(const struct leat_sound *s, const void *data, size_t data_bytes, uint64_t *out,
                             struct leat_error *err)
{
    struct plan p = {0};
    struct leat_rng none = leat_rng(0, 0); /* how long it is does not depend on where it is taken */
    leat_status rc = make_plan(s, data, data_bytes, &none, &p, err);
    if (rc == LEAT_OK)
        *out = numbers_of(s, &p) * (s->d.half ? sizeof(uint16_t) : sizeof(float));
    return rc;
}

/* As many channels as are wanted, in place of those that there are. */
static void mix(const struct plan *p, uint32_t wanted, uint64_t n, float *samples)
{
    uint32_t have = p->info.channels;
    for (uint64_t i = 0; wanted == 1 && have > 1 && i < n; i++) {
        float sum = 0.0f;
        for (uint32_t c = 0; c < have; c++)
            sum += samples[c * n + i];
        samples[i] = sum / (float)have;
    }
}

/* One channel of what is taken, at its new rate, from samples begin … end of the old one. */
static leat_status put_channel(const struct plan *p, const float *in, int64_t begin, struct leat_arena *arena,
                               float *out, struct leat_error *err)
{
    memset(out + p->taken, 0, (p->length - p->taken) * sizeof *out);
    if (p->rate == p->info.rate) {
        memcpy(out, in, p->taken * sizeof *out);
        return LEAT_OK;
    }
    return leat_resample(in, begin, p->first, p->taken, p->info.rate, p->rate, arena, out, err);
}

struct samples {
    float *at; /* of a channel: those from begin to end, silence where there are none */
    int64_t begin;
    uint64_t n;
};

/* The part of the file that is needed, mixed. */
static leat_status read_part(const struct leat_sound *s, const struct plan *p, const void *data, size_t size,
                             struct leat_arena *arena, struct samples *out, struct leat_error *err)
{
    int64_t begin = (int64_t)p->first;
    int64_t end = (int64_t)(p->first + p->taken);
    if (p->rate != p->info.rate)
        leat_resample_needs(p->first, p->taken, p->info.rate, p->rate, &begin, &end);
    uint64_t from = begin > 0 ? (uint64_t)begin : 0;
    uint64_t to = end > 0 ? (uint64_t)end : 0;
    from = from < p->info.frames ? from : p->info.frames;
    to = to < p->info.frames ? to : p->info.frames;
    uint32_t have = p->info.channels;
    float *read = leat_arena_take(arena, (to - from) * have * sizeof *read);
    *out = (struct samples){.begin = begin, .n = (uint64_t)(end - begin)};
    out->at = leat_arena_take(arena, out->n * s->d.channels * sizeof *out->at);
    if (!read || !out->at)
        return leat_arena_fail(arena, err);
    leat_status rc = leat_wave_read(data, size, &p->info, from, to - from, read, err);
    if (rc != LEAT_OK)
        return rc;
    mix(p, s->d.channels, to - from, read);
    memset(out->at, 0, out->n * s->d.channels * sizeof *out->at);
    for (uint32_t c = 0; c < s->d.channels; c++) {
        const float *channel = read + (have > 1 ? c : 0) * (to - from);
        memcpy(out->at + c * out->n + ((int64_t)from - begin), channel, (to - from) * sizeof *read);
    }
    return LEAT_OK;
}

static void put_half(const float *from, uint64_t n, uint16_t *to)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = leat_f16_of(from[i]);
}

leat_status leat_sound_run(const struct leat_sound *s, struct leat_scratch *scratch, const void *data,
                           size_t data_bytes, struct leat_rng draws, void *to, uint64_t to_bytes,
                           struct leat_error *err)
{
    struct leat_arena *arena = leat_scratch_begin(scratch);
    struct plan p;
    struct samples samples;
    leat_status rc = make_plan(s, data, data_bytes, &draws, &p, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t numbers = numbers_of(s, &p);
    if (numbers * (s->d.half ? 2 : 4) != to_bytes)
        return leat_fail(err, LEAT_INVALID, "%" PRIu64 " numbers do not take %" PRIu64 " bytes", numbers, to_bytes);
    /* What has to be turned into something else first is made here. */
    float *out = s->d.half ? leat_arena_take(arena, numbers * sizeof *out) : to;
    float *line = s->mel ? leat_arena_take(arena, p.length * sizeof *line) : NULL;
    if (!out || (s->mel && !line))
        return leat_arena_fail(arena, err);
    rc = read_part(s, &p, data, data_bytes, arena, &samples, err);
    for (uint32_t c = 0; rc == LEAT_OK && c < s->d.channels; c++) {
        uint64_t each = numbers / s->d.channels;
        rc = put_channel(&p, samples.at + c * samples.n, samples.begin, arena, line ? line : out + c * each, err);
        if (rc == LEAT_OK && line)
            rc = leat_mel_run(s->mel, line, p.length, arena, out + c * each, err);
    }
    if (rc == LEAT_OK && s->d.half)
        put_half(out, numbers, to);
    return rc;
}
