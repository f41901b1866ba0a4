/* A saved list of classes: which number the name of a class has. Without one, the folders that happen to be there are
 * numbered, and a validation set that lacks a class has other numbers than the training set. */
#ifndef LEAT_DATASET_CLASSES_H
#define LEAT_DATASET_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/schema.h"

#define LEAT_CLASSES_TEXT_MAX (16u << 20) /* bytes of a list that anybody will read */

struct leat_classes {
    uint32_t n;
    struct leat_buf names; /* one after the other */
    size_t *ends;          /* where each ends */
    uint32_t *sorted;      /* numbers by name */
};

/* One name per line, the first is 0. Empty lines and names that come twice are refused, naming the line. *out is set on
 * success only. */
leat_status leat_classes_read(const char *text, size_t n, struct leat_classes *out, struct leat_error *err);

/* The names that a dataset's schema has for its labels: those of 'cls', or of the only field that has any. */
leat_status leat_classes_of(const struct leat_schema *schema, struct leat_classes *out, struct leat_error *err);

/* Whether two int fields mean the same by each number that both have a name for. LEAT_INVALID, with the number and its
 * names, when they do not. A field without names may mean anything. */
leat_status leat_classes_agree(const struct leat_field *a, const struct leat_field *b, struct leat_error *err);

void leat_classes_close(struct leat_classes *c); /* zeroed ones are allowed */

const char *leat_classes_name(const struct leat_classes *c, uint32_t number, size_t *n); /* not NUL-terminated */
bool leat_classes_find(const struct leat_classes *c, const char *name, size_t n, uint32_t *number);

#endif
