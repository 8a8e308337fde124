/* Functions of Python's that the library keeps and calls: hooks, functions on chunks. What one raises fails the call by
 * which the library called it: as it is on this rank, with its text on those that are told of it.
 *
 * A function that refers to what it hooks, or to its context, would keep both for good, as the library's references are
 * not the interpreter's to follow. So the end of a context lets go of all that it still has. */
#include "binding.h"

#include <string.h>

struct stnp_callback {
    stnp_context *context; /* NULL once that has ended */
    PyObject *function;    /* NULL once it has been let go */
    int refs;              /* with the interpreter's lock */
    stnp_callback *next, *previous;
};

/* Their lives. All with the interpreter's lock. */

stnp_callback *stnp_callback_new(stnp_context *context, PyObject *function, const char *what)
{
    if (!PyCallable_Check(function)) {
        PyErr_Format(PyExc_TypeError, "%s: got %R, wanted a function", what, function);
        return NULL;
    }
    stnp_callback *made = PyMem_Calloc(1, sizeof *made);
    if (!made) {
        PyErr_NoMemory();
        return NULL;
    }
    *made = (stnp_callback){.context = context, .function = function, .refs = 1, .next = context->callbacks};
    Py_INCREF(function);
    if (context->callbacks)
        context->callbacks->previous = made;
    context->callbacks = made;
    return made;
}

stnp_callback *stnp_callback_retain(stnp_callback *callback)
{
    callback->refs++;
    return callback;
}

void stnp_callback_let_go(stnp_callback *callback)
{
    Py_CLEAR(callback->function);
}

static void unlink_callback(stnp_callback *callback)
{
    if (callback->previous)
        callback->previous->next = callback->next;
    else if (callback->context)
        callback->context->callbacks = callback->next;
    if (callback->next)
        callback->next->previous = callback->previous;
    callback->next = callback->previous = NULL;
    callback->context = NULL;
}

void stnp_callback_release(stnp_callback *callback)
{
    if (!callback || --callback->refs > 0)
        return;
    unlink_callback(callback);
    stnp_callback_let_go(callback);
    PyMem_Free(callback);
}

void stnp_callback_destroy(void *arg)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    stnp_callback_release(arg);
    PyGILState_Release(state);
}

void stnp_callbacks_end(stnp_context *context)
{
    while (context->callbacks) {
        stnp_callback *first = stnp_callback_retain(context->callbacks);
        unlink_callback(first);
        stnp_callback_let_go(first); /* which may run anything */
        stnp_callback_release(first);
    }
}

/* Calls */

void stnp_function_begin(stnp_context *context, stnp_frame *frame)
{
    *frame = (stnp_frame){.thread = context->function_thread, .number = context->function_number};
    memcpy(frame->raised, context->raised, sizeof frame->raised);
    memset(context->raised, 0, sizeof context->raised);
    context->function_thread = PyThread_get_thread_ident();
    context->function_number = ++context->functions_begun;
}

/** What an earlier function of the same call raised counts, as with the library. */
void stnp_function_end(stnp_context *context, stnp_frame *frame)
{
    context->function_thread = frame->thread;
    context->function_number = frame->number;
    if (!frame->raised[0])
        return;
    stnp_forget_raised(context);
    memcpy(context->raised, frame->raised, sizeof frame->raised);
}

int stnp_call_begin(stnp_calling *calling, stnp_callback *callback)
{
    calling->state = PyGILState_Ensure();
    calling->callback = callback;
    if (!callback->function || !callback->context) {
        PyGILState_Release(calling->state);
        return 0;
    }
    stnp_callback_retain(callback); /* it may be removed by itself */
    calling->context = callback->context;
    calling->function = callback->function;
    Py_INCREF(calling->function);
    stnp_function_begin(calling->context, &calling->frame);
    return 1;
}

stn_status stnp_fail_by(stn_context *context, PyObject *exception, const char *what)
{
    const stn_status status = exception ? stnp_status_of(exception) : STN_ERR_CALLBACK;
    PyObject *name = exception ? PyType_GetName(Py_TYPE(exception)) : NULL, *text = NULL;
    if (name)
        text = PyUnicode_FromFormat("%s raised %U: %S", what, name, exception);
    PyErr_Clear(); /* of a value whose text cannot be had */
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    PyErr_Clear();
    const stn_status kept = stn_context_fail(context, status, words ? words : what);
    Py_XDECREF(text);
    Py_XDECREF(name);
    return kept;
}

stn_status stnp_fail_by_raised(stnp_context *context, const char *what)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    const stn_status kept = stnp_fail_by(context->handle, value, what);
    PyErr_Restore(type, value, traceback);
    stnp_keep_raised(context);
    return kept;
}

stn_status stnp_call_end(stnp_calling *calling, int failed, const char *what)
{
    const stn_status status = failed ? stnp_fail_by_raised(calling->context, what) : STN_OK;
    stnp_function_end(calling->context, &calling->frame);
    Py_DECREF(calling->function);
    stnp_callback_release(calling->callback);
    PyGILState_Release(calling->state);
    return status;
}

/** A tensor that the function got from an op or made belongs to the scope in which the library called it; any other may
 * be alone with `result`, which then lives until the outermost call is over. */
static int is_scopes(const stnp_context *context, PyObject *result)
{
    return PyObject_TypeCheck(result, stnp_tensor_type) &&
           ((stnp_tensor *)result)->function_number == context->function_number;
}

int stnp_function_hold(stnp_context *context, PyObject *result)
{
    if (is_scopes(context, result))
        return 0;
    if (!context->held && !(context->held = PyList_New(0)))
        return -1;
    return PyList_Append(context->held, result);
}

/* Hook: what takes one back */

PyTypeObject *stnp_hook_type;

typedef struct stnp_hook {
    PyObject_HEAD stnp_context *context;
    stnp_callback *callback;
} stnp_hook;

PyObject *stnp_wrap_hook(stnp_context *context, stnp_callback *callback)
{
    stnp_hook *self = stnp_owned_new(stnp_hook_type, context);
    if (self)
        self->callback = callback;
    else
        stnp_callback_release(callback);
    return (PyObject *)self;
}

static void destroy(PyObject *object)
{
    stnp_callback_release(((stnp_hook *)object)->callback);
    stnp_owned_free(object);
}

static PyObject *remove_hook(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_callback_let_go(((stnp_hook *)object)->callback);
    Py_RETURN_NONE;
}

static PyObject *get_removed(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(!((stnp_hook *)object)->callback->function);
}

PyTypeObject *stnp_make_hook_type(void)
{
    static PyMethodDef methods[] = {
        {"remove", remove_hook, METH_NOARGS, "The function is not called any more, and let go. Local."},
        {0},
    };
    static PyGetSetDef members[] = {
        {"removed", get_removed, NULL, "Whether it was removed, or its context has ended.", NULL},
        {0},
    };
    PyType_Slot slots[] = {
        {Py_tp_dealloc, destroy},
        {Py_tp_methods, methods},
        {Py_tp_getset, members},
        {Py_tp_doc, "A hook; made by Tensor.add_tensor_hook and Tensor.add_grad_hook. It stays where this goes."},
        {0},
    };
    return stnp_owned_type("shardtensor._c.Hook", sizeof(stnp_hook), slots);
}
