/* What is different between two datasets, by the keys of their samples. Bounded memory, whatever their size: some
 * 100 MB. Waits for the stores. */
#ifndef LEAT_DATASET_DIFF_H
#define LEAT_DATASET_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/dataset.h"

enum leat_diff_kind { LEAT_DIFF_ADDED, LEAT_DIFF_REMOVED, LEAT_DIFF_CHANGED };

struct leat_diff_opts {
    bool bytes;        /* compare the bytes of values too, which takes the chunks; else what rows say of them */
    uint64_t each_max; /* of each kind, this many are named at most */
    /* Names one: `sample` is its number in the second dataset, of a removed one in the first. May be NULL. */
    void (*each)(void *user, enum leat_diff_kind kind, uint64_t sample, const char *key, size_t n);
    bool (*stop)(void *user); /* asked now and then: true ends it with LEAT_CANCELLED; may be NULL */
    void *user;
};

/* Read it from any thread meanwhile. */
struct leat_diff_progress {
    _Atomic uint64_t entries; /* relaxed: of both indexes */
};

struct leat_diff {
    uint64_t added;
    uint64_t removed;
    uint64_t changed;
    uint64_t same;
    uint64_t unread;     /* of the same: equal as far as rows say, in other chunks, and their bytes were not compared */
    uint64_t keyless[2]; /* samples without a key, which are not compared */
    struct leat_buf fields; /* differences of the fields, one a line; "" for none */
};

/* Samples with the same key are compared, the first with the first, the second with the second where there are several,
 * in the fields that both datasets have. LEAT_NOT_FOUND when one of them has no keys. *out is freed by the caller, also
 * after a failure. */
leat_status leat_diff(struct leat_dataset *a, struct leat_dataset *b, const struct leat_diff_opts *opts,
                      struct leat_diff_progress *progress, struct leat_diff *out, struct leat_error *err);
void leat_diff_free(struct leat_diff *d); /* zeroed ones are allowed */

#endif
