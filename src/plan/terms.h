/* The terms of a sum: what each is called, its value and unit, what it was multiplied from, and where it comes from.
 * The arithmetic collects them; one function here turns a term into words. Pure functions. */
#ifndef LEAT_PLAN_TERMS_H
#define LEAT_PLAN_TERMS_H

#include <stddef.h>

enum leat_plan_unit {
    LEAT_PLAN_UNIT_COUNT, /* a plain number */
    LEAT_PLAN_UNIT_S,
    LEAT_PLAN_UNIT_H,
    LEAT_PLAN_UNIT_USD,
    LEAT_PLAN_UNIT_USD_H,
    LEAT_PLAN_UNIT_SAMPLES,
    LEAT_PLAN_UNIT_SAMPLES_S,
    LEAT_PLAN_UNIT_BYTES,
    LEAT_PLAN_UNIT_PERCENT,
    LEAT_PLAN_UNIT_WORDS /* no number: `words` say it */
};

const char *leat_plan_unit_name(enum leat_plan_unit unit);

#define LEAT_PLAN_FACTORS_MAX 3

struct leat_plan_term {
    char label[48];
    double value;
    enum leat_plan_unit unit;
    struct {
        double value;
        enum leat_plan_unit unit;
    } factor[LEAT_PLAN_FACTORS_MAX]; /* value is their product, when there are any */
    unsigned factors;
    double lo; /* with hi, what nine of ten runs hold; NaN: no interval */
    double hi;
    char words[80]; /* beside the number, or instead of one */
    char source[240];
};

#define LEAT_PLAN_TERMS_MAX 64

struct leat_plan_terms {
    struct leat_plan_term term[LEAT_PLAN_TERMS_MAX];
    size_t count;
};

/* Adds one; NULL when `terms` is NULL or full, which every function here takes. */
struct leat_plan_term *leat_plan_term(struct leat_plan_terms *terms, const char *label, double value,
                                      enum leat_plan_unit unit, const char *source);
void leat_plan_term_factor(struct leat_plan_term *term, double value, enum leat_plan_unit unit);
void leat_plan_term_words(struct leat_plan_term *term, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "2 × 3.0600 usd/h = 6.1200 usd/h"; returns out. */
#define LEAT_PLAN_TERM_SIZE 200
char *leat_plan_term_text(const struct leat_plan_term *term, char out[LEAT_PLAN_TERM_SIZE]);

#endif
