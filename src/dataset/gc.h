/* What lies at a place that no version refers to: leftovers of interrupted packings, and what versions that are given
 * up leave behind. Only looks; the one that deletes does so in the order of the list, pointers first. Waits for the
 * store.
 *
 * Memory: some 70 bytes per object that is referred to, one root, and 64 bytes per object that is not. */
#ifndef LEAT_DATASET_GC_H
#define LEAT_DATASET_GC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "dataset/home.h"

enum leat_gc_kind { LEAT_GC_VERSION, LEAT_GC_ROOT, LEAT_GC_SECTION, LEAT_GC_CHUNK };
#define LEAT_GC_KINDS 4u

struct leat_gc_opts {
    int64_t before_s; /* younger objects stay: somebody may be about to publish them. Seconds since 1970 */
    const uint64_t
        *keep_last;          /* this many of the newest versions, and those with names and the current one; NULL: all */
    const char *const *drop; /* versions to give up: ids, or at least 8 digits of their beginning */
    size_t drop_n;
    bool (*stop)(void *user); /* asked for each object: true ends it with LEAT_CANCELLED; may be NULL */
    void *user;
};

struct leat_gc_object {
    enum leat_gc_kind kind;
    uint8_t sha[LEAT_SHA256_SIZE]; /* of a version: its id */
    uint64_t size;
    int64_t modified_s;
};

struct leat_gc_sum {
    uint64_t objects;
    uint64_t bytes;
};

struct leat_gc {
    struct leat_gc_object *list; /* what may be deleted, by kind: versions first, chunks last */
    size_t n;
    struct leat_gc_sum gone[LEAT_GC_KINDS];  /* sums of it */
    struct leat_gc_sum young[LEAT_GC_KINDS]; /* not referred to, and younger than `before`, or of unknown age */
    struct leat_gc_sum used[LEAT_GC_KINDS];
};

/* LEAT_EXISTS when a version that is to be dropped has a name or is the current one. LEAT_CORRUPT,
 * LEAT_VERSION when a pointer or root cannot be read, or a root is missing: what it refers to is unknown. */
leat_status leat_gc_look(const struct leat_home *h, const struct leat_gc_opts *opts, struct leat_gc *out,
                         struct leat_error *err);

/* Whether nothing on the list is referred to by now: for the one that deletes, between kinds and at the end. Pointers
 * of versions on the list must be gone. LEAT_CHANGED when a version that was published since the look needs some of it.
 */
leat_status leat_gc_confirm(const struct leat_home *h, const struct leat_gc_opts *opts, const struct leat_gc *g,
                            struct leat_error *err);
void leat_gc_free(struct leat_gc *g); /* zeroed ones are allowed */

/* Its name below the dataset's address. */
void leat_gc_name(const struct leat_gc_object *o, char out[LEAT_NAME_MAX]);

#endif
