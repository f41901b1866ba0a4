/* Objects as they lie in buckets and folders: one is a sample, or several that differ in their endings are
 * (`0001.jpg`, `0001.txt`). Nothing is read but the listing, and a manifest where there is one. */
#ifndef LEAT_DATASET_RAW_ORIGIN_H
#define LEAT_DATASET_RAW_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/classes.h"
#include "dataset/listing.h"
#include "dataset/manifest.h"
#include "dataset/origin.h"

enum leat_raw_labels {
    LEAT_LABELS_AUTO, /* when all files lie in folders, the first folder is the label */
    LEAT_LABELS_FOLDER,
    LEAT_LABELS_NONE
};

enum leat_raw_missing {
    LEAT_MISSING_ERROR,    /* a group that lacks a file is an error that names it */
    LEAT_MISSING_OPTIONAL, /* the field is optional */
    LEAT_MISSING_SKIP      /* such groups are left out, and counted */
};

struct leat_raw_opts {
    const char *field; /* one object a sample: name of its field; NULL: its ending */
    bool grouped;      /* by what names have before their first dot */
    enum leat_raw_missing missing;
    const struct leat_type_wish *wishes; /* fields with other types than their endings say */
    uint32_t wishes_n;
    enum leat_raw_labels labels;          /* from the first folder of each path */
    const char *label_regex;              /* from what the first parentheses of this match in the key; NULL: none */
    const char *label_column;             /* from this column of the manifest; NULL: none */
    const struct leat_classes *classes;   /* numbers of the labels; borrowed until close */
    const struct leat_manifest *manifest; /* which samples there are, and their values; borrowed until close; or NULL */
    bool (*known)(const void *user, const void *key, size_t n); /* samples that are left out; NULL: none. No manifest */
    const void *known_user;
};

struct leat_raw_counts {
    uint64_t objects;    /* listed */
    uint64_t hidden;     /* not listed, since a part of their path begins with '.' */
    uint64_t incomplete; /* groups that were left out */
    uint64_t unnamed;    /* objects that the manifest does not name */
    uint64_t known;      /* samples that were left out, since opts.known has their keys */
    uint32_t classes;    /* 0: there are no labels */
};

/* Takes the list over, also when it fails. What cannot be a dataset is said before anything is read: two objects of
 * one stem and ending, files without an ending in a group, a file of the manifest that is not there (with its line),
 * labels that cannot be found. */
leat_status leat_origin_raw_open(struct leat_listing *list, const struct leat_raw_opts *opts,
                                 struct leat_raw_counts *counts, struct leat_origin **out, struct leat_error *err);

/* The label of a sample (< samples), for a look at how mixed the chunks are; -1: there are none. */
int64_t leat_origin_raw_label(const struct leat_origin *o, uint64_t i);

#endif
