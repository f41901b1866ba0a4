#include "plan/toml.h"

#include <math.h>

#include "fuzz.h"

static void look(const struct leat_plan_doc_value *v, bool nested)
{
    PROMISE(v->type != LEAT_PLAN_DOC_NUMBER || isfinite(v->number));
    PROMISE(v->type != LEAT_PLAN_DOC_STRING || v->text);
    PROMISE(v->type != LEAT_PLAN_DOC_ARRAY || !nested);
    for (size_t i = 0; i < v->count; i++)
        look(&v->items[i], true);
}

static void check(leat_status rc, const struct leat_error *err, struct leat_plan_doc *doc, unsigned lines)
{
    fuzz_check_error(rc, err);
    PROMISE(rc == LEAT_OK || rc == LEAT_INVALID || rc == LEAT_LIMIT);
    for (size_t i = 0; doc && i < doc->count; i++) {
        PROMISE(doc->entries[i].line >= 1 && doc->entries[i].line <= lines);
        PROMISE(leat_plan_doc_find(doc, doc->entries[i].path) == &doc->entries[i]);
        look(&doc->entries[i].value, false);
    }
    leat_plan_doc_free(doc);
}

FUZZ(toml)
{
    struct leat_error err;
    struct leat_plan_doc *doc = NULL;
    unsigned lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    leat_status rc = leat_plan_toml_parse("fuzz", (const char *)data, size, &doc, &err);
    check(rc, &err, doc, lines);
    doc = NULL;
    rc = leat_plan_doc_json("fuzz", (const char *)data, size, &doc, &err);
    check(rc, &err, doc, lines);
}
