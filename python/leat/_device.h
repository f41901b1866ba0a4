/* Copies of batches to a GPU, on a stream of their own. */
#ifndef LEAT_PYTHON_DEVICE_H
#define LEAT_PYTHON_DEVICE_H

#include "_python.h"

int leat_py_add_device(PyObject *module);

#endif
