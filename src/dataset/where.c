#include "dataset/where.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/parse.h"

#define NODES_MAX  1000u
#define DEPTH_MAX  100u
#define TEXT_MAX   (64u << 10)
#define NUMBER_MAX 64u

enum node_kind { NODE_AND, NODE_OR, NODE_NOT, NODE_COMPARE };
enum compare { EQUAL, UNEQUAL, BELOW, AT_MOST, ABOVE, AT_LEAST };

enum value_kind { VALUE_NONE, VALUE_INT, VALUE_REAL, VALUE_TEXT };

struct value {
    enum value_kind kind;
    int64_t number;
    double real;
    const char *text;
    size_t text_n;
    void *own; /* what text points into, where that is not somebody else's */
};

/* What of a sample is compared. */
enum part { PART_KEY, PART_VALUE, PART_SIZE, PART_WIDTH, PART_HEIGHT, PART_CHANNELS };

struct operand {
    enum part part;
    uint32_t field;
    bool presence; /* only whether it is there matters */
};

struct node {
    enum node_kind kind;
    uint32_t left; /* of and, or, not */
    uint32_t right;
    struct operand operand; /* of a comparison, as the rest */
    enum compare compare;
    uint32_t values; /* … with any of this many values, from here on */
    uint32_t first;
};

struct leat_where {
    struct leat_schema schema;
    char *text; /* the schema's descriptions are not kept */
    struct node nodes[NODES_MAX];
    struct value values[NODES_MAX];
    uint32_t nodes_n;
    uint32_t values_n;
    uint32_t top;
    bool keys;
    bool chunks;
    _Atomic bool sizes_asked; /* width, height or channels of some picture were */
    _Atomic bool sizes_known; /* … and were known */
};

/* Words */

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_NUMBER, TOKEN_TEXT, TOKEN_SIGN };

struct token {
    enum token_kind kind;
    char *start;
    size_t n;
};

struct parser {
    struct leat_where *w;
    const struct leat_schema *schema; /* with its descriptions */
    char *at;
    struct token token; /* the next one */
    unsigned depth;
    struct leat_error *err;
};

static leat_status wrong(struct parser *p, const char *at, const char *what)
{
    return leat_fail(p->err, LEAT_INVALID, "--where: %s, at column %zu of: %.300s", what, (size_t)(at - p->w->text) + 1,
                     p->w->text);
}

static bool is_word(char c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter || (!first && ((c >= '0' && c <= '9') || c == '.' || c == '-'));
}

/* A text in quotes: the same quote doubled stands for one. It is unfolded where it lies. */
static leat_status read_text(struct parser *p)
{
    char quote = *p->at;
    char *from = p->at + 1;
    p->token = (struct token){TOKEN_TEXT, from, 0};
    for (char *to = from; *from; from++) {
        if (*from == quote && from[1] == quote)
            from++;
        else if (*from == quote) {
            p->token.n = (size_t)(to - p->token.start);
            p->at = from + 1;
            return LEAT_OK;
        }
        *to++ = *from;
    }
    return wrong(p, p->at, "a text without its closing quote");
}

static leat_status next(struct parser *p)
{
    static const char *const signs[] = {"==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ","};
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n')
        p->at++;
    char *start = p->at;
    if (*start == '\'' || *start == '"')
        return read_text(p);
    enum token_kind kind = TOKEN_END;
    if (is_word(*start, true)) {
        kind = TOKEN_WORD;
        while (is_word(*p->at, false))
            p->at++;
    } else if ((*start >= '0' && *start <= '9') || *start == '-' || *start == '+' || *start == '.') {
        kind = TOKEN_NUMBER;
        for (p->at++; (*p->at >= '0' && *p->at <= '9') || *p->at == '.' || *p->at == 'e' || *p->at == 'E' ||
                      ((*p->at == '-' || *p->at == '+') && (p->at[-1] == 'e' || p->at[-1] == 'E'));)
            p->at++;
    }
    for (size_t i = 0; kind == TOKEN_END && i < sizeof signs / sizeof *signs; i++) {
        size_t n = strlen(signs[i]);
        if (strncmp(start, signs[i], n) == 0) {
            kind = TOKEN_SIGN;
            p->at += n;
        }
    }
    if (kind == TOKEN_END && *start)
        return wrong(p, start, *start == '=' ? "a single '='; equal is '=='" : "a character that means nothing here");
    p->token = (struct token){kind, start, (size_t)(p->at - start)};
    return LEAT_OK;
}

static bool is(const struct parser *p, enum token_kind kind, const char *text)
{
    return p->token.kind == kind && p->token.n == strlen(text) && strncmp(p->token.start, text, p->token.n) == 0;
}

static leat_status add_node(struct parser *p, struct node node, uint32_t *out)
{
    if (p->w->nodes_n == NODES_MAX)
        return wrong(p, p->token.start, "more comparisons than there is room for");
    p->w->nodes[p->w->nodes_n] = node;
    *out = p->w->nodes_n++;
    return LEAT_OK;
}

/* Values */

static leat_status read_number(struct parser *p, struct value *out)
{
    char text[NUMBER_MAX];
    const char *start = p->token.start;
    size_t n = p->token.n;
    bool negative = *start == '-';
    size_t sign = negative || *start == '+';
    uint64_t whole;
    double real;
    if (n >= sizeof text || n == sign)
        return wrong(p, start, "not a number");
    memcpy(text, start + sign, n - sign);
    text[n - sign] = '\0';
    if (strspn(text, "0123456789") == n - sign && leat_parse_u64(text, "a number", &whole, NULL) == LEAT_OK &&
        whole <= (uint64_t)INT64_MAX + negative) {
        *out = (struct value){.kind = VALUE_INT, .number = (int64_t)(negative ? 0 - whole : whole)};
        return LEAT_OK;
    }
    if (leat_parse_double(text, "a number", &real, NULL) != LEAT_OK)
        return wrong(p, start, "not a number");
    *out = (struct value){.kind = VALUE_REAL, .real = negative ? -real : real};
    return LEAT_OK;
}

/* A word in quotes for a field whose numbers have names is the number. */
static leat_status number_of_name(struct parser *p, const struct leat_field *f, struct value *v)
{
    json_t *about = NULL;
    if (f->about_n && leat_json_read(f->about, f->about_n, 0, &about, NULL) == LEAT_NO_MEMORY)
        return leat_fail(p->err, LEAT_NO_MEMORY, "no memory for the names of '%s'", f->name);
    json_t *names = json_object_get(about, "names");
    size_t found = json_array_size(names);
    for (size_t i = 0; i < json_array_size(names) && found == json_array_size(names); i++) {
        const json_t *name = json_array_get(names, i);
        if (json_is_string(name) && json_string_length(name) == v->text_n &&
            memcmp(json_string_value(name), v->text, v->text_n) == 0)
            found = i;
    }
    size_t n = json_array_size(names);
    json_decref(about);
    if (n == 0)
        return wrong(p, v->text, "a text is compared with a number whose values have no names");
    if (found == n)
        return wrong(p, v->text, "no value of the field has this name");
    *v = (struct value){.kind = VALUE_INT, .number = (int64_t)found};
    return LEAT_OK;
}

static bool is_text(const struct leat_where *w, const struct operand *o)
{
    return o->part == PART_KEY || (o->part == PART_VALUE && leat_field_has_data(&w->schema.fields[o->field]));
}

static bool comparable(const struct leat_field *f)
{
    return f->type != LEAT_FIELD_IMAGE && f->type != LEAT_FIELD_ARRAY && f->type != LEAT_FIELD_TOKENS;
}

static leat_status read_value(struct parser *p, const struct operand *o)
{
    struct leat_where *w = p->w;
    struct value v = {.kind = VALUE_NONE};
    const char *at = p->token.start;
    leat_status rc = LEAT_OK;
    if (w->values_n == NODES_MAX)
        return wrong(p, at, "more values than there is room for");
    if (p->token.kind == TOKEN_NUMBER)
        rc = read_number(p, &v);
    else if (p->token.kind == TOKEN_TEXT)
        v = (struct value){.kind = VALUE_TEXT, .text = at, .text_n = p->token.n};
    else if (!is(p, TOKEN_WORD, "none"))
        rc = wrong(p, at, "a number, a text in quotes or none is expected");
    if (rc == LEAT_OK && v.kind == VALUE_TEXT && !is_text(w, o))
        rc = o->part == PART_VALUE ? number_of_name(p, &p->schema->fields[o->field], &v)
                                   : wrong(p, at, "a text is compared with a number");
    if (rc == LEAT_OK && v.kind != VALUE_NONE && o->part == PART_VALUE && !comparable(&w->schema.fields[o->field]))
        rc = wrong(p, at, "this field can only be compared with none; its size is a number");
    if (rc == LEAT_OK && (v.kind == VALUE_INT || v.kind == VALUE_REAL) && is_text(w, o))
        rc = wrong(p, at, "a number is compared with a text: texts need quotes");
    if (rc == LEAT_OK)
        rc = next(p);
    if (rc == LEAT_OK)
        w->values[w->values_n++] = v;
    return rc;
}

/* What is compared */

static uint32_t find_field(const struct leat_schema *s, const char *name, size_t n)
{
    uint32_t f = 0;
    while (f < s->n && (strlen(s->fields[f].name) != n || memcmp(s->fields[f].name, name, n) != 0))
        f++;
    return f;
}

/* The only image, for width without the field's name. */
static uint32_t only_image(const struct leat_schema *s)
{
    uint32_t found = s->n;
    for (uint32_t f = 0; f < s->n; f++) {
        if (s->fields[f].type != LEAT_FIELD_IMAGE)
            continue;
        if (found < s->n)
            return s->n;
        found = f;
    }
    return found;
}

static bool find_part(const char *name, size_t n, enum part *out)
{
    static const struct {
        const char *name;
        enum part part;
    } parts[] = {{"size", PART_SIZE}, {"width", PART_WIDTH}, {"height", PART_HEIGHT}, {"channels", PART_CHANNELS}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strlen(parts[i].name) == n && memcmp(parts[i].name, name, n) == 0) {
            *out = parts[i].part;
            return true;
        }
    }
    return false;
}

static leat_status check_operand(struct parser *p, const char *at, const struct operand *o)
{
    const struct leat_field *f = &p->schema->fields[o->field];
    if (o->part == PART_KEY)
        return LEAT_OK;
    leat_status rc = leat_field_check(f, p->err);
    if (rc != LEAT_OK)
        return rc;
    if (o->part == PART_SIZE && !leat_field_has_data(f))
        return wrong(p, at, "the field has no size");
    if (o->part > PART_SIZE && f->type != LEAT_FIELD_IMAGE)
        return wrong(p, at, "the field is not an image");
    return LEAT_OK;
}

static leat_status read_operand(struct parser *p, struct operand *out)
{
    const struct leat_schema *s = p->schema;
    const char *name = p->token.start;
    size_t n = p->token.n;
    struct operand o = {.part = PART_VALUE, .field = find_field(s, name, n)};
    size_t stem = n;
    while (stem && name[stem - 1] != '.')
        stem--;
    if (p->token.kind == TOKEN_NUMBER)
        return wrong(p, name, "the name of a field is expected (one that begins with a digit or sign needs quotes)");
    if (p->token.kind != TOKEN_WORD && p->token.kind != TOKEN_TEXT)
        return wrong(p, name, "the name of a field is expected");
    if (o.field == s->n && is(p, TOKEN_WORD, "key"))
        o = (struct operand){.part = PART_KEY};
    else if (o.field == s->n && stem && find_part(name + stem, n - stem, &o.part))
        o.field = find_field(s, name, stem - 1);
    else if (o.field == s->n && find_part(name, n, &o.part))
        o.field = only_image(s);
    if (o.part != PART_KEY && o.field == s->n) {
        struct leat_buf names;
        leat_buf_init(&names, 200);
        for (uint32_t f = 0; f < s->n; f++)
            leat_buf_printf(&names, "%s%s", f ? ", " : "", s->fields[f].name);
        leat_fail(p->err, LEAT_INVALID, "--where: there is no field '%.*s' (column %zu); the dataset has: %s, key",
                  n < 100 ? (int)n : 100, name, (size_t)(name - p->w->text) + 1, names.data);
        leat_buf_free(&names);
        return LEAT_INVALID;
    }
    leat_status rc = check_operand(p, name, &o);
    if (rc == LEAT_OK)
        rc = next(p);
    p->w->keys |= o.part == PART_KEY;
    *out = o;
    return rc;
}

/* value {"," value} up to the closing bracket */
static leat_status read_list(struct parser *p, struct node *node)
{
    const char *close = is(p, TOKEN_SIGN, "(") ? ")" : "]";
    if (!is(p, TOKEN_SIGN, "(") && !is(p, TOKEN_SIGN, "["))
        return wrong(p, p->token.start, "a list such as (1, 2, 3) is expected");
    leat_status rc;
    do {
        rc = next(p);
        if (rc == LEAT_OK)
            rc = read_value(p, &node->operand);
        node->values++;
    } while (rc == LEAT_OK && is(p, TOKEN_SIGN, ","));
    if (rc == LEAT_OK && !is(p, TOKEN_SIGN, close))
        rc = wrong(p, p->token.start, "the list is not closed");
    return rc == LEAT_OK ? next(p) : rc;
}

static bool read_compare(const struct parser *p, enum compare *out)
{
    static const char *const names[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < 6; i++) {
        if (is(p, TOKEN_SIGN, names[i])) {
            *out = (enum compare)i;
            return true;
        }
    }
    return false;
}

static leat_status parse_comparison(struct parser *p, uint32_t *out)
{
    struct node node = {.kind = NODE_COMPARE, .first = p->w->values_n};
    struct node negation = {.kind = NODE_NOT};
    leat_status rc = read_operand(p, &node.operand);
    bool negated = rc == LEAT_OK && is(p, TOKEN_WORD, "not");
    if (negated)
        rc = next(p);
    if (rc != LEAT_OK)
        return rc;
    if (is(p, TOKEN_WORD, "in")) {
        rc = next(p);
        if (rc == LEAT_OK)
            rc = read_list(p, &node);
    } else if (!negated && read_compare(p, &node.compare)) {
        const char *sign = p->token.start;
        rc = next(p);
        if (rc == LEAT_OK)
            rc = read_value(p, &node.operand);
        node.values = 1;
        if (rc == LEAT_OK && p->w->values[node.first].kind == VALUE_NONE && node.compare > UNEQUAL)
            rc = wrong(p, sign, "none cannot be compared by greater or smaller");
    } else {
        rc = wrong(p, p->token.start, "a comparison is expected: == != < <= > >= in");
    }
    node.operand.presence = true;
    for (uint32_t i = 0; rc == LEAT_OK && i < node.values; i++)
        node.operand.presence &= p->w->values[node.first + i].kind == VALUE_NONE;
    p->w->chunks |= !node.operand.presence && node.operand.part == PART_VALUE &&
                    leat_field_has_data(&p->schema->fields[node.operand.field]);
    if (rc == LEAT_OK)
        rc = add_node(p, node, negated ? &negation.left : out);
    return rc == LEAT_OK && negated ? add_node(p, negation, out) : rc;
}

static leat_status parse_or(struct parser *p, uint32_t *out);

static leat_status parse_one(struct parser *p, uint32_t *out)
{
    struct node node = {.kind = NODE_NOT};
    leat_status rc;
    if (++p->depth > DEPTH_MAX)
        return wrong(p, p->token.start, "too many levels");
    if (is(p, TOKEN_WORD, "not")) {
        rc = next(p);
        if (rc == LEAT_OK)
            rc = parse_one(p, &node.left);
        if (rc == LEAT_OK)
            rc = add_node(p, node, out);
    } else if (is(p, TOKEN_SIGN, "(")) {
        const char *open = p->token.start;
        rc = next(p);
        if (rc == LEAT_OK)
            rc = parse_or(p, out);
        if (rc == LEAT_OK && !is(p, TOKEN_SIGN, ")"))
            rc = wrong(p, open, "this parenthesis is not closed");
        if (rc == LEAT_OK)
            rc = next(p);
    } else {
        rc = parse_comparison(p, out);
    }
    p->depth--;
    return rc;
}

static leat_status parse_chain(struct parser *p, const char *word, enum node_kind kind,
                               leat_status (*part)(struct parser *p, uint32_t *out), uint32_t *out)
{
    leat_status rc = part(p, out);
    while (rc == LEAT_OK && is(p, TOKEN_WORD, word)) {
        struct node node = {.kind = kind, .left = *out};
        rc = next(p);
        if (rc == LEAT_OK)
            rc = part(p, &node.right);
        if (rc == LEAT_OK)
            rc = add_node(p, node, out);
    }
    return rc;
}

static leat_status parse_and(struct parser *p, uint32_t *out)
{
    return parse_chain(p, "and", NODE_AND, parse_one, out);
}

static leat_status parse_or(struct parser *p, uint32_t *out)
{
    return parse_chain(p, "or", NODE_OR, parse_and, out);
}

leat_status leat_where_parse(const char *text, const struct leat_schema *schema, struct leat_where **out,
                             struct leat_error *err)
{
    struct leat_where *w = calloc(1, sizeof *w);
    char *copy = w ? strdup(text) : NULL; /* taken apart; the other one is for messages */
    if (copy)
        w->text = copy;
    if (!copy) {
        free(w);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a condition");
    }
    w->schema = *schema;
    struct parser p = {.w = w, .schema = schema, .at = copy, .err = err};
    leat_status rc =
        strlen(text) > TEXT_MAX ? leat_fail(err, LEAT_LIMIT, "--where: the condition is too long") : next(&p);
    if (rc == LEAT_OK)
        rc = parse_or(&p, &w->top);
    if (rc == LEAT_OK && p.token.kind != TOKEN_END)
        rc = wrong(&p, p.token.start, "'and', 'or' or the end is expected");
    if (rc != LEAT_OK) {
        leat_where_free(w);
        return rc;
    }
    *out = w;
    return LEAT_OK;
}

void leat_where_free(struct leat_where *w)
{
    if (!w)
        return;
    free(w->text);
    free(w);
}

bool leat_where_reads_keys(const struct leat_where *w)
{
    return w->keys;
}

bool leat_where_reads_chunks(const struct leat_where *w)
{
    return w->chunks;
}

/* Looking at a sample */

/* A picture whose header nobody has read, or nobody can read, has no width that could be compared. */
static void picture_value(struct leat_where *w, const struct operand *o, const struct leat_cell *cell, struct value *v)
{
    bool known = cell->image.width > 0;
    v->number = o->part == PART_WIDTH    ? cell->image.width
                : o->part == PART_HEIGHT ? cell->image.height
                                         : cell->image.channels;
    v->kind = known ? VALUE_INT : VALUE_NONE;
    if (!cell->absent) {
        atomic_store_explicit(&w->sizes_asked, true, memory_order_relaxed);
        if (known)
            atomic_store_explicit(&w->sizes_known, true, memory_order_relaxed);
    }
}

static leat_status value_of(struct leat_where *w, const struct operand *o, struct leat_slice *s, uint32_t i,
                            struct value *out, struct leat_error *err)
{
    const struct leat_field *f = &w->schema.fields[o->field];
    const struct leat_chunk *c;
    struct value v = {.kind = VALUE_INT};
    if (o->part == PART_KEY) {
        v.kind = VALUE_TEXT;
        v.text = leat_slice_key(s, i, &v.text_n);
        v.kind = v.text_n ? VALUE_TEXT : VALUE_NONE;
        *out = v;
        return LEAT_OK;
    }
    struct leat_cell cell = leat_cell_read(f, leat_slice_row(s, i));
    if (o->part == PART_VALUE && !cell.absent && !o->presence && leat_field_has_data(f)) {
        leat_status rc = leat_slice_load(s, &c, err);
        if (rc != LEAT_OK)
            return rc;
        const void *data;
        rc = leat_chunk_view(c, &cell, &data, &v.own, err);
        if (rc != LEAT_OK)
            return rc;
        v.kind = VALUE_TEXT;
        v.text = data;
        v.text_n = cell.raw;
    } else if (o->part == PART_VALUE && f->type == LEAT_FIELD_FLOAT) {
        v.kind = VALUE_REAL;
        v.real = cell.real;
    } else if (o->part == PART_VALUE) {
        v.number = cell.number;
    } else if (o->part == PART_SIZE) {
        v.number = cell.raw;
    } else {
        picture_value(w, o, &cell, &v);
    }
    v.kind = cell.absent ? VALUE_NONE : v.kind;
    *out = v;
    return LEAT_OK;
}

/* -1, 0, 1; 2: they cannot be compared, as a value that is not there or is not a number. */
static int order(const struct value *a, const struct value *b)
{
    if (a->kind == VALUE_NONE || b->kind == VALUE_NONE)
        return a->kind == b->kind ? 0 : 2;
    if (a->kind == VALUE_TEXT) {
        size_t n = a->text_n < b->text_n ? a->text_n : b->text_n;
        int c = n ? memcmp(a->text, b->text, n) : 0;
        return c ? (c < 0 ? -1 : 1) : (a->text_n > b->text_n) - (a->text_n < b->text_n);
    }
    if (a->kind == VALUE_INT && b->kind == VALUE_INT)
        return (a->number > b->number) - (a->number < b->number);
    /* long double holds every int64 and every double */
    long double x = a->kind == VALUE_INT ? (long double)a->number : (long double)a->real;
    long double y = b->kind == VALUE_INT ? (long double)b->number : (long double)b->real;
    return x != x || y != y ? 2 : (x > y) - (x < y);
}

static bool holds(enum compare compare, int c)
{
    switch (compare) {
    case EQUAL:
        return c == 0;
    case UNEQUAL:
        return c != 0;
    case BELOW:
        return c == -1;
    case AT_MOST:
        return c == -1 || c == 0;
    case ABOVE:
        return c == 1;
    default:
        return c == 1 || c == 0;
    }
}

/* Depth is bounded by the parser's, and by its chains: those go down on the left only. */
static leat_status match(struct leat_where *w, uint32_t at, struct leat_slice *s, uint32_t i, bool *out,
                         struct leat_error *err)
{
    const struct node *node = &w->nodes[at];
    if (node->kind == NODE_COMPARE) {
        struct value v = {.own = NULL};
        bool any = false;
        leat_status rc = value_of(w, &node->operand, s, i, &v, err);
        for (uint32_t k = 0; rc == LEAT_OK && !any && k < node->values; k++)
            any = holds(node->compare, order(&v, &w->values[node->first + k]));
        free(v.own);
        *out = any;
        return rc;
    }
    leat_status rc = match(w, node->left, s, i, out, err);
    if (rc != LEAT_OK)
        return rc;
    if (node->kind == NODE_NOT)
        *out = !*out;
    else if (*out == (node->kind == NODE_AND))
        rc = match(w, node->right, s, i, out, err);
    return rc;
}

leat_status leat_where_match(struct leat_where *w, struct leat_slice *s, uint32_t i, bool *out, struct leat_error *err)
{
    return match(w, w->top, s, i, out, err);
}

bool leat_where_lacks_sizes(const struct leat_where *w)
{
    return atomic_load_explicit(&w->sizes_asked, memory_order_relaxed) &&
           !atomic_load_explicit(&w->sizes_known, memory_order_relaxed);
}
