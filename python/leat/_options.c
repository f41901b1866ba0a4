/* What a loader is opened with, as the C library takes it. Glue only. */
#include "_options.h"

#include "_loader.h"

Py_ssize_t leat_py_read_outputs(PyObject *list, struct leat_output *out, struct leat_py_delivery *d)
{
    Py_ssize_t n = PyList_Size(list);
    if (n > LEAT_PY_OUTPUTS_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd fields: at most %d are possible", n, LEAT_PY_OUTPUTS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int kind;
        unsigned view;
        int tuple;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "sizzIp", &out[i].name, &kind, &out[i].field, &out[i].pipeline,
                              &view, &tuple))
            return -1;
        d->columns[i].tuple = tuple;
        out[i].size = sizeof *out;
        out[i].kind = (uint32_t)kind;
        out[i].view = view;
    }
    return n;
}

bool leat_py_read_delivery(PyObject *list, PyObject *plan, PyObject *ragged, bool as_dict, struct leat_py_delivery *d)
{
    Py_ssize_t n = PyList_Size(list);
    d->names = PyTuple_New(n);
    for (Py_ssize_t i = 0; d->names && i < n; i++) {
        PyObject *name = PyTuple_GetItem(PyList_GetItem(list, i), 0);
        Py_XINCREF(name);
        if (!name || PyTuple_SetItem(d->names, i, name) < 0)
            Py_CLEAR(d->names);
    }
    d->as_dict = as_dict;
    Py_INCREF(plan);
    d->plan = plan;
    Py_INCREF(ragged);
    d->ragged = ragged;
    return d->names != NULL;
}

bool leat_py_read_settings(PyObject *list, struct leat_loader_opts *o, PyObject *problems)
{
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        const char *name;
        const char *value;
        struct leat_error err;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "ss", &name, &value))
            return false;
        if (leat_loader_set(o, name, value, &err) == LEAT_OK)
            continue;
        PyObject *text = problems ? PyUnicode_FromString(err.text) : leat_py_raise(&err);
        bool kept = text && PyList_Append(problems, text) == 0;
        Py_XDECREF(text);
        if (!kept)
            return false;
    }
    return true;
}

/* problems([(name, text), …]): all that is wrong with settings, a list of sentences. */
PyObject *leat_py_problems(PyObject *self, PyObject *args)
{
    PyObject *list;
    struct leat_loader_opts o = {.size = sizeof o};
    struct leat_error err;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!", &PyList_Type, &list))
        return NULL;
    PyObject *problems = PyList_New(0);
    if (!problems || !leat_py_read_settings(list, &o, problems)) {
        Py_XDECREF(problems);
        return NULL;
    }
    if (leat_loader_check(&o, &err) != LEAT_OK) {
        PyObject *text = PyUnicode_FromString(err.text);
        if (!text || PyList_Append(problems, text) < 0)
            Py_CLEAR(problems);
        Py_XDECREF(text);
    }
    return problems;
}
