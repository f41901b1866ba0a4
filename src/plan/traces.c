#include "plan/traces.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/csv.h"

enum column { ACCELERATOR, REGION, FILE_NAME, ZONE, TYPE, COLUMNS };
static const char *const names[COLUMNS] = {"accelerator", "region", "file", "zone", "type"};

static leat_status find_columns(const struct leat_plan_csv *csv, size_t column[COLUMNS], struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (int k = 0; k < COLUMNS && rc == LEAT_OK; k++) {
        column[k] = leat_plan_csv_column(csv, names[k]);
        if (column[k] == LEAT_PLAN_CSV_NONE && k != ZONE && k != TYPE)
            rc = leat_plan_csv_need(csv, names[k], &column[k], err);
    }
    for (size_t i = 0; rc == LEAT_OK && i < csv->column_count; i++) {
        bool known = false;
        for (int k = 0; k < COLUMNS; k++)
            known |= column[k] == i;
        if (!known)
            rc = leat_fail(err, LEAT_INVALID, "%s line %u: column '%s' is not known here", csv->name, csv->header_line,
                           csv->columns[i]);
    }
    return rc;
}

static leat_status take_text(const struct leat_plan_csv *csv, size_t row, size_t column, bool needed, char *out,
                             size_t n, struct leat_error *err)
{
    const char *text = column == LEAT_PLAN_CSV_NONE ? "" : csv->rows[row].fields[column];
    if (strlen(text) >= n || (needed && !*text))
        return leat_fail(err, LEAT_INVALID, "%s line %u: %s is %s", csv->name, csv->rows[row].line,
                         csv->columns[column], *text ? "too long" : "missing");
    memcpy(out, text, strlen(text) + 1);
    leat_one_line(out);
    return LEAT_OK;
}

/* Two answers to the same question: nobody could say which one counts. */
static leat_status check_row(const char *name, const struct leat_plan_traces *t, const struct leat_plan_named_trace *r,
                             struct leat_error *err)
{
    if (*r->zone && strcmp(r->region, "*") == 0)
        return leat_fail(err, LEAT_INVALID, "%s line %u: a zone needs its region, not '*'", name, r->line);
    for (size_t i = 0; i < t->count; i++) {
        const struct leat_plan_named_trace *o = &t->row[i];
        if (strcmp(o->accelerator, r->accelerator) != 0 || strcmp(o->type, r->type) != 0 ||
            strcmp(o->region, r->region) != 0)
            continue;
        if (strcmp(o->zone, r->zone) == 0)
            return leat_fail(err, LEAT_INVALID, "%s line %u: %s in %s%s%s was given before, on line %u", name, r->line,
                             r->accelerator, r->region, *r->zone ? ", " : "", r->zone, o->line);
        if (!*o->zone || !*r->zone)
            return leat_fail(err, LEAT_INVALID,
                             "%s line %u: one trace for all of %s beside those of its zones (line %u)", name,
                             *r->zone ? o->line : r->line, r->region, *r->zone ? r->line : o->line);
    }
    return LEAT_OK;
}

leat_status leat_plan_traces_index(const char *name, const char *text, size_t n, struct leat_plan_traces *out,
                                   struct leat_error *err)
{
    struct leat_plan_csv *csv = NULL;
    size_t column[COLUMNS] = {0};
    struct leat_plan_traces t = {0};
    leat_status rc = leat_plan_csv_parse(name, text, n, NULL, &csv, err);
    if (rc == LEAT_OK)
        rc = find_columns(csv, column, err);
    if (rc == LEAT_OK && (!csv->row_count || csv->row_count > LEAT_PLAN_TRACES_MAX))
        rc = leat_fail(err, LEAT_INVALID, "%s: %zu traces: from 1 to %d", name, csv->row_count, LEAT_PLAN_TRACES_MAX);
    if (rc == LEAT_OK) {
        t.row = calloc(csv->row_count, sizeof *t.row);
        if (!t.row)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu traces", csv->row_count);
    }
    for (size_t i = 0; rc == LEAT_OK && i < csv->row_count; i++) {
        struct leat_plan_named_trace *r = &t.row[t.count];
        r->line = csv->rows[i].line;
        rc = take_text(csv, i, column[ACCELERATOR], true, r->accelerator, sizeof r->accelerator, err);
        if (rc == LEAT_OK)
            rc = take_text(csv, i, column[REGION], true, r->region, sizeof r->region, err);
        if (rc == LEAT_OK)
            rc = take_text(csv, i, column[FILE_NAME], true, r->file, sizeof r->file, err);
        if (rc == LEAT_OK)
            rc = take_text(csv, i, column[ZONE], false, r->zone, sizeof r->zone, err);
        if (rc == LEAT_OK)
            rc = take_text(csv, i, column[TYPE], false, r->type, sizeof r->type, err);
        if (rc == LEAT_OK)
            rc = check_row(name, &t, r, err);
        t.count += rc == LEAT_OK;
    }
    leat_plan_csv_free(csv);
    if (rc != LEAT_OK) {
        leat_plan_traces_free(&t);
        return rc;
    }
    *out = t;
    return LEAT_OK;
}

leat_status leat_plan_traces_read(struct leat_plan_traces *t, const struct leat_plan_text *files, size_t count,
                                  struct leat_error *err)
{
    if (count != t->count)
        return leat_fail(err, LEAT_INVALID, "%zu traces are named, but %zu are given", t->count, count);
    for (size_t i = 0; i < count; i++) {
        struct leat_plan_named_trace *r = &t->row[i];
        if (!files[i].text)
            return leat_fail(err, LEAT_INVALID, "the trace %s is not given", r->file);
        leat_status rc = leat_plan_trace_parse(files[i].name, files[i].text, files[i].n, &r->trace, err);
        if (rc != LEAT_OK)
            return rc;
        for (size_t k = 0; k < i; k++) {
            const struct leat_plan_named_trace *o = &t->row[k];
            if (strcmp(o->accelerator, r->accelerator) == 0 && strcmp(o->region, r->region) == 0 &&
                o->trace.gap_s != r->trace.gap_s)
                return leat_fail(err, LEAT_INVALID, "%s and %s: zones of one region with ticks of %g and %g s", o->file,
                                 r->file, o->trace.gap_s, r->trace.gap_s);
        }
    }
    return LEAT_OK;
}

void leat_plan_traces_free(struct leat_plan_traces *t)
{
    for (size_t i = 0; i < t->count; i++)
        leat_plan_trace_free(&t->row[i].trace);
    free(t->row);
    *t = (struct leat_plan_traces){0};
}

/* NaN: this type is not sold there. */
static double zone_usd_per_hour(const struct leat_plan_catalog *catalog, const struct leat_plan_offer *o,
                                const char *zone)
{
    bool named = false;
    if (!*zone)
        return o->usd_per_hour[1];
    for (size_t i = 0; i < o->zone_count; i++) {
        const struct leat_plan_zone *z = &catalog->zone[o->first_zone + i];
        named |= *z->name;
        if (strcmp(z->name, zone) == 0)
            return z->usd_per_hour;
    }
    return named ? NAN : o->usd_per_hour[1]; /* a catalog without zones has one price for all */
}

/* Adds the traces of one scope: of the offer's type or its accelerator, of its region or any. */
static void add_scope(const struct leat_plan_traces *t, const struct leat_plan_catalog *catalog,
                      const struct leat_plan_offer *offer, bool type, const char *region, double usd_scale,
                      double speed, struct leat_plan_market *out, const char **name)
{
    for (size_t i = 0; i < t->count && out->count < LEAT_PLAN_MARKET_MAX; i++) {
        const struct leat_plan_named_trace *r = &t->row[i];
        if (strcmp(r->accelerator, offer->accelerator) != 0 || strcmp(r->region, region) != 0 ||
            strcmp(r->type, type ? offer->type : "") != 0)
            continue;
        double usd = zone_usd_per_hour(catalog, offer, r->zone);
        if (isnan(usd) || (out->count && out->zone[0].trace->gap_s != r->trace.gap_s))
            continue;
        if (!out->count)
            *name = r->file;
        out->zone[out->count].trace = &r->trace;
        out->zone[out->count].speed = speed;
        out->zone[out->count++].usd_per_s = usd_scale * usd / 3600;
    }
}

void leat_plan_traces_market(const struct leat_plan_traces *t, const struct leat_plan_catalog *catalog,
                             const struct leat_plan_offer *offer, unsigned nodes, double speed,
                             struct leat_plan_market *out, const char **name)
{
    size_t before = out->count;
    for (int scope = 0; scope < 4 && out->count == before; scope++)
        add_scope(t, catalog, offer, scope < 2, scope % 2 ? "*" : offer->region, nodes, speed, out, name);
}
