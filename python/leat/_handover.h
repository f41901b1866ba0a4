/* The iterator that a user of a loader with stages has: Python prepares a batch, and C hands it over. */
#ifndef LEAT_PYTHON_HANDOVER_H
#define LEAT_PYTHON_HANDOVER_H

#include "_python.h"

int leat_py_add_handover(PyObject *module);

#endif
