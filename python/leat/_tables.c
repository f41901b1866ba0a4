/* The library's own tables for Python, which has no list of its own. Glue only. */
#include "_loader.h"

#include "leat/dataset.h"
#include "leat/loader.h"

/* The table of settings: (name, type, least, most, choices, help). */
PyObject *leat_py_settings(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < leat_loader_settings(); i++) {
        struct leat_setting s = {.size = sizeof s};
        PyObject *row = NULL;
        if (leat_loader_setting(i, &s, NULL) == LEAT_OK)
            row = Py_BuildValue("sIKKzs", s.name, s.type, (unsigned long long)s.least, (unsigned long long)s.most,
                                s.choices, s.help);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* The table of outputs: {name: (kind, fields, words, dtype, shape)}. */
PyObject *leat_py_outputs(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < leat_loader_outputs(); i++) {
        struct leat_output_info o = {.size = sizeof o};
        PyObject *row = NULL;
        if (leat_loader_output(i, &o, NULL) == LEAT_OK)
            row = Py_BuildValue("Issss", o.kind, o.fields, o.words, o.dtype, o.shape);
        if (!row || PyDict_SetItemString(dict, o.name, row) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(row);
    }
    return dict;
}

/* The table of types of field: {name: (number, flags)}. */
PyObject *leat_py_types(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < leat_data_types(); i++) {
        struct leat_data_type_info t = {.size = sizeof t};
        PyObject *row = NULL;
        if (leat_data_type(i, &t, NULL) == LEAT_OK)
            row = Py_BuildValue("II", t.type, t.flags);
        if (!row || PyDict_SetItemString(dict, t.name, row) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(row);
    }
    return dict;
}

/* dtype_name(code) */
PyObject *leat_py_dtype_name(PyObject *self, PyObject *code)
{
    uint32_t n;
    (void)self;
    return leat_py_read_u32(code, &n) ? PyUnicode_FromString(leat_dtype_name(n)) : NULL;
}

int leat_py_read_u64(PyObject *object, void *out)
{
    unsigned long long value = PyLong_AsUnsignedLongLong(object);
    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return 0;
    *(uint64_t *)out = value;
    return 1;
}

int leat_py_read_u32(PyObject *object, void *out)
{
    uint64_t value;
    if (!leat_py_read_u64(object, &value))
        return 0;
    if (value > UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%llu does not fit into 32 bits", (unsigned long long)value);
        return 0;
    }
    *(uint32_t *)out = (uint32_t)value;
    return 1;
}

/* compare(mine, theirs, who): raises what differs between two agreements. */
PyObject *leat_py_compare(PyObject *self, PyObject *args)
{
    const char *mine;
    const char *theirs;
    const char *who;
    struct leat_error err;
    (void)self;
    if (!PyArg_ParseTuple(args, "sss", &mine, &theirs, &who))
        return NULL;
    leat_status rc = leat_loader_compare(mine, theirs, who, &err);
    if (rc != LEAT_OK)
        return leat_py_raise_or_interrupt(rc, &err);
    Py_RETURN_NONE;
}
