/* Ragged columns for Python: values of different lengths, or arrays of different shapes. Glue only. */
#include "_ragged.h"

#include <string.h>

/* leat.loader.Ragged makes a Sequence of it. */
struct ragged_object {
    PyObject_HEAD struct leat_py_share *share;
    struct leat_column column; /* its pointers are into the batch */
    Py_ssize_t n;
    uint64_t unit;             /* bytes that one step of a single varying dimension takes; 1 for bytes and text */
    uint32_t varying;          /* dimensions of an array; 0: bytes and text */
    struct leat_py_column how; /* arrays are made; holds two references */
};

static void ragged_dealloc(PyObject *self)
{
    struct ragged_object *r = (struct ragged_object *)self;
    if (r->share)
        leat_py_share_drop(r->share);
    Py_XDECREF(r->how.make);
    Py_XDECREF(r->how.dtype);
    leat_py_free(self);
}

static Py_ssize_t ragged_length(PyObject *self)
{
    return ((struct ragged_object *)self)->n;
}

static bool is_text(const struct ragged_object *r)
{
    return r->column.kind == LEAT_OUTPUT_STRING || r->column.kind == LEAT_OUTPUT_KEY;
}

static bool scribbled(Py_ssize_t i, const char *what)
{
    char text[100];
    snprintf(text, sizeof text, "value %zd %s where it cannot: something wrote to the batch", i, what);
    leat_py_raise_text(LEAT_CORRUPT, text);
    return false;
}

/* Read once: this process may write to them at any time. */
static uint64_t read_once(const uint64_t *at)
{
    return *(const volatile uint64_t *)at;
}

static bool span(const struct ragged_object *r, Py_ssize_t i, uint64_t *begin, uint64_t *end)
{
    *begin = i ? read_once(&r->column.ends[i - 1]) : 0;
    *end = read_once(&r->column.ends[i]);
    return (*begin <= *end && *end <= r->column.bytes && (*end - *begin) % r->unit == 0) || scribbled(i, "ends");
}

/* The whole shape of an array that has this many bytes. */
static bool shape_of(const struct ragged_object *r, Py_ssize_t i, uint64_t bytes, uint64_t shape[LEAT_DIMS_MAX])
{
    const struct leat_column *c = &r->column;
    uint64_t total = leat_py_dtype_bytes(c->dtype);
    uint32_t k = 0;
    for (uint32_t d = 0; d < c->dims_n; d++) {
        if (c->dims[d])
            shape[d] = c->dims[d];
        else
            shape[d] = c->shapes ? read_once(&c->shapes[(uint64_t)i * r->varying + k++]) : bytes / r->unit;
        if (shape[d] > UINT32_MAX || (shape[d] && total > UINT64_MAX / shape[d]))
            return scribbled(i, "is larger than it can be,");
        total *= shape[d];
    }
    return total == bytes || scribbled(i, "has another size,");
}

static PyObject *array_item(const struct ragged_object *r, Py_ssize_t i, uint64_t begin, uint64_t end)
{
    struct leat_column c = r->column;
    uint64_t shape[LEAT_DIMS_MAX] = {0};
    if (!shape_of(r, i, end - begin, shape))
        return NULL;
    c.data = (const char *)c.data + begin;
    c.bytes = end - begin;
    c.dims_n--;
    memcpy(c.dims, shape + 1, c.dims_n * sizeof *c.dims);
    return leat_py_make(&r->how, r->share, &c, shape[0]);
}

static PyObject *ragged_item(PyObject *self, Py_ssize_t i)
{
    struct ragged_object *r = (struct ragged_object *)self;
    uint64_t begin;
    uint64_t end;
    if (i < 0 || i >= r->n) {
        PyErr_Format(PyExc_IndexError, "%zd of %zd values", i, r->n);
        return NULL;
    }
    if (!span(r, i, &begin, &end))
        return NULL;
    if (r->varying)
        return array_item(r, i, begin, end);
    const char *data = (const char *)r->column.data + begin;
    if (is_text(r))
        return PyUnicode_DecodeUTF8(data, (Py_ssize_t)(end - begin), "surrogateescape");
    PyObject *memory = leat_py_memory(r->share, data, end - begin);
    PyObject *view = memory ? PyMemoryView_FromObject(memory) : NULL;
    Py_XDECREF(memory);
    return view;
}

static PyObject *ragged_slice(PyObject *self, PyObject *slice)
{
    Py_ssize_t first, last, step;
    if (PySlice_Unpack(slice, &first, &last, &step) < 0)
        return NULL;
    Py_ssize_t n = PySlice_AdjustIndices(ragged_length(self), &first, &last, step);
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *value = ragged_item(self, first + i * step);
        if (!value || PyList_SetItem(list, i, value) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *ragged_subscript(PyObject *self, PyObject *key)
{
    if (PySlice_Check(key))
        return ragged_slice(self, key);
    Py_ssize_t i = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    return ragged_item(self, i < 0 ? i + ragged_length(self) : i);
}

static PyObject *ragged_nbytes(PyObject *self, void *closure)
{
    struct ragged_object *r = (struct ragged_object *)self;
    (void)closure;
    return PyLong_FromUnsignedLongLong(r->column.bytes);
}

static PyObject *ragged_text(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(is_text((struct ragged_object *)self));
}

static PyObject *ragged_varying(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLong(((struct ragged_object *)self)->varying);
}

static PyObject *ragged_tensors(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct ragged_object *)self)->how.dtype == Py_None);
}

/* Rows of arrays whose first dimension alone varies are kept together; others are one number after the other. */
static bool by_rows(const struct ragged_object *r)
{
    return r->varying == 1 && r->column.dims[0] == 0;
}

static uint64_t step_bytes(const struct ragged_object *r)
{
    return by_rows(r) ? r->unit : leat_py_dtype_bytes(r->column.dtype);
}

static PyObject *ragged_values(PyObject *self, void *closure)
{
    struct ragged_object *r = (struct ragged_object *)self;
    struct leat_column c = r->column;
    (void)closure;
    c.dims_n = by_rows(r) ? c.dims_n - 1 : 0;
    memmove(c.dims, c.dims + 1, c.dims_n * sizeof *c.dims);
    return leat_py_make(&r->how, r->share, &c, c.bytes / step_bytes(r));
}

/* _offsets(): where each begins in `values`, and where the last ends: int64 in a bytearray. */
static PyObject *ragged_offsets(PyObject *self, PyObject *ignored)
{
    struct ragged_object *r = (struct ragged_object *)self;
    PyObject *out = PyByteArray_FromStringAndSize(NULL, (r->n + 1) * (Py_ssize_t)sizeof(int64_t));
    int64_t at = 0;
    (void)ignored;
    for (Py_ssize_t i = 0; out && i <= r->n; i++) {
        uint64_t begin;
        uint64_t end;
        memcpy(PyByteArray_AsString(out) + i * (Py_ssize_t)sizeof at, &at, sizeof at);
        if (i < r->n && !span(r, i, &begin, &end))
            Py_CLEAR(out);
        else if (i < r->n)
            at = (int64_t)(end / step_bytes(r));
    }
    return out;
}

/* _shapes(): of all arrays, one after the other: int64 in a bytearray. */
static PyObject *ragged_shapes(PyObject *self, PyObject *ignored)
{
    struct ragged_object *r = (struct ragged_object *)self;
    size_t each = r->column.dims_n * sizeof(uint64_t);
    PyObject *out = PyByteArray_FromStringAndSize(NULL, r->n * (Py_ssize_t)each);
    (void)ignored;
    for (Py_ssize_t i = 0; out && i < r->n; i++) {
        uint64_t begin;
        uint64_t end;
        uint64_t shape[LEAT_DIMS_MAX];
        if (span(r, i, &begin, &end) && shape_of(r, i, end - begin, shape))
            memcpy(PyByteArray_AsString(out) + (size_t)i * each, shape, each);
        else
            Py_CLEAR(out);
    }
    return out;
}

static PyMethodDef ragged_methods[] = {
    {"_offsets", ragged_offsets, METH_NOARGS, NULL},
    {"_shapes", ragged_shapes, METH_NOARGS, NULL},
    {0},
};

static PyGetSetDef ragged_getset[] = {
    {"nbytes", ragged_nbytes, NULL, "Bytes of all values together.", NULL},
    {"values", ragged_values, NULL, "All values, one after the other: an array or a tensor on the batch's memory.",
     NULL},
    {"_text", ragged_text, NULL, NULL, NULL},
    {"_varying", ragged_varying, NULL, NULL, NULL},
    {"_tensors", ragged_tensors, NULL, NULL, NULL},
    {0},
};

static PyType_Slot ragged_slots[] = {
    {Py_tp_doc, (char[]){"Values of different lengths, one per sample."}},
    {Py_tp_new, leat_py_no_new},
    {Py_tp_dealloc, ragged_dealloc},
    {Py_tp_iter, PySeqIter_New},
    {Py_sq_length, ragged_length},
    {Py_sq_item, ragged_item},
    {Py_mp_length, ragged_length},
    {Py_mp_subscript, ragged_subscript},
    {Py_tp_methods, ragged_methods},
    {Py_tp_getset, ragged_getset},
    {0},
};

static PyType_Spec ragged_spec = {
    .name = "leat._core.Ragged",
    .basicsize = sizeof(struct ragged_object),
    .flags = LEAT_PY_TYPE_FLAGS | Py_TPFLAGS_BASETYPE,
    .slots = ragged_slots,
};

static PyTypeObject *ragged_type;

PyTypeObject *leat_py_ragged(void)
{
    return ragged_type;
}

int leat_py_add_ragged(PyObject *module)
{
    ragged_type = leat_py_add_type(module, &ragged_spec);
    return ragged_type ? 0 : -1;
}

struct leat_py_share *leat_py_ragged_share(PyObject *column)
{
    return PyObject_TypeCheck(column, ragged_type) ? ((struct ragged_object *)column)->share : NULL;
}

/* A text that is not there, or that could not be read and was made blank, is None. */
static PyObject *parse_json(PyObject *loads, const char *text, uint64_t n)
{
    uint64_t blank = 0;
    while (blank < n && text[blank] == ' ')
        blank++;
    if (blank == n)
        Py_RETURN_NONE;
    PyObject *decoded = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, NULL);
    PyObject *value = decoded ? PyObject_CallFunctionObjArgs(loads, decoded, NULL) : NULL;
    Py_XDECREF(decoded);
    return value;
}

static PyObject *make_json(const struct ragged_object *r)
{
    PyObject *module = PyImport_ImportModule("json");
    PyObject *loads = module ? PyObject_GetAttrString(module, "loads") : NULL;
    PyObject *list = loads ? PyList_New(r->n) : NULL;
    for (Py_ssize_t i = 0; list && i < r->n; i++) {
        uint64_t begin;
        uint64_t end;
        PyObject *value = NULL;
        if (span(r, i, &begin, &end))
            value = parse_json(loads, (const char *)r->column.data + begin, end - begin);
        if (!value || PyList_SetItem(list, i, value) < 0)
            Py_CLEAR(list);
    }
    Py_XDECREF(loads);
    Py_XDECREF(module);
    return list;
}

/* (values, offsets), and shapes where they are needed: plain tensors, for who moves them by themselves. */
static PyObject *make_tuple(PyObject *ragged, uint32_t varying)
{
    static const char *const names[] = {"values", "offsets", "shapes"};
    Py_ssize_t n = varying > 1 ? 3 : 2;
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++) {
        PyObject *one = PyObject_GetAttrString(ragged, names[i]);
        if (!one || PyTuple_SetItem(tuple, i, one) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *leat_py_make_ragged(PyObject *type, const struct leat_py_column *p, struct leat_py_share *share,
                              const struct leat_column *c, uint64_t samples)
{
    struct ragged_object *r = (struct ragged_object *)PyType_GenericAlloc((PyTypeObject *)type, 0);
    if (!r)
        return NULL;
    r->share = leat_py_share_keep(share);
    r->column = *c;
    r->n = (Py_ssize_t)samples;
    r->unit = leat_py_dtype_bytes(c->dtype);
    for (uint32_t d = 0; d < c->dims_n; d++) {
        r->varying += c->dims[d] == 0;
        r->unit *= c->dims[d] ? c->dims[d] : 1;
    }
    r->how = *p;
    Py_INCREF(r->how.make);
    Py_INCREF(r->how.dtype);
    if (c->kind != LEAT_OUTPUT_JSON && !p->tuple)
        return (PyObject *)r;
    PyObject *made = p->tuple ? make_tuple((PyObject *)r, r->varying) : make_json(r);
    Py_DECREF(r);
    return made;
}
