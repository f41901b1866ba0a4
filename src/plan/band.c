#include "plan/band.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "plan/lives.h"

/* A number that `text` begins with; NULL when there is none, else what follows it. */
static const char *percent(const char *text, double *out)
{
    char digits[16];
    struct leat_error err;
    while (*text == ' ')
        text++;
    size_t n = strspn(text, "0123456789.");
    if (!n || n >= sizeof digits)
        return NULL;
    memcpy(digits, text, n);
    digits[n] = '\0';
    if (leat_parse_double(digits, "band", out, &err) != LEAT_OK)
        return NULL;
    text += n;
    while (*text == ' ' || *text == '%')
        text++;
    return text;
}

bool leat_plan_band_parse(const char *text, double *lo, double *hi)
{
    double a = 0;
    double b = 0;
    while (*text == ' ')
        text++;
    char first = *text;
    const char *rest = percent(text + (first == '<' || first == '>'), &a);
    if (!rest)
        return false;
    if (first == '<') {
        b = a;
        a = 0;
    } else if (first == '>') {
        b = 2 * a;
    } else if (*rest == '-') {
        rest = percent(rest + 1, &b);
    } else {
        return false; /* a single number is a probability, and belongs into a table of points */
    }
    if (!rest || *rest || !(a >= 0 && b > a && b < 100))
        return false;
    *lo = a / 100;
    *hi = b / 100;
    return true;
}

leat_status leat_plan_band_set(const char *text, const char *what, struct leat_plan_revocation *out,
                               struct leat_error *err)
{
    double lo;
    double hi;
    if (!leat_plan_band_parse(text, &lo, &hi))
        return leat_fail(err, LEAT_INVALID, "%s: '%.40s' is not a band; write <5%%, 5-10%% or >20%%", what, text);
    double middle = (lo + hi) / 2;
    /* Straight between the points, and steady beyond: short steps keep the hazard constant. */
    double age[9] = {0};
    double probability[9] = {0};
    for (int i = 1; i < 9; i++) {
        age[i] = i * LEAT_PLAN_MONTH_H * 3600 / 8;
        probability[i] = -expm1(log1p(-middle) * i / 8);
    }
    out->spread = (hi - lo) / sqrt(12) / middle; /* anywhere in the band alike */
    out->events = 1 / (out->spread * out->spread);
    snprintf(out->basis, sizeof out->basis, "band %.40s of a month", text);
    return leat_plan_lifetime_set(age, probability, 9, false, what, &out->lifetime, err);
}

leat_status leat_plan_bands_csv(const struct leat_plan_csv *csv, struct leat_plan_revocations *out,
                                struct leat_error *err)
{
    size_t band = leat_plan_csv_column(csv, "band");
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < csv->column_count; i++) {
        const char *c = csv->columns[i];
        if (i != band && i != leat_plan_csv_column(csv, "accelerator") && i != leat_plan_csv_column(csv, "type") &&
            i != leat_plan_csv_column(csv, "region"))
            rc = leat_fail(err, LEAT_INVALID, "%s line %u: column '%s' is not known in a table of bands", csv->name,
                           csv->header_line, c);
    }
    for (size_t i = 0; rc == LEAT_OK && i < csv->row_count; i++) {
        struct leat_plan_revocation row = {.file = out->files - 1};
        char what[300];
        rc = leat_plan_lives_names(csv, i, &row, err);
        snprintf(what, sizeof what, "%.200s line %u", csv->name, csv->rows[i].line);
        if (rc == LEAT_OK)
            rc = leat_plan_band_set(csv->rows[i].fields[band], what, &row, err);
        if (rc == LEAT_OK)
            rc = leat_plan_revocations_add(out, &row, err);
    }
    return rc;
}

/* The advisor's ranges, each made into a row once. */
#define RANGES_MAX 16

struct ranges {
    size_t count;
    json_int_t index[RANGES_MAX];
    struct leat_plan_revocation row[RANGES_MAX];
};

static leat_status take_ranges(const char *name, const json_t *list, struct ranges *out, struct leat_error *err)
{
    size_t i;
    json_t *range;
    char what[300];
    json_array_foreach (list, i, range) {
        const json_t *index = json_object_get(range, "index");
        const char *label = json_string_value(json_object_get(range, "label"));
        snprintf(what, sizeof what, "%.200s: range %zu", name, i + 1);
        if (!json_is_integer(index) || !label || out->count == RANGES_MAX)
            return leat_fail(err, LEAT_INVALID, "%s: an index and a label are expected, of at most %d ranges", what,
                             RANGES_MAX);
        out->index[out->count] = json_integer_value(index);
        leat_status rc = leat_plan_band_set(label, what, &out->row[out->count], err);
        if (rc != LEAT_OK)
            return rc;
        out->count++;
    }
    return LEAT_OK;
}

static bool sold(const struct leat_plan_catalog *catalog, const char *type)
{
    if (!catalog)
        return true;
    for (size_t i = 0; i < catalog->count; i++) {
        if (strcmp(catalog->offer[i].type, type) == 0)
            return true;
    }
    return false;
}

static leat_status take_machine(const char *name, const char *region, const char *type, const json_t *range,
                                const struct ranges *ranges, struct leat_plan_revocations *out, struct leat_error *err)
{
    size_t k = 0;
    while (k < ranges->count && !(json_is_integer(range) && json_integer_value(range) == ranges->index[k]))
        k++;
    if (k == ranges->count || strlen(type) >= sizeof out->row->type || strlen(region) >= sizeof out->row->region)
        return leat_fail(err, LEAT_INVALID, "%.120s: %.48s in %.40s: a range that the file does not explain", name,
                         type, region);
    struct leat_plan_revocation row = ranges->row[k];
    row.file = out->files - 1;
    snprintf(row.type, sizeof row.type, "%s", type);
    snprintf(row.region, sizeof row.region, "%s", region);
    leat_one_line(row.type);
    leat_one_line(row.region);
    return leat_plan_revocations_add(out, &row, err);
}

static leat_status take_regions(const char *name, json_t *all, const struct ranges *ranges,
                                const struct leat_plan_catalog *catalog, struct leat_plan_revocations *out,
                                struct leat_error *err)
{
    const char *region;
    const char *type;
    json_t *systems;
    json_t *machine;
    size_t machines = 0;
    json_object_foreach (all, region, systems) {
        json_object_foreach (json_object_get(systems, "Linux"), type, machine) {
            machines++;
            leat_status rc = LEAT_OK;
            if (sold(catalog, type))
                rc = take_machine(name, region, type, json_object_get(machine, "r"), ranges, out, err);
            if (rc != LEAT_OK)
                return rc;
        }
    }
    return machines ? LEAT_OK : leat_fail(err, LEAT_INVALID, "%s: no machine under Linux in any region", name);
}

leat_status leat_plan_bands_json(const char *name, const char *text, size_t n, const struct leat_plan_catalog *catalog,
                                 struct leat_plan_revocations *out, struct leat_error *err)
{
    json_error_t why;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return leat_fail(err, LEAT_INVALID, "%s line %d: %s", name, why.line, why.text);
    json_t *all = json_object_get(root, "spot_advisor");
    const json_t *list = json_object_get(root, "ranges");
    struct ranges *ranges = calloc(1, sizeof *ranges);
    leat_status rc = LEAT_OK;
    if (!ranges)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for %s", name);
    else if (!json_is_object(all) || !json_is_array(list))
        rc = leat_fail(err, LEAT_INVALID,
                       "%s: no 'spot_advisor' and 'ranges': the JSON read here is Amazon's spot-advisor-data.json",
                       name);
    if (rc == LEAT_OK)
        rc = take_ranges(name, list, ranges, err);
    if (rc == LEAT_OK)
        rc = take_regions(name, all, ranges, catalog, out, err);
    free(ranges);
    json_decref(root);
    return rc;
}
