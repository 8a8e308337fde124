/* Hooks of gradients, and results that keep theirs. */
#include "binding.h"

static int take_result(stnp_context *context, PyObject *result, stn_tensor **instead)
{
    if (result == Py_None)
        return 0;
    if (stnp_want(result, stnp_tensor_type, "a tensor hook's result") < 0 || stnp_function_hold(context, result) < 0)
        return -1;
    *instead = ((stnp_tensor *)result)->handle;
    return 0;
}

static PyObject *call_with(const stnp_calling *calling, stn_tensor *tensor)
{
    PyObject *argument = stnp_wrap_kept(calling->context, stn_tensor_retain(tensor));
    PyObject *result = argument ? PyObject_CallFunctionObjArgs(calling->function, argument, NULL) : NULL;
    Py_XDECREF(argument);
    return result;
}

static stn_status run_tensor_hook(stn_tensor *gradient, stn_tensor **instead, void *arg)
{
    stnp_calling calling;
    if (!stnp_call_begin(&calling, arg))
        return stn_remove_hook(stn_tensor_context(gradient));
    PyObject *result = call_with(&calling, gradient);
    const int failed = !result || take_result(calling.context, result, instead) < 0;
    Py_XDECREF(result);
    return stnp_call_end(&calling, failed, "a tensor hook");
}

/** What it returns is not looked at. */
static stn_status run_grad_hook(stn_tensor *leaf, void *arg)
{
    stnp_calling calling;
    if (!stnp_call_begin(&calling, arg))
        return stn_remove_hook(stn_tensor_context(leaf));
    PyObject *result = call_with(&calling, leaf);
    Py_XDECREF(result);
    return stnp_call_end(&calling, !result, "a gradient hook");
}

/** The library has one reference of the function, which it gives up by itself once it has taken it; the Hook the
 * other. */
static PyObject *add(PyObject *object, PyObject *function, int of_leaf)
{
    stnp_tensor *self = (stnp_tensor *)object;
    stnp_entry entry;
    stnp_callback *callback = stnp_callback_new(self->context, function, of_leaf ? "add_grad_hook" : "add_tensor_hook");
    if (!callback)
        return NULL;
    stnp_callback_retain(callback);
    if (stnp_enter(&entry, self->context) == 0) {
        const stn_status status =
            of_leaf ? stn_add_grad_hook(self->handle, run_grad_hook, callback, stnp_callback_destroy)
                    : stn_add_tensor_hook(self->handle, run_tensor_hook, callback, stnp_callback_destroy);
        if (stnp_leave(&entry, status) == 0)
            return stnp_wrap_hook(self->context, callback);
    }
    stnp_callback_release(callback);
    stnp_callback_release(callback);
    return NULL;
}

PyObject *stnp_tensor_add_tensor_hook(PyObject *object, PyObject *function)
{
    return add(object, function, 0);
}

PyObject *stnp_tensor_add_grad_hook(PyObject *object, PyObject *function)
{
    return add(object, function, 1);
}

PyObject *stnp_tensor_retain_grad(PyObject *object, PyObject *none)
{
    stnp_tensor *self = (stnp_tensor *)object;
    stnp_entry entry;
    (void)none;
    if (stnp_enter(&entry, self->context) < 0 || stnp_leave(&entry, stn_retain_grad(self->handle)) < 0)
        return NULL;
    Py_RETURN_NONE;
}
