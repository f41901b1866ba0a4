#include "plan/csv.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/parse.h"

struct reader {
    const char *name;
    const char *at;
    const char *end;
    unsigned line;
    char *text; /* where fields are written: never longer than what they are read from, NULs included */
    size_t used;
    char *fields[LEAT_PLAN_CSV_COLUMNS_MAX];
    size_t count;
};

void leat_plan_csv_free(struct leat_plan_csv *csv)
{
    if (!csv)
        return;
    if (csv->columns)
        free(csv->columns[csv->column_count]); /* the text of all fields */
    free(csv->columns);
    if (csv->rows)
        free(csv->rows[0].fields);
    free(csv->rows);
    free(csv->comment);
    free(csv->name);
    free(csv);
}

#define QUOTED_MAX 65536 /* so that a quote that does not close costs a row, and not a pass over the file each */

static leat_status take_quoted(struct reader *r, struct leat_error *err)
{
    unsigned line = r->line;
    const char *limit = r->end - r->at > QUOTED_MAX ? r->at + QUOTED_MAX : r->end;
    for (r->at++; r->at < limit; r->at++) {
        if (*r->at == '"') {
            if (r->at + 1 == r->end || r->at[1] != '"') {
                r->at++;
                while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
                    r->at++;
                if (r->at < r->end && *r->at != ',' && *r->at != '\n')
                    return leat_fail(err, LEAT_INVALID, "%s line %u: something follows a closing quote", r->name,
                                     r->line);
                return LEAT_OK;
            }
            r->at++;
        }
        r->line += *r->at == '\n';
        r->text[r->used++] = *r->at;
    }
    return leat_fail(err, LEAT_INVALID, "%s line %u: a quoted field without its closing quote", r->name, line);
}

static void take_bare(struct reader *r)
{
    size_t start = r->used;
    while (r->at < r->end && *r->at != ',' && *r->at != '\n')
        r->text[r->used++] = *r->at++;
    while (r->used > start && strchr(" \t\r", r->text[r->used - 1]))
        r->used--;
}

/* One record into r->fields; the line break after it is consumed. */
static leat_status take_record(struct reader *r, struct leat_error *err)
{
    r->count = 0;
    for (;;) {
        if (r->count == LEAT_PLAN_CSV_COLUMNS_MAX)
            return leat_fail(err, LEAT_INVALID, "%s line %u: more than %d fields", r->name, r->line,
                             LEAT_PLAN_CSV_COLUMNS_MAX);
        while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
            r->at++;
        r->fields[r->count++] = r->text + r->used;
        if (r->at < r->end && *r->at == '"') {
            leat_status rc = take_quoted(r, err);
            if (rc != LEAT_OK)
                return rc;
        } else {
            take_bare(r);
        }
        r->text[r->used++] = '\0';
        if (r->at == r->end)
            return LEAT_OK;
        if (*r->at++ == '\n') {
            r->line++;
            return LEAT_OK;
        }
    }
}

static bool blank_line(const struct reader *r)
{
    const char *p = r->at;
    while (p < r->end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    return p == r->end || *p == '\n';
}

static void skip_line(struct reader *r)
{
    while (r->at < r->end && *r->at != '\n')
        r->at++;
    if (r->at < r->end) {
        r->at++;
        r->line++;
    }
}

static leat_status take_preamble(struct reader *r, struct leat_plan_csv *csv, struct leat_error *err)
{
    if (r->end - r->at >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0)
        r->at += 3; /* spreadsheets write a byte-order mark */
    while (r->at < r->end && (blank_line(r) || *r->at == '#')) {
        if (*r->at == '#' && !csv->comment) {
            const char *start = r->at + 1;
            const char *nl = memchr(start, '\n', (size_t)(r->end - start));
            size_t n = (size_t)((nl ? nl : r->end) - start);
            csv->comment = leat_bytes_text(start, n);
            if (!csv->comment)
                return leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", r->name);
        }
        skip_line(r);
    }
    if (r->at == r->end)
        return leat_fail(err, LEAT_INVALID, "%s is empty: a line with the columns' names is expected first", r->name);
    return LEAT_OK;
}

static leat_status take_header(struct reader *r, struct leat_plan_csv *csv, struct leat_error *err)
{
    csv->header_line = r->line;
    leat_status rc = take_record(r, err);
    if (rc != LEAT_OK)
        return rc;
    /* One more than there are columns: the last one owns the text. */
    csv->columns = calloc(r->count + 1, sizeof *csv->columns);
    if (!csv->columns)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", r->name);
    csv->column_count = r->count;
    csv->columns[r->count] = r->text;
    for (size_t i = 0; i < r->count; i++) {
        csv->columns[i] = r->fields[i];
        for (size_t j = 0; j < i; j++) {
            if (strcasecmp(r->fields[i], r->fields[j]) == 0)
                return leat_fail(err, LEAT_INVALID, "%s line %u: column '%s' is given twice", r->name, csv->header_line,
                                 r->fields[i]);
        }
    }
    return LEAT_OK;
}

static size_t count_lines(const struct reader *r)
{
    size_t n = 1;
    for (const char *p = r->at; p < r->end; p++)
        n += *p == '\n';
    return n;
}

static void note_bad(struct leat_plan_csv_bad *bad, unsigned line, const struct reader *r,
                     const struct leat_plan_csv *csv)
{
    if (bad->count++)
        return;
    bad->first_line = line;
    if (r->count != csv->column_count)
        snprintf(bad->why, sizeof bad->why, "%zu fields where the header has %zu", r->count, csv->column_count);
    else
        snprintf(bad->why, sizeof bad->why, "quotes that do not match");
}

static leat_status take_rows(struct reader *r, struct leat_plan_csv *csv, struct leat_plan_csv_bad *bad,
                             struct leat_error *err)
{
    size_t cap = count_lines(r);
    if (cap > LEAT_PLAN_CSV_ROWS_MAX)
        return leat_fail(err, LEAT_LIMIT, "%s has more than %d lines", r->name, LEAT_PLAN_CSV_ROWS_MAX);
    csv->rows = calloc(cap, sizeof *csv->rows);
    char **fields = csv->rows ? calloc(cap * csv->column_count, sizeof *fields) : NULL;
    if (!fields)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", r->name);
    csv->rows[0].fields = fields;
    while (r->at < r->end) {
        if (blank_line(r)) {
            skip_line(r);
            continue;
        }
        const char *start = r->at;
        unsigned line = r->line;
        size_t used = r->used;
        leat_status rc = take_record(r, err);
        if (rc == LEAT_OK && r->count != csv->column_count)
            rc = leat_fail(err, LEAT_INVALID, "%s line %u: %zu fields where the header has %zu", r->name, line,
                           r->count, csv->column_count);
        if (rc != LEAT_OK && !bad)
            return rc;
        if (rc != LEAT_OK) {
            note_bad(bad, line, r, csv);
            /* From the next line on: what a quote that does not close would swallow is not lost. */
            r->at = start;
            r->line = line;
            r->used = used;
            skip_line(r);
            continue;
        }
        struct leat_plan_csv_row *row = &csv->rows[csv->row_count];
        row->line = line;
        row->fields = fields + csv->row_count * csv->column_count;
        memcpy(row->fields, r->fields, r->count * sizeof *r->fields);
        csv->row_count++;
    }
    return LEAT_OK;
}

leat_status leat_plan_csv_parse(const char *name, const char *text, size_t n, struct leat_plan_csv_bad *bad,
                                struct leat_plan_csv **out, struct leat_error *err)
{
    if (memchr(text, '\0', n))
        return leat_fail(err, LEAT_INVALID, "%s holds a NUL byte: not a text file", name);
    leat_status rc;
    struct reader *r = calloc(1, sizeof *r);
    struct leat_plan_csv *csv = calloc(1, sizeof *csv);
    if (r && csv) {
        *r = (struct reader){.name = name, .at = text, .end = text + n, .line = 1, .text = malloc(n + 2)};
        csv->name = strdup(name);
    }
    if (!r || !csv || !r->text || !csv->name) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", name);
        goto fail;
    }
    rc = take_preamble(r, csv, err);
    if (rc == LEAT_OK)
        rc = take_header(r, csv, err);
    if (rc == LEAT_OK)
        rc = take_rows(r, csv, bad, err);
    if (rc != LEAT_OK)
        goto fail;
    free(r);
    *out = csv;
    return LEAT_OK;
fail:
    if (r && !(csv && csv->columns))
        free(r->text); /* not yet the table's own */
    free(r);
    leat_plan_csv_free(csv);
    return rc;
}

size_t leat_plan_csv_column(const struct leat_plan_csv *csv, const char *name)
{
    for (size_t i = 0; i < csv->column_count; i++) {
        if (strcasecmp(csv->columns[i], name) == 0)
            return i;
    }
    return LEAT_PLAN_CSV_NONE;
}

leat_status leat_plan_csv_need(const struct leat_plan_csv *csv, const char *name, size_t *out, struct leat_error *err)
{
    size_t i = leat_plan_csv_column(csv, name);
    if (i == LEAT_PLAN_CSV_NONE)
        return leat_fail(err, LEAT_INVALID, "%s line %u: there is no column '%s'", csv->name, csv->header_line, name);
    *out = i;
    return LEAT_OK;
}

leat_status leat_plan_csv_number(const struct leat_plan_csv *csv, size_t row, size_t column, double *out,
                                 struct leat_error *err)
{
    char what[300];
    const struct leat_plan_csv_row *r = &csv->rows[row];
    snprintf(what, sizeof what, "%.180s line %u: %.60s", csv->name, r->line, csv->columns[column]);
    if (!*r->fields[column])
        return leat_fail(err, LEAT_INVALID, "%s is missing", what);
    return leat_parse_double(r->fields[column], what, out, err);
}
