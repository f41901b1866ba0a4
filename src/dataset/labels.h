/* Labels: names of classes, one for each sample, become numbers. */
#ifndef LEAT_DATASET_LABELS_H
#define LEAT_DATASET_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/classes.h"

struct leat_labels {
    uint32_t *of;          /* each sample's number; NULL: there are no labels */
    uint32_t n;            /* classes: those there, or all of the list */
    struct leat_buf about; /* {"names": […]}, what a schema says of the field; empty where the names are the numbers */
};

/* The name of sample i's class, which stays where it is until the labels are made. */
typedef const char *leat_label_name(const void *user, uint64_t i, size_t *n);

struct leat_labels_opts {
    const char *noun;                   /* what the names are, in messages: "folder" */
    const struct leat_classes *classes; /* numbers of the names; NULL: those there are numbered by their bytes */
    bool numbers;                       /* names that are all decimal numbers are the labels themselves */
};

/* LEAT_INVALID, with the name, for one that is not in the list or is not UTF-8. */
leat_status leat_labels_make(uint64_t samples, leat_label_name *name, const void *user,
                             const struct leat_labels_opts *opts, struct leat_labels *out, struct leat_error *err);
void leat_labels_close(struct leat_labels *l); /* zeroed ones are allowed */

#endif
