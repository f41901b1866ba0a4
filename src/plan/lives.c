#include "plan/lives.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "plan/catalog.h"

struct columns {
    size_t accelerator; /* LEAT_PLAN_CSV_NONE: not there, here and below */
    size_t type;
    size_t region;
    size_t start;
    size_t end;
    size_t hours;
    size_t how;
};

bool leat_plan_lives_are(const struct leat_plan_csv *csv)
{
    return leat_plan_csv_column(csv, "start") != LEAT_PLAN_CSV_NONE ||
           leat_plan_csv_column(csv, "hours") != LEAT_PLAN_CSV_NONE;
}

static const char *field(const struct leat_plan_csv *csv, size_t row, size_t column)
{
    return column == LEAT_PLAN_CSV_NONE ? "" : csv->rows[row].fields[column];
}

static leat_status take_name(const struct leat_plan_csv *csv, size_t row, const char *column, char *out, size_t n,
                             struct leat_error *err)
{
    const char *text = field(csv, row, leat_plan_csv_column(csv, column));
    if (strlen(text) >= n)
        return leat_fail(err, LEAT_INVALID, "%s line %u: %s is too long", csv->name, csv->rows[row].line, column);
    memcpy(out, text, strlen(text) + 1);
    leat_one_line(out);
    return LEAT_OK;
}

leat_status leat_plan_lives_names(const struct leat_plan_csv *csv, size_t row, struct leat_plan_revocation *out,
                                  struct leat_error *err)
{
    out->line = csv->rows[row].line;
    out->events = NAN;
    leat_status rc = take_name(csv, row, "accelerator", out->accelerator, sizeof out->accelerator, err);
    if (rc == LEAT_OK)
        rc = take_name(csv, row, "type", out->type, sizeof out->type, err);
    if (rc == LEAT_OK)
        rc = take_name(csv, row, "region", out->region, sizeof out->region, err);
    if (rc == LEAT_OK && ((!*out->accelerator && !*out->type) || !*out->region))
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: names are missing: accelerator or type, and region", csv->name,
                       out->line);
    if (*out->type) /* a line about a type is about that alone */
        out->accelerator[0] = '\0';
    return rc;
}

static leat_status find_columns(const struct leat_plan_csv *csv, struct columns *c, struct leat_error *err)
{
    leat_status rc = leat_plan_csv_need(csv, "region", &c->region, err);
    c->accelerator = leat_plan_csv_column(csv, "accelerator");
    c->type = leat_plan_csv_column(csv, "type");
    c->start = leat_plan_csv_column(csv, "start");
    c->end = leat_plan_csv_column(csv, "end");
    c->hours = leat_plan_csv_column(csv, "hours");
    if (rc == LEAT_OK)
        rc = leat_plan_csv_need(csv, "how", &c->how, err);
    if (rc == LEAT_OK && c->hours == LEAT_PLAN_CSV_NONE)
        rc = leat_plan_csv_need(csv, "end", &c->end, err);
    if (rc == LEAT_OK && c->hours != LEAT_PLAN_CSV_NONE && c->start != LEAT_PLAN_CSV_NONE)
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: start and hours are both given; one of them says how long",
                       csv->name, csv->header_line);
    if (rc == LEAT_OK && c->type == LEAT_PLAN_CSV_NONE)
        rc = leat_plan_csv_need(csv, "accelerator", &c->accelerator, err);
    for (size_t i = 0; rc == LEAT_OK && i < csv->column_count; i++) {
        if (i != c->accelerator && i != c->type && i != c->region && i != c->start && i != c->end && i != c->hours &&
            i != c->how)
            rc = leat_fail(err, LEAT_INVALID, "%s line %u: column '%s' is not known here", csv->name, csv->header_line,
                           csv->columns[i]);
    }
    return rc;
}

static leat_status take_moment(const struct leat_plan_csv *csv, size_t row, size_t column, double *out,
                               struct leat_error *err)
{
    const char *text = csv->rows[row].fields[column];
    if (!leat_plan_moment(text, out))
        return leat_fail(err, LEAT_INVALID,
                         "%s line %u: %s: '%.40s' is not a time; write 2026-11-01T09:30:00Z, or seconds", csv->name,
                         csv->rows[row].line, csv->columns[column], text);
    return LEAT_OK;
}

static leat_status take_life(const struct leat_plan_csv *csv, const struct columns *c, size_t row,
                             struct leat_plan_life *out, struct leat_error *err)
{
    const char *how = csv->rows[row].fields[c->how];
    unsigned line = csv->rows[row].line;
    double start = 0;
    double end = 0;
    leat_status rc = LEAT_OK;
    if (c->hours != LEAT_PLAN_CSV_NONE) {
        rc = leat_plan_csv_number(csv, row, c->hours, &end, err);
        end *= 3600;
    } else {
        rc = take_moment(csv, row, c->start, &start, err);
        if (rc == LEAT_OK)
            rc = take_moment(csv, row, c->end, &end, err);
    }
    if (rc != LEAT_OK)
        return rc;
    bool taken = strcmp(how, "taken") == 0;
    if (!taken && strcmp(how, "stopped") != 0 && strcmp(how, "running") != 0)
        return leat_fail(err, LEAT_INVALID, "%s line %u: how: '%.40s' is not one of taken, stopped or running",
                         csv->name, line, how);
    if (!(end >= start && end - start <= LEAT_PLAN_AGE_MAX_H * 3600))
        return leat_fail(err, LEAT_INVALID, "%s line %u: a life of %g h: from 0 to %g", csv->name, line,
                         (end - start) / 3600, LEAT_PLAN_AGE_MAX_H);
    *out = (struct leat_plan_life){fmax(end - start, 1), taken, start}; /* logs round to the second or the minute */
    return LEAT_OK;
}

static bool same(const struct leat_plan_revocation *a, const struct leat_plan_revocation *b)
{
    return strcmp(a->accelerator, b->accelerator) == 0 && strcmp(a->type, b->type) == 0 &&
           strcmp(a->region, b->region) == 0;
}

static leat_status fit_group(const char *name, struct leat_plan_life *lives, size_t count,
                             struct leat_plan_revocation *row, struct leat_plan_revocations *out,
                             struct leat_error *err)
{
    struct leat_plan_survival s;
    char what[400];
    snprintf(what, sizeof what, "%.200s line %u: %.48s in %.40s", name, row->line,
             *row->type ? row->type : row->accelerator, row->region);
    leat_status rc = leat_plan_survival_fit(lives, count, what, &s, err);
    if (rc == LEAT_OK)
        rc = leat_plan_lifetime_set(s.age_s, s.probability, s.points, s.ends, what, &row->lifetime, err);
    if (rc != LEAT_OK)
        return rc;
    row->events = leat_plan_survival_events(&s);
    row->spread = leat_plan_hazard_spread(row->events);
    if (s.ends)
        snprintf(row->basis, sizeof row->basis, "%zu of %zu machines taken, %zu at a maximum life of %.3g h", s.taken,
                 s.machines, s.reached, s.age_s[s.points - 1] / 3600);
    else
        snprintf(row->basis, sizeof row->basis, "%zu of %zu machines taken in %.4g h", s.taken, s.machines,
                 s.watched_s / 3600);
    return leat_plan_revocations_add(out, row, err);
}

leat_status leat_plan_lives_csv(const struct leat_plan_csv *csv, struct leat_plan_revocations *out,
                                struct leat_error *err)
{
    struct columns c = {0};
    leat_status rc = find_columns(csv, &c, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_plan_life *lives = calloc(csv->row_count + 1, sizeof *lives);
    bool *done = calloc(csv->row_count + 1, sizeof *done);
    if (!lives || !done)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for %s", csv->name);
    for (size_t first = 0; rc == LEAT_OK && first < csv->row_count; first++) {
        struct leat_plan_revocation row = {.file = out->files - 1};
        size_t count = 0;
        if (done[first])
            continue;
        rc = leat_plan_lives_names(csv, first, &row, err);
        for (size_t i = first; rc == LEAT_OK && i < csv->row_count; i++) {
            struct leat_plan_revocation other = {0};
            rc = done[i] ? LEAT_OK : leat_plan_lives_names(csv, i, &other, err);
            if (rc != LEAT_OK || done[i] || !same(&row, &other))
                continue;
            done[i] = true;
            rc = take_life(csv, &c, i, &lives[count++], err);
        }
        if (rc == LEAT_OK)
            rc = fit_group(csv->name, lives, count, &row, out, err);
    }
    free(lives);
    free(done);
    return rc;
}

/* As a table's field: quoted where it must be. */
static void write_field(struct leat_buf *out, const char *text)
{
    if (!strpbrk(text, ",\"")) {
        leat_buf_printf(out, "%s,", text);
        return;
    }
    leat_buf_char(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            leat_buf_char(out, '"');
        leat_buf_char(out, *text);
    }
    leat_buf_str(out, "\",");
}

void leat_plan_lives_write(const struct leat_plan_revocations *r, struct leat_buf *out)
{
    leat_buf_str(out, "accelerator,type,region,age_h,probability,then,events\n");
    for (size_t i = 0; i < r->count; i++) {
        const struct leat_plan_revocation *row = &r->row[i];
        const struct leat_plan_lifetime *l = &row->lifetime;
        for (size_t k = 0; k < l->count; k++) {
            write_field(out, row->accelerator);
            write_field(out, row->type);
            write_field(out, row->region);
            leat_buf_printf(out, "%.6g,%.6g,%s,%.6g\n", l->age_s[k] / 3600, l->probability[k],
                            k + 1 < l->count ? ""
                            : l->ends        ? "taken"
                                             : "steady",
                            row->events);
        }
    }
}
