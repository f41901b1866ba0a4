#include "plan/terms.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/parse.h"

const char *leat_plan_unit_name(enum leat_plan_unit unit)
{
    static const char *const names[] = {"", "s", "h", "usd", "usd/h", "samples", "samples/s", "B", "%", ""};
    return names[unit];
}

struct leat_plan_term *leat_plan_term(struct leat_plan_terms *terms, const char *label, double value,
                                      enum leat_plan_unit unit, const char *source)
{
    if (!terms || terms->count == LEAT_PLAN_TERMS_MAX)
        return NULL;
    struct leat_plan_term *t = &terms->term[terms->count++];
    *t = (struct leat_plan_term){.value = value, .unit = unit, .lo = NAN, .hi = NAN};
    snprintf(t->label, sizeof t->label, "%s", label);
    snprintf(t->source, sizeof t->source, "%s", source);
    leat_one_line(t->source);
    return t;
}

void leat_plan_term_factor(struct leat_plan_term *term, double value, enum leat_plan_unit unit)
{
    if (!term || term->factors == LEAT_PLAN_FACTORS_MAX)
        return;
    term->factor[term->factors].value = value;
    term->factor[term->factors++].unit = unit;
}

void leat_plan_term_words(struct leat_plan_term *term, const char *format, ...)
{
    va_list args;
    if (!term)
        return;
    va_start(args, format);
    vsnprintf(term->words, sizeof term->words, format, args);
    va_end(args);
    leat_one_line(term->words);
}

/* Money and hours with the digits that let one add the lines up; the rest with what can be trusted. */
static void number(double v, enum leat_plan_unit unit, char *out, size_t n)
{
    char room[LEAT_FORMAT_SIZE];
    switch (unit) {
    case LEAT_PLAN_UNIT_H:
    case LEAT_PLAN_UNIT_USD:
    case LEAT_PLAN_UNIT_USD_H:
        snprintf(out, n, "%.4f %s", v, leat_plan_unit_name(unit));
        return;
    case LEAT_PLAN_UNIT_BYTES:
        snprintf(out, n, "%s", leat_format_size((uint64_t)fmin(fmax(v, 0), 9e18), room));
        return;
    case LEAT_PLAN_UNIT_PERCENT:
        snprintf(out, n, "%.1f %%", v);
        return;
    case LEAT_PLAN_UNIT_S:
        if (v >= 600 && v < 9e9)
            snprintf(out, n, "%s", leat_format_duration((uint64_t)(v * 1e9), room));
        else
            snprintf(out, n, "%.4g s", v);
        return;
    case LEAT_PLAN_UNIT_COUNT:
        snprintf(out, n, v == floor(v) ? "%.12g" : "%.4g", v);
        return;
    case LEAT_PLAN_UNIT_SAMPLES:
        snprintf(out, n, "%.10g samples", v);
        return;
    case LEAT_PLAN_UNIT_SAMPLES_S:
        snprintf(out, n, "%.4g samples/s", v);
        return;
    case LEAT_PLAN_UNIT_WORDS:
        break;
    }
    out[0] = '\0';
}

static void append(char *out, const char *text)
{
    size_t at = strlen(out);
    snprintf(out + at, LEAT_PLAN_TERM_SIZE - at, "%s", text);
}

char *leat_plan_term_text(const struct leat_plan_term *term, char out[LEAT_PLAN_TERM_SIZE])
{
    char text[64];
    out[0] = '\0';
    for (unsigned i = 0; i < term->factors; i++) {
        number(term->factor[i].value, term->factor[i].unit, text, sizeof text);
        append(out, text);
        append(out, i + 1 < term->factors ? " × " : " = ");
    }
    number(term->value, term->unit, text, sizeof text);
    append(out, text);
    if (!isnan(term->lo)) {
        snprintf(text, sizeof text, " [%.4g, %.4g]", term->lo, term->hi);
        append(out, text);
    }
    if (*term->words) {
        append(out, term->unit == LEAT_PLAN_UNIT_WORDS ? "" : ", ");
        append(out, term->words);
    }
    return out;
}
