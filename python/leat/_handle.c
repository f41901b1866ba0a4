#include "_handle.h"

#include <stdlib.h>

struct handle_object {
    PyObject_HEAD PyObject *loader;
    struct leat_py_delivery *delivery; /* the loader's */
    struct leat_py_share *share;       /* NULL: released */
};

static PyTypeObject *handle_type;

static void handle_dealloc(PyObject *self)
{
    struct handle_object *h = (struct handle_object *)self;
    if (h->share)
        leat_py_share_drop(h->share);
    Py_XDECREF(h->loader);
    leat_py_free(self);
}

PyObject *leat_py_handle(PyObject *loader, struct leat_py_delivery *delivery, struct leat_batch *batch)
{
    struct leat_py_share *share = leat_py_share_make(batch);
    if (!share) {
        leat_batch_release(batch);
        return PyErr_NoMemory();
    }
    struct handle_object *h = PyObject_New(struct handle_object, handle_type);
    if (!h) {
        leat_py_share_drop(share);
        return NULL;
    }
    Py_INCREF(loader);
    h->loader = loader;
    h->delivery = delivery;
    h->share = share;
    return (PyObject *)h;
}

static struct leat_py_share *find(PyObject *self)
{
    if (!PyObject_TypeCheck(self, handle_type)) {
        PyErr_SetString(PyExc_TypeError, "not a batch that was taken");
        return NULL;
    }
    struct leat_py_share *share = ((struct handle_object *)self)->share;
    if (!share)
        PyErr_SetString(PyExc_ValueError, "the batch was released");
    return share;
}

struct leat_batch *leat_py_handle_batch(PyObject *handle)
{
    const struct leat_py_share *share = find(handle);
    return share ? share->batch : NULL;
}

struct leat_batch *leat_py_handle_take(PyObject *handle)
{
    struct leat_py_share *share = find(handle);
    struct leat_batch *batch = share ? leat_py_share_end(share) : NULL;
    if (batch)
        ((struct handle_object *)handle)->share = NULL;
    else if (share)
        PyErr_SetString(PyExc_ValueError, "columns of the batch are in use");
    return batch;
}

static PyObject *handle_values(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    struct leat_py_share *share = find(self);
    return share ? leat_py_share_deliver(((struct handle_object *)self)->delivery, share) : NULL;
}

static PyObject *handle_state(PyObject *self, PyObject *ignored)
{
    char *text = NULL;
    struct leat_error err;
    (void)ignored;
    const struct leat_batch *batch = leat_py_handle_batch(self);
    if (!batch)
        return NULL;
    if (leat_batch_state(batch, &text, &err) != LEAT_OK)
        return leat_py_raise(&err);
    PyObject *state = PyUnicode_FromString(text);
    free(text);
    return state;
}

static PyObject *handle_release(PyObject *self, PyObject *ignored)
{
    struct handle_object *h = (struct handle_object *)self;
    (void)ignored;
    if (h->share)
        leat_py_share_drop(h->share);
    h->share = NULL;
    Py_RETURN_NONE;
}

/* Where something lies in the batch's memory; -1: nowhere. */
static long long offset_in(const struct leat_memory *m, const void *at)
{
    return at ? (long long)((const char *)at - (const char *)m->data) : -1;
}

static PyObject *describe(const struct leat_batch *batch, size_t i)
{
    struct leat_column c = {.size = sizeof c};
    struct leat_memory m = {.size = sizeof m};
    struct leat_error err;
    if (leat_batch_column(batch, i, &c, &err) != LEAT_OK || leat_batch_memory(batch, i, &m, &err) != LEAT_OK)
        return leat_py_raise(&err);
    struct leat_memory ring = {.size = sizeof ring}; /* where the ends are, wherever the bytes are */
    if (leat_batch_memory(batch, leat_batch_columns(batch), &ring, &err) != LEAT_OK)
        return leat_py_raise(&err);
    PyObject *dims = PyTuple_New((Py_ssize_t)c.dims_n);
    for (uint32_t d = 0; dims && d < c.dims_n; d++) {
        PyObject *n = PyLong_FromUnsignedLongLong(c.dims[d]);
        if (!n || PyTuple_SetItem(dims, (Py_ssize_t)d, n) < 0)
            Py_CLEAR(dims);
    }
    if (!dims)
        return NULL;
    return Py_BuildValue("siiNLKLLO", c.name, (int)c.kind, (int)c.dtype, dims, m.id ? offset_in(&m, c.data) : -1LL,
                         (unsigned long long)c.bytes, offset_in(&ring, c.ends), offset_in(&ring, c.shapes),
                         m.id ? Py_True : Py_False);
}

static PyObject *handle_layout(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    const struct leat_batch *batch = leat_py_handle_batch(self);
    PyObject *list = batch ? PyList_New(0) : NULL;
    for (size_t i = 0; list && i < leat_batch_columns(batch); i++) {
        PyObject *column = describe(batch, i);
        if (!column || PyList_Append(list, column) < 0)
            Py_CLEAR(list);
        Py_XDECREF(column);
    }
    return list;
}

/* For a column whose bytes lie in no memory that another process could map. */
static PyObject *handle_memory(PyObject *self, PyObject *number)
{
    struct leat_column c = {.size = sizeof c};
    struct leat_error err;
    struct leat_py_share *share = find(self);
    Py_ssize_t i = share ? PyNumber_AsSsize_t(number, PyExc_IndexError) : -1;
    if (PyErr_Occurred())
        return NULL;
    if (leat_batch_column(share->batch, (size_t)i, &c, &err) != LEAT_OK)
        return leat_py_raise(&err);
    PyObject *memory = leat_py_memory(share, c.data, c.bytes);
    PyObject *view = memory ? PyMemoryView_FromObject(memory) : NULL;
    Py_XDECREF(memory);
    return view;
}

static PyObject *handle_ring(PyObject *self, PyObject *ignored)
{
    struct leat_memory m = {.size = sizeof m};
    struct leat_error err;
    (void)ignored;
    const struct leat_batch *batch = leat_py_handle_batch(self);
    if (!batch)
        return NULL;
    if (leat_batch_memory(batch, leat_batch_columns(batch), &m, &err) != LEAT_OK)
        return leat_py_raise(&err);
    return Py_BuildValue("KiKK", (unsigned long long)m.id, (int)m.fd, (unsigned long long)(uintptr_t)m.data,
                         (unsigned long long)m.bytes);
}

static PyObject *get_number(PyObject *self, void *closure)
{
    const struct leat_batch *batch = leat_py_handle_batch(self);
    if (!batch)
        return NULL;
    const int which = *(const int *)closure;
    return PyLong_FromUnsignedLongLong(which == 's'   ? leat_batch_samples(batch)
                                       : which == 'e' ? leat_batch_epoch(batch)
                                       : which == 'b' ? leat_batch_began(batch)
                                                      : leat_batch_position(batch));
}

static int numbers[] = {'s', 'e', 'b', 'p'}; /* which number a property is */

static PyGetSetDef handle_getset[] = {
    {"samples", get_number, NULL, "How many samples it has.", &numbers[0]},
    {"epoch", get_number, NULL, "Its epoch.", &numbers[1]},
    {"began", get_number, NULL, "In the order, before this batch.", &numbers[2]},
    {"position", get_number, NULL, "In the order, after this batch.", &numbers[3]},
    {0},
};

static PyMethodDef handle_methods[] = {
    {"values", handle_values, METH_NOARGS, "The batch as the loader hands it over, in its own memory."},
    {"state", handle_state, METH_NOARGS, "The loader's state after this batch, as JSON."},
    {"layout", handle_layout, METH_NOARGS,
     "For each column (name, kind, dtype, dims, offset in the ring, bytes, offset of the ends or -1, offset of the "
     "shapes "
     "or -1, whether the bytes lie in the ring)."},
    {"memory", handle_memory, METH_O, "The bytes of a column, by its number."},
    {"ring", handle_ring, METH_NOARGS, "(id, descriptor, address, bytes) of the ring it lies in."},
    {"release", handle_release, METH_NOARGS, "Gives its slot back, once nothing of values() is left."},
    {0},
};

static PyType_Slot handle_slots[] = {
    {Py_tp_new, leat_py_no_new},
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_getset},
    {Py_tp_doc, (void *)(uintptr_t) "A batch that was taken and not handed over yet."},
    {0},
};

static PyType_Spec handle_spec = {
    .name = "leat._core.Batch",
    .basicsize = sizeof(struct handle_object),
    .flags = LEAT_PY_TYPE_FLAGS,
    .slots = handle_slots,
};

int leat_py_add_handle(PyObject *module)
{
    handle_type = leat_py_add_type(module, &handle_spec);
    return handle_type ? 0 : -1;
}
