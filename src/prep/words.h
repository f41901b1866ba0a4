/* The words of a pipeline's text form, in one table: names, values, ranges, presets and help. The parser, the checks,
 * `leat image --words` and the tests of the Python methods and of docs/prep.md all read it. */
#ifndef LEAT_PREP_WORDS_H
#define LEAT_PREP_WORDS_H

#include <stddef.h>

#include "base/error.h"
#include "prep/effect.h"
#include "prep/geometry.h"

enum leat_word_place {
    LEAT_WORD_STEP,      /* where pixels are taken from; offset in struct leat_step */
    LEAT_WORD_EFFECT,    /* what is done to them; offset in struct leat_effect */
    LEAT_WORD_PARAMETER, /* of the step or effect above it in the table; offset in the same struct */
    LEAT_WORD_SETTING,   /* of the whole; offset in struct leat_prep_description */
};

enum leat_word_type {
    LEAT_WORD_NONE,     /* takes no value */
    LEAT_WORD_BOX,      /* 320x240+10+20: width, height, x, y of a step */
    LEAT_WORD_SIZE,     /* 224 or 320x240: width and height; one number is both */
    LEAT_WORD_SIDE,     /* the same, but one number is a side alone: height 0 */
    LEAT_WORD_COUNT,    /* uint32_t */
    LEAT_WORD_NUMBER,   /* double */
    LEAT_WORD_WHOLE,    /* double without a fraction */
    LEAT_WORD_RANGE,    /* double[2], 0.5:1.5; one number is both */
    LEAT_WORD_SPAN,     /* double[2], two numbers */
    LEAT_WORD_PAIR,     /* double[2], 0.1:0.2; one number is both */
    LEAT_WORD_SHEAR,    /* double[4]: one range, or two */
    LEAT_WORD_JITTER,   /* double[4]: up to four numbers, the rest 0 */
    LEAT_WORD_CHANNELS, /* double[3]: one number or three */
    LEAT_WORD_COLOUR,   /* uint8_t[3]: one number or three, 0 … 255 */
    LEAT_WORD_LEVELS,   /* double[3], the same */
    LEAT_WORD_TEXT,     /* char[LEAT_FOLLOW_MAX] */
    LEAT_WORD_CHOICE,   /* int or enum, one of `choices` */
    LEAT_WORD_FLAG,     /* bool, one of two `choices` */
};

#define LEAT_WORD_MAX 200 /* bytes of a word in the text */

struct leat_word {
    const char *name;
    enum leat_word_place place;
    enum leat_word_type type;
    int kind; /* of a step or effect */
    size_t offset;
    double low; /* what numbers may be; both 0: anything, or checked elsewhere */
    double high;
    const char *preset; /* as text; NULL: has to be given */
    const char *const *choices;
    const char *help;
};

/* Ends with a word without a name. */
extern const struct leat_word leat_words[];

/* The word of an effect or a step; NULL for a kind that is not known. Its parameters follow it. */
const struct leat_word *leat_word_of_effect(enum leat_effect_kind kind);
const struct leat_word *leat_word_of_step(enum leat_step_kind kind);

/* Text into `record`, the struct the word's offset counts in. */
leat_status leat_word_parse(const struct leat_word *word, const char *value, void *record, struct leat_error *err);

/* The presets of a step's or effect's word and its parameters. */
void leat_word_preset(const struct leat_word *word, void *record);

/* Numbers of a step or effect within their ranges. */
leat_status leat_word_check(const struct leat_word *word, const void *record, struct leat_error *err);

#endif
