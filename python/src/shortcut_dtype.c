/* The short way: in which dtype torch has an op computed, and what has a call go the long way for its dtypes. */
#include "shortcut.h"

/** Bits of STNP_UNLESS. */
static long unless(const stnp_shortcut *self, PyObject *name)
{
    PyObject *bits = PyDict_GetItemWithError(self->parts[UNLESS], name);
    return bits ? PyLong_AsLong(bits) : 0;
}

static int is_on(const stnp_shortcut *self)
{
    PyObject *on = PyObject_CallNoArgs(self->parts[AUTOCAST]);
    const int is = on ? PyObject_IsTrue(on) : -1;
    Py_XDECREF(on);
    return is;
}

int stnp_short_autocast(stnp_shortcut *self, PyObject *name, stnp_short_call *call)
{
    const int on = unless(self, name) & STNP_UNLESS_CAST ? is_on(self) : 0;
    if (on <= 0)
        return on;
    PyObject *inputs = stnp_short_tuple(call->bound.inputs, call->bound.n_inputs);
    call->cast = inputs ? PyObject_CallFunctionObjArgs(self->parts[CAST], name, inputs, NULL) : NULL;
    Py_XDECREF(inputs);
    if (!call->cast || stnp_want(call->cast, &PyTuple_Type, "cast inputs") < 0 ||
        PyTuple_Size(call->cast) != call->bound.n_inputs)
        return -1;
    for (int i = 0; i < call->bound.n_inputs; i++) {
        PyObject *input = PyTuple_GetItem(call->cast, i);
        call->bound.inputs[i] = input == Py_None ? NULL : input;
    }
    return 0;
}

static int is_mixed(const stnp_short_call *call)
{
    int first = -1;
    for (int i = 0; i < call->n_handles; i++) {
        const stnp_tensor *handle = (const stnp_tensor *)call->handles[i];
        const int dtype = handle ? (int)stn_tensor_dtype(handle->handle) : first;
        if (first >= 0 && dtype != first)
            return 1;
        first = dtype;
    }
    return 0;
}

int stnp_short_is_unfit(stnp_shortcut *self, PyObject *name, const stnp_short_call *call)
{
    const long bits = unless(self, name);
    return (bits & STNP_UNLESS_MIXED && is_mixed(call)) || (bits & STNP_UNLESS_WEIGHED && call->n_handles > 2);
}
