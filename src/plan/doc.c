#include "plan/doc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

void leat_plan_doc_value_free(struct leat_plan_doc_value *value)
{
    for (size_t i = 0; i < value->count; i++)
        leat_plan_doc_value_free(&value->items[i]);
    free(value->items);
    free(value->text);
    *value = (struct leat_plan_doc_value){0};
}

leat_status leat_plan_doc_new(const char *name, struct leat_plan_doc **out, struct leat_error *err)
{
    struct leat_plan_doc *doc = calloc(1, sizeof *doc);
    if (doc)
        doc->name = strdup(name);
    if (!doc || !doc->name) {
        free(doc);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", name);
    }
    *out = doc;
    return LEAT_OK;
}

void leat_plan_doc_free(struct leat_plan_doc *doc)
{
    if (!doc)
        return;
    for (size_t i = 0; i < doc->count; i++) {
        free(doc->entries[i].path);
        leat_plan_doc_value_free(&doc->entries[i].value);
    }
    free(doc->entries);
    free(doc->name);
    free(doc);
}

const struct leat_plan_doc_entry *leat_plan_doc_find(const struct leat_plan_doc *doc, const char *path)
{
    for (size_t i = 0; i < doc->count; i++) {
        if (strcmp(doc->entries[i].path, path) == 0)
            return &doc->entries[i];
    }
    return NULL;
}

leat_status leat_plan_doc_add(struct leat_plan_doc *doc, const char *path, unsigned line,
                              struct leat_plan_doc_value value, struct leat_error *err)
{
    leat_status rc;
    const struct leat_plan_doc_entry *twin = leat_plan_doc_find(doc, path);
    if (twin) {
        rc = leat_fail(err, LEAT_INVALID, "%s line %u: '%s' is given twice, first on line %u", doc->name, line, path,
                       twin->line);
        goto fail;
    }
    if (doc->count == LEAT_PLAN_DOC_ENTRIES_MAX) {
        rc =
            leat_fail(err, LEAT_LIMIT, "%s line %u: more than %d settings", doc->name, line, LEAT_PLAN_DOC_ENTRIES_MAX);
        goto fail;
    }
    if ((doc->count & (doc->count - 1)) == 0) { /* full at every power of two */
        size_t cap = doc->count ? doc->count * 2 : 1;
        struct leat_plan_doc_entry *entries = realloc(doc->entries, cap * sizeof *entries);
        if (!entries) {
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", doc->name);
            goto fail;
        }
        doc->entries = entries;
    }
    char *copy = strdup(path);
    if (!copy) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", doc->name);
        goto fail;
    }
    doc->entries[doc->count++] = (struct leat_plan_doc_entry){.path = copy, .line = line, .value = value};
    return LEAT_OK;
fail:
    leat_plan_doc_value_free(&value);
    return rc;
}

/* Where in the text the reader is: jansson keeps no lines, but its objects keep their order, and in valid JSON
 * a quoted key followed by a colon can only be that key. So the next one found is the one being visited. */
struct place {
    const char *name;
    const char *at;
    const char *end;
    unsigned line;
};

static void advance(struct place *p, const char *to)
{
    for (; p->at < to; p->at++)
        p->line += *p->at == '\n';
}

static void seek_key(struct place *p, const char *key)
{
    size_t n = strlen(key);
    for (const char *q = p->at; q + n + 2 <= p->end; q++) {
        if (*q != '"' || (q > p->at && q[-1] == '\\') || memcmp(q + 1, key, n) != 0 || q[n + 1] != '"')
            continue;
        const char *colon = q + n + 2;
        while (colon < p->end && strchr(" \t\r\n", *colon))
            colon++;
        if (colon < p->end && *colon == ':') {
            advance(p, q);
            return;
        }
    }
}

static leat_status take_plain(const json_t *json, const struct place *p, const char *path,
                              struct leat_plan_doc_value *out, struct leat_error *err)
{
    struct leat_plan_doc_value v = {0};
    if (!json_is_string(json) && !json_is_number(json) && !json_is_boolean(json))
        return leat_fail(err, LEAT_INVALID, "%s line %u: '%s' is neither a string, a number nor a boolean", p->name,
                         p->line, path);
    if (json_is_string(json)) {
        v.type = LEAT_PLAN_DOC_STRING;
        v.text = strdup(json_string_value(json));
        if (!v.text)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", p->name);
    } else if (json_is_number(json)) {
        v.type = LEAT_PLAN_DOC_NUMBER;
        v.number = json_number_value(json);
    } else {
        v.type = LEAT_PLAN_DOC_BOOL;
        v.flag = json_is_true(json);
    }
    *out = v;
    return LEAT_OK;
}

static leat_status take_array(const json_t *json, const struct place *p, const char *path,
                              struct leat_plan_doc_value *out, struct leat_error *err)
{
    size_t n = json_array_size(json);
    if (n > LEAT_PLAN_DOC_ITEMS_MAX)
        return leat_fail(err, LEAT_LIMIT, "%s line %u: '%s' has more than %d items", p->name, p->line, path,
                         LEAT_PLAN_DOC_ITEMS_MAX);
    struct leat_plan_doc_value v = {.type = LEAT_PLAN_DOC_ARRAY, .items = calloc(n + 1, sizeof *v.items)};
    if (!v.items)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", p->name);
    for (; v.count < n; v.count++) {
        leat_status rc = take_plain(json_array_get(json, v.count), p, path, &v.items[v.count], err);
        if (rc != LEAT_OK) {
            leat_plan_doc_value_free(&v);
            return rc;
        }
    }
    *out = v;
    return LEAT_OK;
}

static leat_status take_object(struct leat_plan_doc *doc, json_t *object, const char *prefix, unsigned depth,
                               struct place *p, struct leat_error *err)
{
    const char *key;
    json_t *json;
    json_object_foreach (object, key, json) {
        char path[256];
        seek_key(p, key);
        if ((size_t)snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key) >= sizeof path || depth > 8)
            return leat_fail(err, LEAT_INVALID, "%s line %u: names too long or too deep", p->name, p->line);
        leat_status rc;
        if (json_is_object(json)) {
            rc = take_object(doc, json, path, depth + 1, p, err);
        } else {
            struct leat_plan_doc_value v;
            rc = json_is_array(json) ? take_array(json, p, path, &v, err) : take_plain(json, p, path, &v, err);
            if (rc == LEAT_OK)
                rc = leat_plan_doc_add(doc, path, p->line, v, err);
        }
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

leat_status leat_plan_doc_json(const char *name, const char *text, size_t n, struct leat_plan_doc **out,
                               struct leat_error *err)
{
    json_error_t why;
    struct leat_plan_doc *doc = NULL;
    json_t *root;
    leat_status rc = leat_json_read(text, n, JSON_REJECT_DUPLICATES, &root, &why);
    if (rc == LEAT_NO_MEMORY)
        return leat_fail(err, rc, "no memory to read %s", name);
    if (rc != LEAT_OK)
        return leat_fail(err, rc, "%s line %d: %s", name, why.line, why.text);
    rc = leat_plan_doc_new(name, &doc, err);
    if (rc == LEAT_OK && !json_is_object(root))
        rc = leat_fail(err, LEAT_INVALID, "%s line 1: not an object", name);
    struct place place = {.name = name, .at = text, .end = text + n, .line = 1};
    if (rc == LEAT_OK)
        rc = take_object(doc, root, "", 0, &place, err);
    json_decref(root);
    if (rc != LEAT_OK) {
        leat_plan_doc_free(doc);
        return rc;
    }
    *out = doc;
    return LEAT_OK;
}
