/* What Python's limited API leaves to be done by hand. */
#include "_python.h"

#include <string.h>

PyTypeObject *leat_py_add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type || !module)
        return (PyTypeObject *)type;
    Py_INCREF(type); /* which the module takes over */
    if (PyModule_AddObject(module, strrchr(spec->name, '.') + 1, type) < 0) {
        Py_DECREF(type);
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

void leat_py_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

PyObject *leat_py_no_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return PyErr_Format(PyExc_TypeError, "cannot create objects of %R", type);
}
