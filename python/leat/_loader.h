#ifndef LEAT_PYTHON_LOADER_H
#define LEAT_PYTHON_LOADER_H

#include "_python.h"
#include <stdbool.h>

#include "leat/error.h"

int leat_py_add_loader(PyObject *module);

/* For "O&" of PyArg_ParseTuple(): whole numbers that fit into uint64_t and uint32_t, else an exception. The formats of
 * Python's own cut numbers off without a word. */
int leat_py_read_u64(PyObject *object, void *out);
int leat_py_read_u32(PyObject *object, void *out);

/* For waiting calls, without the interpreter's lock: Ctrl-C ends them. The exception stays set in the thread, and
 * the other one leaves it there. */
bool leat_py_stop(void *user);
PyObject *leat_py_raise_or_interrupt(leat_status rc, const struct leat_error *err);

/* Functions of the module. */
PyObject *leat_py_settings(PyObject *self, PyObject *ignored);
PyObject *leat_py_outputs(PyObject *self, PyObject *ignored);
PyObject *leat_py_types(PyObject *self, PyObject *ignored);
PyObject *leat_py_dtype_name(PyObject *self, PyObject *code);
PyObject *leat_py_problems(PyObject *self, PyObject *args);
PyObject *leat_py_compare(PyObject *self, PyObject *args);

#endif
