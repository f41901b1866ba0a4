/* The C extension behind the package `leat`. Glue only: it converts between Python and the C API. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "leat/leat.h"

static PyObject *version(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    return PyUnicode_FromString(leat_version());
}

static PyMethodDef methods[] = {
    {"version", version, METH_NOARGS, "The library's version."},
    {0},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "leat._core",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    return PyModule_Create(&module);
}
