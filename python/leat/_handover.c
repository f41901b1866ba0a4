#include "_handover.h"

#include <stdbool.h>

#include "_batch.h"

/* Exceptions of signal handlers come between any two instructions of Python, so Python cannot both return a batch and
 * note that it has returned it. Here nothing comes in between. Whatever is raised before that leaves `lost` set, and
 * the next call begins by going back. */
struct handover_object {
    PyObject_HEAD bool lost;
    bool busy; /* a call is under way: another thread's, or one that a signal handler has interrupted */
};

static PyObject *hand_over(struct handover_object *h)
{
    PyObject *self = (PyObject *)h;
    PyObject *values;
    PyObject *keeper;
    PyObject *handed;
    if (h->lost) {
        PyObject *done = PyObject_CallMethod(self, "recover", NULL);
        if (!done)
            return NULL;
        Py_DECREF(done);
    }
    h->lost = true;
    PyObject *step = PyObject_CallMethod(self, "step", NULL);
    if (!step)
        return NULL;
    bool good = PyArg_ParseTuple(step, "OOO", &values, &keeper, &handed) && PyErr_CheckSignals() == 0 &&
                PyObject_SetAttrString(keeper, "handed", handed) == 0;
    h->lost = !good;
    if (good)
        Py_INCREF(values);
    Py_DECREF(step);
    return good ? values : NULL;
}

static PyObject *handover_next(PyObject *self)
{
    struct handover_object *h = (struct handover_object *)self;
    if (h->busy)
        return leat_py_raise_text(LEAT_BUSY, "the loader is in use by another thread");
    h->busy = true;
    PyObject *values = hand_over(h);
    h->busy = false;
    return values;
}

static PyObject *get_lost(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct handover_object *)self)->lost);
}

static int set_lost(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    int lost = value ? PyObject_IsTrue(value) : 0;
    if (lost < 0)
        return -1;
    ((struct handover_object *)self)->lost = lost;
    return 0;
}

static PyObject *get_busy(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct handover_object *)self)->busy);
}

static PyGetSetDef handover_getset[] = {
    {"busy", get_busy, NULL, "Whether a call is under way.", NULL},
    {"lost", get_lost, set_lost, "Whether something was taken and not handed over.", NULL},
    {0},
};

static PyType_Slot handover_slots[] = {
    {Py_tp_doc,
     (char[]){"An iterator: step() -> (values, keeper, handed). When the caller is certain to get the values, "
              "keeper.handed is set. A call after one that failed begins with recover()."}},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, handover_next},
    {Py_tp_getset, handover_getset},
    {0},
};

static PyType_Spec handover_spec = {
    .name = "leat._core.Handover",
    .basicsize = sizeof(struct handover_object),
    .flags = LEAT_PY_TYPE_FLAGS | Py_TPFLAGS_BASETYPE,
    .slots = handover_slots,
};

int leat_py_add_handover(PyObject *module)
{
    return leat_py_add_type(module, &handover_spec) ? 0 : -1;
}
