/* Columns of batches for Python. Glue only, but glue that is passed with every step: next() of a batch that is there
 * mostly finds the caches cold, and then every function it goes through costs more than what it does. */
#include "_ragged.h"

#include <pthread.h>
#include <stdlib.h>

PyObject *leat_py_raise(const struct leat_error *err)
{
    return leat_py_raise_text(err->status, err->text);
}

PyObject *leat_py_raise_text(leat_status status, const char *text)
{
    PyObject *module = PyImport_ImportModule("leat.errors");
    PyObject *exception = module ? PyObject_CallMethod(module, "make", "is", (int)status, text) : NULL;
    if (exception)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    Py_XDECREF(module);
    return NULL;
}

/* All batches that Python holds. A tensor does not say which batch it belongs to, but its memory does; and a type of
 * our own for what next() returns, which could say so, would be no tuple or dict to code that looks at exact types, as
 * the pytrees of torch and jax do. */
static struct {
    pthread_mutex_t mu;
    struct leat_py_share *first;
} shares = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* Held over a fork, so that the child finds it free. */
static void lock_shares(void)
{
    pthread_mutex_lock(&shares.mu);
}

static void unlock_shares(void)
{
    pthread_mutex_unlock(&shares.mu);
}

struct leat_py_share *leat_py_share_make(struct leat_batch *batch)
{
    struct leat_py_share *s = malloc(sizeof *s);
    if (!s)
        return NULL;
    atomic_init(&s->refs, 1);
    s->batch = batch;
    lock_shares();
    s->next = shares.first;
    s->link = &shares.first;
    if (s->next)
        s->next->link = &s->next;
    shares.first = s;
    unlock_shares();
    return s;
}

struct leat_py_share *leat_py_share_keep(struct leat_py_share *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

/* Takes it out of the list and frees it; the batch stays. */
static struct leat_batch *forget(struct leat_py_share *s)
{
    struct leat_batch *batch = s->batch;
    lock_shares();
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    unlock_shares();
    free(s);
    return batch;
}

void leat_py_share_drop(struct leat_py_share *s)
{
    /* Acquire and release: whatever was read or written through other columns comes before the slot is free. */
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        leat_batch_release(forget(s));
}

struct leat_batch *leat_py_share_end(struct leat_py_share *s)
{
    return atomic_load_explicit(&s->refs, memory_order_acquire) == 1 ? forget(s) : NULL;
}

/* A stretch of a batch's memory. */
struct memory_object {
    PyObject_HEAD struct leat_py_share *share;
    void *data;
    Py_ssize_t n;
};

static void memory_dealloc(PyObject *self)
{
    leat_py_share_drop(((struct memory_object *)self)->share);
    leat_py_free(self);
}

static int memory_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct memory_object *m = (struct memory_object *)self;
    return PyBuffer_FillInfo(view, self, m->data, m->n, 0, flags);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, (char[]){"Memory of a batch."}},
    {Py_tp_new, leat_py_no_new},
    {Py_tp_dealloc, memory_dealloc},
    {Py_bf_getbuffer, memory_buffer},
    {0},
};

static PyType_Spec memory_spec = {
    .name = "leat._core.Memory",
    .basicsize = sizeof(struct memory_object),
    .flags = LEAT_PY_TYPE_FLAGS,
    .slots = memory_slots,
};

static PyTypeObject *memory_type;

PyObject *leat_py_memory(struct leat_py_share *share, const void *data, uint64_t n)
{
    struct memory_object *m = PyObject_New(struct memory_object, memory_type);
    if (!m)
        return NULL;
    m->share = leat_py_share_keep(share);
    m->data = (void *)(uintptr_t)data;
    m->n = (Py_ssize_t)n;
    return (PyObject *)m;
}

void leat_py_delivery_clear(struct leat_py_delivery *d)
{
    Py_CLEAR(d->names);
    Py_CLEAR(d->plan);
    Py_CLEAR(d->ragged);
    for (size_t i = 0; i < LEAT_PY_OUTPUTS_MAX; i++) {
        Py_CLEAR(d->columns[i].make);
        Py_CLEAR(d->columns[i].dtype);
    }
}

/* Places in numpy's table of functions, the same in every numpy 1 and 2. With its headers they would be macros, but
 * then the build would need numpy. */
enum { NUMPY_ABI = 0, NUMPY_NEW_FROM_DESCR = 94, NUMPY_SET_BASE_OBJECT = 282 };

#define NUMPY_ABI_1  0x1000009u
#define NUMPY_ABI_2  0x2000000u
#define NUMPY_CARRAY 0x501 /* row by row, aligned, may be written to */

/* Leaves *out empty when this is a numpy we do not know. */
static void find_numpy(struct leat_py_numpy *out)
{
    unsigned (*abi)(void) = NULL;
    PyObject *module = PyImport_ImportModule("numpy._core._multiarray_umath");
    if (!module) {
        PyErr_Clear();
        module = PyImport_ImportModule("numpy.core._multiarray_umath");
    }
    PyObject *capsule = module ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
    void **table = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    if (table)
        abi = table[NUMPY_ABI];
    if (abi && (abi() == NUMPY_ABI_1 || abi() == NUMPY_ABI_2)) {
        out->new_from_descr = table[NUMPY_NEW_FROM_DESCR];
        out->set_base_object = table[NUMPY_SET_BASE_OBJECT];
    }
    PyErr_Clear();
    Py_XDECREF(capsule);
    Py_XDECREF(module); /* numpy stays loaded */
}

/* Asks how columns like this one are made; once a loader. */
static bool plan_column(const struct leat_py_delivery *d, const struct leat_column *c, struct leat_py_column *p)
{
    PyObject *answer = PyObject_CallFunction(d->plan, "ii", (int)c->kind, (int)c->dtype);
    bool ok = answer && PyArg_ParseTuple(answer, "OO", &p->make, &p->dtype);
    if (ok) {
        Py_INCREF(p->make);
        Py_INCREF(p->dtype);
        if (PyType_Check(p->make))
            find_numpy(&p->numpy);
    } else {
        p->make = p->dtype = NULL;
    }
    Py_XDECREF(answer);
    return ok;
}

/* numpy.ndarray(shape, dtype, memory) by the shortest way. */
static PyObject *make_array(const struct leat_py_column *p, struct leat_py_share *share, const struct leat_column *c,
                            uint64_t samples)
{
    Py_ssize_t dims[1 + LEAT_DIMS_MAX] = {(Py_ssize_t)samples};
    for (uint32_t d = 0; d < c->dims_n; d++)
        dims[1 + d] = (Py_ssize_t)c->dims[d];
    PyObject *memory = leat_py_memory(share, c->data, c->bytes);
    if (!memory)
        return NULL;
    Py_INCREF(p->dtype); /* which the call takes over, as the next does the memory */
    PyObject *array = p->numpy.new_from_descr((PyTypeObject *)p->make, p->dtype, 1 + (int)c->dims_n, dims, NULL,
                                              (void *)(uintptr_t)c->data, NUMPY_CARRAY, NULL);
    if (!array)
        Py_DECREF(memory);
    else if (p->numpy.set_base_object(array, memory) < 0)
        Py_CLEAR(array);
    return array;
}

/* The same for a numpy whose table we do not know. */
static PyObject *call_array(const struct leat_py_column *p, struct leat_py_share *share, const struct leat_column *c,
                            uint64_t samples)
{
    PyObject *shape = PyTuple_New(1 + (Py_ssize_t)c->dims_n);
    for (uint32_t d = 0; shape && d <= c->dims_n; d++) {
        PyObject *n = PyLong_FromUnsignedLongLong(d ? c->dims[d - 1] : samples);
        if (!n || PyTuple_SetItem(shape, (Py_ssize_t)d, n) < 0)
            Py_CLEAR(shape);
    }
    PyObject *memory = shape ? leat_py_memory(share, c->data, c->bytes) : NULL;
    PyObject *array = memory ? PyObject_CallFunctionObjArgs(p->make, shape, p->dtype, memory, NULL) : NULL;
    Py_XDECREF(memory);
    Py_XDECREF(shape);
    return array;
}

/* DLPack: https://dmlc.github.io/dlpack/latest/c_api.html. The layout is the same in every version of it. */
struct dl_tensor {
    void *data;
    int32_t device_type;
    int32_t device;
    int32_t dims_n;
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
    int64_t *dims;
    int64_t *strides; /* NULL: row by row */
    uint64_t offset;
};

struct dl_managed {
    struct dl_tensor tensor; /* first member */
    void *context;
    void (*drop)(struct dl_managed *self);
    int64_t dims[1 + LEAT_DIMS_MAX]; /* ours */
};

#define DL_NAME "dltensor"
#define DL_CPU  1

static void dl_drop(struct dl_managed *m)
{
    leat_py_share_drop(m->context);
    free(m);
}

/* Of a capsule that nobody took the tensor from: the one that does so changes its name. */
static void dl_forget(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, DL_NAME))
        dl_drop(PyCapsule_GetPointer(capsule, DL_NAME));
}

enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

static const struct {
    uint8_t code, bits;
} dl_types[] = {
    [LEAT_U8] = {DL_UINT, 8},      [LEAT_I64] = {DL_INT, 64},  [LEAT_F32] = {DL_FLOAT, 32}, [LEAT_F16] = {DL_FLOAT, 16},
    [LEAT_BF16] = {DL_BFLOAT, 16}, [LEAT_I8] = {DL_INT, 8},    [LEAT_I16] = {DL_INT, 16},   [LEAT_U16] = {DL_UINT, 16},
    [LEAT_I32] = {DL_INT, 32},     [LEAT_U32] = {DL_UINT, 32}, [LEAT_U64] = {DL_UINT, 64},  [LEAT_F64] = {DL_FLOAT, 64},
    [LEAT_BOOL] = {DL_BOOL, 8},
};

static bool known_type(uint32_t dtype)
{
    return dtype < sizeof dl_types / sizeof *dl_types && dl_types[dtype].bits;
}

uint32_t leat_py_dtype_bytes(uint32_t dtype)
{
    return known_type(dtype) ? dl_types[dtype].bits / 8u : 0;
}

static PyObject *make_capsule(struct leat_py_share *share, const struct leat_column *c, uint64_t samples)
{
    struct dl_managed *m = malloc(sizeof *m);
    if (!m)
        return PyErr_NoMemory();
    *m = (struct dl_managed){
        .tensor = {.data = (void *)(uintptr_t)c->data,
                   .device_type = DL_CPU,
                   .dims_n = 1 + (int32_t)c->dims_n,
                   .code = dl_types[c->dtype].code,
                   .bits = dl_types[c->dtype].bits,
                   .lanes = 1,
                   .dims = m->dims},
        .context = leat_py_share_keep(share),
        .drop = dl_drop,
        .dims = {(int64_t)samples},
    };
    for (uint32_t d = 0; d < c->dims_n; d++)
        m->dims[1 + d] = (int64_t)c->dims[d];
    PyObject *capsule = PyCapsule_New(m, DL_NAME, dl_forget);
    if (!capsule)
        dl_drop(m);
    return capsule;
}

static PyObject *make_tensor(PyObject *make, struct leat_py_share *share, const struct leat_column *c, uint64_t samples)
{
    PyObject *capsule = make_capsule(share, c, samples);
    PyObject *tensor = capsule ? PyObject_CallFunctionObjArgs(make, capsule, NULL) : NULL;
    Py_XDECREF(capsule);
    return tensor;
}

PyObject *leat_py_make(const struct leat_py_column *p, struct leat_py_share *share, const struct leat_column *c,
                       uint64_t samples)
{
    if (p->dtype == Py_None)
        return make_tensor(p->make, share, c, samples);
    return p->numpy.new_from_descr ? make_array(p, share, c, samples) : call_array(p, share, c, samples);
}

/* Columns of at most this many bytes are copied, so that labels and keys that somebody keeps, in a list or as the
 * output of a notebook, do not keep a slot. Copying them takes microseconds. */
#define SMALL_BYTES 65536u

/* `small` has copies of the small columns; NULL: there are none. */
static PyObject *make_column(struct leat_py_delivery *d, struct leat_py_share *share, struct leat_py_share *small,
                             size_t i)
{
    struct leat_py_column *p = &d->columns[i];
    struct leat_column c = {.size = sizeof c};
    struct leat_error err;
    leat_status rc = LEAT_OK;
    if (small)
        rc = leat_batch_column(small->batch, i, &c, &err);
    if (c.data)
        share = small;
    else if (rc == LEAT_OK)
        rc = leat_batch_column(share->batch, i, &c, &err);
    if (rc != LEAT_OK)
        return leat_py_raise(&err);
    if (c.dims_n > LEAT_DIMS_MAX || !known_type(c.dtype))
        return PyErr_Format(PyExc_RuntimeError, "a column of %u dimensions and type %u", c.dims_n, c.dtype);
    uint32_t samples = leat_batch_samples(share->batch);
    if (!p->make && !plan_column(d, &c, p))
        return NULL;
    return c.ends ? leat_py_make_ragged(d->ragged, p, share, &c, samples) : leat_py_make(p, share, &c, samples);
}

static PyObject *name_columns(PyObject *names, PyObject *columns)
{
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict && i < PyTuple_Size(columns); i++) {
        if (PyDict_SetItem(dict, PyTuple_GetItem(names, i), PyTuple_GetItem(columns, i)) < 0)
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *make_columns(struct leat_py_delivery *d, struct leat_py_share *share, struct leat_py_share *small)
{
    Py_ssize_t n = (Py_ssize_t)leat_batch_columns(share->batch);
    if (n != PyTuple_Size(d->names))
        return PyErr_Format(PyExc_RuntimeError, "a batch has %zd columns, not %zd", n, PyTuple_Size(d->names));
    PyObject *columns = PyTuple_New(n);
    for (Py_ssize_t i = 0; columns && i < n; i++) {
        PyObject *column = make_column(d, share, small, (size_t)i);
        if (!column || PyTuple_SetItem(columns, i, column) < 0)
            Py_CLEAR(columns);
    }
    return columns;
}

/* In *out: the small columns of a batch, copied; NULL: it has none. False: raised. */
static bool share_small(const struct leat_batch *batch, struct leat_py_share **out)
{
    struct leat_batch *copy = NULL;
    struct leat_error err;
    if (leat_batch_copy(batch, SMALL_BYTES, &copy, &err) != LEAT_OK) {
        leat_py_raise(&err);
        return false;
    }
    *out = copy ? leat_py_share_make(copy) : NULL;
    if (copy && !*out) {
        leat_batch_release(copy);
        PyErr_NoMemory();
        return false;
    }
    return true;
}

static PyObject *deliver(struct leat_py_delivery *d, struct leat_py_share *share, struct leat_py_share *small)
{
    PyObject *columns = make_columns(d, share, small);
    if (!columns || !d->as_dict)
        return columns;
    PyObject *dict = name_columns(d->names, columns);
    Py_DECREF(columns);
    return dict;
}

PyObject *leat_py_share_deliver(struct leat_py_delivery *d, struct leat_py_share *share)
{
    return deliver(d, share, NULL);
}

PyObject *leat_py_deliver(struct leat_py_delivery *d, struct leat_batch *batch)
{
    struct leat_py_share *small = NULL;
    struct leat_py_share *share = leat_py_share_make(batch);
    if (!share) {
        leat_batch_release(batch);
        return PyErr_NoMemory();
    }
    PyObject *values = share_small(batch, &small) ? deliver(d, share, small) : NULL;
    leat_py_share_drop(share);
    if (small)
        leat_py_share_drop(small);
    return values;
}

/* Whether a column of this batch lies at the address. Of an empty one the beginning counts. */
static bool lies_in(const struct leat_batch *batch, uintptr_t address)
{
    for (size_t i = 0; i < leat_batch_columns(batch); i++) {
        struct leat_column c = {.size = sizeof c};
        if (leat_batch_column(batch, i, &c, NULL) == LEAT_OK && c.data && address >= (uintptr_t)c.data &&
            address < (uintptr_t)c.data + (c.bytes ? c.bytes : 1))
            return true;
    }
    return false;
}

/* A batch that is dying on another thread may still be in the list: it is released only after it was taken out. */
static leat_status state_at(uintptr_t address, char **out, struct leat_error *err)
{
    leat_status rc = LEAT_NOT_FOUND;
    lock_shares();
    for (const struct leat_py_share *s = shares.first; s && rc == LEAT_NOT_FOUND; s = s->next) {
        if (lies_in(s->batch, address))
            rc = leat_batch_state(s->batch, out, err);
    }
    unlock_shares();
    return rc;
}

PyObject *leat_py_state_of(PyObject *self, PyObject *column)
{
    char *text = NULL;
    struct leat_error err;
    leat_status rc;
    (void)self;
    struct leat_py_share *share = leat_py_ragged_share(column);
    if (share) {
        rc = leat_batch_state(share->batch, &text, &err);
    } else {
        void *address = PyLong_AsVoidPtr(column);
        if (PyErr_Occurred())
            return NULL;
        rc = state_at((uintptr_t)address, &text, &err);
    }
    if (rc == LEAT_NOT_FOUND)
        Py_RETURN_NONE;
    if (rc != LEAT_OK)
        return leat_py_raise(&err);
    PyObject *state = PyUnicode_FromString(text);
    free(text);
    return state;
}

int leat_py_add_batch(PyObject *module)
{
    if (pthread_atfork(lock_shares, unlock_shares, unlock_shares) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    memory_type = leat_py_add_type(NULL, &memory_spec);
    return memory_type ? leat_py_add_ragged(module) : -1;
}
