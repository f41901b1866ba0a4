/* A small document of settings, read from TOML or JSON into one flat list: "data.dataset" → value, each with
 * the line it stands on, so that the one that checks a value can say where it came from. */
#ifndef LEAT_PLAN_DOC_H
#define LEAT_PLAN_DOC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum leat_plan_doc_type { LEAT_PLAN_DOC_STRING, LEAT_PLAN_DOC_NUMBER, LEAT_PLAN_DOC_BOOL, LEAT_PLAN_DOC_ARRAY };

struct leat_plan_doc_value {
    enum leat_plan_doc_type type;
    char *text;    /* strings */
    double number; /* numbers: always finite */
    bool flag;
    struct leat_plan_doc_value *items; /* arrays: strings, numbers or booleans, never arrays */
    size_t count;
};

struct leat_plan_doc_entry {
    char *path; /* table and key, joined with dots */
    unsigned line;
    struct leat_plan_doc_value value;
};

struct leat_plan_doc {
    char *name; /* what errors call it: the file's path */
    struct leat_plan_doc_entry *entries;
    size_t count;
};

/* JSON: one object of objects and plain values. The caller frees with leat_plan_doc_free. */
leat_status leat_plan_doc_json(const char *name, const char *text, size_t n, struct leat_plan_doc **out,
                               struct leat_error *err);
void leat_plan_doc_free(struct leat_plan_doc *doc); /* NULL is allowed */

const struct leat_plan_doc_entry *leat_plan_doc_find(const struct leat_plan_doc *doc, const char *path);

/* For readers of a format: an empty document, and one more entry, whose value it takes over in any case.
 * A path that is already there is refused. */
leat_status leat_plan_doc_new(const char *name, struct leat_plan_doc **out, struct leat_error *err);
leat_status leat_plan_doc_add(struct leat_plan_doc *doc, const char *path, unsigned line,
                              struct leat_plan_doc_value value, struct leat_error *err);
void leat_plan_doc_value_free(struct leat_plan_doc_value *value);

#define LEAT_PLAN_DOC_ENTRIES_MAX 4096
#define LEAT_PLAN_DOC_ITEMS_MAX   65536

#endif
