/* Labels of raw origins: from folders, from a regular expression, from a column of the manifest. */
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/raw_inside.h"

#define FIELD "cls"

/* The path that folders and expressions are looked for in: that of the sample's first file, below its home. */
static const char *path_of(const struct raw *r, uint64_t i)
{
    return leat_listing_path(&r->list, raw_first_member(r, i));
}

static const char *folder_of(const void *user, uint64_t i, size_t *n)
{
    const char *path = path_of(user, i);
    const char *slash = strchr(path, '/');
    *n = slash ? (size_t)(slash - path) : 0;
    return path;
}

static leat_status check_folders(const struct raw *r, bool *all, struct leat_error *err)
{
    *all = true;
    for (uint64_t i = 0; i < r->origin.samples; i++) {
        size_t n;
        const char *path = folder_of(r, i, &n);
        if (n)
            continue;
        *all = false;
        if (r->opts->labels == LEAT_LABELS_AUTO && !r->opts->classes)
            return LEAT_OK;
        return leat_fail(err, LEAT_INVALID, "'%s' is in no folder that could be its label", path);
    }
    return LEAT_OK;
}

/* Regular expressions */

struct match {
    uint32_t start;
    uint32_t n;
};

struct matches {
    const struct raw *r;
    struct match *list;
};

/* POSIX knows no \d, and everybody writes it. Inside brackets a backslash is one of the characters, so there it becomes
 * the range itself. The caller frees it. */
static char *with_digits(const char *text)
{
    struct leat_buf out;
    bool inside = false;
    leat_buf_init(&out, 1u << 16);
    for (const char *p = text; *p; p++) {
        if (p[0] == '\\' && p[1] == 'd') {
            leat_buf_str(&out, inside ? "0-9" : "[0-9]");
            p++;
        } else if (p[0] == '\\' && p[1] && !inside) {
            leat_buf_add(&out, p, 2);
            p++;
        } else {
            /* A ']' that comes first in brackets does not end them. */
            if (!inside && *p == '[') {
                inside = true;
                leat_buf_char(&out, *p);
                if (p[1] == '^')
                    leat_buf_char(&out, *++p);
                if (p[1] == ']')
                    leat_buf_char(&out, *++p);
                continue;
            }
            if (inside && *p == ']')
                inside = false;
            leat_buf_char(&out, *p);
        }
    }
    return leat_buf_take(&out);
}

static const char *match_of(const void *user, uint64_t i, size_t *n)
{
    const struct matches *m = user;
    *n = m->list[i].n;
    return path_of(m->r, i) + m->list[i].start;
}

static leat_status match_all(const struct raw *r, const regex_t *regex, struct match *list, struct leat_error *err)
{
    for (uint64_t i = 0; i < r->origin.samples; i++) {
        const char *path = path_of(r, i);
        regmatch_t found[2];
        if (regexec(regex, path, 2, found, 0) != 0 || found[1].rm_so < 0)
            return leat_fail(err, LEAT_INVALID, "--label-regex finds no label in '%s'", path);
        list[i] = (struct match){(uint32_t)found[1].rm_so, (uint32_t)(found[1].rm_eo - found[1].rm_so)};
        if (list[i].n == 0)
            return leat_fail(err, LEAT_INVALID, "--label-regex finds an empty label in '%s'", path);
    }
    return LEAT_OK;
}

static leat_status label_by_regex(struct raw *r, const struct leat_labels_opts *opts, struct leat_error *err)
{
    struct matches m = {r, malloc(r->origin.samples * sizeof *m.list)};
    char *text = with_digits(r->opts->label_regex);
    regex_t regex;
    char why[200];
    if (!m.list || !text) {
        free(text);
        free(m.list);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu64 " labels", r->origin.samples);
    }
    int bad = regcomp(&regex, text, REG_EXTENDED);
    free(text);
    if (bad) {
        regerror(bad, &regex, why, sizeof why);
        free(m.list);
        return leat_fail(err, LEAT_INVALID, "--label-regex '%s': %s", r->opts->label_regex, why);
    }
    leat_status rc =
        regex.re_nsub ? match_all(r, &regex, m.list, err)
                      : leat_fail(err, LEAT_INVALID, "--label-regex '%s' has no parentheses around what is the label",
                                  r->opts->label_regex);
    regfree(&regex);
    if (rc == LEAT_OK)
        rc = leat_labels_make(r->origin.samples, match_of, &m, opts, &r->labels, err);
    free(m.list);
    return rc;
}

/* Columns */

struct column {
    const struct leat_manifest *m;
    const struct leat_manifest_column *column;
};

static const char *cell_of(const void *user, uint64_t i, size_t *n)
{
    const struct column *c = user;
    const char *text = c->m->text.data + c->column->cells[i];
    *n = strlen(text);
    return text;
}

static leat_status label_by_column(struct raw *r, const struct leat_labels_opts *opts, struct leat_error *err)
{
    const struct leat_manifest *m = r->manifest;
    uint32_t at = m ? leat_manifest_find(m, r->opts->label_column) : 0;
    if (!m)
        return leat_fail(err, LEAT_INVALID, "--label-column names a column of a manifest: give --manifest");
    if (at == LEAT_MANIFEST_COLUMNS)
        return leat_fail(err, LEAT_INVALID, "%s has no column '%s' (--label-column)", m->what, r->opts->label_column);
    struct column c = {m, &m->columns[at]};
    if (c.column->type != LEAT_FIELD_STRING)
        return leat_fail(
            err, LEAT_INVALID,
            "column '%s' of %s has numbers already: it becomes a field of that name without --label-column",
            c.column->name, m->what);
    for (uint64_t i = 0; i < m->rows; i++) {
        if (!c.column->there[i])
            return leat_fail(err, LEAT_INVALID, "%s, line %u: there is no label in column '%s'", m->what, m->lines[i],
                             c.column->name);
        size_t n;
        uint32_t number;
        const char *label = cell_of(&c, i, &n);
        if (opts->classes && !leat_classes_find(opts->classes, label, n, &number))
            return leat_fail(err, LEAT_INVALID,
                             "%s, line %u: the label '%s' is not in the list of %u classes (--classes)", m->what,
                             m->lines[i], label, opts->classes->n);
    }
    return leat_labels_make(m->rows, cell_of, &c, opts, &r->labels, err);
}

leat_status raw_label(struct raw *r, struct leat_error *err)
{
    struct leat_labels_opts opts = {.noun = "label", .classes = r->opts->classes, .numbers = true};
    leat_status rc = LEAT_OK;
    bool folders = r->opts->labels == LEAT_LABELS_FOLDER || (r->opts->labels == LEAT_LABELS_AUTO && r->opts->classes);
    if (r->opts->label_regex) {
        rc = label_by_regex(r, &opts, err);
    } else if (r->opts->label_column) {
        rc = label_by_column(r, &opts, err);
    } else if (folders || (r->opts->labels == LEAT_LABELS_AUTO && !r->manifest && !r->grouped)) {
        bool all;
        rc = check_folders(r, &all, err);
        opts.noun = "folder";
        opts.numbers = false;
        if (rc == LEAT_OK && all)
            rc = leat_labels_make(r->origin.samples, folder_of, r, &opts, &r->labels, err);
    }
    if (rc != LEAT_OK || !r->labels.of)
        return rc;
    r->label = r->origin.schema.n;
    r->counts.classes = r->labels.n;
    return leat_schema_add(&r->origin.schema, FIELD, LEAT_FIELD_INT, r->labels.about.len ? r->labels.about.data : NULL,
                           err);
}
