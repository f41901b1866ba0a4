/* Python's own interface, as far as it is the same in every Python since 3.9 (its "limited API"): one extension runs
 * in all of them. Files of the extension include this instead of Python.h. */
#ifndef LEAT_PYTHON_PYTHON_H
#define LEAT_PYTHON_PYTHON_H

#define Py_LIMITED_API 0x03090000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Buffers belong to the limited API only since 3.11. The functions, the two slots of a type and the struct have been
 * the same since 3.9, and are promised to stay so; only the headers do not show them. */
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
int PyBuffer_FillInfo(Py_buffer *view, PyObject *object, void *buf, Py_ssize_t n, int readonly, int flags);
void PyBuffer_Release(Py_buffer *view);

#define Py_bf_getbuffer    1
#define PyBUF_C_CONTIGUOUS 0x38

/* The second has been implied since 3.10, and its headers leave it out of the first. Without it Python 3.9's cache of
 * methods goes wrong for classes that are derived from such a type and an abstract one. */
#define LEAT_PY_TYPE_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VERSION_TAG)

/* Types are made of specs: the limited API has no static ones. Makes one that stays for good, and adds it to the module
 * unless that is NULL. NULL with an exception: failed. */
PyTypeObject *leat_py_add_type(PyObject *module, PyType_Spec *spec);

/* The end of a dealloc: frees the object and lets go of its type. */
void leat_py_free(PyObject *self);

/* tp_new of types that Python must not create objects of. Without it they would inherit object's. */
PyObject *leat_py_no_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

#endif
