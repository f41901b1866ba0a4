#include "plan/toml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"

#define TOML_STRING_MAX 4096
#define TOML_PATH_MAX   200

struct toml {
    const char *name;
    const char *at;
    const char *end;
    unsigned line;
    char table[TOML_PATH_MAX];
};

static leat_status refuse(const struct toml *t, struct leat_error *err, const char *what)
{
    return leat_fail(err, LEAT_INVALID, "%s line %u: %s", t->name, t->line, what);
}

static char peek(const struct toml *t)
{
    return (char)(t->at < t->end ? *t->at : '\0');
}

static bool starts(const struct toml *t, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(t->end - t->at) >= n && memcmp(t->at, word, n) == 0;
}

static void skip_blanks(struct toml *t)
{
    while (peek(t) == ' ' || peek(t) == '\t')
        t->at++;
}

static leat_status skip_comment(struct toml *t, struct leat_error *err)
{
    if (peek(t) != '#')
        return LEAT_OK;
    for (; t->at < t->end && *t->at != '\n'; t->at++) {
        unsigned char c = (unsigned char)*t->at;
        if ((c < 0x20 && c != '\t' && c != '\r') || c == 0x7f)
            return refuse(t, err, "a control character in a comment");
    }
    return LEAT_OK;
}

/* After a setting or a header: nothing but a comment may follow on its line. */
static leat_status end_line(struct toml *t, struct leat_error *err)
{
    skip_blanks(t);
    leat_status rc = skip_comment(t, err);
    if (rc != LEAT_OK)
        return rc;
    if (starts(t, "\r\n"))
        t->at++;
    if (t->at == t->end)
        return LEAT_OK;
    if (*t->at != '\n')
        return refuse(t, err, "something follows that does not belong to this line");
    t->at++;
    t->line++;
    return LEAT_OK;
}

static leat_status skip_lines(struct toml *t, struct leat_error *err)
{
    for (;;) {
        skip_blanks(t);
        char c = peek(t);
        if (t->at == t->end || (c != '#' && c != '\n' && c != '\r'))
            return LEAT_OK;
        leat_status rc = end_line(t, err);
        if (rc != LEAT_OK)
            return rc;
    }
}

static bool key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* a.b-c.d appended to what `out` holds already, with a dot between. */
static leat_status take_key(struct toml *t, char out[TOML_PATH_MAX], struct leat_error *err)
{
    size_t n = strlen(out);
    do {
        if (peek(t) == '.')
            t->at++;
        if (peek(t) == '"' || peek(t) == '\'')
            return refuse(t, err, "quoted keys are not read here");
        if (!key_char(peek(t)))
            return refuse(t, err, "a key of letters, digits, '_' and '-' is expected");
        if (n && n + 1 < TOML_PATH_MAX)
            out[n++] = '.';
        for (; key_char(peek(t)); t->at++) {
            if (n + 1 >= TOML_PATH_MAX)
                return refuse(t, err, "a key that is too long");
            out[n++] = *t->at;
        }
        out[n] = '\0';
        skip_blanks(t);
    } while (peek(t) == '.');
    return LEAT_OK;
}

static void add_utf8(struct leat_buf *b, unsigned c)
{
    if (c < 0x80) {
        leat_buf_char(b, (char)c);
    } else if (c < 0x800) {
        leat_buf_char(b, (char)(0xc0 | c >> 6));
        leat_buf_char(b, (char)(0x80 | (c & 0x3f)));
    } else {
        leat_buf_char(b, (char)(0xe0 | c >> 12));
        leat_buf_char(b, (char)(0x80 | (c >> 6 & 0x3f)));
        leat_buf_char(b, (char)(0x80 | (c & 0x3f)));
    }
}

static leat_status take_escape(struct toml *t, struct leat_buf *b, struct leat_error *err)
{
    static const char from[] = "btnfr\"\\";
    static const char to[] = "\b\t\n\f\r\"\\";
    const char *which = peek(t) ? strchr(from, peek(t)) : NULL;
    if (which) {
        leat_buf_char(b, to[which - from]);
        t->at++;
        return LEAT_OK;
    }
    unsigned c = 0;
    if (peek(t) != 'u' || t->end - t->at < 5)
        return refuse(t, err, "an escape that is not one of \\b \\t \\n \\f \\r \\\" \\\\ \\uXXXX");
    for (int i = 1; i <= 4; i++) {
        static const char digits[] = "0123456789abcdef";
        char lower = (char)(t->at[i] | 0x20);
        const char *d = lower > ' ' ? strchr(digits, lower) : NULL;
        if (!d)
            return refuse(t, err, "\\u needs four hexadecimal digits");
        c = c * 16 + (unsigned)(d - digits);
    }
    if (c == 0 || (c >= 0xd800 && c < 0xe000))
        return refuse(t, err, "\\u that names no character");
    add_utf8(b, c);
    t->at += 5;
    return LEAT_OK;
}

static leat_status take_string(struct toml *t, struct leat_plan_doc_value *out, struct leat_error *err)
{
    char quote = *t->at;
    if (starts(t, "\"\"\"") || starts(t, "'''"))
        return refuse(t, err, "strings over several lines are not read here");
    t->at++;
    struct leat_buf b;
    leat_status rc = LEAT_OK;
    leat_buf_init(&b, TOML_STRING_MAX);
    while (rc == LEAT_OK && peek(t) != quote) {
        unsigned char c = (unsigned char)peek(t);
        if (t->at == t->end || c == '\n')
            rc = refuse(t, err, "a string without its closing quote");
        else if ((c < 0x20 && c != '\t') || c == 0x7f)
            rc = refuse(t, err, "a control character in a string");
        else if (c == '\\' && quote == '"')
            t->at++, rc = take_escape(t, &b, err);
        else
            leat_buf_char(&b, (char)c), t->at++;
    }
    if (rc == LEAT_OK)
        rc = leat_buf_check(&b, "a string", err);
    if (rc == LEAT_OK) {
        t->at++;
        char *text = leat_buf_take(&b);
        if (!text)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", t->name);
        else
            *out = (struct leat_plan_doc_value){.type = LEAT_PLAN_DOC_STRING, .text = text};
    }
    leat_buf_free(&b);
    return rc;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static leat_status take_number(struct toml *t, struct leat_plan_doc_value *out, struct leat_error *err)
{
    char copy[64];
    char what[160];
    size_t n = 0;
    const char *p = t->at;
    while (p < t->end && !strchr(" \t\r\n,]#", *p)) {
        if (n + 1 >= sizeof copy)
            return refuse(t, err, "a number that is too long");
        if (*p == '_') {
            if (p == t->at || !digit(p[-1]) || p + 1 == t->end || !digit(p[1]))
                return refuse(t, err, "'_' may only stand between digits");
        } else {
            copy[n++] = *p;
        }
        p++;
    }
    copy[n] = '\0';
    size_t sign = copy[0] == '-' || copy[0] == '+';
    if (copy[sign] == '0' && digit(copy[sign + 1]))
        return refuse(t, err, "a number may not begin with 0");
    if (!digit(copy[sign]) || strspn(copy + sign, "0123456789.eE+-") != n - sign) {
        snprintf(what, sizeof what, "'%.40s' is not a value: strings are quoted, dates, inf and nan are not read",
                 copy);
        return refuse(t, err, what);
    }
    const char *point = strchr(copy, '.');
    if (point && !digit(point[1]))
        return refuse(t, err, "digits must follow the point");
    struct leat_plan_doc_value v = {.type = LEAT_PLAN_DOC_NUMBER};
    snprintf(what, sizeof what, "%.120s line %u", t->name, t->line);
    leat_status rc = leat_parse_double(copy, what, &v.number, err);
    if (rc != LEAT_OK)
        return rc;
    t->at = p;
    *out = v;
    return LEAT_OK;
}

static leat_status take_plain(struct toml *t, struct leat_plan_doc_value *out, struct leat_error *err)
{
    char c = peek(t);
    if (c == '"' || c == '\'')
        return take_string(t, out, err);
    if (starts(t, "true") || starts(t, "false")) {
        *out = (struct leat_plan_doc_value){.type = LEAT_PLAN_DOC_BOOL, .flag = c == 't'};
        t->at += c == 't' ? 4 : 5;
        if (key_char(peek(t)))
            return refuse(t, err, "strings are quoted");
        return LEAT_OK;
    }
    if (c == '{')
        return refuse(t, err, "inline tables are not read here: write a [table]");
    if (c == '[')
        return refuse(t, err, "arrays of arrays are not read here");
    if (t->at == t->end || c == '\n' || c == '\r' || c == '#')
        return refuse(t, err, "a value is missing");
    return take_number(t, out, err);
}

static leat_status take_items(struct toml *t, struct leat_plan_doc_value *v, struct leat_error *err)
{
    for (;;) {
        leat_status rc = skip_lines(t, err);
        if (rc != LEAT_OK)
            return rc;
        if (peek(t) == ']')
            break;
        if (v->count == LEAT_PLAN_DOC_ITEMS_MAX)
            return refuse(t, err, "an array with too many items");
        if ((v->count & (v->count - 1)) == 0) {
            size_t cap = v->count ? v->count * 2 : 1;
            struct leat_plan_doc_value *items = realloc(v->items, cap * sizeof *items);
            if (!items)
                return leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", t->name);
            v->items = items;
        }
        rc = take_plain(t, &v->items[v->count], err);
        if (rc != LEAT_OK)
            return rc;
        v->count++;
        rc = skip_lines(t, err);
        if (rc != LEAT_OK)
            return rc;
        if (peek(t) == ',')
            t->at++;
        else if (peek(t) != ']')
            return refuse(t, err, "',' or ']' is expected in an array");
    }
    t->at++;
    return LEAT_OK;
}

static leat_status take_setting(struct toml *t, struct leat_plan_doc *doc, struct leat_error *err)
{
    char path[TOML_PATH_MAX];
    unsigned line = t->line;
    snprintf(path, sizeof path, "%s", t->table);
    leat_status rc = take_key(t, path, err);
    if (rc != LEAT_OK)
        return rc;
    if (peek(t) != '=')
        return refuse(t, err, "'=' is expected after a key");
    t->at++;
    skip_blanks(t);
    struct leat_plan_doc_value v = {0};
    if (peek(t) == '[') {
        t->at++;
        v.type = LEAT_PLAN_DOC_ARRAY;
        rc = take_items(t, &v, err);
    } else {
        rc = take_plain(t, &v, err);
    }
    if (rc == LEAT_OK)
        rc = end_line(t, err);
    if (rc != LEAT_OK) {
        leat_plan_doc_value_free(&v);
        return rc;
    }
    return leat_plan_doc_add(doc, path, line, v, err);
}

static leat_status take_table(struct toml *t, struct leat_error *err)
{
    t->at++;
    if (peek(t) == '[')
        return refuse(t, err, "arrays of tables are not read here: give each table a name");
    skip_blanks(t);
    t->table[0] = '\0';
    leat_status rc = take_key(t, t->table, err);
    if (rc != LEAT_OK)
        return rc;
    if (peek(t) != ']')
        return refuse(t, err, "a table is written [name]");
    t->at++;
    return end_line(t, err);
}

leat_status leat_plan_toml_parse(const char *name, const char *text, size_t n, struct leat_plan_doc **out,
                                 struct leat_error *err)
{
    struct toml t = {.name = name, .at = text, .end = text + n, .line = 1};
    struct leat_plan_doc *doc = NULL;
    if (memchr(text, '\0', n))
        return leat_fail(err, LEAT_INVALID, "%s holds a NUL byte: not a text file", name);
    leat_status rc = leat_plan_doc_new(name, &doc, err);
    if (rc == LEAT_OK)
        rc = skip_lines(&t, err);
    while (rc == LEAT_OK && t.at < t.end) {
        rc = *t.at == '[' ? take_table(&t, err) : take_setting(&t, doc, err);
        if (rc == LEAT_OK)
            rc = skip_lines(&t, err);
    }
    if (rc != LEAT_OK) {
        leat_plan_doc_free(doc);
        return rc;
    }
    *out = doc;
    return LEAT_OK;
}
