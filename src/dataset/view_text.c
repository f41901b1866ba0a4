#include "dataset/view_text.h"

#include <stdio.h>
#include <string.h>

#include "base/guess.h"
#include "base/parse.h"

#define WORD_MAX 128 /* bytes, with the NUL */

enum word { SAMPLES, BLOCKS, SHIFT, DOCUMENTS, FIELD, WORDS };

static const char *const names[WORDS] = {"samples", "blocks", "shift", "documents", "field"};

static leat_status fail_unknown(const char *name, struct leat_error *err)
{
    char meant[LEAT_GUESS_TEXT];
    struct leat_guess g = leat_guess_of(name);
    for (int w = 0; w < WORDS; w++)
        leat_guess_try(&g, names[w]);
    if (g.word)
        return leat_fail(err, LEAT_INVALID, "view: there is no word '%.60s'%s", name, leat_guess_text(&g, meant));
    return leat_fail(err, LEAT_INVALID,
                     "view: there is no word '%.60s'; a view is \"samples\" or \"blocks=2048 shift=1\", with "
                     "documents=fit and field=NAME where they are wanted",
                     name);
}

static leat_status read_number(const char *value, const char *word, uint64_t least, uint32_t *out,
                               struct leat_error *err)
{
    uint64_t number;
    if (leat_parse_u64(value, word, &number, NULL) != LEAT_OK || number < least || number > LEAT_VIEW_TOKENS_MAX)
        return leat_fail(err, LEAT_INVALID, "view: %s='%.60s' is not a whole number from %u to %u", word, value,
                         (unsigned)least, LEAT_VIEW_TOKENS_MAX);
    *out = (uint32_t)number;
    return LEAT_OK;
}

static leat_status read_documents(const char *value, bool *fit, struct leat_error *err)
{
    if (strcmp(value, "cut") != 0 && strcmp(value, "fit") != 0)
        return leat_fail(err, LEAT_INVALID, "view: documents='%.60s' is not one of: cut fit", value);
    *fit = value[0] == 'f';
    return LEAT_OK;
}

static leat_status read_word(char *word, uint32_t *seen, struct leat_view_text *t, struct leat_error *err)
{
    char *value = strchr(word, '=');
    int w = 0;
    if (value)
        *value++ = '\0';
    while (w < WORDS && strcmp(word, names[w]) != 0)
        w++;
    if (w == WORDS)
        return fail_unknown(word, err);
    if (*seen >> w & 1)
        return leat_fail(err, LEAT_INVALID, "view: the word '%s' is given twice", word);
    *seen |= 1u << w;
    if (w == SAMPLES)
        return value ? leat_fail(err, LEAT_INVALID, "view: 'samples' takes no value") : LEAT_OK;
    if (!value || !*value)
        return leat_fail(err, LEAT_INVALID, "view: '%s' needs a value, as in \"blocks=2048 shift=1\"", word);
    switch (w) {
    case BLOCKS:
        return read_number(value, word, 1, &t->length, err);
    case SHIFT:
        return read_number(value, word, 0, &t->shift, err);
    case DOCUMENTS:
        return read_documents(value, &t->fit, err);
    default:
        if (strlen(value) >= sizeof t->field)
            return leat_fail(err, LEAT_INVALID, "view: no field has a name as long as '%.80s'", value);
        snprintf(t->field, sizeof t->field, "%s", value);
        return LEAT_OK;
    }
}

/* What the words must be together. */
static leat_status check(uint32_t seen, struct leat_view_text *t, struct leat_error *err)
{
    t->blocks = seen >> BLOCKS & 1;
    if (seen >> SAMPLES & 1 && seen != 1u << SAMPLES)
        return leat_fail(err, LEAT_INVALID, "view: 'samples' takes no other words; they belong to blocks=");
    if (seen && !(seen & (1u << SAMPLES | 1u << BLOCKS)))
        return leat_fail(err, LEAT_INVALID, "view: blocks= is missing, as in \"blocks=2048 shift=1\"");
    if (t->blocks && !(seen >> SHIFT & 1))
        t->shift = 1;
    if ((uint64_t)t->length + t->shift > LEAT_VIEW_TOKENS_MAX)
        return leat_fail(err, LEAT_INVALID, "view: a block of %u + %u tokens is more than the %u there may be",
                         t->length, t->shift, LEAT_VIEW_TOKENS_MAX);
    if (t->fit && t->length + t->shift > LEAT_VIEW_FIT_MAX)
        return leat_fail(err, LEAT_INVALID, "view: documents=fit packs blocks of up to %u tokens, not of %u + %u",
                         LEAT_VIEW_FIT_MAX, t->length, t->shift);
    return LEAT_OK;
}

leat_status leat_view_text_read(const char *text, struct leat_view_text *out, struct leat_error *err)
{
    struct leat_view_text t = {0};
    uint32_t seen = 0;
    leat_status rc = LEAT_OK;
    for (const char *at = text ? text : ""; rc == LEAT_OK && *at;) {
        char word[WORD_MAX];
        size_t n = strcspn(at, " ");
        if (n >= sizeof word)
            return leat_fail(err, LEAT_INVALID, "view: the word '%.60s…' is too long", at);
        memcpy(word, at, n);
        word[n] = '\0';
        at += n;
        at += *at == ' ';
        if (n)
            rc = read_word(word, &seen, &t, err);
    }
    if (rc == LEAT_OK)
        rc = check(seen, &t, err);
    if (rc == LEAT_OK)
        *out = t;
    return rc;
}

leat_status leat_view_text_write(const struct leat_view_text *t, char name[LEAT_VIEW_NAME_MAX], struct leat_error *err)
{
    char text[2 * LEAT_VIEW_NAME_MAX + LEAT_FIELD_NAME_MAX];
    if (!t->blocks)
        snprintf(text, sizeof text, "samples");
    else
        snprintf(text, sizeof text, "blocks=%u shift=%u%s%s%s", t->length, t->shift, t->fit ? " documents=fit" : "",
                 t->field[0] ? " field=" : "", t->field);
    if (strlen(text) >= LEAT_VIEW_NAME_MAX)
        return leat_fail(err, LEAT_LIMIT,
                         "view: '%s' has more than %d letters: the field's name is too long for a view", text,
                         LEAT_VIEW_NAME_MAX - 1);
    memcpy(name, text, strlen(text) + 1);
    return LEAT_OK;
}
