#ifndef LEAT_PYTHON_LOADER_H
#define LEAT_PYTHON_LOADER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int leat_py_add_loader(PyObject *module);

/* Functions of the module. */
PyObject *leat_py_settings(PyObject *self, PyObject *ignored);
PyObject *leat_py_problems(PyObject *self, PyObject *args);
PyObject *leat_py_compare(PyObject *self, PyObject *args);

#endif
