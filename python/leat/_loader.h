#ifndef LEAT_PYTHON_LOADER_H
#define LEAT_PYTHON_LOADER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int leat_py_add_loader(PyObject *module);

#endif
