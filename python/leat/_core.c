/* The C extension behind the package `leat`. Glue only: it converts between Python and the C API. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "leat/leat.h"
#include "leat/plan.h"

#include "_batch.h"
#include "_loader.h"

static PyObject *version(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    return PyUnicode_FromString(leat_version());
}

/* Ctrl-C while C is at work. The exception waits until the call returns. */
static bool signalled(void *user)
{
    (void)user;
    PyGILState_STATE state = PyGILState_Ensure();
    bool stop = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return stop;
}

static PyObject *plan(PyObject *self, PyObject *args)
{
    const char *request;
    Py_ssize_t n;
    char *answer = NULL;
    struct leat_error err = {.text = ""};
    (void)self;
    if (!PyArg_ParseTuple(args, "s#", &request, &n))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    leat_status rc = leat_plan_request(request, (size_t)n, signalled, NULL, &answer, &err);
    PyEval_RestoreThread(thread);
    PyObject *pair = PyErr_Occurred() ? NULL : Py_BuildValue("is", (int)rc, rc == LEAT_OK ? answer : err.text);
    free(answer);
    return pair;
}

/* Sizes and durations as people write them. */
static PyObject *parse(PyObject *args,
                       leat_status (*parser)(const char *, const char *, uint64_t *, struct leat_error *))
{
    const char *text;
    const char *name;
    uint64_t value;
    struct leat_error err;
    if (!PyArg_ParseTuple(args, "ss", &text, &name))
        return NULL;
    if (parser(text, name, &value, &err) != LEAT_OK) {
        PyErr_SetString(PyExc_ValueError, err.text);
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *parse_size(PyObject *self, PyObject *args)
{
    (void)self;
    return parse(args, leat_text_size);
}

static PyObject *parse_duration(PyObject *self, PyObject *args)
{
    (void)self;
    return parse(args, leat_text_duration);
}

static PyMethodDef methods[] = {
    {"parse_duration", parse_duration, METH_VARARGS, "Nanoseconds of a duration such as '50ms'."},
    {"parse_size", parse_size, METH_VARARGS, "Bytes of a size such as '2gb'."},
    {"plan", plan, METH_VARARGS, "Answers a request for a plan with (status, JSON or what is wrong)."},
    {"state_of", leat_py_state_of, METH_O, "The state after the batch in which a column lies, as JSON."},
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
    PyObject *m = PyModule_Create(&module);
    if (m && leat_py_add_loader(m) < 0)
        Py_CLEAR(m);
    return m;
}
