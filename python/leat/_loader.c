/* Loaders for Python. Glue only. */
#include "_loader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "_batch.h"
#include "_device.h"
#include "_handle.h"
#include "_handover.h"
#include "_options.h"
#include "leat/loader.h"

bool leat_py_stop(void *user)
{
    (void)user;
    PyGILState_STATE state = PyGILState_Ensure();
    bool stopped = PyErr_Occurred() || PyErr_CheckSignals() < 0;
    PyGILState_Release(state);
    return stopped;
}

PyObject *leat_py_raise_or_interrupt(leat_status rc, const struct leat_error *err)
{
    return PyErr_Occurred() ? NULL : leat_py_raise(err);
}

struct loader_object {
    PyObject_HEAD struct leat_loader *loader;
    pid_t pid;                 /* whose threads the next two are about */
    bool busy;                 /* a call uses the loader, perhaps without the interpreter's lock */
    unsigned looking;          /* calls that only look at it, likewise */
    PyObject *prepare;         /* called before the first batch, to join a world; NULL: that is done */
    PyObject *warn;            /* told why a call has been waiting for long */
    bool copies;               /* has been told that batches are copied because slots are short */
    unsigned long long passes; /* begun so far */
    double timeout_s;
    struct leat_py_delivery delivery;
};

static void warn(void *user, const char *text)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace); /* Ctrl-C may be under way */
    PyObject *done = PyObject_CallFunction(((struct loader_object *)user)->warn, "s", text);
    Py_XDECREF(done);
    if (!done && !type && !PyErr_ExceptionMatches(PyExc_Exception)) {
        PyGILState_Release(state); /* Ctrl-C came while it was told: the call that warns ends with it */
        return;
    }
    if (!done)
        PyErr_WriteUnraisable(NULL);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

static void loader_dealloc(PyObject *self)
{
    struct loader_object *l = (struct loader_object *)self;
    leat_loader_close(l->loader);
    leat_py_delivery_clear(&l->delivery);
    Py_CLEAR(l->prepare);
    Py_CLEAR(l->warn);
    leat_py_free(self);
}

static int loader_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct loader_object *l = (struct loader_object *)self;
    static const char *const names[] = {"url",     "outputs", "settings", "prepare", "warn",
                                        "as_dict", "plan",    "ragged",   NULL};
    struct leat_loader_opts o = {.size = sizeof o, .stop = leat_py_stop, .warn = warn, .warn_user = self};
    struct leat_output outputs[LEAT_PY_OUTPUTS_MAX] = {{0}};
    struct leat_error err;
    PyObject *list, *settings, *prepare, *warner, *plan, *ragged;
    int as_dict;
    if (l->loader) {
        PyErr_SetString(PyExc_RuntimeError, "the loader is open already");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO!O!OOpOO!", (char **)(uintptr_t)names, &o.url, &PyList_Type,
                                     &list, &PyList_Type, &settings, &prepare, &warner, &as_dict, &plan, &PyType_Type,
                                     &ragged))
        return -1;
    if (!PyType_IsSubtype((PyTypeObject *)ragged, leat_py_ragged())) {
        PyErr_SetString(PyExc_TypeError, "ragged is not derived from leat._core.Ragged");
        return -1;
    }
    Py_ssize_t n = leat_py_read_outputs(list, outputs, &l->delivery);
    if (n < 0 || !leat_py_read_settings(settings, &o, NULL) ||
        !leat_py_read_delivery(list, plan, ragged, as_dict, &l->delivery))
        return -1;
    o.outputs = outputs;
    o.outputs_n = (size_t)n;
    Py_INCREF(warner);
    l->warn = warner;
    l->timeout_s = o.timeout_ns ? (double)o.timeout_ns / 1e9 : 600;
    l->pid = getpid();
    leat_status rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_loader_open(&o, &l->loader, &err);
    Py_END_ALLOW_THREADS;
    if (rc != LEAT_OK || PyErr_Occurred()) {
        leat_py_raise_or_interrupt(rc, &err);
        return -1;
    }
    if (prepare != Py_None) {
        Py_INCREF(prepare);
        l->prepare = prepare;
    }
    return 0;
}

/* In a forked child no other thread is left that could be in a call. */
static struct leat_loader *find(PyObject *self)
{
    struct loader_object *l = (struct loader_object *)self;
    if (!l->loader)
        leat_py_raise_text(LEAT_INVALID, "the loader is closed");
    if (l->pid != getpid()) {
        l->pid = getpid();
        l->busy = false;
        l->looking = 0;
    }
    return l->loader;
}

/* A loader is used by one thread at a time; the interpreter's lock is not held while it waits. */
static struct leat_loader *enter(PyObject *self)
{
    struct loader_object *l = (struct loader_object *)self;
    if (!find(self))
        return NULL;
    if (l->busy) {
        leat_py_raise_text(LEAT_BUSY, "the loader is in use by another thread");
        return NULL;
    }
    l->busy = true;
    return l->loader;
}

static void leave(PyObject *self)
{
    ((struct loader_object *)self)->busy = false;
}

/* Any thread may look at it meanwhile; it only must not be closed. */
static struct leat_loader *begin_look(PyObject *self)
{
    struct leat_loader *l = find(self);
    ((struct loader_object *)self)->looking += l != NULL;
    return l;
}

static void end_look(PyObject *self)
{
    ((struct loader_object *)self)->looking--;
}

/* One pass over a loader: an epoch, or what is left of it. */
struct pass_object {
    PyObject_HEAD PyObject *loader;
    unsigned long long number;
    bool begun;
    bool over;
    struct place {
        bool known;
        uint64_t epoch;
        uint64_t position;
    } first, stands; /* before its first batch, and after its last one */
};

static void pass_dealloc(PyObject *self)
{
    Py_XDECREF(((struct pass_object *)self)->loader);
    leat_py_free(self);
}

/* Before the first batch of all the rank learns which one it is. */
static bool prepare(struct loader_object *l)
{
    if (!l->prepare)
        return true;
    PyObject *done = PyObject_CallFunctionObjArgs(l->prepare, (PyObject *)l, NULL);
    if (!done)
        return false;
    Py_DECREF(done);
    Py_CLEAR(l->prepare);
    return true;
}

static bool begin_pass(struct pass_object *p)
{
    struct loader_object *l = (struct loader_object *)p->loader;
    struct leat_error err;
    if (!prepare(l))
        return false;
    if (p->number != l->passes) {
        leat_py_raise_text(LEAT_INVALID, "this pass is over: another one was begun by iter(loader)");
        return false;
    }
    if (!p->begun) {
        leat_status rc;
        struct leat_loader *loader = enter(p->loader);
        if (!loader)
            return false;
        Py_BEGIN_ALLOW_THREADS;
        rc = leat_loader_begin(loader, &err);
        Py_END_ALLOW_THREADS;
        leave(p->loader);
        if (rc != LEAT_OK) {
            leat_py_raise_or_interrupt(rc, &err);
            return false;
        }
    }
    p->begun = true;
    return true;
}

/* The user holds all slots but for this batch, and would get no more: so it is handed over as a copy, and its slot
 * goes back. Without memory for one it stays as it is; the next call then says what is wrong. */
static struct leat_batch *copy_out(struct loader_object *l, struct leat_batch *batch)
{
    struct leat_batch *copy = NULL;
    leat_status rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_batch_copy(batch, UINT64_MAX, &copy, NULL);
    Py_END_ALLOW_THREADS;
    if (rc != LEAT_OK || !copy)
        return batch;
    leat_batch_release(batch);
    if (!l->copies)
        warn(l, "you hold a batch in every slot of the ring, so batches are copied into memory of their own until you "
                "drop some; that costs time, and more slots (slots=) avoid it");
    l->copies = true;
    return copy;
}

/* What is done with a batch that was taken; takes it over. */
typedef PyObject *with_batch(PyObject *loader, struct leat_py_delivery *delivery, struct leat_batch *batch);

static PyObject *hand_over(PyObject *loader, struct leat_py_delivery *delivery, struct leat_batch *batch)
{
    struct loader_object *l = (struct loader_object *)loader;
    if (leat_loader_full(l->loader))
        batch = copy_out(l, batch);
    if (!PyErr_Occurred())
        return leat_py_deliver(delivery, batch);
    leat_batch_release(batch);
    return NULL;
}

/* The last step of a handover: the loader moves past the batch. From here on no signal handler runs before the caller
 * has the values: what is left to do calls nothing of Python's. */
static bool accept_batch(struct pass_object *p, const struct place *first, const struct place *stands)
{
    struct loader_object *l = (struct loader_object *)p->loader;
    struct leat_error err;
    leat_status rc;
    if (PyErr_CheckSignals() < 0) /* while the batch can still come again */
        return false;
    if (!l->looking) {
        rc = leat_loader_accept(l->loader, &err);
    } else { /* the one that looks may need the interpreter's lock before it is done */
        Py_BEGIN_ALLOW_THREADS;
        rc = leat_loader_accept(l->loader, &err);
        Py_END_ALLOW_THREADS;
    }
    if (rc != LEAT_OK) {
        leat_py_raise(&err);
        return false;
    }
    if (!p->first.known)
        p->first = *first;
    p->stands = *stands;
    return true;
}

/* Makes of a batch what Python gets, and moves the loader. Until that has happened the batch comes again. */
static PyObject *deliver(struct pass_object *p, struct leat_batch *batch, with_batch *with)
{
    const struct place first = {true, leat_batch_epoch(batch), leat_batch_began(batch)};
    const struct place stands = {true, leat_batch_epoch(batch), leat_batch_position(batch)};
    PyObject *values = NULL;
    if (PyErr_Occurred()) /* a warning was interrupted */
        leat_batch_release(batch);
    else
        values = with(p->loader, &((struct loader_object *)p->loader)->delivery, batch);
    if (values && !accept_batch(p, &first, &stands))
        Py_CLEAR(values);
    return values;
}

/* NULL without an exception: the end, or (only when it must not wait) that no batch is there. */
static PyObject *take(struct pass_object *p, bool wait, with_batch *with)
{
    struct leat_batch *batch = NULL;
    struct leat_error err;
    leat_status rc;
    if (p->over)
        return NULL;
    if ((!p->begun || p->number != ((struct loader_object *)p->loader)->passes) && !begin_pass(p))
        return NULL;
    struct leat_loader *l = enter(p->loader);
    if (!l)
        return NULL;
    bool ready = leat_loader_ready(l);
    if (!ready && !wait) {
        leave(p->loader);
        return NULL;
    }
    if (!((struct loader_object *)p->loader)->looking && ready) {
        /* Nobody can keep it waiting. Keeps the lock: another thread might take it meanwhile, and give it back only
         * five milliseconds later. */
        rc = leat_loader_peek(l, &batch, &err);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        rc = leat_loader_peek(l, &batch, &err);
        Py_END_ALLOW_THREADS;
    }
    PyObject *values = NULL;
    if (rc != LEAT_OK)
        leat_py_raise_or_interrupt(rc, &err);
    else if (batch)
        values = deliver(p, batch, with);
    else
        p->over = true;
    leave(p->loader);
    return values;
}

static PyObject *pass_next(PyObject *self)
{
    return take((struct pass_object *)self, true, hand_over);
}

/* For stages that read ahead of the user. */
static PyObject *pass_take(PyObject *self, PyObject *wait)
{
    struct pass_object *p = (struct pass_object *)self;
    int waits = PyObject_IsTrue(wait);
    PyObject *handle = waits < 0 ? NULL : take(p, waits > 0, leat_py_handle);
    if (handle || PyErr_Occurred())
        return handle;
    if (!p->over)
        Py_RETURN_NONE;
    PyErr_SetNone(PyExc_StopIteration);
    return NULL;
}

static PyObject *get_place(PyObject *self, void *closure)
{
    const struct pass_object *p = (struct pass_object *)self;
    const struct place *at = *(const int *)closure == 'f' ? &p->first : &p->stands;
    if (!at->known)
        Py_RETURN_NONE;
    return Py_BuildValue("KK", (unsigned long long)at->epoch, (unsigned long long)at->position);
}

static int places[] = {'f', 's'}; /* which place a property is */

static PyGetSetDef pass_getset[] = {
    {"first", get_place, NULL, "(epoch, position) before its first batch; None: it has taken none.", &places[0]},
    {"stands", get_place, NULL, "(epoch, position) after the last batch that it has taken.", &places[1]},
    {0},
};

static PyMethodDef pass_methods[] = {
    {"take", pass_take, METH_O,
     "take(wait): the next leat._core.Batch. None: not there yet, and it was not to wait. StopIteration: the end."},
    {0},
};

static PyType_Slot pass_slots[] = {
    {Py_tp_doc, (char[]){"The batches of an epoch, or of the rest of it."}},
    {Py_tp_new, leat_py_no_new},
    {Py_tp_dealloc, pass_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, pass_next},
    {Py_tp_methods, pass_methods},
    {Py_tp_getset, pass_getset},
    {0},
};

static PyType_Spec pass_spec = {
    .name = "leat._core.Pass",
    .basicsize = sizeof(struct pass_object),
    .flags = LEAT_PY_TYPE_FLAGS,
    .slots = pass_slots,
};

static PyTypeObject *pass_type;

static PyObject *loader_iter(PyObject *self)
{
    struct pass_object *p = PyObject_New(struct pass_object, pass_type);
    if (!p)
        return NULL;
    Py_INCREF(self);
    p->loader = self;
    p->number = ++((struct loader_object *)self)->passes;
    p->begun = p->over = false;
    p->first = p->stands = (struct place){0};
    return (PyObject *)p;
}

/* A text of the library's, freed. */
static PyObject *text_or_raise(leat_status rc, char *text, const struct leat_error *err)
{
    if (rc != LEAT_OK)
        return leat_py_raise_or_interrupt(rc, err);
    PyObject *out = PyErr_Occurred() ? NULL : PyUnicode_FromString(text);
    free(text);
    return out;
}

static PyObject *none_or_raise(leat_status rc, const struct leat_error *err)
{
    if (rc != LEAT_OK)
        return leat_py_raise_or_interrupt(rc, err);
    if (PyErr_Occurred()) /* a warning was interrupted */
        return NULL;
    Py_RETURN_NONE;
}

typedef leat_status text_call(struct leat_loader *loader, char **out, struct leat_error *err);

static PyObject *call_for_text(PyObject *self, struct leat_loader *(*begin)(PyObject *self),
                               void (*end)(PyObject *self), text_call *call)
{
    struct leat_loader *l = begin(self);
    char *text = NULL;
    struct leat_error err;
    leat_status rc;
    if (!l)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = call(l, &text, &err);
    Py_END_ALLOW_THREADS;
    end(self);
    return text_or_raise(rc, text, &err);
}

/* From any thread, beside a call that uses the loader. */
static PyObject *look_for_text(PyObject *self, text_call *call)
{
    return call_for_text(self, begin_look, end_look, call);
}

static PyObject *loader_state(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return look_for_text(self, leat_loader_state);
}

static PyObject *loader_agreement(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return call_for_text(self, enter, leave, leat_loader_agreement);
}

static PyObject *loader_stats(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return look_for_text(self, leat_loader_stats);
}

static PyObject *loader_series(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return look_for_text(self, leat_loader_series);
}

/* A call that is given a text. */
static PyObject *call_with_text(PyObject *self, PyObject *args,
                                leat_status (*call)(struct leat_loader *l, const char *text, struct leat_error *err))
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
    rc = call(l, text, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    return none_or_raise(rc, &err);
}

static PyObject *loader_restore(PyObject *self, PyObject *args)
{
    return call_with_text(self, args, leat_loader_restore);
}

static PyObject *loader_share(PyObject *self, PyObject *args)
{
    return call_with_text(self, args, leat_loader_share);
}

static PyObject *loader_confer(PyObject *self, PyObject *args)
{
    const char *ask;
    char *answer = NULL;
    struct leat_error err;
    leat_status rc;
    if (!PyArg_ParseTuple(args, "s", &ask))
        return NULL;
    struct leat_loader *l = enter(self);
    if (!l)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_loader_confer(l, ask, &answer, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    return text_or_raise(rc, answer, &err);
}

static PyObject *loader_set_epoch(PyObject *self, PyObject *args)
{
    uint64_t epoch;
    struct leat_error err;
    leat_status rc;
    if (!PyArg_ParseTuple(args, "O&", leat_py_read_u64, &epoch))
        return NULL;
    struct leat_loader *l = enter(self);
    if (!l)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_loader_set_epoch(l, epoch, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    return none_or_raise(rc, &err);
}

static PyObject *loader_seek(PyObject *self, PyObject *args)
{
    uint64_t epoch;
    uint64_t position;
    struct leat_error err;
    leat_status rc;
    if (!PyArg_ParseTuple(args, "O&O&", leat_py_read_u64, &epoch, leat_py_read_u64, &position))
        return NULL;
    struct leat_loader *l = enter(self);
    if (!l)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_loader_seek(l, epoch, position, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    return none_or_raise(rc, &err);
}

/* join(rank, world, nodes): nodes is a list with the node of each rank, or None. */
static PyObject *loader_join(PyObject *self, PyObject *args)
{
    uint32_t rank;
    uint32_t world;
    PyObject *list;
    uint32_t *nodes = NULL;
    struct leat_error err;
    if (!PyArg_ParseTuple(args, "O&O&O", leat_py_read_u32, &rank, leat_py_read_u32, &world, &list))
        return NULL;
    if (list != Py_None) {
        if (!PyList_Check(list) || PyList_Size(list) != (Py_ssize_t)world) {
            PyErr_SetString(PyExc_TypeError, "nodes is a list with a number for each rank");
            return NULL;
        }
        nodes = PyMem_Calloc((size_t)world + 1, sizeof *nodes);
        if (!nodes)
            return PyErr_NoMemory();
        for (uint32_t i = 0; i < world && leat_py_read_u32(PyList_GetItem(list, i), &nodes[i]);)
            i++;
    }
    struct leat_loader *l = PyErr_Occurred() ? NULL : enter(self);
    leat_status rc = LEAT_OK;
    Py_BEGIN_ALLOW_THREADS;
    if (l)
        rc = leat_loader_join(l, rank, world, nodes, &err);
    Py_END_ALLOW_THREADS;
    PyMem_Free(nodes);
    if (!l)
        return NULL;
    leave(self);
    return none_or_raise(rc, &err);
}

static PyObject *loader_close(PyObject *self, PyObject *ignored)
{
    struct loader_object *l = (struct loader_object *)self;
    (void)ignored;
    if (!l->loader)
        Py_RETURN_NONE;
    find(self);
    if (l->busy || l->looking) {
        leat_py_raise_text(LEAT_BUSY, "the loader is in use by another thread");
        return NULL;
    }
    leat_loader_close(l->loader);
    l->loader = NULL;
    if (PyErr_Occurred()) /* Ctrl-C ended a wait for events */
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *get_number(PyObject *self, void *closure)
{
    struct loader_object *l = (struct loader_object *)self;
    const int which = *(const int *)closure;
    if (!l->loader) {
        leat_py_raise_text(LEAT_INVALID, "the loader is closed");
        return NULL;
    }
    uint64_t v = which == 'b'   ? leat_loader_batches(l->loader)
                 : which == 's' ? leat_loader_samples(l->loader)
                                : leat_loader_epoch(l->loader);
    return PyLong_FromUnsignedLongLong(v);
}

static PyObject *get_version(PyObject *self, void *closure)
{
    struct loader_object *l = (struct loader_object *)self;
    (void)closure;
    if (!l->loader) {
        leat_py_raise_text(LEAT_INVALID, "the loader is closed");
        return NULL;
    }
    return PyUnicode_FromString(leat_loader_version(l->loader));
}

static PyObject *get_timeout(PyObject *self, void *closure)
{
    (void)closure;
    return PyFloat_FromDouble(((struct loader_object *)self)->timeout_s);
}

static PyMethodDef loader_methods[] = {
    {"state", loader_state, METH_NOARGS, "The state after the last batch, as JSON."},
    {"restore", loader_restore, METH_VARARGS, "Goes to a state."},
    {"set_epoch", loader_set_epoch, METH_VARARGS, "Goes to the beginning of an epoch."},
    {"seek", loader_seek, METH_VARARGS, "Goes to a position in an epoch."},
    {"join", loader_join, METH_VARARGS, "Says which rank of which world this is, and on which nodes the ranks are."},
    {"confer", loader_confer, METH_VARARGS, "Asks the agent about the machines of the job, in JSON."},
    {"share", loader_share, METH_VARARGS, "Says which machines fetch from each other, as JSON."},
    {"agreement", loader_agreement, METH_NOARGS, "What all ranks must have in common, as JSON."},
    {"stats", loader_stats, METH_NOARGS, "What has happened so far, as JSON."},
    {"series", loader_series, METH_NOARGS, "The same over time, as JSON."},
    {"close", loader_close, METH_NOARGS, "Lets go of the agent."},
    {0},
};

static int numbers[] = {'b', 's', 'e'}; /* which number a property is */

static PyGetSetDef loader_getset[] = {
    {"batches", get_number, NULL, NULL, &numbers[0]}, {"samples", get_number, NULL, NULL, &numbers[1]},
    {"epoch", get_number, NULL, NULL, &numbers[2]},   {"version", get_version, NULL, NULL, NULL},
    {"timeout", get_timeout, NULL, NULL, NULL},       {0},
};

static PyType_Slot loader_slots[] = {
    {Py_tp_doc, (char[]){"A loader of the C library."}},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, loader_init},
    {Py_tp_dealloc, loader_dealloc},
    {Py_tp_iter, loader_iter},
    {Py_tp_methods, loader_methods},
    {Py_tp_getset, loader_getset},
    {0},
};

static PyType_Spec loader_spec = {
    .name = "leat._core.Loader",
    .basicsize = sizeof(struct loader_object),
    .flags = LEAT_PY_TYPE_FLAGS,
    .slots = loader_slots,
};

int leat_py_add_loader(PyObject *module)
{
    pass_type = leat_py_add_type(NULL, &pass_spec);
    if (!pass_type || leat_py_add_batch(module) < 0 || leat_py_add_handle(module) < 0 ||
        leat_py_add_handover(module) < 0 || leat_py_add_device(module) < 0)
        return -1;
    return leat_py_add_type(module, &loader_spec) ? 0 : -1;
}
