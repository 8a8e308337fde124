/* Parts of a program that backward runs again: Python functions that stn_recompute calls, each time in a scope that
 * owns what they make. */
#include "binding.h"

/** Lives as long as the graph of the part, and the call that made it. */
typedef struct recomputed {
    stnp_context *context; /* which lives longer */
    PyObject *function;
    int is_first, refs;
} recomputed;

static PyObject *call_with(const recomputed *part, int n, stn_tensor *const *inputs)
{
    PyObject *args = PyTuple_New(n);
    for (int i = 0; args && i < n; i++) {
        PyObject *input = Py_None;
        if (inputs[i])
            input = stnp_wrap_kept(part->context, stn_tensor_retain(inputs[i]));
        else
            Py_INCREF(input);
        if (!input || PyTuple_SetItem(args, i, input) < 0)
            Py_CLEAR(args);
    }
    PyObject *result = args ? PyObject_Call(part->function, args, NULL) : NULL;
    Py_XDECREF(args);
    return result;
}

/** A tensor, or a tuple or list of as many as were announced. */
static int take_outputs(stnp_context *context, PyObject *result, int n, stn_tensor **outputs)
{
    if (!PyTuple_Check(result) && !PyList_Check(result) &&
        stnp_want(result, stnp_tensor_type, "recompute: what the function returned") < 0)
        return -1;
    PyObject *list = PyObject_TypeCheck(result, stnp_tensor_type) ? PyTuple_Pack(1, result) : PySequence_Tuple(result);
    if (list && PyTuple_Size(list) != n) {
        PyErr_Format(PyExc_ValueError, "recompute: the function returned %zd tensors, wanted outputs=%d",
                     PyTuple_Size(list), n);
        Py_CLEAR(list);
    }
    for (int i = 0; list && i < n; i++) {
        PyObject *entry = PyTuple_GetItem(list, i);
        if (stnp_want(entry, stnp_tensor_type, "recompute: what the function returned") < 0 ||
            stnp_function_hold(context, entry) < 0)
            Py_CLEAR(list);
        else
            outputs[i] = ((stnp_tensor *)entry)->handle;
    }
    Py_XDECREF(list);
    return list ? 0 : -1;
}

/** The first time it is as if the function had been called by itself: nobody else is told. In a backward others may
 * wait for what the function was to send, so that the library tells them. */
static stn_status fail(recomputed *part)
{
    if (part->is_first)
        return stnp_fail_by_raised(part->context, "recompute: the function");
    stnp_keep_raised(part->context);
    return STN_ERR_CALLBACK;
}

static stn_status call(stn_context *handle, void *user, int n_inputs, stn_tensor *const *inputs, int n_outputs,
                       stn_tensor **outputs)
{
    recomputed *part = user;
    (void)handle;
    PyGILState_STATE state = PyGILState_Ensure();
    stnp_frame frame;
    stnp_function_begin(part->context, &frame);
    PyObject *result = call_with(part, n_inputs, inputs);
    const int failed = !result || take_outputs(part->context, result, n_outputs, outputs) < 0;
    const stn_status status = failed ? fail(part) : STN_OK;
    stnp_function_end(part->context, &frame);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return status;
}

/** The interpreter's lock is held. */
static void drop(recomputed *part)
{
    if (--part->refs > 0)
        return;
    Py_DECREF(part->function);
    PyMem_Free(part);
}

static void release(void *user)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    drop(user);
    PyGILState_Release(state);
}

static recomputed *new_part(stnp_context *context, PyObject *function)
{
    recomputed *made = PyMem_Calloc(1, sizeof *made);
    if (!made) {
        PyErr_NoMemory();
        return NULL;
    }
    *made = (recomputed){.context = context, .function = function, .is_first = 1, .refs = 1};
    Py_INCREF(function);
    return made;
}

/** The results, of which there is one reference each. */
static PyObject *wrap_outputs(stnp_context *context, int n, stn_tensor *const *outputs)
{
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; i < n; i++) {
        PyObject *output = stnp_wrap_tensor(context, outputs[i]);
        if (!tuple)
            Py_XDECREF(output);
        else if (!output || PyTuple_SetItem(tuple, i, output) < 0)
            Py_CLEAR(tuple);
    }
    if (!tuple || n != 1)
        return tuple;
    PyObject *only = PyTuple_GetItem(tuple, 0);
    Py_INCREF(only);
    Py_DECREF(tuple);
    return only;
}

static PyObject *call_first(recomputed *part, int n_inputs, stn_tensor **inputs, int n_outputs)
{
    stn_tensor *outputs[STN_MAX_OUTPUTS] = {NULL};
    stnp_entry entry;
    if (stnp_enter(&entry, part->context) < 0)
        return NULL;
    part->refs++; /* the library's, which releases it in any case */
    const stn_status status =
        stn_recompute(part->context->handle, call, part, release, n_inputs, inputs, n_outputs, outputs);
    const int failed = stnp_leave(&entry, status) < 0;
    part->is_first = 0;
    return failed ? NULL : wrap_outputs(part->context, n_outputs, outputs);
}

/** The number of results; -1 with an exception. */
static int take_keywords(PyObject *keywords)
{
    static char *names[] = {"outputs", NULL};
    int n = 1;
    PyObject *none = PyTuple_New(0);
    const int failed = !none || !PyArg_ParseTupleAndKeywords(none, keywords, "|$i:recompute", names, &n);
    Py_XDECREF(none);
    if (failed)
        return -1;
    if (n < 0 || n > STN_MAX_OUTPUTS) {
        PyErr_Format(PyExc_ValueError, "recompute: outputs got %d, wanted 0 to %d", n, STN_MAX_OUTPUTS);
        return -1;
    }
    return n;
}

PyObject *stnp_context_recompute(PyObject *object, PyObject *args, PyObject *keywords)
{
    const int n_outputs = take_keywords(keywords);
    int n = 0;
    PyObject *function = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL, *tuple = NULL, *result = NULL;
    if (n_outputs < 0)
        return NULL;
    if (!function || !PyCallable_Check(function))
        return PyErr_Format(PyExc_TypeError, "recompute: wanted a function and its tensors");
    PyObject *rest = PyTuple_GetSlice(args, 1, PyTuple_Size(args));
    stn_tensor **inputs = rest ? stnp_take_tensors(rest, "recompute: inputs", &n, &tuple) : NULL;
    recomputed *part = inputs ? new_part((stnp_context *)object, function) : NULL;
    if (part) {
        result = call_first(part, n, inputs, n_outputs);
        drop(part);
    }
    PyMem_Free(inputs);
    Py_XDECREF(tuple);
    Py_XDECREF(rest);
    return result;
}
