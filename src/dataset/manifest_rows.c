#include "dataset/manifest_rows.h"

#include <string.h>

#define ROW_MAX ((size_t)64 << 20)

void manifest_rows_open(struct manifest_rows *r, const char *text, size_t n, const struct leat_manifest_opts *opts)
{
    *r = (struct manifest_rows){.what = opts->what, .format = opts->format, .text = text, .n = n};
    leat_buf_init(&r->scratch, ROW_MAX);
    manifest_rows_again(r);
}

void manifest_rows_close(struct manifest_rows *r)
{
    leat_buf_free(&r->scratch);
    json_decref(r->row);
    r->row = NULL;
}

void manifest_rows_again(struct manifest_rows *r)
{
    r->at = r->n >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* what spreadsheets begin with */
    r->next_line = 1;
    r->named = false;
}

static leat_status fail_at(const struct manifest_rows *r, uint32_t line, struct leat_error *err, const char *what)
{
    return leat_fail(err, LEAT_INVALID, "%s, line %u: %s", r->what, line, what);
}

/* CSV */

/* One cell at `at`, appended to the scratch with a NUL. *last: it was the row's last. */
static leat_status read_cell(struct manifest_rows *r, bool *last, struct leat_error *err)
{
    char between = r->format == LEAT_MANIFEST_TSV ? '\t' : ',';
    bool quoted = r->at < r->n && r->text[r->at] == '"';
    r->at += quoted;
    while (r->at < r->n) {
        char c = r->text[r->at];
        if (c == '\0')
            return fail_at(r, r->next_line, err, "there is a zero byte, which no table has");
        if (quoted && c == '"') {
            if (r->at + 1 < r->n && r->text[r->at + 1] == '"') {
                r->at++;
            } else {
                quoted = false;
                r->at++;
                bool over = r->at == r->n || r->text[r->at] == between || r->text[r->at] == '\n' ||
                            (r->text[r->at] == '\r' && (r->at + 1 == r->n || r->text[r->at + 1] == '\n'));
                if (!over)
                    return fail_at(r, r->next_line, err, "something follows the quotes of a cell");
                continue;
            }
        } else if (!quoted &&
                   (c == between || c == '\n' || (c == '\r' && (r->at + 1 == r->n || r->text[r->at + 1] == '\n')))) {
            break;
        }
        r->next_line += c == '\n';
        leat_buf_char(&r->scratch, c);
        r->at++;
    }
    if (quoted)
        return fail_at(r, r->line, err, "the quotes of a cell do not end");
    *last = r->at == r->n || r->text[r->at] != between;
    if (r->at < r->n && r->text[r->at] == '\r')
        r->at++;
    if (*last && r->at < r->n)
        r->next_line++;
    r->at += r->at < r->n; /* what ended it */
    leat_buf_char(&r->scratch, '\0');
    return leat_buf_check(&r->scratch, "a row of the manifest", err);
}

static bool all_digits(const char *text)
{
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
    }
    return true;
}

/* What the text of a cell is. JSON's grammar says what a number is, so 007 and +1 are none. */
static leat_status classify(struct manifest_cell *c, struct leat_error *err)
{
    const char *digits = c->text + (*c->text == '-');
    json_t *value = NULL;
    c->kind = *c->text ? MANIFEST_TEXT : MANIFEST_NONE;
    size_t n = strlen(c->text);
    if (*digits < '0' || *digits > '9' || n > 40 || c->text[n - 1] < '0' || c->text[n - 1] > '9')
        return LEAT_OK;
    if (all_digits(digits) && strlen(digits) < 19 && (*digits != '0' || !digits[1])) {
        int64_t number = 0;
        for (const char *p = digits; *p; p++)
            number = number * 10 + (*p - '0');
        c->number = *c->text == '-' ? -number : number;
        c->kind = *c->text == '-' && !number ? MANIFEST_TEXT : MANIFEST_INT;
        return LEAT_OK;
    }
    leat_status rc = leat_json_read(c->text, n, JSON_DECODE_ANY, &value, NULL);
    if (rc == LEAT_NO_MEMORY)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a number");
    if (rc == LEAT_OK && json_is_integer(value)) {
        c->kind = MANIFEST_INT;
        c->number = json_integer_value(value);
    } else if (rc == LEAT_OK && json_is_real(value)) {
        c->kind = MANIFEST_REAL;
        c->real = json_real_value(value);
    }
    json_decref(value);
    return LEAT_OK;
}

static leat_status read_head(struct manifest_rows *r, uint32_t cells, const size_t starts[MANIFEST_CELLS],
                             struct leat_error *err)
{
    r->named = true;
    r->names_n = cells;
    for (uint32_t i = 0; i < cells; i++) {
        const char *name = r->scratch.data + starts[i];
        if (strlen(name) >= LEAT_FIELD_NAME_MAX || !*name)
            return leat_fail(err, LEAT_INVALID, "%s, line %u: '%.200s' cannot be the name of a column", r->what,
                             r->line, name);
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(r->names[k], name) == 0)
                return leat_fail(err, LEAT_INVALID, "%s, line %u: two columns are called '%s'", r->what, r->line, name);
        }
        memcpy(r->names[i], name, strlen(name) + 1);
    }
    return LEAT_OK;
}

static leat_status next_csv(struct manifest_rows *r, bool *end, struct leat_error *err)
{
    for (;;) {
        size_t starts[MANIFEST_CELLS];
        uint32_t cells = 0;
        bool last = false;
        leat_buf_clear(&r->scratch);
        *end = r->at == r->n;
        if (*end)
            return LEAT_OK;
        r->line = r->next_line;
        while (!last) {
            if (cells == MANIFEST_CELLS)
                return leat_fail(err, LEAT_LIMIT, "%s, line %u: there are more than %u columns", r->what, r->line,
                                 MANIFEST_CELLS);
            starts[cells++] = r->scratch.len;
            leat_status rc = read_cell(r, &last, err);
            if (rc != LEAT_OK)
                return rc;
        }
        if (cells == 1 && !*r->scratch.data && (r->names_n != 1 || !r->named))
            continue; /* an empty line */
        if (!r->named) {
            leat_status rc = read_head(r, cells, starts, err);
            if (rc != LEAT_OK)
                return rc;
            continue;
        }
        if (cells != r->names_n)
            return leat_fail(err, LEAT_INVALID, "%s, line %u: there are %u columns, and the head has %u", r->what,
                             r->line, cells, r->names_n);
        for (uint32_t i = 0; i < cells; i++) {
            r->cells[i] = (struct manifest_cell){.text = r->scratch.data + starts[i]};
            leat_status rc = classify(&r->cells[i], err);
            if (rc != LEAT_OK)
                return rc;
        }
        return LEAT_OK;
    }
}

/* JSON lines */

static leat_status find_name(struct manifest_rows *r, const char *name, uint32_t *out, struct leat_error *err)
{
    uint32_t i = 0;
    while (i < r->names_n && strcmp(r->names[i], name) != 0)
        i++;
    *out = i;
    if (i < r->names_n)
        return LEAT_OK;
    if (i == MANIFEST_CELLS)
        return leat_fail(err, LEAT_LIMIT, "%s, line %u: there are more than %u different names", r->what, r->line,
                         MANIFEST_CELLS);
    if (strlen(name) >= LEAT_FIELD_NAME_MAX || !*name)
        return leat_fail(err, LEAT_INVALID, "%s, line %u: '%.200s' cannot be the name of a column", r->what, r->line,
                         name);
    memcpy(r->names[r->names_n++], name, strlen(name) + 1);
    r->cells[i] = (struct manifest_cell){0};
    return LEAT_OK;
}

static struct manifest_cell cell_of(const json_t *value)
{
    struct manifest_cell c = {.kind = MANIFEST_TEXT, .json = value};
    if (json_is_null(value)) {
        c.kind = MANIFEST_NONE;
    } else if (json_is_integer(value) || json_is_boolean(value)) {
        c.kind = MANIFEST_INT;
        c.number = json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
    } else if (json_is_real(value)) {
        c.kind = MANIFEST_REAL;
        c.real = json_real_value(value);
    } else if (json_is_string(value)) {
        c.text = json_string_value(value);
    }
    return c;
}

static leat_status next_json(struct manifest_rows *r, bool *end, struct leat_error *err)
{
    const char *line;
    size_t length;
    do {
        *end = r->at == r->n;
        if (*end)
            return LEAT_OK;
        line = r->text + r->at;
        const char *newline = memchr(line, '\n', r->n - r->at);
        length = newline ? (size_t)(newline - line) : r->n - r->at;
        r->at += length + (newline != NULL);
        r->line = r->next_line++;
        length -= length && line[length - 1] == '\r';
    } while (length == 0);
    json_error_t why;
    json_decref(r->row);
    r->row = NULL;
    leat_status rc = leat_json_read(line, length, JSON_REJECT_DUPLICATES, &r->row, &why);
    if (rc == LEAT_NO_MEMORY)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a row of the manifest");
    if (rc != LEAT_OK)
        return leat_fail(err, LEAT_INVALID, "%s, line %u: %s", r->what, r->line, why.text);
    if (!json_is_object(r->row))
        return fail_at(r, r->line, err, "this is not an object {\"path\": …}");
    for (uint32_t i = 0; i < r->names_n; i++)
        r->cells[i] = (struct manifest_cell){0};
    const char *name;
    json_t *value;
    json_object_foreach (r->row, name, value) {
        uint32_t i = 0;
        rc = find_name(r, name, &i, err);
        if (rc != LEAT_OK)
            return rc;
        r->cells[i] = cell_of(value);
    }
    return LEAT_OK;
}

leat_status manifest_rows_next(struct manifest_rows *r, bool *end, struct leat_error *err)
{
    return r->format == LEAT_MANIFEST_JSONL ? next_json(r, end, err) : next_csv(r, end, err);
}
