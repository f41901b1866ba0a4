/* Copies of batches to a GPU. Memory on the device and streams are torch's; this is what is done with every batch, and
 * in C because it is done while the rank waits. */
#include "_device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "_cuda.h"
#include "_handle.h"

/* The driver, once a process. */
static struct leat_cuda cuda;
static bool cuda_is_open;

static PyObject *fail(cuda_result error, const char *what)
{
    return PyErr_Format(PyExc_RuntimeError, "%s: %s (CUDA error %d)", what, leat_cuda_text(&cuda, error), error);
}

/* An event after which a slot may be used again, and the batch on the device may be read. Not a Python object: the slot
 * lets go of it on any thread. */
struct work {
    _Atomic uint32_t refs;
    cuda_handle event;
    cuda_handle context;
    struct work *next; /* idle */
};

#define IDLE_MOST 64u /* events that are kept for the next batch: making one costs more than all else */

static struct {
    pthread_mutex_t mu;
    struct work *first; /* hold mu */
    unsigned n;
} idle = {.mu = PTHREAD_MUTEX_INITIALIZER};

static void work_drop(struct work *w)
{
    cuda_handle ignored;
    if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_lock(&idle.mu);
    bool kept = idle.n < IDLE_MOST;
    if (kept) {
        w->next = idle.first;
        idle.first = w;
        idle.n++;
    }
    pthread_mutex_unlock(&idle.mu);
    if (kept)
        return;
    if (cuda.ctx_push_current(w->context) == 0) {
        cuda.event_destroy(w->event);
        cuda.ctx_pop_current(&ignored);
    }
    free(w);
}

static struct work *work_again(cuda_handle context)
{
    pthread_mutex_lock(&idle.mu);
    struct work **link = &idle.first;
    while (*link && (*link)->context != context)
        link = &(*link)->next;
    struct work *w = *link;
    if (w) {
        *link = w->next;
        idle.n--;
    }
    pthread_mutex_unlock(&idle.mu);
    return w;
}

/* For leat_batch_release_after(). A context that is gone will not read the memory any more. */
static bool copied(void *user)
{
    struct work *w = user;
    if (cuda.event_query(w->event) == CUDA_NOT_READY)
        return false;
    work_drop(w);
    return true;
}

static struct work *work_make(cuda_handle context)
{
    struct work *w = work_again(context);
    if (w) {
        atomic_store_explicit(&w->refs, 1, memory_order_relaxed);
        return w;
    }
    w = calloc(1, sizeof *w);
    if (!w) {
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&w->refs, 1);
    w->context = context;
    cuda_result rc = cuda.event_create(&w->event, CUDA_EVENT_NO_TIMING);
    if (rc) {
        free(w);
        fail(rc, "cannot make an event");
        return NULL;
    }
    return w;
}

/* Python's hold on a piece of work. */
struct copy_object {
    PyObject_HEAD struct work *work;
};

static PyTypeObject *copy_type;

static void copy_dealloc(PyObject *self)
{
    struct work *w = ((struct copy_object *)self)->work;
    if (w)
        work_drop(w);
    leat_py_free(self);
}

static PyObject *copy_wait(PyObject *self, PyObject *stream)
{
    void *on = PyLong_AsVoidPtr(stream);
    if (PyErr_Occurred())
        return NULL;
    cuda_result rc = cuda.stream_wait_event(on, ((struct copy_object *)self)->work->event, 0);
    if (rc)
        return fail(rc, "a stream cannot wait for a batch");
    Py_RETURN_NONE;
}

static PyObject *copy_done(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    cuda_result rc = cuda.event_query(((struct copy_object *)self)->work->event);
    if (rc && rc != CUDA_NOT_READY)
        return fail(rc, "a batch did not arrive on the device");
    return PyBool_FromLong(rc == 0);
}

static PyMethodDef copy_methods[] = {
    {"wait", copy_wait, METH_O, "wait(stream): what is put onto the stream from now on sees the batch."},
    {"done", copy_done, METH_NOARGS, "Whether the batch is there."},
    {0},
};

#define COLUMNS_MAX  LEAT_PY_OUTPUTS_MAX
#define CHANNELS_MAX 4
#define BLOCK        256u
#define GRID_MAX     4096u

/* What is done with a column. */
struct step {
    uint32_t column;
    cuda_handle function; /* NULL: copied, and nothing else */
    cuda_pointer raw;     /* where it lies on the device before the function */
    uint64_t plane;       /* pixels in a picture */
    uint32_t at_a_time;   /* pixels of one thread */
    float scale[CHANNELS_MAX];
    float shift[CHANNELS_MAX];
};

struct copier_object {
    PyObject_HEAD cuda_handle stream;
    cuda_handle context;
    cuda_handle module;
    uint64_t ring; /* the one that was registered last, or could not be */
    bool registered;
    size_t steps_n;
    struct step steps[COLUMNS_MAX];
};

static int copier_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct copier_object *c = (struct copier_object *)self;
    static const char *const names[] = {"library", "stream", NULL};
    const char *library;
    unsigned long long stream;
    char problem[256];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sK", (char **)(uintptr_t)names, &library, &stream))
        return -1;
    if (!cuda_is_open && !leat_cuda_open(library, &cuda, problem, sizeof problem)) {
        PyErr_SetString(PyExc_OSError, problem);
        return -1;
    }
    cuda_is_open = true;
    c->stream = (cuda_handle)(uintptr_t)stream;
    cuda_result rc = cuda.ctx_get_current(&c->context);
    if (rc || !c->context) {
        PyErr_SetString(PyExc_RuntimeError, "no device was set up in this thread");
        return -1;
    }
    return 0;
}

static void copier_dealloc(PyObject *self)
{
    struct copier_object *c = (struct copier_object *)self;
    cuda_handle ignored;
    if (c->module && cuda.ctx_push_current(c->context) == 0) {
        cuda.stream_synchronize(c->stream); /* its functions may be running */
        cuda.module_unload(c->module);
        cuda.ctx_pop_current(&ignored);
    }
    leat_py_free(self);
}

/* load(image, [name, …]) -> the functions of a module. */
static PyObject *copier_load(PyObject *self, PyObject *args)
{
    struct copier_object *c = (struct copier_object *)self;
    const char *image;
    Py_ssize_t n;
    PyObject *names;
    if (!PyArg_ParseTuple(args, "y#O!", &image, &n, &PyList_Type, &names))
        return NULL;
    if (c->module) {
        PyErr_SetString(PyExc_RuntimeError, "functions were loaded already");
        return NULL;
    }
    cuda_result rc = cuda.module_load_data(&c->module, image);
    if (rc) {
        c->module = NULL;
        return fail(rc, "cannot load functions for the device");
    }
    PyObject *functions = PyList_New(0);
    for (Py_ssize_t i = 0; functions && i < PyList_Size(names); i++) {
        cuda_handle f = NULL;
        PyObject *name = PyUnicode_AsUTF8String(PyList_GetItem(names, i));
        rc = name ? cuda.module_get_function(&f, c->module, PyBytes_AsString(name)) : 0;
        PyObject *number = rc || !name ? NULL : PyLong_FromVoidPtr(f);
        if (rc)
            fail(rc, "a function for the device is missing");
        if (!number || PyList_Append(functions, number) < 0)
            Py_CLEAR(functions);
        Py_XDECREF(number);
        Py_XDECREF(name);
    }
    return functions;
}

/* column(i, function, raw, plane, at a time, (scale, …), (shift, …)): the next column that is copied. */
static PyObject *copier_column(PyObject *self, PyObject *args)
{
    struct copier_object *c = (struct copier_object *)self;
    struct step s = {0};
    unsigned long long function;
    unsigned long long raw;
    unsigned long long plane;
    float *a = s.scale;
    float *b = s.shift;
    if (!PyArg_ParseTuple(args, "IKKKI(ffff)(ffff)", &s.column, &function, &raw, &plane, &s.at_a_time, &a[0], &a[1],
                          &a[2], &a[3], &b[0], &b[1], &b[2], &b[3]))
        return NULL;
    if (c->steps_n == COLUMNS_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many columns");
        return NULL;
    }
    s.function = (cuda_handle)(uintptr_t)function;
    s.raw = raw;
    s.plane = plane;
    c->steps[c->steps_n++] = s;
    Py_RETURN_NONE;
}

static void unregister(void *user, void *data, uint64_t bytes)
{
    cuda_handle ignored;
    (void)bytes;
    if (cuda.ctx_push_current(user) != 0)
        return; /* the program is ending, and its driver has ended already */
    cuda.host_unregister(data);
    cuda.ctx_pop_current(&ignored);
}

/* Memory that the driver knows is read by the device itself, without the processor. Where that is refused copies still
 * work, only slower: the caller is told once. */
static bool register_ring(struct copier_object *c, struct leat_batch *batch)
{
    struct leat_memory m = {.size = sizeof m};
    struct leat_error err;
    if (leat_batch_memory(batch, leat_batch_columns(batch), &m, &err) != LEAT_OK) {
        leat_py_raise(&err);
        return false;
    }
    if (m.id == c->ring)
        return true;
    cuda_result rc = cuda.host_register(m.data, (size_t)m.bytes, CUDA_REGISTER_PORTABLE);
    c->ring = m.id;
    c->registered = rc == 0 || rc == CUDA_ALREADY_REGISTERED;
    if (rc == 0 && leat_batch_before_unmap(batch, unregister, c->context, &err) != LEAT_OK) {
        cuda.host_unregister(m.data);
        leat_py_raise(&err);
        return false;
    }
    return true;
}

static cuda_result launch(const struct copier_object *c, const struct step *s, cuda_pointer to, uint64_t pixels)
{
    uint64_t threads = (pixels + s->at_a_time - 1) / s->at_a_time;
    uint64_t blocks = (threads + BLOCK - 1) / BLOCK;
    cuda_pointer from = s->raw;
    uint64_t plane = s->plane;
    struct {
        float scale[CHANNELS_MAX];
        float shift[CHANNELS_MAX];
    } affine;
    for (size_t i = 0; i < CHANNELS_MAX; i++) {
        affine.scale[i] = s->scale[i];
        affine.shift[i] = s->shift[i];
    }
    void *parameters[] = {&from, &to, &pixels, &plane, &affine};
    if (!pixels)
        return 0;
    return cuda.launch_kernel(s->function, (unsigned)(blocks < GRID_MAX ? blocks : GRID_MAX), 1, 1, BLOCK, 1, 1, 0,
                              c->stream, parameters, NULL);
}

static bool copy_column(const struct copier_object *c, const struct step *s, const struct leat_batch *batch,
                        cuda_pointer to)
{
    struct leat_column column = {.size = sizeof column};
    struct leat_error err;
    if (leat_batch_column(batch, s->column, &column, &err) != LEAT_OK) {
        leat_py_raise(&err);
        return false;
    }
    cuda_result rc =
        column.bytes ? cuda.copy_to_device(s->function ? s->raw : to, column.data, (size_t)column.bytes, c->stream) : 0;
    if (rc == 0 && s->function)
        rc = launch(c, s, to, leat_batch_samples(batch) * s->plane);
    if (rc)
        fail(rc, "a batch cannot be copied to the device");
    return rc == 0;
}

/* From now on the batch's slot is free when the work is done. */
static bool release_after(struct copier_object *c, PyObject *handle, struct work *w)
{
    struct leat_error err;
    cuda_result rc = cuda.event_record(w->event, c->stream);
    if (rc) {
        fail(rc, "a batch cannot be followed");
        return false;
    }
    struct leat_batch *batch = leat_py_handle_take(handle);
    if (!batch)
        return false;
    atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
    if (leat_batch_release_after(batch, copied, w, &err) == LEAT_OK)
        return true;
    work_drop(w);
    leat_batch_release(batch);
    leat_py_raise(&err);
    return false;
}

/* copy(batch, (address, …)) -> Copy. Copies the columns to where they belong on the device, and gives the batch's slot
 * back after that. When it fails the batch is as it was, and nothing reads it any more. */
static PyObject *copier_copy(PyObject *self, PyObject *args)
{
    struct copier_object *c = (struct copier_object *)self;
    PyObject *handle;
    PyObject *addresses;
    if (!PyArg_ParseTuple(args, "OO!", &handle, &PyTuple_Type, &addresses))
        return NULL;
    struct leat_batch *batch = leat_py_handle_batch(handle);
    if (!batch)
        return NULL;
    if (PyTuple_Size(addresses) != (Py_ssize_t)c->steps_n)
        return PyErr_Format(PyExc_ValueError, "%zd addresses for %zu columns", PyTuple_Size(addresses), c->steps_n);
    struct copy_object *copy = PyObject_New(struct copy_object, copy_type);
    if (!copy)
        return NULL;
    copy->work = work_make(c->context);
    bool ok = copy->work && register_ring(c, batch);
    for (size_t i = 0; ok && i < c->steps_n; i++) {
        cuda_pointer to = PyLong_AsUnsignedLongLong(PyTuple_GetItem(addresses, (Py_ssize_t)i));
        ok = !PyErr_Occurred() && copy_column(c, &c->steps[i], batch, to);
    }
    if (ok && release_after(c, handle, copy->work))
        return (PyObject *)copy;
    cuda.stream_synchronize(c->stream); /* what was begun must not read what others will write */
    Py_DECREF(copy);
    return NULL;
}

/* Whether the ring of the last batch is known to the driver. */
static PyObject *copier_registered(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct copier_object *)self)->registered);
}

static PyMethodDef copier_methods[] = {
    {"load", copier_load, METH_VARARGS, "load(image, names): the functions of a compiled module."},
    {"column", copier_column, METH_VARARGS,
     "column(i, function, raw, plane, pixels at a time, scale, shift): adds a column to what is copied."},
    {"copy", copier_copy, METH_VARARGS,
     "copy(batch, addresses): copies a leat._core.Batch, and releases it after that."},
    {0},
};

static PyGetSetDef copier_getset[] = {{"registered", copier_registered, NULL, NULL, NULL}, {0}};

static PyType_Slot copy_slots[] = {
    {Py_tp_new, leat_py_no_new},
    {Py_tp_dealloc, copy_dealloc},
    {Py_tp_methods, copy_methods},
    {0},
};

static PyType_Spec copy_spec = {
    .name = "leat._core.Copy",
    .basicsize = sizeof(struct copy_object),
    .flags = LEAT_PY_TYPE_FLAGS,
    .slots = copy_slots,
};

static PyType_Slot copier_slots[] = {
    {Py_tp_new, PyType_GenericNew},  {Py_tp_init, copier_init},     {Py_tp_dealloc, copier_dealloc},
    {Py_tp_methods, copier_methods}, {Py_tp_getset, copier_getset}, {0},
};

static PyType_Spec copier_spec = {
    .name = "leat._core.Copier",
    .basicsize = sizeof(struct copier_object),
    .flags = LEAT_PY_TYPE_FLAGS,
    .slots = copier_slots,
};

int leat_py_add_device(PyObject *module)
{
    copy_type = leat_py_add_type(module, &copy_spec);
    return copy_type && leat_py_add_type(module, &copier_spec) ? 0 : -1;
}
