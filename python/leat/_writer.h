#ifndef LEAT_PYTHON_WRITER_H
#define LEAT_PYTHON_WRITER_H

#include "_python.h"

int leat_py_add_writer(PyObject *module);

/* merge(url, parts, name, …) -> version. A function of the module. */
PyObject *leat_py_merge(PyObject *self, PyObject *place);

#endif
