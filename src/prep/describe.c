#include <string.h>

#include "base/buf.h"
#include "base/guess.h"
#include "prep/pipeline.h"
#include "prep/words.h"

/* The step or effect whose parameters may come next. */
struct last {
    const struct leat_word *word;
    void *record;
};

static leat_status add_step(const struct leat_word *w, const char *value, struct leat_prep_description *d,
                            struct last *last, struct leat_error *err)
{
    if (d->steps.count == LEAT_STEPS_MAX)
        return leat_fail(err, LEAT_INVALID, "more than %d steps", LEAT_STEPS_MAX);
    if (d->effects.count)
        return leat_fail(err, LEAT_INVALID, "%s after %s: steps that cut, resize or flip come first", w->name,
                         leat_word_of_effect(d->effects.effect[d->effects.count - 1].kind)->name);
    struct leat_step *s = &d->steps.step[d->steps.count++];
    *s = (struct leat_step){.kind = (enum leat_step_kind)w->kind};
    leat_word_preset(w, s);
    *last = (struct last){w, s};
    return *value || !w->preset ? leat_word_parse(w, value, s, err) : LEAT_OK;
}

static leat_status add_effect(const struct leat_word *w, const char *value, struct leat_prep_description *d,
                              struct last *last, struct leat_error *err)
{
    if (d->effects.count == LEAT_EFFECTS_MAX)
        return leat_fail(err, LEAT_INVALID, "more than %d effects", LEAT_EFFECTS_MAX);
    struct leat_effect *e = &d->effects.effect[d->effects.count++];
    *e = (struct leat_effect){.kind = (enum leat_effect_kind)w->kind, .p = 1.0};
    leat_word_preset(w, e);
    *last = (struct last){w, e};
    return *value || !w->preset ? leat_word_parse(w, value, e, err) : LEAT_OK;
}

static const struct leat_word *find_parameter(const struct last *last, const char *name)
{
    if (!last->word)
        return NULL;
    for (const struct leat_word *w = last->word + 1; w->name && w->place == LEAT_WORD_PARAMETER; w++) {
        if (strcmp(w->name, name) == 0)
            return w;
    }
    return NULL;
}

/* "scale belongs after random_resized_crop, erase or affine". */
static leat_status refuse(const char *name, struct leat_error *err)
{
    struct leat_buf owners;
    char meant[LEAT_GUESS_TEXT];
    struct leat_guess g = leat_guess_of(name);
    const struct leat_word *owner = leat_words;
    leat_buf_init(&owners, 1000);
    for (const struct leat_word *w = leat_words; w->name; w++) {
        owner = w->place == LEAT_WORD_PARAMETER ? owner : w;
        leat_guess_try(&g, w->name);
        if (w->place == LEAT_WORD_PARAMETER && strcmp(w->name, name) == 0)
            leat_buf_printf(&owners, "%s%s", owners.len ? ", " : "", owner->name);
    }
    leat_status rc = owners.len ? leat_fail(err, LEAT_INVALID, "%s belongs after one of: %s", name, owners.data)
                                : leat_fail(err, LEAT_INVALID, "'%s' is not a word of a pipeline%s", name,
                                            leat_guess_text(&g, meant));
    leat_buf_free(&owners);
    return rc;
}

static leat_status set(const struct leat_word *w, const char *value, struct leat_prep_description *d,
                       struct leat_error *err)
{
    leat_status rc = leat_word_parse(w, value, d, err);
    d->filled = d->filled || w->offset == offsetof(struct leat_prep_description, fill);
    /* In a description a std of 0 stands for one that was not given: nobody may ask for it. */
    for (int c = 0; rc == LEAT_OK && w->offset == offsetof(struct leat_prep_description, std) && c < 3; c++) {
        if (!(d->std[c] > 0.0))
            return leat_fail(err, LEAT_INVALID, "%s: '%s' must be above 0", w->name, value);
    }
    return rc;
}

static leat_status parse_word(const char *name, const char *value, struct leat_prep_description *d, struct last *last,
                              struct leat_error *err)
{
    const struct leat_word *own = find_parameter(last, name);
    if (own)
        return leat_word_parse(own, value, last->record, err);
    for (const struct leat_word *w = leat_words; w->name; w++) {
        if (w->place == LEAT_WORD_PARAMETER || strcmp(w->name, name) != 0)
            continue;
        if (w->place == LEAT_WORD_STEP)
            return add_step(w, value, d, last, err);
        if (w->place == LEAT_WORD_EFFECT)
            return add_effect(w, value, d, last, err);
        return set(w, value, d, err);
    }
    return refuse(name, err);
}

leat_status leat_prep_parse(const char *text, struct leat_prep_description *out, struct leat_error *err)
{
    struct leat_prep_description d = {0};
    struct last last = {0};
    bool normalises = false;
    bool typed = false;
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        char word[LEAT_WORD_MAX];
        size_t n = strcspn(at, " ");
        if (n >= sizeof word)
            return leat_fail(err, LEAT_INVALID, "'%.40s…' is too long for a word of a pipeline", at);
        memcpy(word, at, n);
        word[n] = '\0';
        at += n;
        char *value = strchr(word, '=');
        if (value)
            *value++ = '\0';
        leat_status rc = parse_word(word, value ? value : "", &d, &last, err);
        if (rc != LEAT_OK)
            return rc;
        normalises |= strcmp(word, "mean") == 0 || strcmp(word, "std") == 0;
        typed |= strcmp(word, "dtype") == 0;
    }
    if (normalises && !typed)
        d.dtype = LEAT_DTYPE_FLOAT32; /* what normalised values are in torch too */
    if (normalises && (d.dtype == LEAT_DTYPE_UINT8 || d.dtype == LEAT_DTYPE_UINT16))
        return leat_fail(err, LEAT_INVALID,
                         "dtype=uint8 and uint16 cannot hold normalised values: leave mean and std out, or "
                         "choose float32, float16 or bfloat16");
    leat_status rc = leat_steps_check(&d.steps, err);
    if (rc == LEAT_OK)
        rc = leat_effects_check(&d.effects, err);
    if (rc == LEAT_OK)
        *out = d;
    return rc;
}
