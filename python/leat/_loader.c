/* Loaders for Python. Glue only. */
#include "_loader.h"

#include <stdlib.h>
#include <string.h>

#include "_batch.h"
#include "leat/loader.h"

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
    return leat_py_raise(err);
}

struct loader_object {
    PyObject_HEAD struct leat_loader *loader;
    bool busy; /* a call is under way, perhaps without the interpreter's lock */
    struct leat_py_delivery delivery;
};

static void loader_dealloc(PyObject *self)
{
    struct loader_object *l = (struct loader_object *)self;
    leat_loader_close(l->loader);
    leat_py_delivery_clear(&l->delivery);
    Py_TYPE(self)->tp_free(self);
}

/* outputs: a list of (name, kind, field or None, pipeline or None, view). */
static Py_ssize_t read_outputs(PyObject *list, struct leat_output *out)
{
    Py_ssize_t n = PyList_Size(list);
    if (n > LEAT_PY_OUTPUTS_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd fields: at most %d are possible", n, LEAT_PY_OUTPUTS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int kind;
        unsigned view;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "sizzI", &out[i].name, &kind, &out[i].field, &out[i].pipeline,
                              &view))
            return -1;
        out[i].size = sizeof *out;
        out[i].kind = (uint32_t)kind;
        out[i].view = view;
    }
    return n;
}

/* How batches are handed over. Names are those of the outputs, whose number read_outputs() has checked. */
static bool read_delivery(PyObject *list, PyObject *plan, PyObject *ragged, bool as_dict, struct leat_py_delivery *d)
{
    Py_ssize_t n = PyList_Size(list);
    d->names = PyTuple_New(n);
    for (Py_ssize_t i = 0; d->names && i < n; i++) {
        PyObject *name = PyTuple_GET_ITEM(PyList_GET_ITEM(list, i), 0);
        Py_INCREF(name);
        PyTuple_SET_ITEM(d->names, i, name);
    }
    d->as_dict = as_dict;
    Py_INCREF(plan);
    d->plan = plan;
    Py_INCREF(ragged);
    d->ragged = ragged;
    return d->names != NULL;
}

static int loader_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct loader_object *l = (struct loader_object *)self;
    static const char *const names[] = {"url",         "outputs", "global_batch", "rank",    "world",
                                        "local_world", "last",    "on_error",     "shuffle", "seed",
                                        "window",      "epoch",   "ram",          "threads", "slots",
                                        "timeout_ns",  "scope",   "linger_ns",    "agent",   "endpoint_url",
                                        "region",      "profile", "anonymous",    "as_dict", "plan",
                                        "ragged",      NULL};
    struct leat_loader_opts o = {.size = sizeof o, .stop = stop};
    struct leat_output outputs[LEAT_PY_OUTPUTS_MAX] = {{0}};
    struct leat_error err;
    PyObject *list, *plan, *ragged;
    int last;
    int on_error;
    int shuffle;
    int anonymous;
    int as_dict;
    unsigned long long seed, epoch, ram, timeout_ns, linger_ns;
    if (l->loader) {
        PyErr_SetString(PyExc_RuntimeError, "the loader is open already");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO!IIIIiipKIKKIIKzKzzzzppOO!", (char **)(uintptr_t)names, &o.url,
                                     &PyList_Type, &list, &o.global_batch, &o.rank, &o.world, &o.local_world, &last,
                                     &on_error, &shuffle, &seed, &o.window, &epoch, &ram, &o.threads, &o.slots,
                                     &timeout_ns, &o.scope, &linger_ns, &o.agent, &o.endpoint_url, &o.region,
                                     &o.profile, &anonymous, &as_dict, &plan, &PyType_Type, &ragged))
        return -1;
    if (!PyType_IsSubtype((PyTypeObject *)ragged, leat_py_ragged())) {
        PyErr_SetString(PyExc_TypeError, "ragged is not derived from leat._core.Ragged");
        return -1;
    }
    Py_ssize_t n = read_outputs(list, outputs);
    if (n < 0 || !read_delivery(list, plan, ragged, as_dict, &l->delivery))
        return -1;
    o.outputs = outputs;
    o.outputs_n = (size_t)n;
    o.last = (uint32_t)last;
    o.on_error = (uint32_t)on_error;
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

/* One pass over a loader: an epoch, or what is left of it. */
struct pass_object {
    PyObject_HEAD PyObject *loader;
    bool over;
};

static void pass_dealloc(PyObject *self)
{
    Py_XDECREF(((struct pass_object *)self)->loader);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *pass_next(PyObject *self)
{
    struct pass_object *p = (struct pass_object *)self;
    struct leat_batch *batch = NULL;
    struct leat_error err;
    leat_status rc;
    struct leat_loader *l = p->over ? NULL : enter(p->loader);
    if (!l)
        return NULL; /* without an exception: the end */
    if (leat_loader_ready(l)) {
        /* Keeps the lock: another thread might take it meanwhile, and give it back only five milliseconds later. */
        rc = leat_loader_next(l, &batch, &err);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        rc = leat_loader_next(l, &batch, &err);
        Py_END_ALLOW_THREADS;
    }
    PyObject *values = NULL;
    if (rc != LEAT_OK)
        raise_or_interrupt(rc, &err);
    else if (batch)
        values = leat_py_deliver(&((struct loader_object *)p->loader)->delivery, batch);
    else
        p->over = true;
    leave(p->loader);
    return values;
}

static PyTypeObject pass_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "leat._core.Pass",
    .tp_basicsize = sizeof(struct pass_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = pass_dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = pass_next,
    .tp_doc = "The batches of an epoch, or of the rest of it.",
};

static PyObject *loader_iter(PyObject *self)
{
    struct pass_object *p = PyObject_New(struct pass_object, &pass_type);
    if (!p)
        return NULL;
    Py_INCREF(self);
    p->loader = self;
    p->over = false;
    return (PyObject *)p;
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
    return rc == LEAT_OK ? PyUnicode_FromString(text) : leat_py_raise(&err);
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
    .tp_iter = loader_iter,
    .tp_methods = loader_methods,
    .tp_getset = loader_getset,
    .tp_doc = "A loader of the C library.",
};

int leat_py_add_loader(PyObject *module)
{
    if (PyType_Ready(&pass_type) < 0 || leat_py_add_batch(module) < 0)
        return -1;
    return PyModule_AddType(module, &loader_type);
}
