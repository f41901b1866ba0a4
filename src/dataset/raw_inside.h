/* Inside raw origins: which objects make which sample, and what is known of it. */
#ifndef LEAT_DATASET_RAW_INSIDE_H
#define LEAT_DATASET_RAW_INSIDE_H

#include "dataset/labels.h"
#include "dataset/raw_origin.h"

#define RAW_NONE UINT32_MAX /* no object */

struct raw {
    struct leat_origin origin; /* first member */
    struct leat_listing list;
    const struct leat_raw_opts *opts; /* while it is opened */
    const struct leat_manifest *manifest;
    uint32_t files;    /* fields that are files: the first ones */
    uint32_t *members; /* `files` objects, or RAW_NONE, for each sample; NULL: sample i is object i */
    bool grouped;
    struct leat_labels labels;
    uint32_t label;                   /* the field with the label; LEAT_FIELDS_MAX: none */
    uint32_t column[LEAT_FIELDS_MAX]; /* fields after it are columns of the manifest: which */
    size_t *cut;                      /* of each home: what is cut off its keys to make those of samples */
    struct leat_raw_counts counts;
};

/* Object `file` of sample i, or RAW_NONE. */
static inline uint32_t raw_member(const struct raw *r, uint64_t i, uint32_t file)
{
    return r->members ? r->members[i * r->files + file] : (uint32_t)i;
}

uint32_t raw_first_member(const struct raw *r, uint64_t i); /* every sample has at least one */

/* How much of an object's key its sample shares with the others of its group: all of it where there are no groups. */
size_t raw_stem(const struct raw *r, const char *key);

/* Makes groups: members, samples and the schema's first fields. */
leat_status raw_group(struct raw *r, struct leat_error *err);

/* Keeps the samples that the manifest names, in its order. */
leat_status raw_take_rows(struct raw *r, struct leat_error *err);

/* Labels, wherever they come from. */
leat_status raw_label(struct raw *r, struct leat_error *err);

/* What files that end so are here: JSON is not only text. */
enum leat_field_type raw_seems(const char *ending);

/* The type that somebody wants the field with these files to have, else the one that it seems to have. */
leat_status raw_file_type(const struct leat_raw_opts *opts, const char *field, enum leat_field_type seems,
                          enum leat_field_type *out, struct leat_error *err);

#endif
