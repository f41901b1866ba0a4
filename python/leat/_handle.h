/* A batch that was taken but not handed over yet: what stages that read ahead of the user work with. */
#ifndef LEAT_PYTHON_HANDLE_H
#define LEAT_PYTHON_HANDLE_H

#include "_ragged.h"

/* Takes the batch over. `loader` owns the delivery and is kept. */
PyObject *leat_py_handle(PyObject *loader, struct leat_py_delivery *delivery, struct leat_batch *batch);

/* The batch inside, NULL with an exception when it is none or was released. */
struct leat_batch *leat_py_handle_batch(PyObject *handle);

/* The same, and it is the caller's from now on: the handle is as if released. NULL with an exception when its columns
 * were handed over. */
struct leat_batch *leat_py_handle_take(PyObject *handle);

int leat_py_add_handle(PyObject *module);

#endif
