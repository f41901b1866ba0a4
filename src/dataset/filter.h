/* Which samples to select: conditions, patterns and lists of keys, numbers, a fraction; all of them must hold. And the
 * draw that splits a dataset by its keys. docs/versions.md. */
#ifndef LEAT_DATASET_FILTER_H
#define LEAT_DATASET_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/slice.h"

struct leat_filter_opts {
    const char *where;           /* NULL: any */
    const char *const *patterns; /* of keys; one of them must fit. '*' any bytes, '?' one, [a-z] one of these */
    size_t patterns_n;           /* 0: any */
    char *keys;    /* a list of keys, one a line, or each with a NUL after it; NULL: any. It is taken apart, and */
    size_t keys_n; /* must stay. Bytes of it. */
    const char *numbers; /* "0:1000,5000:,17": from the first up to before the second; NULL: any */
    double fraction;     /* of the samples, drawn by their keys; 1: all */
    uint64_t seed;
};

struct leat_filter;

/* LEAT_INVALID for conditions that make no sense. Borrows what opts points to, and the dataset. */
leat_status leat_filter_open(struct leat_dataset *d, const struct leat_filter_opts *opts, struct leat_filter **out,
                             struct leat_error *err);
void leat_filter_close(struct leat_filter *f); /* NULL is allowed */

unsigned leat_filter_wants(const struct leat_filter *f);    /* LEAT_SLICE_ROWS, LEAT_SLICE_KEYS, of its slices */
bool leat_filter_reads_chunks(const struct leat_filter *f); /* perhaps */
bool leat_filter_lacks_sizes(const struct leat_filter *f);  /* after matching: leat_where_lacks_sizes */
bool leat_filter_skips(const struct leat_filter *f, uint64_t first, uint64_t n); /* no number among these is meant */

/* Sample i of the slice, with the number `sample` among those that count. Any thread. */
leat_status leat_filter_match(struct leat_filter *f, struct leat_slice *s, uint32_t i, uint64_t sample, bool *out,
                              struct leat_error *err);

/* Of the list of keys: how many no sample had, so far; `first` is one of them. */
size_t leat_filter_missing(const struct leat_filter *f, const char **first, size_t *first_n);

/* The seed of draws from this version. That of a whole dataset is the one that was given, so that a sample keeps its
 * draw when the dataset grows. A selection has one of its own: it may be the outcome of the same draws, and half of a
 * half would be all of it. */
uint64_t leat_filter_seed(const struct leat_dataset *d, uint64_t seed);

/* In [0, 1), by purpose, seed and key; by its number among all samples where it has no key. */
double leat_filter_draw(const char *purpose, uint64_t seed, const char *key, size_t n, uint64_t number);

/* Whether a key fits a pattern. */
bool leat_filter_fits(const char *pattern, const char *key, size_t n);

#endif
