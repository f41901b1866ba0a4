/* The header of numpy's .npy: versions 1 to 3 are read, 1 is written. Bytes in memory, no I/O. */
#ifndef LEAT_DATASET_NPY_H
#define LEAT_DATASET_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/schema.h"

#define LEAT_NPY_DIMS_MAX 32u

struct leat_npy {
    char order;     /* '<', '>', '|' or '=' */
    char kind;      /* 'u', 'i', 'f', 'b', … */
    uint32_t bytes; /* of one number */
    bool fortran;
    uint32_t dims_n;
    uint64_t dims[LEAT_NPY_DIMS_MAX];
    uint64_t offset; /* of the data */
};

bool leat_npy_is(const void *data, size_t n); /* it begins as such a file does */

/* LEAT_CORRUPT for what is none; LEAT_UNSUPPORTED for structured types and other versions. */
leat_status leat_npy_read(const void *data, size_t n, struct leat_npy *out, struct leat_error *err);

/* Appends the head for a value of an array or of tokens, whose bytes follow it as they are. LEAT_UNSUPPORTED for types
 * that numpy does not have. */
leat_status leat_npy_head(const struct leat_field *f, const struct leat_cell *cell, struct leat_buf *out,
                          struct leat_error *err);

#endif
