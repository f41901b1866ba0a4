/* Storing a finished snapshot, the pointers last: shared by packing and rebuilding. Of two who publish in one place at
 * the same time, the second gets an error: a pointer is written on the condition that it is still as it was at the
 * beginning of the work (If-None-Match, If-Match; docs/stores.md). */
#ifndef LEAT_DATASET_PUBLISH_H
#define LEAT_DATASET_PUBLISH_H

#include <stdbool.h>

#include "dataset/home.h"
#include "dataset/rely.h"
#include "dataset/snapshot.h"

struct leat_dataset;

struct leat_publish_opts {
    const char *name;  /* the version gets this name; NULL: none */
    bool keep_current; /* LEAT_NAME_POINTER is left alone; only with a name */
    bool replace;      /* pointers that are there are replaced; else they are LEAT_EXISTS */
    /* A version at the same place whose chunks come before the new ones (add.h); NULL: none. Its pointer is replaced.
     * It stays open until all is done. */
    struct leat_dataset *add_to;
};

/* A pointer as it was at the beginning. */
struct leat_publish_seen {
    char object[LEAT_NAME_MAX]; /* "": this one is not written */
    bool there;
    char etag[LEAT_ETAG_MAX];
};

struct leat_publish {
    struct leat_dataset *add_to;
    /* What is shared with versions or chunks that are stored already. Looked for once more when the root is stored,
     * just before a pointer protects it. The caller's; NULL: nothing but add_to. */
    const struct leat_rely *rely;
    struct leat_publish_seen named;
    struct leat_publish_seen current;
    bool guarded; /* false: the store knows no conditions, and somebody else at the same moment would not be noticed */
};

/* Looks at what is there, before any work is done. */
leat_status leat_publish_begin(const struct leat_home *h, const struct leat_publish_opts *opts,
                               struct leat_publish *out, struct leat_error *err);

/* Whether a packing with this schema and id (NULL: not known yet) can be added to what it shall be added to; anything
 * can be where that is nothing. For saying so before the work is done. */
leat_status leat_publish_check(const struct leat_publish *p, const struct leat_schema *schema, const uint8_t *pack,
                               struct leat_error *err);

/* One dataset of n packings, in this order. LEAT_EXISTS or LEAT_CHANGED when somebody else has published since the
 * beginning: the dataset is stored then and can be opened by its id, but no pointer leads to it. LEAT_CHANGED when
 * something that it relies on has been deleted since the beginning: nothing is published. */
leat_status leat_publish(const struct leat_home *h, const struct leat_snapshot *const *packings, uint32_t n,
                         struct leat_publish *p, struct leat_pointer *out, struct leat_error *err);

/* The same for a root whose sections and chunks are stored already. */
leat_status leat_publish_root(const struct leat_home *h, const struct leat_buf *root,
                              const struct leat_pointer *pointer, struct leat_publish *p, struct leat_error *err);

#endif
