#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "prep/pipeline.h"

#define WORD_MAX 200

/* Words of a choice, in the order of its enum. */
static const char *const colours[] = {"rgb", "gray", "index", NULL};
static const char *const filters[] = {"bilinear", "bicubic", "nearest", NULL};
static const char *const layouts[] = {"nhwc", "nchw", NULL};
static const char *const dtypes[] = {"uint8", "float32", "float16", "bfloat16", NULL};
static const char *const damages[] = {"error", "rows", NULL};
static const char *const modes[] = {"exact", "fast", NULL};
static const char *const orientations[] = {"stored", "upright", NULL};
static const char *const alphas[] = {"drop", "blend", NULL};
static const char *const animations[] = {"first", "error", NULL};

static leat_status choose(const char *name, const char *value, const char *const *words, int *out,
                          struct leat_error *err)
{
    char all[120] = "";
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], value) == 0) {
            *out = i;
            return LEAT_OK;
        }
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", words[i]);
    }
    return leat_fail(err, LEAT_INVALID, "%s: '%s' is not one of %s", name, value, all);
}

/* "224", "320x240", and with a place "320x240+10+20". */
static leat_status parse_box(const char *name, const char *value, bool place, struct leat_step *s,
                             struct leat_error *err)
{
    static const char separators[] = "xX++";
    uint32_t *fields[] = {&s->width, &s->height, &s->x, &s->y};
    const char *at = value;
    unsigned n = 0;
    for (;;) {
        char *end;
        if (*at < '0' || *at > '9' || n == (place ? 4 : 2))
            break;
        unsigned long long v = strtoull(at, &end, 10);
        *fields[n] = v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
        n++;
        if (!*end && (n == 2 || n == (place ? 4 : 1)))
            return LEAT_OK;
        bool fits = n == 1 ? *end == separators[0] || *end == separators[1] : *end == '+';
        if (!fits)
            break;
        at = end + 1;
    }
    return leat_fail(err, LEAT_INVALID, "%s: '%s' is not a size like %s", name, value,
                     place ? "320x240+10+20" : "224 or 320x240");
}

/* Up to `most` numbers with colons between them. Returns how many. */
static leat_status parse_numbers(const char *name, const char *value, unsigned most, double *out, unsigned *count,
                                 struct leat_error *err)
{
    char word[WORD_MAX];
    snprintf(word, sizeof word, "%s", value);
    char *rest = word;
    *count = 0;
    while (rest) {
        char *piece = strsep(&rest, ":");
        if (*count == most)
            return leat_fail(err, LEAT_INVALID, "%s: '%s' has more than %u numbers", name, value, most);
        leat_status rc = leat_parse_double(piece, name, &out[(*count)++], err);
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

static leat_status parse_range(const char *name, const char *value, double out[2], struct leat_error *err)
{
    unsigned n;
    leat_status rc = parse_numbers(name, value, 2, out, &n, err);
    if (rc == LEAT_OK && n != 2)
        rc = leat_fail(err, LEAT_INVALID, "%s: '%s' is not a range like 0.08:1", name, value);
    return rc;
}

/* One number for all channels, or three. */
static leat_status parse_channels(const char *name, const char *value, double out[3], struct leat_error *err)
{
    unsigned n;
    leat_status rc = parse_numbers(name, value, 3, out, &n, err);
    if (rc != LEAT_OK)
        return rc;
    if (n == 2)
        return leat_fail(err, LEAT_INVALID, "%s: '%s' has two numbers; one or three are wanted", name, value);
    for (; n < 3; n++)
        out[n] = out[0];
    return LEAT_OK;
}

/* In a description a std of 0 stands for one that was not given: nobody may ask for it. */
static leat_status parse_std(const char *name, const char *value, double out[3], struct leat_error *err)
{
    leat_status rc = parse_channels(name, value, out, err);
    for (int c = 0; rc == LEAT_OK && c < 3; c++) {
        if (!(out[c] > 0.0))
            return leat_fail(err, LEAT_INVALID, "%s: '%s' cannot divide: it has to be above 0", name, value);
    }
    return rc;
}

static leat_status parse_colour(const char *name, const char *value, uint8_t out[3], struct leat_error *err)
{
    double v[3];
    leat_status rc = parse_channels(name, value, v, err);
    for (int c = 0; rc == LEAT_OK && c < 3; c++) {
        if (!(v[c] >= 0 && v[c] <= 255))
            return leat_fail(err, LEAT_INVALID, "%s: %g is not between 0 and 255", name, v[c]);
        out[c] = (uint8_t)v[c];
    }
    return rc;
}

static leat_status parse_step(enum leat_step_kind kind, const char *name, const char *value,
                              struct leat_prep_description *d, struct leat_error *err)
{
    struct leat_step s = {
        .kind = kind,
        .scale = {0.08, 1.0},
        .ratio = {3.0 / 4.0, 4.0 / 3.0},
        .probability = 0.5,
    };
    leat_status rc = LEAT_OK;
    if (d->steps.count == LEAT_STEPS_MAX)
        return leat_fail(err, LEAT_INVALID, "more than %d steps", LEAT_STEPS_MAX);
    if (kind != LEAT_STEP_FLIP)
        rc = parse_box(name, value, kind == LEAT_STEP_CROP, &s, err);
    else if (*value)
        rc = leat_parse_double(value, name, &s.probability, err);
    if (kind != LEAT_STEP_RESIZE && kind != LEAT_STEP_FLIP && s.height == 0 && !strpbrk(value, "xX"))
        s.height = s.width;
    if (rc == LEAT_OK)
        d->steps.step[d->steps.count++] = s;
    return rc;
}

static leat_status parse_crop_range(const char *name, const char *value, struct leat_prep_description *d,
                                    struct leat_error *err)
{
    struct leat_step *s = d->steps.count ? &d->steps.step[d->steps.count - 1] : NULL;
    if (!s || s->kind != LEAT_STEP_RANDOM_RESIZED_CROP)
        return leat_fail(err, LEAT_INVALID, "%s belongs behind a random_resized_crop", name);
    return parse_range(name, value, *name == 's' ? s->scale : s->ratio, err);
}

static leat_status parse_word(const char *name, const char *value, struct leat_prep_description *d,
                              struct leat_error *err)
{
    static const struct {
        const char *name;
        enum leat_step_kind kind;
    } steps[] = {
        {"crop", LEAT_STEP_CROP},
        {"center_crop", LEAT_STEP_CENTER_CROP},
        {"random_crop", LEAT_STEP_RANDOM_CROP},
        {"random_resized_crop", LEAT_STEP_RANDOM_RESIZED_CROP},
        {"resize", LEAT_STEP_RESIZE},
        {"flip", LEAT_STEP_FLIP},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (strcmp(name, steps[i].name) == 0)
            return parse_step(steps[i].kind, name, value, d, err);
    }
    if (strcmp(name, "scale") == 0 || strcmp(name, "ratio") == 0)
        return parse_crop_range(name, value, d, err);
    if (strcmp(name, "mean") == 0)
        return parse_channels(name, value, d->mean, err);
    if (strcmp(name, "std") == 0)
        return parse_std(name, value, d->std, err);
    if (strcmp(name, "background") == 0)
        return parse_colour(name, value, d->background, err);
    if (strcmp(name, "fill") == 0)
        return parse_colour(name, value, d->fill, err);
    int choice = 0;
    leat_status rc;
    if (strcmp(name, "colour") == 0) {
        rc = choose(name, value, colours, &choice, err);
        d->colour = (enum leat_colour)choice;
    } else if (strcmp(name, "filter") == 0) {
        rc = choose(name, value, filters, &choice, err);
        d->filter = (enum leat_filter)choice;
    } else if (strcmp(name, "layout") == 0) {
        rc = choose(name, value, layouts, &choice, err);
        d->layout = (enum leat_layout)choice;
    } else if (strcmp(name, "dtype") == 0) {
        rc = choose(name, value, dtypes, &choice, err);
        d->dtype = (enum leat_dtype)choice;
    } else if (strcmp(name, "damage") == 0) {
        rc = choose(name, value, damages, &choice, err);
        d->damage = (enum leat_damage)choice;
    } else if (strcmp(name, "mode") == 0) {
        rc = choose(name, value, modes, &choice, err);
        d->fast = choice;
    } else if (strcmp(name, "orientation") == 0) {
        rc = choose(name, value, orientations, &choice, err);
        d->upright = choice;
    } else if (strcmp(name, "alpha") == 0) {
        rc = choose(name, value, alphas, &choice, err);
        d->blend = choice;
    } else if (strcmp(name, "animation") == 0) {
        rc = choose(name, value, animations, &choice, err);
        d->refuse_animation = choice;
    } else {
        rc = leat_fail(err, LEAT_INVALID, "'%s' is not a word of a pipeline", name);
    }
    return rc;
}

leat_status leat_prep_parse(const char *text, struct leat_prep_description *out, struct leat_error *err)
{
    struct leat_prep_description d = {0};
    bool normalises = false;
    bool typed = false;
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        char word[WORD_MAX];
        size_t n = strcspn(at, " ");
        if (n >= sizeof word)
            return leat_fail(err, LEAT_INVALID, "'%.40s…' is too long for a word of a pipeline", at);
        memcpy(word, at, n);
        word[n] = '\0';
        at += n;
        char *value = strchr(word, '=');
        if (value)
            *value++ = '\0';
        leat_status rc = parse_word(word, value ? value : "", &d, err);
        if (rc != LEAT_OK)
            return rc;
        normalises |= strcmp(word, "mean") == 0 || strcmp(word, "std") == 0;
        typed |= strcmp(word, "dtype") == 0;
    }
    if (normalises && !typed)
        d.dtype = LEAT_DTYPE_FLOAT32; /* what normalised values are in torch too */
    if (normalises && d.dtype == LEAT_DTYPE_UINT8)
        return leat_fail(err, LEAT_INVALID,
                         "dtype=uint8 cannot hold normalised values: leave mean and std out, or "
                         "choose float32, float16 or bfloat16");
    leat_status rc = leat_steps_check(&d.steps, err);
    if (rc == LEAT_OK)
        *out = d;
    return rc;
}
