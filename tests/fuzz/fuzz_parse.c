#include "base/parse.h"

#include <math.h>

#include "fuzz.h"

typedef leat_status parser(const char *text, const char *what, uint64_t *out, struct leat_error *err);

static void check(parser *parse, const char *text, uint64_t max)
{
    struct leat_error err;
    char out[LEAT_FORMAT_SIZE];
    uint64_t v = 4711;
    leat_status rc = parse(text, "x", &v, &err);
    fuzz_check_error(rc, &err);
    if (rc != LEAT_OK) {
        PROMISE(v == 4711);
        return;
    }
    PROMISE(v <= max);
    PROMISE(strlen(leat_format_size(v, out)) < sizeof out);
    PROMISE(leat_parse_size(out, "x", &v, &err) == LEAT_OK || v > INT64_MAX / 2); /* what we print can be read */
    PROMISE(strlen(leat_format_duration(v, out)) < sizeof out);
    PROMISE(!strchr(out, 'e') || strcmp(out, "never") == 0);
    PROMISE(strlen(leat_format_rate((double)v, out)) < sizeof out);
}

FUZZ(parse)
{
    char *text = fuzz_text(data, size);
    struct leat_error err;
    double d = 4711;
    check(leat_parse_u64, text, UINT64_MAX);
    check(leat_parse_size, text, INT64_MAX);
    check(leat_parse_duration, text, INT64_MAX);
    check(leat_parse_rate, text, INT64_MAX);
    leat_status rc = leat_parse_double(text, "x", &d, &err);
    fuzz_check_error(rc, &err);
    PROMISE(isfinite(d));
    if (rc == LEAT_OK && size < 300) {
        /* In the C locale strtod reads the same, where it takes all of it. */
        char *end;
        double expected = strtod(text, &end);
        if (!*end && !strpbrk(text, "xXnNiI"))
            PROMISE(fabs(d - expected) <= fabs(expected) * 1e-14 || fabs(expected) < 1e-290);
    }
    free(text);
}
