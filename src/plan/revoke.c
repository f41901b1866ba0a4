#include "plan/revoke.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/band.h"
#include "plan/csv.h"
#include "plan/lives.h"

struct columns {
    size_t accelerator; /* LEAT_PLAN_CSV_NONE: not there, here and below */
    size_t type;
    size_t region;
    size_t age;
    size_t probability;
    size_t then;
    size_t events;
};

static leat_status find_columns(const struct leat_plan_csv *csv, struct columns *c, struct leat_error *err)
{
    leat_status rc = leat_plan_csv_need(csv, "region", &c->region, err);
    if (rc == LEAT_OK)
        rc = leat_plan_csv_need(csv, "age_h", &c->age, err);
    if (rc == LEAT_OK)
        rc = leat_plan_csv_need(csv, "probability", &c->probability, err);
    c->type = leat_plan_csv_column(csv, "type");
    c->accelerator = leat_plan_csv_column(csv, "accelerator");
    if (rc == LEAT_OK && c->type == LEAT_PLAN_CSV_NONE)
        rc = leat_plan_csv_need(csv, "accelerator", &c->accelerator, err);
    c->then = leat_plan_csv_column(csv, "then");
    c->events = leat_plan_csv_column(csv, "events");
    for (size_t i = 0; rc == LEAT_OK && i < csv->column_count; i++) {
        if (i != c->accelerator && i != c->type && i != c->region && i != c->age && i != c->probability &&
            i != c->then && i != c->events)
            rc = leat_fail(err, LEAT_INVALID, "%s line %u: column '%s' is not known here", csv->name, csv->header_line,
                           csv->columns[i]);
    }
    return rc;
}

static const char *field(const struct leat_plan_csv *csv, size_t row, size_t column)
{
    return column == LEAT_PLAN_CSV_NONE ? "" : csv->rows[row].fields[column];
}

static bool same(const struct leat_plan_csv *csv, const struct columns *c, size_t a, size_t b)
{
    return strcmp(field(csv, a, c->accelerator), field(csv, b, c->accelerator)) == 0 &&
           strcmp(field(csv, a, c->type), field(csv, b, c->type)) == 0 &&
           strcmp(field(csv, a, c->region), field(csv, b, c->region)) == 0;
}

static leat_status take_then(const struct leat_plan_csv *csv, const struct columns *c, size_t row, bool *ends,
                             struct leat_error *err)
{
    const char *then = field(csv, row, c->then);
    if (*then && strcmp(then, "taken") != 0 && strcmp(then, "steady") != 0)
        return leat_fail(err, LEAT_INVALID, "%s line %u: '%s' is neither taken nor steady", csv->name,
                         csv->rows[row].line, then);
    *ends = strcmp(then, "taken") == 0;
    return LEAT_OK;
}

/* Said on any of the group's lines, the same wherever it is. */
static leat_status take_events(const struct leat_plan_csv *csv, const struct columns *c, size_t row, double *events,
                               struct leat_error *err)
{
    double v;
    if (!*field(csv, row, c->events))
        return LEAT_OK;
    leat_status rc = leat_plan_csv_number(csv, row, c->events, &v, err);
    if (rc == LEAT_OK && !(v >= 0.5 && v <= 1e9))
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: events is %g: how many machines were seen taken", csv->name,
                       csv->rows[row].line, v);
    if (rc == LEAT_OK && !isnan(*events) && v != *events)
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: events is %g here and %g above", csv->name, csv->rows[row].line,
                       v, *events);
    if (rc == LEAT_OK)
        *events = v;
    return rc;
}

static leat_status take_point(const struct leat_plan_csv *csv, const struct columns *c, size_t row, double *age_s,
                              double *probability, struct leat_error *err)
{
    leat_status rc = leat_plan_csv_number(csv, row, c->age, age_s, err);
    if (rc == LEAT_OK)
        rc = leat_plan_csv_number(csv, row, c->probability, probability, err);
    if (rc == LEAT_OK && !(*probability >= 0 && *probability <= 1))
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: probability is %g: from 0 to 1, not percent", csv->name,
                       csv->rows[row].line, *probability);
    if (rc == LEAT_OK && !(*age_s <= LEAT_PLAN_AGE_MAX_H))
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: age_h is %g: in hours, at most %g", csv->name,
                       csv->rows[row].line, *age_s, LEAT_PLAN_AGE_MAX_H);
    *age_s *= 3600;
    return rc;
}

/* Rows first … last-1 are the points of one distribution. */
static leat_status take_group(const struct leat_plan_csv *csv, const struct columns *c, size_t first, size_t last,
                              struct leat_plan_revocation *out, struct leat_error *err)
{
    double age[LEAT_PLAN_POINTS_MAX];
    double probability[LEAT_PLAN_POINTS_MAX];
    char what[400];
    bool ends = false;
    leat_status rc = leat_plan_lives_names(csv, first, out, err);
    if (rc != LEAT_OK)
        return rc;
    snprintf(what, sizeof what, "%.200s line %u: %.48s in %.40s", csv->name, out->line,
             *out->type ? out->type : out->accelerator, out->region);
    if (last - first > LEAT_PLAN_POINTS_MAX)
        return leat_fail(err, LEAT_INVALID, "%s: more than %d points", what, LEAT_PLAN_POINTS_MAX);
    for (size_t i = first; i < last; i++) {
        rc = take_point(csv, c, i, &age[i - first], &probability[i - first], err);
        if (rc == LEAT_OK)
            rc = take_then(csv, c, i, &ends, err);
        if (rc == LEAT_OK)
            rc = take_events(csv, c, i, &out->events, err);
        if (rc != LEAT_OK)
            return rc;
        const char *flaw = leat_plan_lifetime_flaw(age, probability, i - first);
        if (flaw)
            return leat_fail(err, LEAT_INVALID, "%s line %u: %s", csv->name, csv->rows[i].line, flaw);
    }
    if (!isnan(out->events)) {
        out->spread = leat_plan_hazard_spread(out->events);
        snprintf(out->basis, sizeof out->basis, "%g revocations seen", out->events);
    }
    return leat_plan_lifetime_set(age, probability, last - first, ends, what, &out->lifetime, err);
}

static leat_status take_points(const struct leat_plan_csv *csv, struct leat_plan_revocations *r, struct leat_error *err)
{
    struct columns c = {0};
    leat_status rc = find_columns(csv, &c, err);
    for (size_t first = 0, last; rc == LEAT_OK && first < csv->row_count; first = last) {
        struct leat_plan_revocation row = {.file = r->files - 1};
        for (last = first + 1; last < csv->row_count && same(csv, &c, first, last);)
            last++;
        rc = take_group(csv, &c, first, last, &row, err);
        if (rc == LEAT_OK)
            rc = leat_plan_revocations_add(r, &row, err);
    }
    return rc;
}

leat_status leat_plan_revocations_add(struct leat_plan_revocations *r, const struct leat_plan_revocation *row,
                                      struct leat_error *err)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct leat_plan_revocation *o = &r->row[i];
        if (strcmp(o->accelerator, row->accelerator) == 0 && strcmp(o->type, row->type) == 0 &&
            strcmp(o->region, row->region) == 0)
            return leat_fail(err, LEAT_INVALID, "%s line %u: %s in %s was given before, on line %u of %s",
                             r->name[row->file], row->line, *row->type ? row->type : row->accelerator, row->region,
                             o->line, r->name[o->file]);
    }
    /* Grown by doubling: an advisor's file has thousands of rows. */
    if ((r->count & (r->count - 1)) == 0) {
        void *more = realloc(r->row, (r->count ? 2 * r->count : 1) * sizeof *r->row);
        if (!more)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu distributions of lifetimes", r->count + 1);
        r->row = more;
    }
    r->row[r->count++] = *row;
    return LEAT_OK;
}

leat_status leat_plan_revocations_read(const char *name, const char *text, size_t n,
                                       const struct leat_plan_catalog *catalog, struct leat_plan_revocations *out,
                                       struct leat_error *err)
{
    struct leat_plan_csv *csv;
    size_t at = 0;
    if (out->files == LEAT_PLAN_REVOCATION_FILES)
        return leat_fail(err, LEAT_LIMIT, "%s: more than %d files of lifetimes", name, LEAT_PLAN_REVOCATION_FILES);
    snprintf(out->name[out->files++], sizeof out->name[0], "%s", name);
    while (at < n && strchr(" \t\r\n", text[at]))
        at++;
    if (at < n && text[at] == '{')
        return leat_plan_bands_json(name, text, n, catalog, out, err);
    leat_status rc = leat_plan_csv_parse(name, text, n, NULL, &csv, err);
    if (rc != LEAT_OK)
        return rc;
    if (leat_plan_csv_column(csv, "band") != LEAT_PLAN_CSV_NONE)
        rc = leat_plan_bands_csv(csv, out, err);
    else if (leat_plan_lives_are(csv))
        rc = leat_plan_lives_csv(csv, out, err);
    else
        rc = take_points(csv, out, err);
    if (rc == LEAT_OK && !csv->row_count)
        rc = leat_fail(err, LEAT_INVALID, "%s: no distribution below the header", csv->name);
    leat_plan_csv_free(csv);
    return rc;
}

void leat_plan_revocations_free(struct leat_plan_revocations *r)
{
    free(r->row);
    *r = (struct leat_plan_revocations){0};
}

static bool about(const struct leat_plan_revocation *r, const char *type, const char *accelerator)
{
    return *r->type ? strcmp(r->type, type) == 0 : strcmp(r->accelerator, accelerator) == 0;
}

const struct leat_plan_revocation *leat_plan_revocations_find(const struct leat_plan_revocations *r, const char *type,
                                                              const char *accelerator, const char *region)
{
    const struct leat_plan_revocation *best = NULL;
    int most = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct leat_plan_revocation *row = &r->row[i];
        bool here = strcmp(row->region, region) == 0;
        if (!about(row, type, accelerator) || (!here && strcmp(row->region, "*") != 0))
            continue;
        int close = 1 + here + 2 * (*row->type != '\0');
        if (close > most) {
            most = close;
            best = row;
        }
    }
    return best;
}

bool leat_plan_revocations_know(const struct leat_plan_revocations *r, const char *type, const char *accelerator)
{
    for (size_t i = 0; i < r->count; i++) {
        if (about(&r->row[i], type, accelerator))
            return true;
    }
    return false;
}

leat_status leat_plan_revocation_learn(struct leat_plan_revocation *r, double taken, double expected,
                                       struct leat_error *err)
{
    const struct leat_plan_lifetime *l = &r->lifetime;
    double events = isnan(r->events) ? LEAT_PLAN_EVENTS_UNSAID : r->events;
    double factor = (events + taken) / (events + expected);
    double probability[LEAT_PLAN_POINTS_MAX];
    struct leat_plan_lifetime scaled;
    for (size_t i = 0; i < l->count; i++)
        probability[i] = -expm1(factor * log1p(-l->probability[i]));
    leat_status rc =
        leat_plan_lifetime_set(l->age_s, probability, l->count, l->ends, "lifetimes with this run's", &scaled, err);
    if (rc != LEAT_OK)
        return rc;
    r->lifetime = scaled;
    r->events = events + taken;
    r->spread = 1 / sqrt(r->events); /* seen on this very day: no drift */
    snprintf(r->basis, sizeof r->basis, "with this run's: %g taken where %.3g were predicted", taken, expected);
    return LEAT_OK;
}
