#include "prep/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "prep/pipeline.h"

/* Words of a choice, in the order of its enum. */
static const char *const colours[] = {"rgb", "gray", "index", "rgba", NULL};
static const char *const filters[] = {"bilinear", "bicubic", "nearest", NULL};
static const char *const layouts[] = {"nhwc", "nchw", NULL};
static const char *const dtypes[] = {"uint8", "float32", "float16", "bfloat16", "uint16", NULL};
static const char *const depths[] = {"8", "16", NULL};
static const char *const damages[] = {"error", "rows", NULL};
static const char *const modes[] = {"exact", "fast", NULL};
static const char *const orientations[] = {"stored", "upright", NULL};
static const char *const alphas[] = {"drop", "blend", NULL};
static const char *const animations[] = {"first", "error", NULL};
static const char *const borders[] = {"constant", "edge", "reflect", "symmetric", NULL};
static const char *const interpolations[] = {"nearest", "bilinear", NULL};
static const char *const policies[] = {"imagenet", "cifar10", "svhn", NULL};

#define S(field) offsetof(struct leat_step, field)
#define E(field) offsetof(struct leat_effect, field)
#define D(field) offsetof(struct leat_prep_description, field)

#define STEP(NAME, KIND, TYPE, OFFSET, PRESET, HELP)                                                                   \
    {                                                                                                                  \
        NAME, LEAT_WORD_STEP, LEAT_WORD_##TYPE, LEAT_STEP_##KIND, OFFSET, 0, 0, PRESET, NULL, HELP                     \
    }
#define EFFECT(NAME, KIND, TYPE, OFFSET, LOW, HIGH, PRESET, HELP)                                                      \
    {                                                                                                                  \
        NAME, LEAT_WORD_EFFECT, LEAT_WORD_##TYPE, LEAT_EFFECT_##KIND, OFFSET, LOW, HIGH, PRESET, NULL, HELP            \
    }
#define PARAMETER(NAME, TYPE, OFFSET, LOW, HIGH, PRESET, HELP)                                                         \
    {                                                                                                                  \
        NAME, LEAT_WORD_PARAMETER, LEAT_WORD_##TYPE, 0, OFFSET, LOW, HIGH, PRESET, NULL, HELP                          \
    }
#define PICK(NAME, PLACE, TYPE, OFFSET, CHOICES, PRESET, HELP)                                                         \
    {                                                                                                                  \
        NAME, LEAT_WORD_##PLACE, LEAT_WORD_##TYPE, 0, OFFSET, 0, 0, PRESET, CHOICES, HELP                              \
    }
#define SETTING(NAME, TYPE, OFFSET, PRESET, HELP)                                                                      \
    {                                                                                                                  \
        NAME, LEAT_WORD_SETTING, LEAT_WORD_##TYPE, 0, OFFSET, 0, 0, PRESET, NULL, HELP                                 \
    }
#define P(PRESET)     PARAMETER("p", NUMBER, E(p), 0, 1, PRESET, "probability")
#define INTERPOLATION PICK("interpolation", PARAMETER, CHOICE, E(bilinear), interpolations, "nearest", "of the source")

const struct leat_word leat_words[] = {
    STEP("crop", CROP, BOX, 0, NULL, "width x height at x, y; must lie inside the picture"),
    STEP("center_crop", CENTER_CROP, SIZE, 0, NULL, "the middle; a smaller picture is padded with fill"),
    STEP("random_crop", RANDOM_CROP, SIZE, 0, NULL, "anywhere; a smaller picture is refused"),
    PARAMETER("padding", COUNT, S(padding), 0, 32767, "0", "pixels added on every side first"),
    PICK("border", PARAMETER, CHOICE, S(border), borders, "constant", "what they are: fill, or made from the picture"),
    STEP("random_resized_crop", RANDOM_RESIZED_CROP, SIZE, 0, NULL, "area and aspect drawn, then resized"),
    PARAMETER("scale", SPAN, S(scale), 0, 0, "0.08:1", "area, of the picture's"),
    PARAMETER("ratio", SPAN, S(ratio), 0, 0, "3/4:4/3", "width / height"),
    STEP("resize", RESIZE, SIDE, 0, NULL, "the shorter side, or both"),
    PARAMETER("limit", COUNT, S(limit), 0, 65535, "0", "of the longer side when the shorter is given; 0: none"),
    STEP("longest", LONGEST, COUNT, S(width), NULL, "resized so that the longer side is this"),
    STEP("letterbox", LETTERBOX, SIZE, 0, NULL, "resized to fit inside, in the middle, fill around it"),
    STEP("scale_jitter", SCALE_JITTER, SIZE, 0, NULL,
         "large-scale jitter: resized by a drawn factor of what fits, then cut at random or padded right and below"),
    PARAMETER("scale", SPAN, S(scale), 0, 0, "0.1:2", "the factor"),
    STEP("flip", FLIP, NUMBER, S(probability), "0.5", "left to right, with this probability"),
    STEP("vflip", VFLIP, NUMBER, S(probability), "0.5", "upside down, with this probability"),

    EFFECT("brightness", BRIGHTNESS, RANGE, E(range), 0, 100, NULL, "times a factor"),
    P("1"),
    EFFECT("contrast", CONTRAST, RANGE, E(range), 0, 100, NULL, "away from the mean luma by a factor"),
    P("1"),
    EFFECT("saturation", SATURATION, RANGE, E(range), 0, 100, NULL, "away from luma by a factor"),
    P("1"),
    EFFECT("hue", HUE, RANGE, E(range), -0.5, 0.5, NULL, "turned by this part of the circle"),
    P("1"),
    EFFECT("color_jitter", COLOR_JITTER, JITTER, E(jitter), 0, 100, NULL,
           "brightness, contrast, saturation (1 plus or minus this) and hue (0 plus or minus this), in random order"),
    P("1"),
    EFFECT("grayscale", GRAYSCALE, NUMBER, E(p), 0, 1, "0.1", "luma in all channels, with this probability"),
    EFFECT("invert", INVERT, NUMBER, E(p), 0, 1, "0.5", "255 minus the level, with this probability"),
    EFFECT("equalize", EQUALIZE, NUMBER, E(p), 0, 1, "0.5", "an even histogram, with this probability"),
    EFFECT("autocontrast", AUTOCONTRAST, NUMBER, E(p), 0, 1, "0.5", "stretched to 0 to 255, with this probability"),
    EFFECT("solarize", SOLARIZE, NUMBER, E(number), 0, 255, NULL, "inverts levels from this one on"),
    P("0.5"),
    EFFECT("posterize", POSTERIZE, WHOLE, E(number), 0, 8, NULL, "keeps this many bits"),
    P("0.5"),
    EFFECT("sharpness", SHARPNESS, RANGE, E(range), 0, 100, NULL, "away from a smoothed picture by a factor"),
    P("0.5"),
    EFFECT("gaussian_blur", GAUSSIAN_BLUR, WHOLE, E(number), 1, 255, NULL, "taps of the filter, an odd number"),
    PARAMETER("sigma", RANGE, E(range), 0.001, 1000, "0.1:2", "of the filter, in pixels"),
    P("1"),
    EFFECT("rotate", ROTATE, RANGE, E(range), -360, 360, NULL, "degrees, counter-clockwise"),
    INTERPOLATION,
    P("1"),
    EFFECT("affine", AFFINE, RANGE, E(range), -360, 360, NULL, "degrees, clockwise; moved, scaled and sheared too"),
    PARAMETER("translate", PAIR, E(translate), 0, 1, "0:0", "at most this part of width and height"),
    PARAMETER("scale", RANGE, E(scale), 0.001, 1000, "1:1", "size"),
    PARAMETER("shear", SHEAR, E(shear), -89, 89, "0:0:0:0", "degrees along x, or x and y"),
    INTERPOLATION,
    P("1"),
    EFFECT("perspective", PERSPECTIVE, NUMBER, E(number), 0, 1, "0.5", "how far corners may move inwards"),
    PICK("interpolation", PARAMETER, CHOICE, E(bilinear), interpolations, "bilinear", "of the source"),
    P("0.5"),
    EFFECT("erase", ERASE, NUMBER, E(p), 0, 1, "0.5", "a box of random area and aspect, with this probability"),
    PARAMETER("scale", SPAN, E(scale), 0, 1, "0.02:0.33", "area, of the picture's"),
    PARAMETER("ratio", SPAN, E(ratio), 0.001, 1000, "0.3:3.3", "height / width"),
    PARAMETER("value", LEVELS, E(value), 0, 255, "0", "colour"),
    EFFECT("cutout", CUTOUT, WHOLE, E(number), 2, 65535, NULL, "a square of this side around any pixel"),
    PARAMETER("value", LEVELS, E(value), 0, 255, "0", "colour"),
    P("1"),
    EFFECT("rand_augment", RAND_AUGMENT, WHOLE, E(number), 1, 16, "2", "RandAugment: this many operations"),
    PARAMETER("magnitude", WHOLE, E(magnitude), 0, 255, "9", "strength"),
    PARAMETER("bins", WHOLE, E(bins), 2, 256, "31", "steps of strength"),
    INTERPOLATION,
    P("1"),
    EFFECT("trivial_augment", TRIVIAL_AUGMENT, WHOLE, E(number), 2, 256, "31", "TrivialAugmentWide: steps of strength"),
    INTERPOLATION,
    P("1"),
    {"auto_augment", LEAT_WORD_EFFECT, LEAT_WORD_CHOICE, LEAT_EFFECT_AUTO_AUGMENT, E(policy), 0, 0, "imagenet",
     policies, "AutoAugment with a policy"},
    INTERPOLATION,
    P("1"),
    EFFECT("augmix", AUGMIX, WHOLE, E(number), 1, 10, "3", "AugMix: severity"),
    PARAMETER("width", WHOLE, E(width), 1, 8, "3", "chains that are mixed"),
    PARAMETER("depth", WHOLE, E(depth), 0, 8, "0", "operations in a chain; 0: 1 to 3, drawn"),
    PARAMETER("alpha", NUMBER, E(alpha), 0.001, 1000, "1", "of the weights' distribution"),
    PICK("interpolation", PARAMETER, CHOICE, E(bilinear), interpolations, "bilinear", "of the source"),
    P("1"),
    EFFECT("three_augment", THREE_AUGMENT, NUMBER, E(p), 0, 1, "1", "one of grey, solarised and blurred (DeiT III)"),
    PARAMETER("sigma", RANGE, E(range), 0.001, 40, "0.1:2", "of the blur, in pixels"),

    PICK("filter", SETTING, CHOICE, D(filter), filters, "bilinear", "of the resize"),
    PICK("mode", SETTING, FLAG, D(fast), modes, "exact", "fast is a little less exact"),
    PICK("colour", SETTING, CHOICE, D(colour), colours, "rgb",
         "gray, one channel; index, one channel as it is stored: palette numbers, for masks; rgba, four"),
    PICK("layout", SETTING, CHOICE, D(layout), layouts, "nhwc", "of the output"),
    PICK("dtype", SETTING, CHOICE, D(dtype), dtypes, "uint8",
         "floats are sample / 255, normalised where mean or std is given; uint16, 0 to 65535"),
    PICK("bits", SETTING, FLAG, D(deep), depths, "8",
         "of a sample on its way: with 16 nothing is cut off, floats are sample / 65535; uint16 has 16 anyway"),
    SETTING("mean", CHANNELS, D(mean), "0",
            "(sample / 255 − mean) / std: float32 unless dtype names another float type; uint8 is refused"),
    SETTING("std", CHANNELS, D(std), "1", "above 0"),
    SETTING("background", COLOUR, D(background), "0", "the colour under what is transparent"),
    SETTING("fill", COLOUR, D(fill), "0", "the colour around a picture that is padded, rotated or moved"),
    PICK("alpha", SETTING, FLAG, D(blend), alphas, "drop",
         "drop, as convert(\"RGB\") does; blend, over the background"),
    PICK("orientation", SETTING, FLAG, D(upright), orientations, "stored",
         "stored, as Pillow and torchvision do by default; upright, turned as EXIF says"),
    PICK("animation", SETTING, FLAG, D(refuse_animation), animations, "first",
         "first: an animation's first frame is its picture; error: such a file is refused"),
    SETTING("follow", TEXT, D(follow), "",
            "in a loader, another image field: a mask of another size takes its draws and its crop"),
    PICK("damage", SETTING, CHOICE, D(damage), damages, "error", "rows: those that are there, grey (128) for the rest"),
    {0},
};

static const struct leat_word *find(enum leat_word_place place, int kind)
{
    for (const struct leat_word *w = leat_words; w->name; w++) {
        if (w->place == place && w->kind == kind)
            return w;
    }
    return NULL;
}

const struct leat_word *leat_word_of_effect(enum leat_effect_kind kind)
{
    return find(LEAT_WORD_EFFECT, (int)kind);
}

const struct leat_word *leat_word_of_step(enum leat_step_kind kind)
{
    return find(LEAT_WORD_STEP, (int)kind);
}

static leat_status choose(const struct leat_word *w, const char *value, int *out, struct leat_error *err)
{
    char all[120] = "";
    for (int i = 0; w->choices[i]; i++) {
        if (strcmp(w->choices[i], value) == 0) {
            *out = i;
            return LEAT_OK;
        }
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", w->choices[i]);
    }
    return leat_fail(err, LEAT_INVALID, "%s: '%s' is not one of %s", w->name, value, all);
}

/* "224", "320x240", and with a place "320x240+10+20". */
static leat_status parse_box(const struct leat_word *w, const char *value, struct leat_step *s, struct leat_error *err)
{
    static const char separators[] = "xX++";
    bool place = w->type == LEAT_WORD_BOX;
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
        if (!*end && (n == 2 || n == (place ? 4 : 1))) {
            if (n == 1)
                s->height = w->type == LEAT_WORD_SIDE ? 0 : s->width;
            return LEAT_OK;
        }
        bool fits = n == 1 ? *end == separators[0] || *end == separators[1] : *end == '+';
        if (!fits)
            break;
        at = end + 1;
    }
    return leat_fail(err, LEAT_INVALID, "%s: '%s' is not a size like %s", w->name, value,
                     place ? "320x240+10+20" : "224 or 320x240");
}

/* How many numbers a value has: at least, at most, and how many there are in the record. */
static void count_numbers(enum leat_word_type type, unsigned *least, unsigned *most)
{
    *least = 1;
    switch (type) {
    case LEAT_WORD_SPAN:
        *least = 2;
        *most = 2;
        break;
    case LEAT_WORD_RANGE:
    case LEAT_WORD_PAIR:
        *most = 2;
        break;
    case LEAT_WORD_SHEAR:
    case LEAT_WORD_JITTER:
        *most = 4;
        break;
    case LEAT_WORD_CHANNELS:
    case LEAT_WORD_COLOUR:
    case LEAT_WORD_LEVELS:
        *most = 3;
        break;
    default:
        *most = 1;
        break;
    }
}

/* Numbers or fractions like 3/4, with colons between them, into v; those that are not given follow from the first. */
static leat_status parse_numbers(const struct leat_word *w, const char *value, double v[4], struct leat_error *err)
{
    char word[LEAT_WORD_MAX];
    unsigned least;
    unsigned most;
    unsigned n = 0;
    count_numbers(w->type, &least, &most);
    snprintf(word, sizeof word, "%s", value);
    char *rest = word;
    while (rest) {
        char *piece = strsep(&rest, ":");
        if (n == most)
            return leat_fail(err, LEAT_INVALID, "%s: '%s' has more than %u number%s", w->name, value, most,
                             most == 1 ? "" : "s");
        char *under = strchr(piece, '/');
        double divisor = 1.0;
        if (under)
            *under++ = '\0';
        leat_status rc = leat_parse_double(piece, w->name, &v[n], err);
        if (rc == LEAT_OK && under)
            rc = leat_parse_double(under, w->name, &divisor, err);
        if (rc != LEAT_OK)
            return rc;
        v[n++] /= divisor;
    }
    if (n < least)
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is not a range like 0.08:1", w->name, value);
    if (n == 2 && most == 3)
        return leat_fail(err, LEAT_INVALID, "%s: '%s' has two numbers; one or three are expected", w->name, value);
    if (n % 2 && n > 1 && w->type == LEAT_WORD_SHEAR)
        return leat_fail(err, LEAT_INVALID, "%s: '%s' has three numbers; one, two or four are expected", w->name,
                         value);
    for (unsigned i = n; i < most; i++) {
        bool zero = w->type == LEAT_WORD_JITTER || (w->type == LEAT_WORD_SHEAR && i > 1);
        v[i] = zero ? 0.0 : v[0];
    }
    return LEAT_OK;
}

static leat_status check_numbers(const struct leat_word *w, const double *v, struct leat_error *err)
{
    unsigned least;
    unsigned most;
    count_numbers(w->type, &least, &most);
    for (unsigned i = 0; i < most; i++) {
        if (w->low != w->high && !(v[i] >= w->low && v[i] <= w->high))
            return leat_fail(err, LEAT_INVALID, "%s: %g is not between %g and %g", w->name, v[i], w->low, w->high);
        if ((w->type == LEAT_WORD_WHOLE || w->type == LEAT_WORD_COUNT) && v[i] != floor(v[i]))
            return leat_fail(err, LEAT_INVALID, "%s: %g is not a whole number", w->name, v[i]);
        bool ordered = w->type == LEAT_WORD_RANGE || w->type == LEAT_WORD_SPAN || w->type == LEAT_WORD_SHEAR;
        if (ordered && w->low != w->high && i % 2 && !(v[i - 1] <= v[i]))
            return leat_fail(err, LEAT_INVALID, "%s: %g:%g is not a range", w->name, v[i - 1], v[i]);
    }
    if (w->type == LEAT_WORD_JITTER && v[3] > 0.5)
        return leat_fail(err, LEAT_INVALID, "%s: a hue of %g is not between 0 and 0.5", w->name, v[3]);
    return LEAT_OK;
}

leat_status leat_word_parse(const struct leat_word *word, const char *value, void *record, struct leat_error *err)
{
    void *to = (char *)record + word->offset;
    double v[4];
    int choice = 0;
    leat_status rc;
    switch (word->type) {
    case LEAT_WORD_NONE:
        return *value ? leat_fail(err, LEAT_INVALID, "%s takes no value", word->name) : LEAT_OK;
    case LEAT_WORD_BOX:
    case LEAT_WORD_SIZE:
    case LEAT_WORD_SIDE:
        return parse_box(word, value, record, err);
    case LEAT_WORD_TEXT:
        if (strlen(value) >= LEAT_FOLLOW_MAX)
            return leat_fail(err, LEAT_INVALID, "%s: '%s' is too long", word->name, value);
        memcpy(to, value, strlen(value) + 1);
        return LEAT_OK;
    case LEAT_WORD_CHOICE:
        rc = choose(word, value, &choice, err);
        if (rc == LEAT_OK)
            memcpy(to, &choice, sizeof choice);
        return rc;
    case LEAT_WORD_FLAG:
        rc = choose(word, value, &choice, err);
        if (rc == LEAT_OK)
            *(bool *)to = choice != 0;
        return rc;
    default:
        rc = parse_numbers(word, value, v, err);
        break;
    }
    if (rc == LEAT_OK && word->type == LEAT_WORD_COLOUR) {
        for (int c = 0; c < 3; c++) {
            if (!(v[c] >= 0 && v[c] <= 255))
                return leat_fail(err, LEAT_INVALID, "%s: %g is not between 0 and 255", word->name, v[c]);
            ((uint8_t *)to)[c] = (uint8_t)v[c];
        }
        return rc;
    }
    if (rc == LEAT_OK)
        rc = check_numbers(word, v, err);
    if (rc != LEAT_OK)
        return rc;
    if (word->type == LEAT_WORD_COUNT) {
        *(uint32_t *)to = v[0] >= 0 && v[0] <= UINT32_MAX ? (uint32_t)v[0] : UINT32_MAX;
        return rc;
    }
    unsigned least;
    unsigned most;
    count_numbers(word->type, &least, &most);
    memcpy(to, v, most * sizeof *v);
    return rc;
}

void leat_word_preset(const struct leat_word *word, void *record)
{
    const struct leat_word *w = word;
    do {
        struct leat_error err;
        if (w->preset)
            leat_word_parse(w, w->preset, record, &err);
        w++;
    } while (w->name && w->place == LEAT_WORD_PARAMETER);
}

leat_status leat_word_check(const struct leat_word *word, const void *record, struct leat_error *err)
{
    const struct leat_word *w = word;
    do {
        const void *at = (const char *)record + w->offset;
        leat_status rc = LEAT_OK;
        if (w->type == LEAT_WORD_CHOICE) {
            int choice;
            int count = 0;
            memcpy(&choice, at, sizeof choice);
            while (w->choices[count])
                count++;
            if (choice < 0 || choice >= count)
                rc = leat_fail(err, LEAT_INVALID, "%s: choice %d is out of range", w->name, choice);
        } else if (w->type >= LEAT_WORD_NUMBER && w->type < LEAT_WORD_TEXT) {
            rc = check_numbers(w, at, err);
        }
        if (rc != LEAT_OK)
            return w == word ? rc : leat_fail_context(err, rc, "%s", word->name);
        w++;
    } while (w->name && w->place == LEAT_WORD_PARAMETER);
    return LEAT_OK;
}
