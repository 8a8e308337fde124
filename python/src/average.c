/* Average: the exponential mean of parameters; made by Context.average. */
#include "binding.h"

PyTypeObject *stnp_average_type;

typedef struct stnp_average {
    PyObject_HEAD stnp_context *context;
    stn_average *handle;
    int n; /* means */
} stnp_average;

stn_average *stnp_average_handle(PyObject *average)
{
    return ((stnp_average *)average)->handle;
}

static void release(void *handle)
{
    stn_average *average = handle;
    stn_average_destroy(&average);
}

static void destroy(PyObject *object)
{
    stnp_average *self = (stnp_average *)object;
    stnp_give_up(self->context, self->handle, release);
    stnp_owned_free(object);
}

PyObject *stnp_context_average(PyObject *context, PyObject *parameters)
{
    stnp_entry entry;
    stnp_named named;
    stnp_average *self = stnp_owned_new(stnp_average_type, (stnp_context *)context);
    if (!self)
        return NULL;
    self->handle = NULL;
    if (stnp_take_named(parameters, "parameters", &named) == 0) {
        self->n = named.n;
        const int failed =
            stnp_enter(&entry, (stnp_context *)context) < 0 ||
            stnp_leave(&entry, stn_average_create(entry.context->handle, named.n, named.tensors, &self->handle)) < 0;
        stnp_named_fini(&named);
        if (!failed)
            return (PyObject *)self;
    }
    Py_DECREF((PyObject *)self);
    return NULL;
}

static PyObject *update(PyObject *object, PyObject *decay)
{
    stnp_entry entry;
    stnp_average *self = (stnp_average *)object;
    const double value = PyFloat_AsDouble(decay);
    if (PyErr_Occurred() || stnp_enter(&entry, self->context) < 0 ||
        stnp_leave(&entry, stn_average_update(self->handle, value)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *swap(PyObject *object, PyObject *none)
{
    stnp_entry entry;
    stnp_average *self = (stnp_average *)object;
    (void)none;
    if (stnp_enter(&entry, self->context) < 0 || stnp_leave(&entry, stn_average_swap(self->handle)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static int set_mean(stnp_average *self, int i, PyObject *dict)
{
    const stn_named_tensor mean = stn_average_at(self->handle, i);
    PyObject *tensor = stnp_wrap_kept(self->context, stn_tensor_retain(mean.tensor));
    const int failed = !tensor || PyDict_SetItemString(dict, mean.name, tensor) < 0;
    Py_XDECREF(tensor);
    return failed ? -1 : 0;
}

static PyObject *get_means(PyObject *object, void *none)
{
    stnp_average *self = (stnp_average *)object;
    PyObject *dict = PyDict_New();
    (void)none;
    for (int i = 0; dict && i < self->n; i++)
        if (set_mean(self, i, dict) < 0)
            Py_CLEAR(dict);
    return dict;
}

PyTypeObject *stnp_make_average_type(void)
{
    static PyMethodDef methods[] = {
        {"update", update, METH_O, "update(decay): mean = decay * mean + (1 - decay) * parameter. Local."},
        {"swap", swap, METH_NOARGS, "Parameters and means change places; a second call changes them back. Local."},
        {0},
    };
    static PyGetSetDef members[] = {
        {"means", get_means, NULL, "{name: Tensor}: the means, which save and load take.", NULL},
        {0},
    };
    PyType_Slot slots[] = {
        {Py_tp_dealloc, destroy},
        {Py_tp_methods, methods},
        {Py_tp_getset, members},
        {Py_tp_doc, "An exponential mean of parameters; made by Context.average."},
        {0},
    };
    return stnp_owned_type("shardtensor._c.Average", sizeof(stnp_average), slots);
}
