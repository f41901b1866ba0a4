/* What a loader is opened with, as Python gives it. A failure is raised. */
#ifndef LEAT_PYTHON_OPTIONS_H
#define LEAT_PYTHON_OPTIONS_H

#include "_batch.h"

/* From a list of (name, kind, field or None, pipeline or None, view, whether ragged ones are tuples); how many, or -1.
 * The texts stay the list's. */
Py_ssize_t leat_py_read_outputs(PyObject *list, struct leat_output *out, struct leat_py_delivery *d);

/* How batches are handed over. Names are those of the outputs, whose number leat_py_read_outputs() has checked. */
bool leat_py_read_delivery(PyObject *list, PyObject *plan, PyObject *ragged, bool as_dict, struct leat_py_delivery *d);

/* From a list of (name, text), by the library's own table. What is wrong is added to the list `problems`, or is raised
 * if that is NULL. */
bool leat_py_read_settings(PyObject *list, struct leat_loader_opts *o, PyObject *problems);

#endif
