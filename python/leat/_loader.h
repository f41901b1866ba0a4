#ifndef LEAT_PYTHON_LOADER_H
#define LEAT_PYTHON_LOADER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int leat_py_add_loader(PyObject *module);

/* For "O&" of PyArg_ParseTuple(): whole numbers that fit into uint64_t and uint32_t, else an exception. The formats of
 * Python's own cut numbers off without a word. */
int leat_py_read_u64(PyObject *object, void *out);
int leat_py_read_u32(PyObject *object, void *out);

/* Functions of the module. */
PyObject *leat_py_settings(PyObject *self, PyObject *ignored);
PyObject *leat_py_problems(PyObject *self, PyObject *args);
PyObject *leat_py_compare(PyObject *self, PyObject *args);

#endif
