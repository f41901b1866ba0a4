#include "plan/egress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/csv.h"

enum column { FROM, TO, USD, COLUMNS };
static const char *const names[COLUMNS] = {"from", "to", "usd_per_gb"};

static leat_status find_columns(const struct leat_plan_csv *csv, size_t column[COLUMNS], struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (int k = 0; k < COLUMNS && rc == LEAT_OK; k++)
        rc = leat_plan_csv_need(csv, names[k], &column[k], err);
    for (size_t i = 0; rc == LEAT_OK && i < csv->column_count; i++) {
        if (i != column[FROM] && i != column[TO] && i != column[USD])
            rc = leat_fail(err, LEAT_INVALID, "%s line %u: column '%s' is not known here", csv->name, csv->header_line,
                           csv->columns[i]);
    }
    return rc;
}

static leat_status take_row(const struct leat_plan_csv *csv, size_t i, const size_t column[COLUMNS],
                            struct leat_plan_egress *e, struct leat_error *err)
{
    struct leat_plan_egress_row *r = &e->row[e->count];
    const char *from = csv->rows[i].fields[column[FROM]];
    const char *to = csv->rows[i].fields[column[TO]];
    unsigned line = csv->rows[i].line;
    *r = (struct leat_plan_egress_row){.file = e->files - 1, .line = line};
    if (!*from || !*to || strlen(from) >= sizeof r->from || strlen(to) >= sizeof r->to)
        return leat_fail(err, LEAT_INVALID, "%s line %u: a region is missing or too long", csv->name, line);
    memcpy(r->from, from, strlen(from) + 1);
    memcpy(r->to, to, strlen(to) + 1);
    leat_one_line(r->from);
    leat_one_line(r->to);
    leat_status rc = leat_plan_csv_number(csv, i, column[USD], &r->usd_per_gb, err);
    if (rc == LEAT_OK && !(r->usd_per_gb >= 0 && r->usd_per_gb <= 10))
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: usd_per_gb is %g: dollars for 10^9 bytes, from 0 to 10",
                       csv->name, line, r->usd_per_gb);
    for (size_t k = 0; rc == LEAT_OK && k < e->count; k++) {
        if (strcmp(e->row[k].from, r->from) == 0 && strcmp(e->row[k].to, r->to) == 0)
            rc = leat_fail(err, LEAT_INVALID, "%s line %u: %s to %s was given before, on line %u of %s", csv->name,
                           line, r->from, r->to, e->row[k].line, e->name[e->row[k].file]);
    }
    e->count += rc == LEAT_OK;
    return rc;
}

leat_status leat_plan_egress_csv(const char *name, const char *text, size_t n, struct leat_plan_egress *out,
                                 struct leat_error *err)
{
    struct leat_plan_csv *csv = NULL;
    size_t column[COLUMNS] = {0};
    if (out->files == LEAT_PLAN_EGRESS_FILES)
        return leat_fail(err, LEAT_LIMIT, "%s: more than %d files of egress prices", name, LEAT_PLAN_EGRESS_FILES);
    leat_status rc = leat_plan_csv_parse(name, text, n, NULL, &csv, err);
    if (rc != LEAT_OK)
        return rc;
    snprintf(out->name[out->files++], sizeof out->name[0], "%s", name);
    rc = find_columns(csv, column, err);
    if (rc == LEAT_OK && !csv->row_count)
        rc = leat_fail(err, LEAT_INVALID, "%s: no price below the header", name);
    void *more = rc == LEAT_OK ? realloc(out->row, (out->count + csv->row_count) * sizeof *out->row) : NULL;
    if (rc == LEAT_OK && !more)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for %s", name);
    if (more)
        out->row = more;
    for (size_t i = 0; rc == LEAT_OK && i < csv->row_count; i++)
        rc = take_row(csv, i, column, out, err);
    leat_plan_csv_free(csv);
    return rc;
}

void leat_plan_egress_free(struct leat_plan_egress *e)
{
    free(e->row);
    *e = (struct leat_plan_egress){0};
}

bool leat_plan_same_place(const char *name, const char *provider, const char *region)
{
    size_t n = strlen(provider);
    if (strcmp(name, region) == 0)
        return true;
    return n && strncmp(name, provider, n) == 0 && name[n] == '/' && strcmp(name + n + 1, region) == 0;
}

/* How closely a name of the table means a place: 3 the very one, 2 all of its provider, 1 any, 0 not at all. */
static int closeness(const char *name, const char *provider, const char *region)
{
    size_t n = strlen(provider);
    if (strcmp(name, "*") == 0)
        return 1;
    if (leat_plan_same_place(name, provider, region))
        return 3;
    return n && strncmp(name, provider, n) == 0 && strcmp(name + n, "/*") == 0 ? 2 : 0;
}

const struct leat_plan_egress_row *leat_plan_egress_find(const struct leat_plan_egress *e, const char *from,
                                                         const char *provider, const char *region)
{
    const struct leat_plan_egress_row *best = NULL;
    int most = 0;
    char origin[96];
    const char *slash = strchr(from, '/');
    bool inside = leat_plan_same_place(from, provider, region);
    /* "aws/us-east-1" has its provider before the slash. A Local Zone has a slash too and is its own place, which the
     * comparison with the whole name finds. */
    snprintf(origin, sizeof origin, "%.*s", slash ? (int)(slash - from) : 0, from);
    for (size_t i = 0; i < e->count; i++) {
        int there = closeness(e->row[i].to, provider, region);
        int here = strcmp(e->row[i].from, from) == 0 ? 3 : closeness(e->row[i].from, origin, slash ? slash + 1 : from);
        if (inside && (there != 3 || here != 3)) /* "to anywhere" does not mean to stay */
            continue;
        if (there && here && 4 * here + there > most) {
            most = 4 * here + there;
            best = &e->row[i];
        }
    }
    return best;
}
