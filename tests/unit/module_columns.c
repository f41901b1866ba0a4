/* A Python module for tests/py/test_columns.py: hands over columns of any type and shape through python/leat/_batch.c,
 * also those that no output has yet. The batches here are made of bytes that the test gives. */
#include <stdlib.h>
#include <string.h>

#include "_batch.h"

struct leat_batch {
    struct leat_column column;
    uint32_t samples;
    void *data;
};

static unsigned released;

uint32_t leat_batch_samples(const struct leat_batch *b)
{
    return b->samples;
}

size_t leat_batch_columns(const struct leat_batch *b)
{
    (void)b;
    return 1;
}

leat_status leat_batch_column(const struct leat_batch *b, size_t i, struct leat_column *out, struct leat_error *err)
{
    (void)i;
    (void)err;
    *out = b->column;
    return LEAT_OK;
}

leat_status leat_batch_state(const struct leat_batch *b, char **out, struct leat_error *err)
{
    (void)b;
    (void)err;
    *out = strdup("{}");
    return *out ? LEAT_OK : LEAT_NO_MEMORY;
}

leat_status leat_batch_copy(const struct leat_batch *b, uint64_t most, struct leat_batch **out, struct leat_error *err)
{
    (void)b;
    (void)most;
    (void)err;
    *out = NULL; /* as for a batch of large columns */
    return LEAT_OK;
}

void leat_batch_release(struct leat_batch *b)
{
    free(b->data);
    free(b);
    released++;
}

static void set_shape(struct leat_batch *b, PyObject *shape)
{
    b->samples = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(shape, 0));
    b->column.dims_n = (uint32_t)PyTuple_Size(shape) - 1;
    for (uint32_t d = 0; d < b->column.dims_n && d < LEAT_DIMS_MAX; d++)
        b->column.dims[d] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(shape, d + 1));
}

/* deliver(bytes, kind, dtype, shape, plan) -> the column */
static PyObject *deliver(PyObject *self, PyObject *args)
{
    const char *data;
    Py_ssize_t n;
    unsigned kind;
    unsigned dtype;
    PyObject *shape;
    PyObject *plan;
    (void)self;
    if (!PyArg_ParseTuple(args, "y#IIO!O", &data, &n, &kind, &dtype, &PyTuple_Type, &shape, &plan))
        return NULL;
    struct leat_batch *b = calloc(1, sizeof *b);
    void *copy = aligned_alloc(64, ((size_t)n + 64) / 64 * 64);
    if (!b || !copy)
        abort();
    memcpy(copy, data, (size_t)n);
    b->data = copy;
    b->column = (struct leat_column){
        .size = sizeof b->column, .name = "x", .kind = kind, .dtype = dtype, .data = copy, .bytes = (uint64_t)n};
    set_shape(b, shape);
    struct leat_py_delivery d = {.names = Py_BuildValue("(s)", "x"), .plan = plan, .ragged = Py_None};
    Py_INCREF(plan);
    Py_INCREF(d.ragged);
    PyObject *batch = leat_py_deliver(&d, b);
    leat_py_delivery_clear(&d);
    PyObject *column = batch ? PyTuple_GetItem(batch, 0) : NULL;
    Py_XINCREF(column);
    Py_XDECREF(batch);
    return column;
}

static PyObject *count(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    return PyLong_FromUnsignedLong(released);
}

static PyMethodDef methods[] = {
    {"deliver", deliver, METH_VARARGS, "Hands a column over."},
    {"released", count, METH_NOARGS, "Batches released so far."},
    {0},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "module_columns", .m_size = 0,
                                    .m_methods = methods};

PyMODINIT_FUNC PyInit_module_columns(void);
PyMODINIT_FUNC PyInit_module_columns(void)
{
    PyObject *m = PyModule_Create(&module);
    if (m && leat_py_add_batch(m) < 0)
        Py_CLEAR(m);
    return m;
}
