/* Step: what was called once, and is repeated without Python. */
#include "binding.h"

PyTypeObject *stnp_step_type;

typedef struct stnp_step {
    PyObject_HEAD stnp_context *context;
    stn_step *handle; /* NULL once given up */
} stnp_step;

PyObject *stnp_context_capture_begin(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (stnp_enter(&entry, (stnp_context *)self) < 0 ||
        stnp_leave(&entry, stn_capture_begin(entry.context->handle)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *stnp_context_capture_end(PyObject *self, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    stn_step *handle = NULL;
    stnp_step *step = stnp_owned_new(stnp_step_type, (stnp_context *)self);
    if (!step)
        return NULL;
    step->handle = NULL;
    if (stnp_enter(&entry, (stnp_context *)self) < 0 ||
        stnp_leave(&entry, stn_capture_end(entry.context->handle, &handle)) < 0) {
        Py_DECREF((PyObject *)step);
        return NULL;
    }
    step->handle = handle;
    return (PyObject *)step;
}

static PyObject *run(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    stnp_step *self = (stnp_step *)object;
    if (stnp_enter(&entry, self->context) < 0)
        return NULL;
    stn_step *handle = self->handle; /* which another thread may release: then it lives until this one has left */
    if (stnp_leave(&entry, handle ? stn_step_run(handle) : STN_OK) < 0)
        return NULL;
    if (!handle)
        return stnp_raise(STN_ERR_STATE, "run: the step was released");
    Py_RETURN_NONE;
}

static void release_handle(void *handle)
{
    stn_step *step = handle;
    stn_step_destroy(&step);
}

static void give_up(stnp_step *self)
{
    stn_step *handle = self->handle;
    self->handle = NULL;
    stnp_give_up(self->context, handle, release_handle);
}

static PyObject *release(PyObject *object, PyObject *none)
{
    (void)none;
    give_up((stnp_step *)object);
    Py_RETURN_NONE;
}

static void destroy(PyObject *object)
{
    give_up((stnp_step *)object);
    stnp_owned_free(object);
}

static PyObject *get_graphs(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromLong(stn_step_graphs(((stnp_step *)object)->handle));
}

static PyObject *get_calls(PyObject *object, void *none)
{
    (void)none;
    const stn_step *handle = ((stnp_step *)object)->handle;
    const int n = stn_step_calls(handle);
    PyObject *names = PyTuple_New(n);
    for (int i = 0; names && i < n; i++) {
        PyObject *name = PyUnicode_FromString(stn_step_call_name(handle, i));
        if (!name || PyTuple_SetItem(names, i, name) < 0)
            Py_CLEAR(names);
    }
    return names;
}

PyTypeObject *stnp_make_step_type(void)
{
    static PyMethodDef methods[] = {
        {"run", run, METH_NOARGS, "Makes the step once more. Collective, as the captured step was."},
        {"release", release, METH_NOARGS, "Gives up the step, and the memory that it alone needs."},
        {0},
    };
    static PyGetSetDef members[] = {
        {"graphs", get_graphs, NULL, "Graphs that a device takes as a whole.", NULL},
        {"calls", get_calls, NULL, "The names of what the host calls each time.", NULL},
        {0},
    };
    PyType_Slot slots[] = {
        {Py_tp_dealloc, destroy},
        {Py_tp_methods, methods},
        {Py_tp_getset, members},
        {Py_tp_doc, "A captured step; made by shardtensor.capture."},
        {0},
    };
    return stnp_owned_type("shardtensor._c.Step", sizeof(stnp_step), slots);
}
