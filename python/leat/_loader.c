/* Loaders and batches for Python. Glue only. A column's buffer holds its batch, and the batch its slot of the ring: the
 * slot is free again when the last array or tensor on it has died. */
#include "_loader.h"

#include <stdlib.h>
#include <string.h>

#include "leat/loader.h"

/* Raises the exception that leat.errors makes of a status. */
static PyObject *raise_leat(const struct leat_error *err)
{
    PyObject *module = PyImport_ImportModule("leat.errors");
    PyObject *exception = module ? PyObject_CallMethod(module, "make", "is", (int)err->status, err->text) : NULL;
    if (exception)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    Py_XDECREF(module);
    return NULL;
}

/* Asked by waiting calls, without the interpreter's lock: Ctrl-C ends them. The exception stays set in the thread. */
static bool stop(void *user)
{
    (void)user;
    PyGILState_STATE state = PyGILState_Ensure();
    bool stopped = PyErr_Occurred() || PyErr_CheckSignals() < 0;
    PyGILState_Release(state);
    return stopped;
}

static PyObject *raise_or_interrupt(leat_status rc, const struct leat_error *err)
{
    if (rc == LEAT_CANCELLED && PyErr_Occurred())
        return NULL;
    return raise_leat(err);
}

struct batch_object {
    PyObject_HEAD struct leat_batch *batch;
};

struct column_object {
    PyObject_HEAD PyObject *batch; /* keeps the memory */
    void *data;
    Py_ssize_t n;
};

struct loader_object {
    PyObject_HEAD struct leat_loader *loader;
    bool busy; /* a call is under way without the interpreter's lock */
};

static void column_dealloc(PyObject *self)
{
    Py_XDECREF(((struct column_object *)self)->batch);
    Py_TYPE(self)->tp_free(self);
}

static int column_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct column_object *c = (struct column_object *)self;
    return PyBuffer_FillInfo(view, self, c->data, c->n, 0, flags);
}

static PyBufferProcs column_as_buffer = {.bf_getbuffer = column_buffer};

static PyTypeObject column_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "leat._core.Column",
    .tp_basicsize = sizeof(struct column_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = column_dealloc,
    .tp_as_buffer = &column_as_buffer,
    .tp_doc = "Memory of one column of a batch.",
};

static void batch_dealloc(PyObject *self)
{
    leat_batch_release(((struct batch_object *)self)->batch);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *make_column(PyObject *batch, const void *data, uint64_t n)
{
    struct column_object *c = PyObject_New(struct column_object, &column_type);
    if (!c)
        return NULL;
    c->batch = Py_NewRef(batch);
    c->data = (void *)(uintptr_t)data;
    c->n = (Py_ssize_t)n;
    return (PyObject *)c;
}

/* (kind, dtype, dims, data, ends or None) */
static PyObject *batch_column(PyObject *self, PyObject *args)
{
    struct batch_object *b = (struct batch_object *)self;
    struct leat_column c;
    struct leat_error err;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "n", &i))
        return NULL;
    if (leat_batch_column(b->batch, (size_t)i, &c, &err) != LEAT_OK)
        return raise_leat(&err);
    PyObject *dims = PyTuple_New((Py_ssize_t)c.dims_n);
    for (uint32_t d = 0; dims && d < c.dims_n; d++)
        PyTuple_SET_ITEM(dims, (Py_ssize_t)d, PyLong_FromUnsignedLong(c.dims[d]));
    PyObject *data = make_column(self, c.data, c.bytes);
    PyObject *ends =
        c.ends ? make_column(self, c.ends, leat_batch_samples(b->batch) * sizeof(uint64_t)) : Py_NewRef(Py_None);
    if (!dims || !data || !ends) {
        Py_XDECREF(dims);
        Py_XDECREF(data);
        Py_XDECREF(ends);
        return NULL;
    }
    return Py_BuildValue("iiNNN", (int)c.kind, (int)c.dtype, dims, data, ends);
}

static PyObject *batch_samples(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLong(leat_batch_samples(((struct batch_object *)self)->batch));
}

static PyObject *batch_epoch(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(leat_batch_epoch(((struct batch_object *)self)->batch));
}

static PyObject *batch_position(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(leat_batch_position(((struct batch_object *)self)->batch));
}

static PyMethodDef batch_methods[] = {
    {"column", batch_column, METH_VARARGS, "Kind, type, shape of a sample, memory and ends of a column."},
    {0},
};

static PyGetSetDef batch_getset[] = {
    {"samples", batch_samples, NULL, NULL, NULL},
    {"epoch", batch_epoch, NULL, NULL, NULL},
    {"position", batch_position, NULL, NULL, NULL},
    {0},
};

static PyTypeObject batch_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "leat._core.Batch",
    .tp_basicsize = sizeof(struct batch_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = batch_dealloc,
    .tp_methods = batch_methods,
    .tp_getset = batch_getset,
    .tp_doc = "A batch in the ring; its slot is free again when this and all its columns are gone.",
};

static void loader_dealloc(PyObject *self)
{
    leat_loader_close(((struct loader_object *)self)->loader);
    Py_TYPE(self)->tp_free(self);
}

#define OUTPUTS_MAX 32

/* outputs: a list of (name, kind, field or None, pipeline or None, view). */
static Py_ssize_t read_outputs(PyObject *list, struct leat_output *out)
{
    Py_ssize_t n = PyList_Size(list);
    if (n > OUTPUTS_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd fields: at most %d are possible", n, OUTPUTS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int kind;
        unsigned view;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "sizzI", &out[i].name, &kind, &out[i].field, &out[i].pipeline,
                              &view))
            return -1;
        out[i].kind = (enum leat_output_kind)kind;
        out[i].view = view;
    }
    return n;
}

static int loader_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct loader_object *l = (struct loader_object *)self;
    static const char *const names[] = {
        "url",     "outputs",   "global_batch", "rank",         "world",  "local_world", "last",      "on_error",
        "shuffle", "seed",      "window",       "epoch",        "ram",    "threads",     "slots",     "timeout_ns",
        "scope",   "linger_ns", "agent",        "endpoint_url", "region", "profile",     "anonymous", NULL};
    struct leat_loader_opts o = {.size = sizeof o, .stop = stop};
    struct leat_output outputs[OUTPUTS_MAX] = {{0}};
    struct leat_error err;
    PyObject *list;
    int last;
    int on_error;
    int shuffle;
    int anonymous;
    unsigned long long seed, epoch, ram, timeout_ns, linger_ns;
    if (l->loader) {
        PyErr_SetString(PyExc_RuntimeError, "the loader is open already");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO!IIIIiipKIKKIIKzKzzzzp", (char **)(uintptr_t)names, &o.url,
                                     &PyList_Type, &list, &o.global_batch, &o.rank, &o.world, &o.local_world, &last,
                                     &on_error, &shuffle, &seed, &o.window, &epoch, &ram, &o.threads, &o.slots,
                                     &timeout_ns, &o.scope, &linger_ns, &o.agent, &o.endpoint_url, &o.region,
                                     &o.profile, &anonymous))
        return -1;
    Py_ssize_t n = read_outputs(list, outputs);
    if (n < 0)
        return -1;
    o.outputs = outputs;
    o.outputs_n = (size_t)n;
    o.last = (enum leat_last)last;
    o.on_error = (enum leat_on_error)on_error;
    o.shuffle = shuffle;
    o.seed = seed;
    o.epoch = epoch;
    o.ram = ram;
    o.timeout_ns = timeout_ns;
    o.linger_ns = linger_ns;
    o.anonymous = anonymous;
    leat_status rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_loader_open(&o, &l->loader, &err);
    Py_END_ALLOW_THREADS;
    if (rc != LEAT_OK)
        raise_or_interrupt(rc, &err);
    return rc == LEAT_OK ? 0 : -1;
}

/* A loader is used by one thread at a time; the interpreter's lock is not held while it waits. */
static struct leat_loader *enter(PyObject *self)
{
    struct loader_object *l = (struct loader_object *)self;
    if (!l->loader) {
        PyErr_SetString(PyExc_ValueError, "the loader is closed");
        return NULL;
    }
    if (l->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the loader is in use by another thread");
        return NULL;
    }
    l->busy = true;
    return l->loader;
}

static void leave(PyObject *self)
{
    ((struct loader_object *)self)->busy = false;
}

static PyObject *loader_next(PyObject *self, PyObject *ignored)
{
    struct leat_loader *l = enter(self);
    struct leat_batch *batch = NULL;
    struct leat_error err;
    leat_status rc;
    (void)ignored;
    if (!l)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_loader_next(l, &batch, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    if (rc != LEAT_OK)
        return raise_or_interrupt(rc, &err);
    if (!batch)
        Py_RETURN_NONE;
    struct batch_object *b = PyObject_New(struct batch_object, &batch_type);
    if (!b) {
        leat_batch_release(batch);
        return NULL;
    }
    b->batch = batch;
    return (PyObject *)b;
}

static PyObject *loader_state(PyObject *self, PyObject *ignored)
{
    struct leat_loader *l = enter(self);
    char text[LEAT_STATE_SIZE];
    struct leat_error err;
    (void)ignored;
    if (!l)
        return NULL;
    leat_status rc = leat_loader_state(l, text, &err);
    leave(self);
    return rc == LEAT_OK ? PyUnicode_FromString(text) : raise_leat(&err);
}

static PyObject *loader_restore(PyObject *self, PyObject *args)
{
    const char *text;
    struct leat_error err;
    leat_status rc;
    if (!PyArg_ParseTuple(args, "s", &text))
        return NULL;
    struct leat_loader *l = enter(self);
    if (!l)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_loader_restore(l, text, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    if (rc != LEAT_OK)
        return raise_or_interrupt(rc, &err);
    Py_RETURN_NONE;
}

static PyObject *loader_set_epoch(PyObject *self, PyObject *args)
{
    unsigned long long epoch;
    struct leat_error err;
    leat_status rc;
    if (!PyArg_ParseTuple(args, "K", &epoch))
        return NULL;
    struct leat_loader *l = enter(self);
    if (!l)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_loader_set_epoch(l, epoch, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    if (rc != LEAT_OK)
        return raise_or_interrupt(rc, &err);
    Py_RETURN_NONE;
}

static PyObject *loader_stats(PyObject *self, PyObject *ignored)
{
    struct leat_loader *l = enter(self);
    char *text = NULL;
    struct leat_error err;
    leat_status rc;
    (void)ignored;
    if (!l)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_loader_stats(l, &text, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    if (rc != LEAT_OK)
        return raise_or_interrupt(rc, &err);
    PyObject *out = PyUnicode_FromString(text);
    free(text);
    return out;
}

static PyObject *loader_close(PyObject *self, PyObject *ignored)
{
    struct loader_object *l = (struct loader_object *)self;
    (void)ignored;
    if (l->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the loader is in use by another thread");
        return NULL;
    }
    leat_loader_close(l->loader);
    l->loader = NULL;
    Py_RETURN_NONE;
}

static PyObject *get_number(PyObject *self, void *closure)
{
    struct loader_object *l = (struct loader_object *)self;
    const int which = *(const int *)closure;
    if (!l->loader) {
        PyErr_SetString(PyExc_ValueError, "the loader is closed");
        return NULL;
    }
    uint64_t v = which == 'b'   ? leat_loader_batches(l->loader)
                 : which == 's' ? leat_loader_samples(l->loader)
                                : leat_loader_epoch(l->loader);
    return PyLong_FromUnsignedLongLong(v);
}

static PyMethodDef loader_methods[] = {
    {"next", loader_next, METH_NOARGS, "The next batch; None at the end of an epoch."},
    {"state", loader_state, METH_NOARGS, "The state behind the last batch, as JSON."},
    {"restore", loader_restore, METH_VARARGS, "Goes to a state."},
    {"set_epoch", loader_set_epoch, METH_VARARGS, "Goes to the beginning of an epoch."},
    {"stats", loader_stats, METH_NOARGS, "What has happened so far, as JSON."},
    {"close", loader_close, METH_NOARGS, "Lets go of the agent."},
    {0},
};

static int numbers[] = {'b', 's', 'e'}; /* which number a property is */

static PyGetSetDef loader_getset[] = {
    {"batches", get_number, NULL, NULL, &numbers[0]},
    {"samples", get_number, NULL, NULL, &numbers[1]},
    {"epoch", get_number, NULL, NULL, &numbers[2]},
    {0},
};

static PyTypeObject loader_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "leat._core.Loader",
    .tp_basicsize = sizeof(struct loader_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = loader_init,
    .tp_dealloc = loader_dealloc,
    .tp_methods = loader_methods,
    .tp_getset = loader_getset,
    .tp_doc = "A loader of the C library.",
};

int leat_py_add_loader(PyObject *module)
{
    if (PyType_Ready(&column_type) < 0 || PyType_Ready(&batch_type) < 0 || PyType_Ready(&loader_type) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Loader", (PyObject *)&loader_type);
}
