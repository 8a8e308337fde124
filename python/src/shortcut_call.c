/* The short way: from the arguments of a call of torch to handles, and back to a ShardTensor. */
#include "shortcut.h"

#include <string.h>

enum { MOST = 16 }; /* arguments of a call; more go the long way */

/* Between torch's tensors and handles */

stnp_tensor *stnp_short_handle(stnp_shortcut *self, PyObject *object)
{
    if (!PyObject_TypeCheck(object, (PyTypeObject *)self->parts[SHARD_TENSOR]))
        return NULL;
    PyObject *handle = PyObject_GetAttr(object, self->names[STNP_HANDLE]);
    if (handle && PyObject_TypeCheck(handle, stnp_tensor_type))
        return (stnp_tensor *)handle;
    PyErr_Clear();
    Py_XDECREF(handle);
    return NULL;
}

/** Asks once a context, whose device is the same for all that it makes. @return 0 or -1. */
static int learn_words(stnp_shortcut *self, stnp_context *context)
{
    PyObject *device = PyObject_GetAttrString((PyObject *)context, "device");
    PyObject *words = device ? PyObject_CallFunctionObjArgs(self->parts[WORDS], device, NULL) : NULL;
    Py_XDECREF(device);
    if (!words || context->wrapper_words) { /* another thread of the context was first */
        Py_XDECREF(words);
        return words ? 0 : -1;
    }
    for (int d = 0; d < STN_DTYPE_COUNT; d++)
        context->wrapper_keywords[d] = PyDict_GetItemString(words, stn_dtype_name((stn_dtype)d));
    context->wrapper_words = words;
    return 0;
}

PyObject *stnp_short_wrap(stnp_shortcut *self, stnp_context *context, stn_tensor *tensor, const stnp_placed *placed)
{
    const int64_t *shape = stn_tensor_shape(tensor);
    int ndim = stn_tensor_ndim(tensor), known = context->wrapper_words ? 0 : learn_words(self, context);
    PyObject *keywords = known < 0 ? NULL : context->wrapper_keywords[stn_tensor_dtype(tensor)];
    PyObject *handle = stnp_wrap_tensor(context, tensor);
    stnp_place(handle, placed);
    PyObject *dims = handle ? stnp_ints(shape, ndim) : NULL;
    PyObject *args = dims ? PyTuple_Pack(2, self->parts[SHARD_TENSOR], dims) : NULL;
    PyObject *result = NULL;
    if (args && !keywords && known == 0)
        PyErr_SetString(PyExc_TypeError, "torch has no dtype for the result");
    else if (args && keywords)
        result = PyObject_Call(self->parts[MAKE], args, keywords);
    if (result && PyObject_SetAttr(result, self->names[STNP_HANDLE], handle) < 0)
        Py_CLEAR(result);
    Py_XDECREF(args);
    Py_XDECREF(dims);
    Py_XDECREF(handle);
    return result;
}

/* The arguments */

/** That of a ShardTensor; NULL of anything else. */
static stnp_context *context_of_one(stnp_shortcut *self, PyObject *value)
{
    stnp_tensor *handle = stnp_short_handle(self, value);
    stnp_context *context = handle ? handle->context : NULL;
    Py_XDECREF((PyObject *)handle); /* the ShardTensor keeps it, and it the context */
    return context;
}

/** That of the first ShardTensor among the values, and in lists of them, in which plain tensors may come first. */
static stnp_context *context_of(stnp_shortcut *self, PyObject *const *values, Py_ssize_t n)
{
    stnp_context *context = NULL;
    for (Py_ssize_t i = 0; !context && i < n; i++) {
        const int is_list = PyList_Check(values[i]);
        if (!is_list && !PyTuple_Check(values[i])) {
            context = context_of_one(self, values[i]);
            continue;
        }
        const Py_ssize_t size = PySequence_Size(values[i]);
        for (Py_ssize_t k = 0; !context && k < size && k < STN_MAX_INPUTS; k++)
            context = context_of_one(self, is_list ? PyList_GetItem(values[i], k) : PyTuple_GetItem(values[i], k));
    }
    return context;
}

static int says_nothing(stnp_shortcut *self, PyObject *name, PyObject *value)
{
    PyObject *nothing = PyDict_GetItemWithError(self->parts[IGNORED], name);
    return nothing && (nothing == value || nothing == Py_Ellipsis);
}

/** Arguments in one array: those that have places, then those that have names. Borrowed. */
typedef struct arguments {
    Py_ssize_t n, n_named;
    PyObject *values[MOST], *names[MOST]; /* names[i]: of the i-th that has one */
} arguments;

/** @return 0, or -1: too many, or one that the op has no word for. */
static int take_arguments(stnp_shortcut *self, PyObject *args, PyObject *words, PyObject *keywords, arguments *taken)
{
    Py_ssize_t at = 0;
    PyObject *name, *value;
    taken->n = PyTuple_Size(args);
    taken->n_named = words ? taken->n : 0;
    if (taken->n > MOST || (words && taken->n > PyTuple_Size(words)))
        return -1;
    for (Py_ssize_t i = 0; i < taken->n; i++)
        taken->values[i] = PyTuple_GetItem(args, i);
    for (Py_ssize_t i = 0; i < taken->n_named; i++) {
        taken->names[i] = PyTuple_GetItem(words, i);
        if (taken->names[i] == Py_None)
            return -1;
    }
    while (keywords && PyDict_Check(keywords) && PyDict_Next(keywords, &at, &name, &value)) {
        if (says_nothing(self, name, value))
            continue;
        if (taken->n == MOST)
            return -1;
        taken->values[taken->n++] = value;
        taken->names[taken->n_named++] = name;
    }
    return 0;
}

/** The names as a tuple. NULL with an exception; Py_None, borrowed, where there are none. */
static PyObject *names_of(const arguments *taken)
{
    PyObject *names = taken->n_named > 0 ? PyTuple_New(taken->n_named) : Py_None;
    for (Py_ssize_t i = 0; names && i < taken->n_named; i++) {
        Py_INCREF(taken->names[i]);
        PyTuple_SetItem(names, i, taken->names[i]);
    }
    return names;
}

int stnp_short_bind(stnp_shortcut *self, PyObject *name, PyObject *args, PyObject *words, PyObject *keywords,
                    stnp_short_call *call)
{
    arguments taken;
    if (take_arguments(self, args, words, keywords, &taken) < 0)
        return -1;
    stnp_context *context = context_of(self, taken.values, taken.n);
    call->op = context ? stnp_find_op(context, name) : NULL;
    PyObject *names = call->op ? names_of(&taken) : NULL;
    int failed = !names || stnp_bind(call->op, (PyTypeObject *)self->parts[TENSOR], taken.values,
                                     taken.n - taken.n_named, names == Py_None ? NULL : names, &call->bound) < 0;
    if (names != Py_None)
        Py_XDECREF(names);
    return failed ? -1 : 0;
}

int stnp_short_take_handles(stnp_shortcut *self, PyObject *const *tensors, int n, stnp_short_call *call)
{
    for (int i = 0; i < n; i++) {
        PyObject *handle = tensors[i] ? (PyObject *)stnp_short_handle(self, tensors[i]) : NULL;
        if (!handle)
            return -1;
        call->handles[call->n_handles++] = handle;
    }
    return 0;
}

/* The call */

int stnp_short_fill(stnp_short_call *call, stnp_call *sorted)
{
    memcpy(call->bound.inputs, call->handles, (size_t)call->n_handles * sizeof *call->handles);
    call->bound.n_inputs = call->n_handles;
    if (stnp_call_fill(call->op, &call->bound, sorted) == 0)
        return 0;
    PyErr_Clear();
    stnp_raise(STN_ERR_ARGUMENT, "an argument that is no value of an attribute");
    return -1;
}

static PyObject *wrap_output(stnp_shortcut *self, stnp_short_call *call, stn_tensor *output, int i)
{
    call->is_view |= stn_tensor_is_view(output);
    call->rigid |= (uint32_t)!stn_dtype_is_differentiable(stn_tensor_dtype(output)) << i;
    stnp_placed placed = stnp_placed_result(call->op, &call->bound, output);
    return stnp_short_wrap(self, call->op->context, output, &placed);
}

static PyObject *wrap_all(stnp_shortcut *self, stnp_short_call *call, stn_tensor **outputs, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; i < n; i++) {
        PyObject *tensor = wrap_output(self, call, outputs[i], i);
        if (!list || !tensor || PyList_SetItem(list, i, tensor) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *stnp_short_run(stnp_shortcut *self, stnp_short_call *call, uint32_t needs, stn_pullback **pullback)
{
    stnp_call sorted;
    stn_tensor *outputs[STN_MAX_OUTPUTS];
    if (stnp_short_fill(call, &sorted) < 0)
        return NULL;
    if (stnp_invoke(call->op, &sorted, needs, outputs, pullback) < 0)
        return NULL;
    int n = call->op->n_outputs;
    while (n > 1 && !outputs[n - 1]) /* what was not asked for */
        n--;
    return n > 1 || call->op->returns_list ? wrap_all(self, call, outputs, n) : wrap_output(self, call, outputs[0], 0);
}

PyObject *stnp_short_tuple(PyObject *const *objects, int n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++) {
        PyObject *object = objects[i] ? objects[i] : Py_None;
        Py_INCREF(object);
        PyTuple_SetItem(tuple, i, object);
    }
    return tuple;
}

void stnp_short_begin(stnp_short_call *call)
{
    call->op = NULL;
    call->bound.list = call->cast = NULL;
    call->n_handles = call->is_view = 0;
    call->plain = call->rigid = 0;
}

void stnp_short_fini(stnp_short_call *call)
{
    for (int i = 0; i < call->n_handles; i++)
        Py_XDECREF(call->handles[i]);
    Py_XDECREF(call->cast);
    Py_XDECREF((PyObject *)call->op);
    stnp_bound_fini(&call->bound);
}
