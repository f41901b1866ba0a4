/* What the two halves of batches in Python share: columns of one shape (_batch.c) and ragged ones (_ragged.c). */
#ifndef LEAT_PYTHON_RAGGED_H
#define LEAT_PYTHON_RAGGED_H

#include "_batch.h"

#include <stdatomic.h>

/* A batch in the hands of its columns. Not a Python object: tensors let go of memory on any thread, without the
 * interpreter's lock. */
struct leat_py_share {
    _Atomic uint32_t refs;
    struct leat_batch *batch;
    struct leat_py_share *next; /* in the list of all */
    struct leat_py_share **link;
};

/* Takes the batch over; NULL, without an exception: no memory, and it did not. */
struct leat_py_share *leat_py_share_make(struct leat_batch *batch);
struct leat_py_share *leat_py_share_keep(struct leat_py_share *s);
void leat_py_share_drop(struct leat_py_share *s);

/* The batch, which is the caller's again, if nobody else keeps the share: it is gone then. Else NULL. */
struct leat_batch *leat_py_share_end(struct leat_py_share *s);

/* The columns as a tuple or dict; each of them keeps the share. */
PyObject *leat_py_share_deliver(struct leat_py_delivery *d, struct leat_py_share *share);

uint32_t leat_py_dtype_bytes(uint32_t dtype); /* of a value; 0: not known */

/* A stretch of the batch's memory, with a buffer; an array or a tensor of (samples, dims …) on it. */
PyObject *leat_py_memory(struct leat_py_share *share, const void *data, uint64_t n);
PyObject *leat_py_make(const struct leat_py_column *p, struct leat_py_share *share, const struct leat_column *c,
                       uint64_t samples);

/* A ragged column: an object of `type`, a list of what JSON says, or (values, offsets) where the output asked so. */
PyObject *leat_py_make_ragged(PyObject *type, const struct leat_py_column *p, struct leat_py_share *share,
                              const struct leat_column *c, uint64_t samples);

struct leat_py_share *leat_py_ragged_share(PyObject *column); /* borrowed; NULL: it is none */

#endif
