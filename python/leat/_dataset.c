/* Datasets to look at, for Python. Glue only. */
#include "_dataset.h"

#include <stdlib.h>

#include "_batch.h"
#include "_loader.h"
#include "leat/dataset.h"
#include "leat/leat.h"

struct dataset_object {
    PyObject_HEAD struct leat_data *data;
    unsigned calls; /* that use it now, without the interpreter's lock */
};

static void dataset_dealloc(PyObject *self)
{
    leat_data_close(((struct dataset_object *)self)->data);
    leat_py_free(self);
}

static int dataset_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct dataset_object *d = (struct dataset_object *)self;
    static const char *const names[] = {"url",     "version",   "endpoint_url", "region", "profile",
                                        "timeout", "anonymous", "cache",        NULL};
    struct leat_data_opts o = {.size = sizeof o, .stop = leat_py_stop};
    struct leat_error err;
    int anonymous = 0;
    if (d->data) {
        PyErr_SetString(PyExc_RuntimeError, "the dataset is open already");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "szzzzO&pO&", (char **)(uintptr_t)names, &o.url, &o.version,
                                     &o.endpoint_url, &o.region, &o.profile, leat_py_read_u64, &o.timeout_ns,
                                     &anonymous, leat_py_read_u64, &o.cache))
        return -1;
    o.anonymous = anonymous != 0;
    leat_status rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_data_open(&o, &d->data, &err);
    Py_END_ALLOW_THREADS;
    if (rc == LEAT_OK)
        return 0;
    leat_py_raise_or_interrupt(rc, &err);
    return -1;
}

static struct leat_data *find(PyObject *self)
{
    struct dataset_object *d = (struct dataset_object *)self;
    if (!d->data)
        leat_py_raise_text(LEAT_INVALID, "the dataset is closed");
    return d->data;
}

static PyObject *dataset_fields(PyObject *self, PyObject *ignored)
{
    struct leat_data *data = find(self);
    (void)ignored;
    PyObject *list = data ? PyList_New(0) : NULL;
    for (size_t i = 0; list && i < leat_data_fields(data); i++) {
        struct leat_data_field f = {.size = sizeof f};
        struct leat_error err;
        PyObject *row = NULL;
        if (leat_data_field(data, i, &f, &err) != LEAT_OK)
            leat_py_raise(&err);
        else
            row = Py_BuildValue("sIsO", f.name, (unsigned)f.type, f.about, f.optional ? Py_True : Py_False);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* The number of the first sample with the key. */
static PyObject *dataset_find(PyObject *self, PyObject *args)
{
    struct leat_data *data = find(self);
    const char *key;
    Py_ssize_t n;
    uint64_t number = 0;
    struct leat_error err;
    if (!data || !PyArg_ParseTuple(args, "y#", &key, &n))
        return NULL;
    ((struct dataset_object *)self)->calls++;
    leat_status rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_data_find(data, key, (size_t)n, &number, &err);
    Py_END_ALLOW_THREADS;
    ((struct dataset_object *)self)->calls--;
    if (rc == LEAT_NOT_FOUND) {
        PyErr_SetString(PyExc_KeyError, err.text);
        return NULL;
    }
    return rc == LEAT_OK ? PyLong_FromUnsignedLongLong(number) : leat_py_raise_or_interrupt(rc, &err);
}

static PyObject *shape_of(const struct leat_data_value *v)
{
    PyObject *shape = PyTuple_New((Py_ssize_t)v->dims_n);
    for (uint32_t i = 0; shape && i < v->dims_n; i++) {
        PyObject *dim = PyLong_FromUnsignedLongLong(v->dims[i]);
        if (!dim || PyTuple_SetItem(shape, (Py_ssize_t)i, dim) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

/* int, float and str; bytes for bytes and json; (bytes, width, height) for images; (bytes, dtype, shape) for arrays,
 * with the shape -1 for tokens; None where there is none. */
static PyObject *convert(const struct leat_data_value *v)
{
    const char *data = v->data;
    Py_ssize_t n = (Py_ssize_t)v->bytes;
    if (v->absent)
        Py_RETURN_NONE;
    switch (v->type) {
    case LEAT_DATA_INT:
        return PyLong_FromLongLong(v->number);
    case LEAT_DATA_FLOAT:
        return PyFloat_FromDouble(v->real);
    case LEAT_DATA_STRING:
        return PyUnicode_DecodeUTF8(data, n, "surrogateescape");
    case LEAT_DATA_IMAGE:
        return Py_BuildValue("y#II", data, n, (unsigned)v->width, (unsigned)v->height);
    case LEAT_DATA_ARRAY:
        return Py_BuildValue("y#IN", data, n, (unsigned)v->dtype, shape_of(v));
    case LEAT_DATA_TOKENS:
        return Py_BuildValue("y#Ii", data, n, (unsigned)v->dtype, -1);
    default:
        return PyBytes_FromStringAndSize(data, n);
    }
}

static PyObject *values_of(struct leat_data_sample *sample, PyObject *fields)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < PyTuple_Size(fields); i++) {
        struct leat_data_value v = {.size = sizeof v};
        struct leat_error err;
        PyObject *value = NULL;
        size_t field = PyLong_AsSize_t(PyTuple_GetItem(fields, i));
        if (!PyErr_Occurred() && leat_data_value(sample, field, &v, &err) != LEAT_OK)
            leat_py_raise(&err);
        else if (!PyErr_Occurred())
            value = convert(&v);
        if (!value || PyList_Append(list, value) < 0)
            Py_CLEAR(list);
        Py_XDECREF(value);
    }
    return list;
}

/* (number, fields) to (key, values): the fields by number. */
static PyObject *dataset_get(PyObject *self, PyObject *args)
{
    struct leat_data *data = find(self);
    struct leat_data_sample *sample = NULL;
    struct leat_error err;
    PyObject *fields;
    uint64_t number;
    size_t key_n;
    if (!data || !PyArg_ParseTuple(args, "O&O!", leat_py_read_u64, &number, &PyTuple_Type, &fields))
        return NULL;
    ((struct dataset_object *)self)->calls++;
    leat_status rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_data_get(data, number, &sample, &err);
    Py_END_ALLOW_THREADS;
    ((struct dataset_object *)self)->calls--;
    if (rc != LEAT_OK)
        return leat_py_raise_or_interrupt(rc, &err);
    const char *key = leat_data_key(sample, &key_n);
    PyObject *values = values_of(sample, fields);
    PyObject *pair = values ? Py_BuildValue("y#N", key, (Py_ssize_t)key_n, values) : NULL;
    leat_data_release(sample);
    return pair;
}

static PyObject *dataset_close(PyObject *self, PyObject *ignored)
{
    struct dataset_object *d = (struct dataset_object *)self;
    (void)ignored;
    if (d->calls) {
        leat_py_raise_text(LEAT_BUSY, "the dataset is in use by another thread");
        return NULL;
    }
    struct leat_data *data = d->data;
    d->data = NULL;
    Py_BEGIN_ALLOW_THREADS;
    leat_data_close(data);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *dataset_samples(PyObject *self, void *ignored)
{
    struct leat_data *data = find(self);
    (void)ignored;
    return data ? PyLong_FromUnsignedLongLong(leat_data_samples(data)) : NULL;
}

static PyObject *dataset_version(PyObject *self, void *ignored)
{
    struct leat_data *data = find(self);
    (void)ignored;
    return data ? PyUnicode_FromString(leat_data_version(data)) : NULL;
}

static PyMethodDef dataset_methods[] = {
    {"close", dataset_close, METH_NOARGS, NULL},
    {"fields", dataset_fields, METH_NOARGS, "[(name, type, description, optional), …]"},
    {"find", dataset_find, METH_VARARGS, "A key to the number of the first sample that has it."},
    {"get", dataset_get, METH_VARARGS, "(number, fields by number) to (key, [value, …])."},
    {0},
};

static PyGetSetDef dataset_getset[] = {
    {"samples", dataset_samples, NULL, NULL, NULL},
    {"version", dataset_version, NULL, NULL, NULL},
    {0},
};

static PyType_Slot dataset_slots[] = {
    {Py_tp_new, PyType_GenericNew},   {Py_tp_init, dataset_init},     {Py_tp_dealloc, dataset_dealloc},
    {Py_tp_methods, dataset_methods}, {Py_tp_getset, dataset_getset}, {0},
};

static PyType_Spec dataset_spec = {
    .name = "leat._core.Dataset",
    .basicsize = sizeof(struct dataset_object),
    .flags = LEAT_PY_TYPE_FLAGS,
    .slots = dataset_slots,
};

/* Texts of settings: (text, name of the setting). */

static PyObject *read_text(PyObject *args,
                           leat_status (*read)(const char *, const char *, uint64_t *, struct leat_error *))
{
    const char *text;
    const char *what;
    uint64_t out = 0;
    struct leat_error err;
    if (!PyArg_ParseTuple(args, "ss", &text, &what))
        return NULL;
    return read(text, what, &out, &err) == LEAT_OK ? PyLong_FromUnsignedLongLong(out) : leat_py_raise(&err);
}

PyObject *leat_py_size(PyObject *self, PyObject *args)
{
    (void)self;
    return read_text(args, leat_text_size);
}

PyObject *leat_py_duration(PyObject *self, PyObject *args)
{
    (void)self;
    return read_text(args, leat_text_duration);
}

/* Pictures */

PyObject *leat_py_decode(PyObject *self, PyObject *args)
{
    struct leat_data_pixels p = {.size = sizeof p};
    struct leat_error err;
    Py_buffer image;
    const char *pipeline;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*s", &image, &pipeline))
        return NULL;
    leat_status rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_data_decode(image.buf, (size_t)image.len, pipeline, &p, &err);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&image);
    if (rc != LEAT_OK)
        return leat_py_raise(&err);
    Py_ssize_t n = (Py_ssize_t)p.width * p.height * p.channels;
    PyObject *pixels = PyByteArray_FromStringAndSize((const char *)p.pixels, n);
    free(p.pixels);
    return pixels ? Py_BuildValue("NIII", pixels, (unsigned)p.height, (unsigned)p.width, (unsigned)p.channels) : NULL;
}

PyObject *leat_py_png(PyObject *self, PyObject *args)
{
    struct leat_data_pixels p = {.size = sizeof p};
    struct leat_error err;
    Py_buffer pixels;
    void *png = NULL;
    size_t n = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*O&O&O&", &pixels, leat_py_read_u32, &p.height, leat_py_read_u32, &p.width,
                          leat_py_read_u32, &p.channels))
        return NULL;
    p.pixels = pixels.buf;
    leat_status rc;
    if ((double)p.width * p.height * p.channels != (double)pixels.len) {
        PyBuffer_Release(&pixels);
        PyErr_SetString(PyExc_ValueError, "height × width × channels is not the number of bytes");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_data_png(&p, &png, &n, &err);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&pixels);
    PyObject *file = rc == LEAT_OK ? PyBytes_FromStringAndSize(png, (Py_ssize_t)n) : leat_py_raise(&err);
    free(png);
    return file;
}

int leat_py_add_dataset(PyObject *module)
{
    return leat_py_add_type(module, &dataset_spec) ? 0 : -1;
}
