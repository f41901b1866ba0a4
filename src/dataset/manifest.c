#include "dataset/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "dataset/manifest_rows.h"

#define TEXT_MAX ((size_t)1 << 40)

/* What pass one finds out of a column. */
struct survey {
    bool integer;
    bool real;
    bool text;
    uint64_t there; /* rows that have a value */
    uint32_t to;    /* column of the manifest; LEAT_MANIFEST_COLUMNS: it is the path */
};

struct reading {
    const struct leat_manifest_opts *opts;
    struct manifest_rows rows;
    struct survey surveys[MANIFEST_CELLS];
    uint32_t path;
    struct leat_manifest m;
};

void leat_manifest_close(struct leat_manifest *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->columns_n; i++) {
        free(m->columns[i].cells);
        free(m->columns[i].there);
    }
    free(m->what);
    free(m->lines);
    free(m->paths);
    leat_buf_free(&m->text);
    *m = (struct leat_manifest){0};
}

uint32_t leat_manifest_find(const struct leat_manifest *m, const char *name)
{
    for (uint32_t i = 0; i < m->columns_n; i++) {
        if (strcmp(m->columns[i].name, name) == 0)
            return i;
    }
    return LEAT_MANIFEST_COLUMNS;
}

leat_status leat_manifest_format(const char *name, enum leat_manifest_format *out, struct leat_error *err)
{
    static const struct {
        const char *ending;
        enum leat_manifest_format format;
    } known[] = {{".csv", LEAT_MANIFEST_CSV},
                 {".tsv", LEAT_MANIFEST_TSV},
                 {".jsonl", LEAT_MANIFEST_JSONL},
                 {".ndjson", LEAT_MANIFEST_JSONL}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++) {
        if (strcasecmp(dot, known[i].ending) == 0) {
            *out = known[i].format;
            return LEAT_OK;
        }
    }
    return leat_fail(err, LEAT_INVALID, "'%s' does not end with .csv, .tsv or .jsonl", name);
}

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the manifest");
}

/* Pass one: how many rows, which columns, which types. */

static leat_status survey_rows(struct reading *r, struct leat_error *err)
{
    bool end = false;
    for (;;) {
        leat_status rc = manifest_rows_next(&r->rows, &end, err);
        if (rc != LEAT_OK)
            return rc;
        if (end)
            break;
        for (uint32_t i = 0; i < r->rows.names_n; i++) {
            const struct manifest_cell *c = &r->rows.cells[i];
            r->surveys[i].integer |= c->kind == MANIFEST_INT;
            r->surveys[i].real |= c->kind == MANIFEST_REAL;
            r->surveys[i].text |= c->kind == MANIFEST_TEXT;
            r->surveys[i].there += c->kind != MANIFEST_NONE;
        }
        r->m.rows++;
    }
    if (r->m.rows == 0)
        return leat_fail(err, LEAT_INVALID, "%s names no files", r->opts->what);
    return LEAT_OK;
}

static leat_status find_path(struct reading *r, struct leat_error *err)
{
    static const char *const usual[] = {"path", "file", "filename", "file_name", "key"};
    for (size_t u = 0; u < (r->opts->path ? 1 : sizeof usual / sizeof *usual); u++) {
        const char *name = r->opts->path ? r->opts->path : usual[u];
        for (uint32_t i = 0; i < r->rows.names_n; i++) {
            if (strcmp(r->rows.names[i], name) == 0) {
                r->path = i;
                return LEAT_OK;
            }
        }
    }
    if (r->opts->path)
        return leat_fail(err, LEAT_INVALID, "%s has no column '%s' (--path-column)", r->opts->what, r->opts->path);
    return leat_fail(err, LEAT_INVALID,
                     "%s has no column path, file, filename, file_name or key: --path-column names it", r->opts->what);
}

static enum leat_field_type type_of(const struct survey *s)
{
    return s->text || (!s->integer && !s->real) ? LEAT_FIELD_STRING : s->real ? LEAT_FIELD_FLOAT : LEAT_FIELD_INT;
}

static leat_status make_columns(struct reading *r, struct leat_error *err)
{
    for (uint32_t i = 0; i < r->rows.names_n; i++) {
        struct survey *s = &r->surveys[i];
        s->to = LEAT_MANIFEST_COLUMNS;
        if (i == r->path)
            continue;
        if (r->m.columns_n == LEAT_MANIFEST_COLUMNS)
            return leat_fail(err, LEAT_LIMIT, "%s has more than %u columns", r->opts->what, LEAT_MANIFEST_COLUMNS);
        s->to = r->m.columns_n;
        struct leat_manifest_column *c = &r->m.columns[r->m.columns_n++];
        memcpy(c->name, r->rows.names[i], sizeof c->name);
        c->type = type_of(s);
        c->optional = s->there < r->m.rows;
        for (uint32_t w = 0; w < r->opts->wishes_n; w++) {
            if (strcmp(r->opts->wishes[w].name, c->name) != 0)
                continue;
            c->type = r->opts->wishes[w].type;
            if (c->type != LEAT_FIELD_INT && c->type != LEAT_FIELD_FLOAT && c->type != LEAT_FIELD_STRING)
                return leat_fail(err, LEAT_INVALID, "column '%s' of %s can be int, float or string", c->name,
                                 r->opts->what);
        }
        c->cells = malloc(r->m.rows * sizeof *c->cells);
        c->there = malloc(r->m.rows);
        if (!c->cells || !c->there)
            return no_memory(err);
    }
    r->m.lines = malloc(r->m.rows * sizeof *r->m.lines);
    r->m.paths = malloc(r->m.rows * sizeof *r->m.paths);
    return r->m.lines && r->m.paths ? LEAT_OK : no_memory(err);
}

/* Pass two: the values. */

/* Where the cell's text begins in the manifest's. */
static leat_status keep_text(struct reading *r, const struct manifest_cell *c, uint64_t *out, struct leat_error *err)
{
    char *made = NULL;
    const char *text = c->text;
    if (!text)
        text = made = leat_json_write(c->json, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!text)
        return no_memory(err);
    *out = r->m.text.len;
    leat_buf_add(&r->m.text, text, strlen(text) + 1);
    free(made);
    return leat_buf_check(&r->m.text, "the manifest's text", err);
}

static leat_status fail_cell(const struct reading *r, const struct leat_manifest_column *column,
                             const struct manifest_cell *c, struct leat_error *err)
{
    const char *type = column->type == LEAT_FIELD_INT ? "a whole number of 64 bits" : "a number";
    if (!c->text)
        return leat_fail(err, LEAT_INVALID, "%s, line %u: the value in column '%s' is not %s", r->opts->what,
                         r->rows.line, column->name, type);
    return leat_fail(err, LEAT_INVALID, "%s, line %u: '%.80s' in column '%s' is not %s", r->opts->what, r->rows.line,
                     c->text, column->name, type);
}

/* Somebody who wants a number has one, with zeros in front too. */
static bool whole(const char *text, int64_t *out)
{
    uint64_t value = 0;
    const char *p = text + (*text == '-');
    if (!*p)
        return false;
    for (; *p; p++) {
        if (*p < '0' || *p > '9' || value > (uint64_t)INT64_MAX / 10 - 1)
            return false;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    *out = *text == '-' ? -(int64_t)value : (int64_t)value;
    return true;
}

static leat_status keep_cell(struct reading *r, struct leat_manifest_column *column, const struct manifest_cell *c,
                             uint64_t row, struct leat_error *err)
{
    int64_t number = c->number;
    double real = c->kind == MANIFEST_INT ? (double)c->number : c->real;
    column->there[row] = c->kind != MANIFEST_NONE;
    column->cells[row] = 0;
    if (c->kind == MANIFEST_NONE)
        return LEAT_OK;
    if (column->type == LEAT_FIELD_STRING)
        return keep_text(r, c, &column->cells[row], err);
    bool text = c->kind == MANIFEST_TEXT;
    if (text && column->type == LEAT_FIELD_INT && c->text && whole(c->text, &number))
        text = false;
    if (text || (column->type == LEAT_FIELD_INT && c->kind == MANIFEST_REAL))
        return fail_cell(r, column, c, err);
    if (column->type == LEAT_FIELD_INT)
        column->cells[row] = (uint64_t)number;
    else
        memcpy(&column->cells[row], &real, sizeof real);
    return LEAT_OK;
}

static leat_status keep_row(struct reading *r, uint64_t row, struct leat_error *err)
{
    const struct manifest_cell *path = &r->rows.cells[r->path];
    if (path->kind == MANIFEST_NONE || (path->text && !*path->text))
        return leat_fail(err, LEAT_INVALID, "%s, line %u: there is no path in column '%s'", r->opts->what, r->rows.line,
                         r->rows.names[r->path]);
    r->m.lines[row] = r->rows.line;
    leat_status rc = keep_text(r, path, &r->m.paths[row], err);
    for (uint32_t i = 0; rc == LEAT_OK && i < r->rows.names_n; i++) {
        if (r->surveys[i].to < LEAT_MANIFEST_COLUMNS)
            rc = keep_cell(r, &r->m.columns[r->surveys[i].to], &r->rows.cells[i], row, err);
    }
    return rc;
}

static leat_status keep_rows(struct reading *r, struct leat_error *err)
{
    bool end = false;
    manifest_rows_again(&r->rows);
    for (uint64_t row = 0; row < r->m.rows; row++) {
        leat_status rc = manifest_rows_next(&r->rows, &end, err);
        if (rc == LEAT_OK)
            rc = keep_row(r, row, err);
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

leat_status leat_manifest_read(const char *text, size_t n, const struct leat_manifest_opts *opts,
                               struct leat_manifest *out, struct leat_error *err)
{
    struct reading *r = calloc(1, sizeof *r);
    if (!r)
        return no_memory(err);
    r->opts = opts;
    r->m.what = strdup(opts->what);
    leat_buf_init(&r->m.text, TEXT_MAX);
    manifest_rows_open(&r->rows, text, n, opts);
    leat_status rc = r->m.what ? survey_rows(r, err) : no_memory(err);
    if (rc == LEAT_OK)
        rc = find_path(r, err);
    if (rc == LEAT_OK)
        rc = make_columns(r, err);
    if (rc == LEAT_OK)
        rc = keep_rows(r, err);
    manifest_rows_close(&r->rows);
    if (rc == LEAT_OK)
        *out = r->m;
    else
        leat_manifest_close(&r->m);
    free(r);
    return rc;
}
