/* The short way of functions in place, above torch's autograd: torch's own, which come back below it. Torch counts
 * the change, records it and refuses it as it does of any tensor; all that is to be known here is that Python has
 * nothing to say to it. */
#include "shortcut.h"

enum { MOST = 8 }; /* tensors of a call; more go the long way */

typedef struct changed {
    PyObject *tensors[MOST]; /* borrowed */
    int n;
} changed;

/** @return 0, or -1 of an argument in which there is a tensor that is no ShardTensor, or may be. */
static int take(stnp_shortcut *self, PyObject *value, changed *found)
{
    if (PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value))
        return -1;
    if (!PyObject_TypeCheck(value, (PyTypeObject *)self->parts[TENSOR]))
        return 0;
    stnp_tensor *handle = found->n < MOST ? stnp_short_handle(self, value) : NULL;
    if (!handle)
        return -1;
    Py_DECREF((PyObject *)handle);
    found->tensors[found->n++] = value;
    return 0;
}

/** The tensors among the arguments, of which the first is one. @return as take. */
static int take_all(stnp_shortcut *self, PyObject *args, PyObject *keywords, changed *found)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(args); i++) {
        if (take(self, PyTuple_GetItem(args, i), found) < 0 || found->n == 0)
            return -1;
    }
    while (keywords && PyDict_Next(keywords, &at, &name, &value)) {
        if (take(self, value, found) < 0)
            return -1;
    }
    return found->n > 0 ? 0 : -1;
}

/** Torch's nodes give gradients in any layout. @return 0 or -1. */
static int lay_gradients(stnp_shortcut *self, const changed *found)
{
    int recorded = stnp_short_is_recorded(self, found->tensors, found->n);
    for (int i = 0; recorded > 0 && i < found->n; i++) {
        PyObject *done = PyObject_CallFunctionObjArgs(self->parts[LAY_GRADIENTS], found->tensors[i], NULL);
        recorded = done ? recorded : -1;
        Py_XDECREF(done);
    }
    return recorded < 0 ? -1 : 0;
}

PyObject *stnp_short_torch_s(stnp_shortcut *self, PyObject *func, PyObject *args, PyObject *keywords)
{
    PyObject *none = PyTuple_New(0);
    PyObject *result =
        none ? PyObject_CallFunctionObjArgs(self->parts[UNDISTURBED], func, none, args, keywords, NULL) : NULL;
    Py_XDECREF(none);
    return result;
}

PyObject *stnp_short_change(stnp_shortcut *self, PyObject *func, PyObject *args, PyObject *keywords)
{
    changed found = {.n = 0};
    if (take_all(self, args, keywords, &found) < 0 || stnp_short_is_watched(self, found.tensors[0]) != 0 ||
        lay_gradients(self, &found) < 0)
        return NULL;
    return stnp_short_torch_s(self, func, args, keywords);
}
