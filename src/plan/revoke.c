#include "plan/revoke.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/csv.h"

struct columns {
    size_t accelerator;
    size_t region;
    size_t age;
    size_t probability;
    size_t then; /* LEAT_PLAN_CSV_NONE: not there */
};

static leat_status find_columns(const struct leat_plan_csv *csv, struct columns *c, struct leat_error *err)
{
    leat_status rc = leat_plan_csv_need(csv, "accelerator", &c->accelerator, err);
    if (rc == LEAT_OK)
        rc = leat_plan_csv_need(csv, "region", &c->region, err);
    if (rc == LEAT_OK)
        rc = leat_plan_csv_need(csv, "age_h", &c->age, err);
    if (rc == LEAT_OK)
        rc = leat_plan_csv_need(csv, "probability", &c->probability, err);
    c->then = leat_plan_csv_column(csv, "then");
    for (size_t i = 0; rc == LEAT_OK && i < csv->column_count; i++) {
        if (i != c->accelerator && i != c->region && i != c->age && i != c->probability && i != c->then)
            rc = leat_fail(err, LEAT_INVALID, "%s line %u: column '%s' is not known here", csv->name, csv->header_line,
                           csv->columns[i]);
    }
    return rc;
}

static bool same(const struct leat_plan_csv *csv, const struct columns *c, size_t a, size_t b)
{
    return strcmp(csv->rows[a].fields[c->accelerator], csv->rows[b].fields[c->accelerator]) == 0 &&
           strcmp(csv->rows[a].fields[c->region], csv->rows[b].fields[c->region]) == 0;
}

static leat_status take_then(const struct leat_plan_csv *csv, const struct columns *c, size_t row, bool *ends,
                             struct leat_error *err)
{
    const char *then = c->then == LEAT_PLAN_CSV_NONE ? "" : csv->rows[row].fields[c->then];
    if (*then && strcmp(then, "taken") != 0 && strcmp(then, "steady") != 0)
        return leat_fail(err, LEAT_INVALID, "%s line %u: '%s' is neither taken nor steady", csv->name,
                         csv->rows[row].line, then);
    *ends = strcmp(then, "taken") == 0;
    return LEAT_OK;
}

/* More than a year: no transient machine lives so long, but a day in seconds would be ten of them. */
#define AGE_MAX_H 10000.0

/* Rows first … last-1 are the points of one distribution. */
static leat_status take_group(const struct leat_plan_csv *csv, const struct columns *c, size_t first, size_t last,
                              struct leat_plan_revocation *out, struct leat_error *err)
{
    double age[LEAT_PLAN_POINTS_MAX];
    double probability[LEAT_PLAN_POINTS_MAX];
    char what[400];
    bool ends = false;
    const struct leat_plan_csv_row *row = &csv->rows[first];
    out->line = row->line;
    snprintf(what, sizeof what, "%.200s line %u: %.40s in %.40s", csv->name, row->line, row->fields[c->accelerator],
             row->fields[c->region]);
    if (!*row->fields[c->accelerator] || strlen(row->fields[c->accelerator]) >= sizeof out->accelerator ||
        !*row->fields[c->region] || strlen(row->fields[c->region]) >= sizeof out->region)
        return leat_fail(err, LEAT_INVALID, "%s: names are missing or too long", what);
    if (last - first > LEAT_PLAN_POINTS_MAX)
        return leat_fail(err, LEAT_INVALID, "%s: more than %d points", what, LEAT_PLAN_POINTS_MAX);
    for (size_t i = first; i < last; i++) {
        leat_status rc = leat_plan_csv_number(csv, i, c->age, &age[i - first], err);
        if (rc == LEAT_OK)
            rc = leat_plan_csv_number(csv, i, c->probability, &probability[i - first], err);
        if (rc == LEAT_OK)
            rc = take_then(csv, c, i, &ends, err);
        if (rc != LEAT_OK)
            return rc;
        if (!(probability[i - first] >= 0 && probability[i - first] <= 1))
            return leat_fail(err, LEAT_INVALID, "%s line %u: probability is %g: from 0 to 1, not percent", csv->name,
                             csv->rows[i].line, probability[i - first]);
        if (!(age[i - first] <= AGE_MAX_H))
            return leat_fail(err, LEAT_INVALID, "%s line %u: age_h is %g: in hours, at most %g", csv->name,
                             csv->rows[i].line, age[i - first], AGE_MAX_H);
        age[i - first] *= 3600;
        const char *flaw = leat_plan_lifetime_flaw(age, probability, i - first);
        if (flaw)
            return leat_fail(err, LEAT_INVALID, "%s line %u: %s", csv->name, csv->rows[i].line, flaw);
    }
    snprintf(out->accelerator, sizeof out->accelerator, "%s", row->fields[c->accelerator]);
    snprintf(out->region, sizeof out->region, "%s", row->fields[c->region]);
    leat_one_line(out->accelerator);
    leat_one_line(out->region);
    return leat_plan_lifetime_set(age, probability, last - first, ends, what, &out->lifetime, err);
}

static leat_status take_rows(const struct leat_plan_csv *csv, struct leat_plan_revocations *r, struct leat_error *err)
{
    struct columns c = {0};
    leat_status rc = find_columns(csv, &c, err);
    if (rc != LEAT_OK)
        return rc;
    if (!csv->row_count)
        return leat_fail(err, LEAT_INVALID, "%s: no distribution below the header", csv->name);
    void *more = realloc(r->row, (r->count + csv->row_count) * sizeof *r->row);
    if (!more)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %s", csv->name);
    r->row = more;
    for (size_t first = 0, last; first < csv->row_count; first = last) {
        for (last = first + 1; last < csv->row_count && same(csv, &c, first, last);)
            last++;
        struct leat_plan_revocation *out = &r->row[r->count];
        rc = take_group(csv, &c, first, last, out, err);
        if (rc != LEAT_OK)
            return rc;
        for (size_t i = 0; i < r->count; i++) {
            if (strcmp(r->row[i].accelerator, out->accelerator) == 0 && strcmp(r->row[i].region, out->region) == 0)
                return leat_fail(err, LEAT_INVALID, "%s line %u: %s in %s was given before, on line %u", csv->name,
                                 out->line, out->accelerator, out->region, r->row[i].line);
        }
        r->count++;
    }
    return LEAT_OK;
}

leat_status leat_plan_revocations_csv(const char *name, const char *text, size_t n, struct leat_plan_revocations *out,
                                      struct leat_error *err)
{
    struct leat_plan_csv *csv;
    leat_status rc = leat_plan_csv_parse(name, text, n, NULL, &csv, err);
    if (rc != LEAT_OK)
        return rc;
    snprintf(out->name, sizeof out->name, "%s", name);
    rc = take_rows(csv, out, err);
    leat_plan_csv_free(csv);
    return rc;
}

void leat_plan_revocations_free(struct leat_plan_revocations *r)
{
    free(r->row);
    *r = (struct leat_plan_revocations){0};
}

const struct leat_plan_revocation *leat_plan_revocations_find(const struct leat_plan_revocations *r,
                                                              const char *accelerator, const char *region)
{
    const struct leat_plan_revocation *any = NULL;
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->row[i].accelerator, accelerator) != 0)
            continue;
        if (strcmp(r->row[i].region, region) == 0)
            return &r->row[i];
        if (strcmp(r->row[i].region, "*") == 0)
            any = &r->row[i];
    }
    return any;
}

bool leat_plan_revocations_know(const struct leat_plan_revocations *r, const char *accelerator)
{
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->row[i].accelerator, accelerator) == 0)
            return true;
    }
    return false;
}
