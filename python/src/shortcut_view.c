/* The short way of functions that may give views, which Python knows with what they are taken of, and how: see
 * _views.py. */
#include "shortcut.h"

#include <string.h>

/** A list or tuple as a list of its own, which stays what it is when the program changes its own; anything else as it
 * is. A new reference; NULL without an exception where there is a tensor in it. */
static PyObject *kept(stnp_shortcut *self, PyObject *value)
{
    if (!PyList_Check(value) && !PyTuple_Check(value)) {
        Py_INCREF(value);
        return value;
    }
    PyObject *list = PySequence_List(value);
    for (Py_ssize_t i = 0; list && i < PyList_Size(list); i++) {
        if (PyObject_TypeCheck(PyList_GetItem(list, i), (PyTypeObject *)self->parts[TENSOR]))
            Py_CLEAR(list);
    }
    return list;
}

PyObject *stnp_short_attrs(stnp_shortcut *self, const stnp_bound *bound)
{
    PyObject *attrs = PyDict_New();
    for (int i = 0; attrs && i < bound->n_attrs; i++) {
        PyObject *value = kept(self, bound->values[i]);
        if (!value || PyDict_SetItem(attrs, bound->names[i], value) < 0)
            Py_CLEAR(attrs);
        Py_XDECREF(value);
    }
    return attrs;
}

PyObject *stnp_short_gather(stnp_shortcut *self, PyObject *name, PyObject *args)
{
    const Py_ssize_t n = PyTuple_Size(args);
    const int is_spread =
        n > 1 && PyLong_Check(PyTuple_GetItem(args, 1)) ? PySet_Contains(self->parts[SPREAD], name) : 0;
    if (is_spread <= 0) {
        Py_INCREF(args);
        return is_spread == 0 ? args : NULL;
    }
    PyObject *rest = PyTuple_GetSlice(args, 1, n), *list = rest ? PySequence_List(rest) : NULL;
    PyObject *gathered = list ? PyTuple_Pack(2, PyTuple_GetItem(args, 0), list) : NULL;
    Py_XDECREF(list);
    Py_XDECREF(rest);
    return gathered;
}

int stnp_short_note(stnp_shortcut *self, const stnp_short_call *call, PyObject *attrs, PyObject *const *tensors, int n,
                    PyObject *result)
{
    if (!call->is_view)
        return 0;
    PyObject *values = stnp_short_tuple(tensors, n), *done = NULL;
    PyObject *results = PyList_Check(result) ? PyList_AsTuple(result) : PyTuple_Pack(1, result);
    if (values && results)
        done =
            PyObject_CallFunctionObjArgs(self->parts[NOTE_VIEWS], (PyObject *)call->op, attrs, values, results, NULL);
    Py_XDECREF(done);
    Py_XDECREF(results);
    Py_XDECREF(values);
    return done ? 0 : -1;
}

PyObject *stnp_short_run_plain(stnp_shortcut *self, stnp_short_call *call)
{
    if (!(stn_op_descriptor(call->op->handle)->flags & STN_OP_ALIAS))
        return stnp_short_run(self, call, 0, NULL);
    PyObject *tensors[STN_MAX_INPUTS]; /* in whose places the call puts handles */
    const int n = call->bound.n_inputs;
    memcpy(tensors, call->bound.inputs, (size_t)n * sizeof *tensors);
    PyObject *attrs = stnp_short_attrs(self, &call->bound), *result = NULL;
    if (attrs)
        result = stnp_short_run(self, call, 0, NULL);
    if (result && stnp_short_note(self, call, attrs, tensors, n, result) < 0)
        Py_CLEAR(result);
    Py_XDECREF(attrs);
    return result;
}
