#include "dataset/classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

void leat_classes_close(struct leat_classes *c)
{
    if (!c)
        return;
    leat_buf_free(&c->names);
    free(c->ends);
    free(c->sorted);
    *c = (struct leat_classes){0};
}

const char *leat_classes_name(const struct leat_classes *c, uint32_t number, size_t *n)
{
    size_t start = number ? c->ends[number - 1] : 0;
    *n = c->ends[number] - start;
    return c->names.data + start;
}

static int compare(const char *a, size_t a_n, const char *b, size_t b_n)
{
    int order = memcmp(a, b, a_n < b_n ? a_n : b_n);
    return order ? order : (a_n > b_n) - (a_n < b_n);
}

static int by_name(const void *a, const void *b, void *user)
{
    const struct leat_classes *c = user;
    size_t x_n;
    size_t y_n;
    const char *x = leat_classes_name(c, *(const uint32_t *)a, &x_n);
    const char *y = leat_classes_name(c, *(const uint32_t *)b, &y_n);
    return compare(x, x_n, y, y_n);
}

bool leat_classes_find(const struct leat_classes *c, const char *name, size_t n, uint32_t *number)
{
    uint32_t low = 0;
    uint32_t high = c->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        size_t other_n;
        const char *other = leat_classes_name(c, c->sorted[middle], &other_n);
        int order = compare(name, n, other, other_n);
        if (order == 0) {
            *number = c->sorted[middle];
            return true;
        }
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static leat_status begin(struct leat_classes *c, uint32_t most, struct leat_error *err)
{
    leat_buf_init(&c->names, LEAT_CLASSES_TEXT_MAX);
    c->ends = malloc(((size_t)most + 1) * sizeof *c->ends);
    c->sorted = malloc(((size_t)most + 1) * sizeof *c->sorted);
    return c->ends && c->sorted ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of %u classes", most);
}

static leat_status add(struct leat_classes *c, const char *name, size_t n, struct leat_error *err)
{
    if (n == 0)
        return leat_fail(err, LEAT_INVALID, "class %u (line %u) of the list has no name", c->n, c->n + 1);
    leat_buf_add(&c->names, name, n);
    c->ends[c->n] = c->names.len;
    c->sorted[c->n] = c->n;
    c->n++;
    return leat_buf_check(&c->names, "the list of classes", err);
}

static leat_status finish(struct leat_classes *c, struct leat_error *err)
{
    if (c->n == 0)
        return leat_fail(err, LEAT_INVALID, "the list of classes is empty");
    qsort_r(c->sorted, c->n, sizeof *c->sorted, by_name, c);
    for (uint32_t i = 1; i < c->n; i++) {
        size_t n;
        const char *name = leat_classes_name(c, c->sorted[i], &n);
        if (by_name(&c->sorted[i - 1], &c->sorted[i], c) == 0)
            return leat_fail(err, LEAT_INVALID, "the class '%.*s' is in the list twice", n < 200 ? (int)n : 200, name);
    }
    return LEAT_OK;
}

/* Hands the list over, or throws it away. */
static leat_status conclude(struct leat_classes *c, leat_status rc, struct leat_classes *out, struct leat_error *err)
{
    if (rc == LEAT_OK)
        rc = finish(c, err);
    if (rc == LEAT_OK)
        *out = *c;
    else
        leat_classes_close(c);
    return rc;
}

leat_status leat_classes_read(const char *text, size_t n, struct leat_classes *out, struct leat_error *err)
{
    struct leat_classes c = {0};
    uint32_t lines = 1;
    if (n > LEAT_CLASSES_TEXT_MAX)
        return leat_fail(err, LEAT_LIMIT, "the list of classes has more than %u bytes", LEAT_CLASSES_TEXT_MAX);
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    leat_status rc = begin(&c, lines, err);
    for (size_t at = 0; rc == LEAT_OK && at < n;) {
        const char *line = text + at;
        const char *end = memchr(line, '\n', n - at);
        size_t length = end ? (size_t)(end - line) : n - at;
        at += length + 1;
        length -= length && line[length - 1] == '\r';
        rc = add(&c, line, length, err);
    }
    return conclude(&c, rc, out, err);
}

/* The array of names in a field's description, NULL when there is none; *about must be freed. */
static leat_status names_of(const struct leat_field *f, json_t **about, const json_t **names, struct leat_error *err)
{
    *about = NULL;
    *names = NULL;
    if (f->type != LEAT_FIELD_INT || !f->about_n)
        return LEAT_OK;
    if (leat_json_read(f->about, f->about_n, 0, about, NULL) == LEAT_NO_MEMORY)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of classes");
    const json_t *found = json_object_get(*about, "names");
    *names = json_is_array(found) ? found : NULL;
    return LEAT_OK;
}

static leat_status pick_field(const struct leat_schema *schema, uint32_t *out, struct leat_error *err)
{
    uint32_t found = LEAT_FIELDS_MAX;
    uint32_t n = 0;
    for (uint32_t f = 0; f < schema->n; f++) {
        json_t *about;
        const json_t *names;
        leat_status rc = names_of(&schema->fields[f], &about, &names, err);
        if (rc != LEAT_OK)
            return rc;
        if (names) {
            n++;
            found = n == 1 || strcmp(schema->fields[f].name, "cls") == 0 ? f : found;
        }
        json_decref(about);
    }
    if (n == 0)
        return leat_fail(err, LEAT_INVALID, "the dataset has no field with names of classes");
    if (n > 1 && strcmp(schema->fields[found].name, "cls") != 0)
        return leat_fail(err, LEAT_INVALID, "the dataset has %u fields with names of classes, and none is 'cls'", n);
    *out = found;
    return LEAT_OK;
}

leat_status leat_classes_of(const struct leat_schema *schema, struct leat_classes *out, struct leat_error *err)
{
    struct leat_classes c = {0};
    json_t *about = NULL;
    uint32_t field = 0;
    leat_status rc = pick_field(schema, &field, err);
    if (rc != LEAT_OK)
        return rc;
    const json_t *names;
    rc = names_of(&schema->fields[field], &about, &names, err);
    if (rc == LEAT_OK)
        rc = begin(&c, (uint32_t)json_array_size(names), err);
    for (size_t i = 0; rc == LEAT_OK && i < json_array_size(names); i++) {
        const json_t *name = json_array_get(names, i);
        rc = json_is_string(name) ? add(&c, json_string_value(name), json_string_length(name), err)
                                  : leat_fail(err, LEAT_CORRUPT, "the dataset's names of classes are not all text");
    }
    json_decref(about);
    return conclude(&c, rc, out, err);
}

leat_status leat_classes_agree(const struct leat_field *a, const struct leat_field *b, struct leat_error *err)
{
    json_t *about[2] = {NULL, NULL};
    const json_t *names[2] = {NULL, NULL};
    if (a->about_n == b->about_n && (!a->about_n || memcmp(a->about, b->about, a->about_n) == 0))
        return LEAT_OK;
    leat_status rc = names_of(a, &about[0], &names[0], err);
    if (rc == LEAT_OK)
        rc = names_of(b, &about[1], &names[1], err);
    size_t both = json_array_size(names[0]); /* 0 of NULL */
    both = both < json_array_size(names[1]) ? both : json_array_size(names[1]);
    for (size_t i = 0; rc == LEAT_OK && i < both; i++) {
        const char *x = json_string_value(json_array_get(names[0], i));
        const char *y = json_string_value(json_array_get(names[1], i));
        if (x && y && strcmp(x, y) != 0)
            rc = leat_fail(err, LEAT_INVALID, "the label %zu is '%.60s' there and '%.60s' here", i, x, y);
    }
    json_decref(about[0]);
    json_decref(about[1]);
    return rc;
}
