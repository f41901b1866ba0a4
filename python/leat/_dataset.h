#ifndef LEAT_PYTHON_DATASET_H
#define LEAT_PYTHON_DATASET_H

#include "_python.h"

int leat_py_add_dataset(PyObject *module);

/* Functions of the module. */
PyObject *leat_py_decode(PyObject *self, PyObject *args);
PyObject *leat_py_png(PyObject *self, PyObject *args);
PyObject *leat_py_size(PyObject *self, PyObject *args);
PyObject *leat_py_duration(PyObject *self, PyObject *args);

#endif
