/* The library's own tape: backward and gradients of a list of tensors. */
#include "binding.h"

#include <string.h>

/** A tuple of it, or of its entries. @return NULL with an exception that names `what`. */
static PyObject *tuple_of(PyObject *object, const char *what)
{
    if (PyObject_TypeCheck(object, stnp_tensor_type))
        return PyTuple_Pack(1, object);
    PyObject *entries = PyObject_GetIter(object);
    if (!entries) {
        PyErr_Format(PyExc_TypeError, "%s: got %R, wanted a tensor or a sequence of tensors", what, object);
        return NULL;
    }
    PyObject *tuple = PySequence_Tuple(entries);
    Py_DECREF(entries);
    return tuple;
}

stn_tensor **stnp_take_tensors(PyObject *object, const char *what, int *n, PyObject **tuple)
{
    *tuple = tuple_of(object, what);
    *n = *tuple ? (int)PyTuple_Size(*tuple) : 0;
    stn_tensor **handles = *tuple ? PyMem_Calloc((size_t)*n + 1, sizeof *handles) : NULL;
    if (*tuple && !handles)
        PyErr_NoMemory();
    for (int i = 0; handles && i < *n; i++) {
        PyObject *entry = PyTuple_GetItem(*tuple, i);
        if (entry != Py_None && stnp_want(entry, stnp_tensor_type, what) < 0) {
            PyMem_Free(handles);
            handles = NULL;
        } else {
            handles[i] = entry == Py_None ? NULL : ((stnp_tensor *)entry)->handle;
        }
    }
    return handles;
}

/** Outputs, cotangents and inputs of one backward. */
struct pass {
    stn_tensor **outputs, **cotangents, **inputs;
    PyObject *tuples[3];
    int n_outputs, n_cotangents, n_inputs;
};

static int take_pass(PyObject *outputs, PyObject *cotangents, PyObject *inputs, struct pass *pass)
{
    memset(pass, 0, sizeof *pass);
    pass->outputs = stnp_take_tensors(outputs, "outputs", &pass->n_outputs, &pass->tuples[0]);
    if (!pass->outputs)
        return -1;
    if (cotangents != Py_None &&
        !(pass->cotangents = stnp_take_tensors(cotangents, "cotangents", &pass->n_cotangents, &pass->tuples[1])))
        return -1;
    if (pass->cotangents && pass->n_cotangents != pass->n_outputs) {
        PyErr_Format(PyExc_ValueError, "cotangents: %d of them for %d outputs", pass->n_cotangents, pass->n_outputs);
        return -1;
    }
    return !inputs || (pass->inputs = stnp_take_tensors(inputs, "inputs", &pass->n_inputs, &pass->tuples[2])) ? 0 : -1;
}

static void free_pass(struct pass *pass)
{
    PyMem_Free(pass->outputs);
    PyMem_Free(pass->cotangents);
    PyMem_Free(pass->inputs);
    for (int i = 0; i < 3; i++)
        Py_XDECREF(pass->tuples[i]);
}

PyObject *stnp_context_backward(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"losses", "cotangents", "retain_graph", NULL};
    PyObject *losses, *cotangents = Py_None;
    int retain = 0, failed = 1;
    struct pass pass;
    stnp_entry entry;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|Op:backward", names, &losses, &cotangents, &retain))
        return NULL;
    if (take_pass(losses, cotangents, NULL, &pass) == 0 && stnp_enter(&entry, (stnp_context *)object) == 0)
        failed = stnp_leave(&entry, stn_backward_many(entry.context->handle, pass.n_outputs, pass.outputs,
                                                      pass.cotangents, retain)) < 0;
    free_pass(&pass);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *stnp_context_grad(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"outputs", "inputs", "cotangents", "retain_graph", "create_graph", NULL};
    PyObject *outputs, *inputs, *cotangents = Py_None, *list = NULL;
    int retain = 0, create = 0;
    struct pass pass;
    stnp_entry entry;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|Opp:grad", names, &outputs, &inputs, &cotangents, &retain,
                                     &create))
        return NULL;
    stn_tensor **grads = NULL;
    if (take_pass(outputs, cotangents, inputs, &pass) == 0 &&
        (grads = PyMem_Calloc((size_t)pass.n_inputs + 1, sizeof *grads)) != NULL &&
        stnp_enter(&entry, (stnp_context *)object) == 0) {
        stn_status status = stn_grad(entry.context->handle, pass.n_outputs, pass.outputs, pass.cotangents,
                                     pass.n_inputs, pass.inputs, retain, create, grads);
        list = stnp_leave(&entry, status) == 0 ? PyList_New(pass.n_inputs) : NULL;
    }
    for (int i = 0; list && i < pass.n_inputs; i++) {
        PyObject *grad = Py_None;
        if (grads[i])
            grad = stnp_wrap_tensor((stnp_context *)object, grads[i]);
        else
            Py_INCREF(grad);
        if (!grad || PyList_SetItem(list, i, grad) < 0)
            Py_CLEAR(list);
    }
    PyMem_Free(grads);
    free_pass(&pass);
    return list;
}
