/* The C extension behind the package `leat`. Glue only: it converts between Python and the C API. */
#include "leat/leat.h"
#include "leat/mix.h"
#include "leat/plan.h"

#include "_batch.h"
#include "_dataset.h"
#include "_loader.h"
#include "_python.h"
#include "_writer.h"

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

/* (mixup, cutmix, p, seed, epoch, first, width, height) to (share, box or None). */
static PyObject *mix(PyObject *self, PyObject *args)
{
    struct leat_mix settings = {.size = sizeof settings};
    struct leat_mixed mixed = {.size = sizeof mixed};
    struct leat_error err;
    uint64_t epoch;
    uint64_t first;
    uint32_t width;
    uint32_t height;
    (void)self;
    if (!PyArg_ParseTuple(args, "dddO&O&O&O&O&", &settings.mixup, &settings.cutmix, &settings.p, leat_py_read_u64,
                          &settings.seed, leat_py_read_u64, &epoch, leat_py_read_u64, &first, leat_py_read_u32, &width,
                          leat_py_read_u32, &height))
        return NULL;
    if (leat_mix_draw(&settings, epoch, first, width, height, &mixed, &err) != LEAT_OK)
        return leat_py_raise(&err);
    if (!mixed.cut)
        return Py_BuildValue("dO", mixed.share, Py_None);
    return Py_BuildValue("d(IIII)", mixed.share, mixed.box[0], mixed.box[1], mixed.box[2], mixed.box[3]);
}

static PyMethodDef methods[] = {
    {"compare", leat_py_compare, METH_VARARGS, "Raises what differs between two agreements: (mine, theirs, who)."},
    {"decode", leat_py_decode, METH_VARARGS, "(image, pipeline) to (pixels, height, width, channels)."},
    {"duration", leat_py_duration, METH_VARARGS, "Nanoseconds of a text: (text, what it is for)."},
    {"merge", leat_py_merge, METH_O, "Joins the parts that writers have finished; the content id."},
    {"mix", mix, METH_VARARGS, "What is drawn for a batch that is mixed."},
    {"dtype_name", leat_py_dtype_name, METH_O, "The name of a dtype's code."},
    {"types", leat_py_types, METH_NOARGS, "Types of field: {name: (number, flags)}."},
    {"outputs", leat_py_outputs, METH_NOARGS, "Kinds of output: {name: (kind, fields, words, dtype, shape)}."},
    {"problems", leat_py_problems, METH_VARARGS, "What is wrong with settings: [(name, text), …] to [sentence, …]."},
    {"png", leat_py_png, METH_VARARGS, "(pixels, height, width, channels) to a PNG file."},
    {"plan", plan, METH_VARARGS, "Answers a request for a plan with (status, JSON or what is wrong)."},
    {"settings", leat_py_settings, METH_NOARGS, "The settings of a loader: (name, type, least, most, choices, help)."},
    {"size", leat_py_size, METH_VARARGS, "Bytes of a text: (text, what it is for)."},
    {"state_of", leat_py_state_of, METH_O, "The state after the batch in which a column lies, as JSON."},
    {"version", version, METH_NOARGS, "The library's version."},
    {0},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "leat._core",
    .m_size = -1, /* the types and the list of batches belong to the process */
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *m = PyModule_Create(&module);
    if (m && (leat_py_add_loader(m) < 0 || leat_py_add_dataset(m) < 0 || leat_py_add_writer(m) < 0))
        Py_CLEAR(m);
    return m;
}
