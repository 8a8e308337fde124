/* The short way below torch's autograd: what torch's engine and optimizers call there, sums of gradients above all.
 *
 * As above, Python finds out once which functions are ops of one result, and by which words these take their
 * arguments; a call with ShardTensors alone is C's from then on. */
#include "shortcut.h"

/** Of a function known by its address: (function, name of the op, words of its positional arguments), a new reference:
 * another rank may put its own in the place of it, as soon as a call gives up the interpreter. */
static PyObject *known(stnp_shortcut *self, PyObject *func)
{
    PyObject *key = PyLong_FromVoidPtr(func), *entry = NULL;
    if (key)
        entry = PyDict_GetItemWithError(self->parts[BELOW_NAMES], key);
    Py_XINCREF(entry);
    Py_XDECREF(key);
    return entry;
}

int stnp_short_is_watched(stnp_shortcut *self, PyObject *tensor)
{
    PyObject *dict = PyObject_GenericGetDict(tensor, NULL);
    int is = dict ? 0 : -1;
    for (int i = STNP_FIRST_WATCHED; is == 0 && i < STNP_N_NAMES; i++) {
        PyObject *value = PyDict_GetItemWithError(dict, self->names[i]);
        is = value ? PyObject_IsTrue(value) : PyErr_Occurred() ? -1 : 0;
    }
    Py_XDECREF(dict);
    return is;
}

/** Calls an op in place on the handles. @return the first argument; NULL without an exception: the long way. */
static PyObject *change(stnp_shortcut *self, stnp_short_call *call, PyObject *tensor)
{
    stnp_call sorted;
    stn_tensor *outputs[STN_MAX_OUTPUTS];
    int watched = stnp_short_is_watched(self, tensor);
    if (watched != 0 || stnp_short_fill(call, &sorted) < 0 || stnp_invoke(call->op, &sorted, 0, outputs, NULL) < 0)
        return NULL;
    Py_INCREF(tensor);
    return tensor;
}

static PyObject *short_way(stnp_shortcut *self, PyObject *entry, PyObject *args, PyObject *keywords)
{
    stnp_short_call call;
    PyObject *result = NULL;
    stnp_short_begin(&call);
    if (stnp_short_bind(self, PyTuple_GetItem(entry, 1), args, PyTuple_GetItem(entry, 2), keywords, &call) == 0 &&
        stnp_short_take_handles(self, call.bound.inputs, call.bound.n_inputs, &call) == 0)
        result = call.op->in_place ? change(self, &call, call.bound.inputs[0]) : stnp_short_run(self, &call, 0, NULL);
    else
        PyErr_Clear(); /* the long way says it in torch's words */
    stnp_short_fini(&call);
    return result;
}

PyObject *stnp_short_dispatch(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    stnp_shortcut *self = (stnp_shortcut *)object;
    if (n < 3)
        return PyErr_Format(PyExc_TypeError, "__torch_dispatch__: %zd arguments, wanted at least 3", n);
    PyObject *entry = n > 3 && PyTuple_Check(args[3]) ? known(self, args[1]) : NULL, *result = NULL;
    if (entry && !stnp_short_users_come_first(self, BELOW_HANDLERS))
        result = short_way(self, entry, args[3], n > 4 ? args[4] : NULL);
    Py_XDECREF(entry);
    return result ? result : stnp_short_long_way(self, BELOW, args, n);
}
