/* A batch as Python sees it: arrays or tensors on the batch's own memory, made without a line of Python. */
#ifndef LEAT_PYTHON_BATCH_H
#define LEAT_PYTHON_BATCH_H

#include "_python.h"
#include <stdbool.h>

#include "leat/loader.h"

#define LEAT_PY_OUTPUTS_MAX 32

/* How the batches of a loader are handed over. Filled in where the loader is opened (`tuple` too); the rest is found
 * out with the first batch. Owns its references. */
struct leat_py_delivery {
    PyObject *names; /* of the outputs: a tuple */
    bool as_dict;    /* batches are dicts, else tuples */
    /* plan(kind, dtype) -> (numpy.ndarray, its dtype), or (what makes a tensor of a DLPack capsule, None) */
    PyObject *plan;
    PyObject *ragged; /* the type of ragged columns, derived from leat._core.Ragged */
    struct leat_py_column {
        bool tuple;     /* a ragged column is handed over as (values, offsets) */
        PyObject *make; /* NULL: not planned yet */
        PyObject *dtype;
        struct leat_py_numpy {
            PyObject *(*new_from_descr)(PyTypeObject *type, PyObject *dtype, int dims_n, const Py_ssize_t *dims,
                                        const Py_ssize_t *strides, void *data, int flags, PyObject *prototype);
            int (*set_base_object)(PyObject *array, PyObject *base);
        } numpy; /* its own functions; NULL: not an array, or not a numpy we know */
    } columns[LEAT_PY_OUTPUTS_MAX];
};

void leat_py_delivery_clear(struct leat_py_delivery *d);

/* Takes the batch over. What is returned holds it: its slot is free again when the last column has died. */
PyObject *leat_py_deliver(struct leat_py_delivery *d, struct leat_batch *batch);

/* Raises the exception that leat.errors makes of a status. */
PyObject *leat_py_raise(const struct leat_error *err);
PyObject *leat_py_raise_text(leat_status status, const char *text);

PyTypeObject *leat_py_ragged(void); /* leat._core.Ragged */
int leat_py_add_ragged(PyObject *module);

/* state_of(a Ragged, or the address of a column) -> the state after its batch as JSON; None: it is in no batch. */
PyObject *leat_py_state_of(PyObject *self, PyObject *column);

int leat_py_add_batch(PyObject *module);

#endif
