/* The versions that lie at a place: listing them, and giving them names. Waits for the store. */
#ifndef LEAT_DATASET_VERSIONS_H
#define LEAT_DATASET_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/home.h"
#include "dataset/root.h"

struct leat_version {
    struct leat_pointer pointer;
    bool current;
    char **names; /* sorted */
    size_t names_n;
    int64_t written_s;          /* when the version was stored, as the store says; 0: it does not */
    struct leat_error err;      /* LEAT_OK, or why the root cannot be read; then … */
    struct leat_root_peek head; /* … this is zeros */
};

struct leat_versions {
    struct leat_version *list; /* the oldest first */
    size_t n;
};

/* Reads every pointer and the head of every root: two requests for each version and one for each name. LEAT_NOT_FOUND
 * when there is no dataset. */
leat_status leat_versions_open(const struct leat_home *h, struct leat_versions *out, struct leat_error *err);
void leat_versions_close(struct leat_versions *v); /* zeroed ones are allowed */

/* Gives `p` a name, or makes it the current version (name NULL), once its root was seen to be there. LEAT_EXISTS when
 * the name is another version's, or another version is the current one, and `replace` is not set. */
leat_status leat_versions_name(const struct leat_home *h, const char *name, const struct leat_pointer *p, bool replace,
                               struct leat_error *err);

/* Takes a name away; its version stays. LEAT_NOT_FOUND when there is none. */
leat_status leat_versions_forget(const struct leat_home *h, const char *name, struct leat_error *err);

#endif
