/* Writing datasets, for Python. Glue only. */
#include "_writer.h"

#include <stdbool.h>
#include <stdlib.h>

#include "_batch.h"
#include "_loader.h"
#include "leat/writer.h"

#define FIELDS_MAX 64

struct writer_object {
    PyObject_HEAD struct leat_packer *packer;
    unsigned calls; /* that use it now, without the interpreter's lock */
    Py_ssize_t fields_n;
    uint32_t types[FIELDS_MAX];
};

static void writer_dealloc(PyObject *self)
{
    leat_packer_close(((struct writer_object *)self)->packer);
    leat_py_free(self);
}

/* What opening and merging share: (url, name, no_current, replace, part, parts, endpoint_url, region, profile,
 * anonymous, timeout). */
static bool read_place(PyObject *place, struct leat_packer_opts *o)
{
    int no_current, replace, anonymous;
    if (!PyArg_ParseTuple(place, "szppO&O&zzzpO&", &o->url, &o->name, &no_current, &replace, leat_py_read_u32, &o->part,
                          leat_py_read_u32, &o->parts, &o->endpoint_url, &o->region, &o->profile, &anonymous,
                          leat_py_read_u64, &o->timeout_ns))
        return false;
    o->no_current = no_current != 0;
    o->replace = replace != 0;
    o->anonymous = anonymous != 0;
    o->stop = leat_py_stop;
    return true;
}

/* A list of (name, type, description or None, optional, zstd). */
static Py_ssize_t read_fields(PyObject *list, struct leat_packer_field *out)
{
    Py_ssize_t n = PyList_Size(list);
    if (n > FIELDS_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd fields: at most %d are possible", n, FIELDS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int optional, zstd;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "sO&zpp", &out[i].name, leat_py_read_u32, &out[i].type,
                              &out[i].about, &optional, &zstd))
            return -1;
        out[i].size = sizeof *out;
        out[i].optional = optional != 0;
        out[i].zstd = zstd != 0;
    }
    return n;
}

static int writer_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct writer_object *w = (struct writer_object *)self;
    struct leat_packer_opts o = {.size = sizeof o};
    struct leat_packer_field fields[FIELDS_MAX] = {{0}};
    struct leat_error err;
    PyObject *place, *list;
    (void)kwargs;
    if (w->packer) {
        PyErr_SetString(PyExc_RuntimeError, "the writer is open already");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "O!O!O&", &PyTuple_Type, &place, &PyList_Type, &list, leat_py_read_u64,
                          &o.chunk_bytes) ||
        !read_place(place, &o))
        return -1;
    Py_ssize_t n = read_fields(list, fields);
    if (n < 0)
        return -1;
    o.fields = fields;
    o.fields_n = (size_t)n;
    w->fields_n = n;
    for (Py_ssize_t i = 0; i < n; i++)
        w->types[i] = fields[i].type;
    leat_status rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_packer_open(&o, &w->packer, &err);
    Py_END_ALLOW_THREADS;
    if (rc == LEAT_OK)
        return 0;
    leat_py_raise_or_interrupt(rc, &err);
    return -1;
}

static struct leat_packer *find(PyObject *self)
{
    struct writer_object *w = (struct writer_object *)self;
    if (!w->packer)
        leat_py_raise_text(LEAT_INVALID, "the writer is closed");
    return w->packer;
}

static bool read_shape(PyObject *shape, struct leat_packer_value *v)
{
    Py_ssize_t n = PyTuple_Check(shape) ? PyTuple_Size(shape) : -1;
    if (n < 0 || n > 8) {
        PyErr_SetString(PyExc_ValueError, "a shape is a tuple of at most 8 numbers");
        return false;
    }
    v->dims_n = (uint32_t)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!leat_py_read_u64(PyTuple_GetItem(shape, i), &v->dims[i]))
            return false;
    }
    return true;
}

/* None; int and float as they are; bytes for all that is bytes; (bytes, shape) for arrays. */
static bool read_value(PyObject *value, uint32_t type, struct leat_packer_value *v, Py_buffer *buffer)
{
    v->size = sizeof *v;
    if (value == Py_None) {
        v->absent = 1;
        return true;
    }
    if (type == LEAT_DATA_INT) {
        v->number = PyLong_AsLongLong(value);
        return !PyErr_Occurred();
    }
    if (type == LEAT_DATA_FLOAT) {
        v->real = PyFloat_AsDouble(value);
        return !PyErr_Occurred();
    }
    if (type == LEAT_DATA_ARRAY) {
        if (!PyTuple_Check(value) || PyTuple_Size(value) != 2) {
            PyErr_SetString(PyExc_TypeError, "an array is (bytes, shape)");
            return false;
        }
        if (!read_shape(PyTuple_GetItem(value, 1), v))
            return false;
        value = PyTuple_GetItem(value, 0);
    }
    if (PyObject_GetBuffer(value, buffer, PyBUF_C_CONTIGUOUS) < 0)
        return false;
    v->data = buffer->buf;
    v->bytes = (uint64_t)buffer->len;
    return true;
}

/* (key, tuple of values) */
static PyObject *writer_add(PyObject *self, PyObject *args)
{
    struct writer_object *w = (struct writer_object *)self;
    struct leat_packer *packer = find(self);
    struct leat_packer_value values[FIELDS_MAX] = {{0}};
    Py_buffer buffers[FIELDS_MAX] = {{0}};
    struct leat_error err;
    const char *key;
    Py_ssize_t key_n;
    PyObject *given;
    bool good = true;
    if (!packer || !PyArg_ParseTuple(args, "y#O!", &key, &key_n, &PyTuple_Type, &given))
        return NULL;
    if (PyTuple_Size(given) != w->fields_n) {
        PyErr_Format(PyExc_ValueError, "%zd values for %zd fields", PyTuple_Size(given), w->fields_n);
        return NULL;
    }
    for (Py_ssize_t i = 0; good && i < w->fields_n; i++)
        good = read_value(PyTuple_GetItem(given, i), w->types[i], &values[i], &buffers[i]);
    leat_status rc = LEAT_OK;
    if (good) {
        w->calls++;
        Py_BEGIN_ALLOW_THREADS;
        rc = leat_packer_add(packer, key, (size_t)key_n, values, &err);
        Py_END_ALLOW_THREADS;
        w->calls--;
    }
    for (Py_ssize_t i = 0; i < w->fields_n; i++)
        PyBuffer_Release(&buffers[i]);
    if (!good)
        return NULL;
    if (rc != LEAT_OK)
        return leat_py_raise_or_interrupt(rc, &err);
    Py_RETURN_NONE;
}

static PyObject *writer_finish(PyObject *self, PyObject *ignored)
{
    struct writer_object *w = (struct writer_object *)self;
    struct leat_packer *packer = find(self);
    char version[LEAT_PACKER_VERSION] = "";
    struct leat_error err;
    (void)ignored;
    if (!packer)
        return NULL;
    if (w->calls) {
        leat_py_raise_text(LEAT_BUSY, "another thread is still writing");
        return NULL;
    }
    w->calls++;
    leat_status rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_packer_finish(packer, version, &err);
    Py_END_ALLOW_THREADS;
    w->calls--;
    return rc == LEAT_OK ? PyUnicode_FromString(version) : leat_py_raise_or_interrupt(rc, &err);
}

static PyObject *writer_close(PyObject *self, PyObject *ignored)
{
    struct writer_object *w = (struct writer_object *)self;
    (void)ignored;
    if (w->calls) {
        leat_py_raise_text(LEAT_BUSY, "another thread is still writing");
        return NULL;
    }
    struct leat_packer *packer = w->packer;
    w->packer = NULL;
    Py_BEGIN_ALLOW_THREADS;
    leat_packer_close(packer);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *writer_samples(PyObject *self, void *ignored)
{
    struct leat_packer *packer = find(self);
    (void)ignored;
    return packer ? PyLong_FromUnsignedLongLong(leat_packer_samples(packer)) : NULL;
}

static PyMethodDef writer_methods[] = {
    {"add", writer_add, METH_VARARGS, "(key, values by field)"},
    {"close", writer_close, METH_NOARGS, NULL},
    {"finish", writer_finish, METH_NOARGS, "Publishes; the content id."},
    {0},
};

static PyGetSetDef writer_getset[] = {
    {"samples", writer_samples, NULL, NULL, NULL},
    {0},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_new, PyType_GenericNew},  {Py_tp_init, writer_init},     {Py_tp_dealloc, writer_dealloc},
    {Py_tp_methods, writer_methods}, {Py_tp_getset, writer_getset}, {0},
};

static PyType_Spec writer_spec = {
    .name = "leat._core.Writer",
    .basicsize = sizeof(struct writer_object),
    .flags = LEAT_PY_TYPE_FLAGS,
    .slots = writer_slots,
};

PyObject *leat_py_merge(PyObject *self, PyObject *place)
{
    struct leat_packer_opts o = {.size = sizeof o};
    char version[LEAT_PACKER_VERSION] = "";
    struct leat_error err;
    (void)self;
    if (!PyTuple_Check(place)) {
        PyErr_SetString(PyExc_TypeError, "a place is a tuple");
        return NULL;
    }
    if (!read_place(place, &o))
        return NULL;
    leat_status rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_packer_merge(&o, version, &err);
    Py_END_ALLOW_THREADS;
    return rc == LEAT_OK ? PyUnicode_FromString(version) : leat_py_raise_or_interrupt(rc, &err);
}

int leat_py_add_writer(PyObject *module)
{
    return leat_py_add_type(module, &writer_spec) ? 0 : -1;
}
