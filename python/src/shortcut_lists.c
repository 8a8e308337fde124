/* The short way of functions that change lists of tensors, as optimizers call them: torch's own, on this rank's chunks,
 * where what stands beside one another lies alike. */
#include "shortcut.h"

/** A call that is under way: its arguments with chunks in the place of ShardTensors, and which tensors it changes. */
typedef struct lists {
    stnp_shortcut *self;
    PyObject *given, *firsts; /* the argument that comes first, borrowed, and what it holds, a list */
    int all;                  /* whether what is in the other lists is changed, too */
    PyObject *changed;
    stnp_context *context; /* borrowed */
} lists;

/** The chunk as torch sees it, a new reference; asked for once and then kept with the handle that it is of. */
static PyObject *chunk_of(const lists *l, PyObject *tensor, PyObject *handle)
{
    PyObject *dict = PyObject_GenericGetDict(tensor, NULL), *chunk = NULL;
    if (dict && PyDict_GetItemWithError(dict, l->self->names[STNP_CHUNK_OF]) == handle)
        chunk = PyDict_GetItemWithError(dict, l->self->names[STNP_CHUNK]);
    Py_XINCREF(chunk);
    Py_XDECREF(dict);
    return chunk ? chunk : PyObject_GetAttr(tensor, l->self->names[STNP_LOCAL_TENSOR]);
}

/** Whether a tensor lies as the one beside which it stands, complete, in memory that nobody else sees. */
static int fits(const lists *l, PyObject *tensor, const stnp_tensor *handle, const stnp_tensor *first)
{
    const stn_spec *spec = stn_tensor_spec(handle->handle);
    return spec == stn_tensor_spec(first->handle) && !stnp_short_is_pending(spec) &&
           !stn_tensor_is_view(handle->handle) && stnp_short_is_watched(l->self, tensor) == 0;
}

/** What torch's function gets for an entry of a list. NULL, perhaps with an exception: the long way. */
static PyObject *entry_of(lists *l, PyObject *tensor, PyObject *beside, int changes)
{
    stnp_tensor *handle = stnp_short_handle(l->self, tensor), *first = stnp_short_handle(l->self, beside);
    PyObject *chunk = NULL;
    if (handle && first && fits(l, tensor, handle, first)) {
        l->context = handle->context;
        chunk = changes && PyList_Append(l->changed, tensor) < 0 ? NULL : chunk_of(l, tensor, (PyObject *)handle);
    }
    Py_XDECREF((PyObject *)handle);
    Py_XDECREF((PyObject *)first);
    return chunk;
}

/** Whether it is a number, or a plain tensor without dims. @return -1 with an exception. */
static int is_number(const lists *l, PyObject *value)
{
    if (!PyObject_TypeCheck(value, (PyTypeObject *)l->self->parts[TENSOR]))
        return PyFloat_Check(value) || PyLong_Check(value) || PyComplex_Check(value);
    if (PyObject_TypeCheck(value, (PyTypeObject *)l->self->parts[SHARD_TENSOR]))
        return 0;
    PyObject *shape = PyObject_GetAttr(value, l->self->names[STNP_SHAPE]);
    const Py_ssize_t ndim = shape ? PySequence_Size(shape) : -1;
    Py_XDECREF(shape);
    return ndim < 0 ? -1 : ndim == 0;
}

static int is_list(PyObject *value)
{
    return PyList_Check(value) || PyTuple_Check(value);
}

/** A list as torch's function gets it. NULL, perhaps with an exception: the long way. */
static PyObject *list_of(lists *l, PyObject *value, int changes)
{
    PyObject *list = PySequence_List(value); /* its own, which nobody changes meanwhile */
    const Py_ssize_t n = list ? PyList_Size(list) : -1;
    PyObject *made = n == 0 || n == PyList_Size(l->firsts) ? PyList_New(n) : NULL;
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *entry = PyList_GetItem(list, i);
        if (is_number(l, entry) == 1)
            Py_INCREF(entry);
        else
            entry = entry_of(l, entry, PyList_GetItem(l->firsts, i), changes);
        if (!entry || PyList_SetItem(made, i, entry) < 0)
            Py_CLEAR(made);
    }
    Py_XDECREF(list);
    return made;
}

/** An argument as torch's function gets it, a new reference; NULL as above. */
static PyObject *value_of(lists *l, PyObject *value)
{
    if (is_list(value))
        return list_of(l, value, value == l->given || l->all);
    const int stays = value == Py_None || PyBool_Check(value) || is_number(l, value) == 1;
    if (stays)
        Py_INCREF(value);
    return stays ? value : NULL;
}

static PyObject *args_of(lists *l, PyObject *args)
{
    const Py_ssize_t n = PyTuple_Size(args);
    PyObject *made = PyTuple_New(n);
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *value = value_of(l, PyTuple_GetItem(args, i));
        if (!value || PyTuple_SetItem(made, i, value) < 0)
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *keywords_of(lists *l, PyObject *keywords)
{
    PyObject *made = PyDict_New(), *name, *given;
    Py_ssize_t at = 0;
    while (made && keywords && PyDict_Next(keywords, &at, &name, &given)) {
        PyObject *value = value_of(l, given);
        if (!value || PyDict_SetItem(made, name, value) < 0)
            Py_CLEAR(made);
        Py_XDECREF(value);
    }
    return made;
}

/** The library hears that the elements are others. @return 0 or -1. */
static int tell(const lists *l)
{
    stnp_entry entry;
    const Py_ssize_t n = PyList_Size(l->changed);
    stn_tensor **handles = PyMem_Malloc((size_t)n * sizeof *handles + 1);
    if (!handles) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        stnp_tensor *handle = stnp_short_handle(l->self, PyList_GetItem(l->changed, i));
        handles[i] = handle ? stn_tensor_retain(handle->handle) : NULL; /* another thread may give it another */
        Py_XDECREF((PyObject *)handle);
    }
    int failed = stnp_enter(&entry, l->context) < 0;
    for (Py_ssize_t i = 0; !failed && i < n; i++)
        stn_tensor_changed(handles[i]);
    for (Py_ssize_t i = 0; i < n; i++)
        stn_tensor_release(&handles[i]);
    failed = failed || stnp_leave(&entry, STN_OK) < 0;
    PyMem_Free(handles);
    return failed ? -1 : 0;
}

/** Torch's function on chunks, once torch counts the change. */
static PyObject *changed(lists *l, PyObject *func, PyObject *args, PyObject *keywords)
{
    PyObject *counted = PyObject_CallFunctionObjArgs(l->self->parts[COUNT_CHANGES], l->changed, NULL);
    if (!counted)
        return NULL;
    Py_DECREF(counted);
    PyObject *result = PyObject_Call(func, args, keywords), *raised[3];
    PyErr_Fetch(&raised[0], &raised[1], &raised[2]); /* some may be changed even so */
    if (tell(l) < 0)
        Py_CLEAR(result);
    if (raised[0])
        PyErr_Restore(raised[0], raised[1], raised[2]);
    return result;
}

static int is_recording(const stnp_shortcut *self)
{
    PyObject *enabled = PyObject_CallNoArgs(self->parts[GRAD_ENABLED]);
    const int is = enabled != Py_False;
    Py_XDECREF(enabled);
    return is;
}

PyObject *stnp_short_change_lists(stnp_shortcut *self, PyObject *func, PyObject *args, PyObject *keywords, int all)
{
    lists l = {.self = self, .given = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : Py_None, .all = all};
    if (!is_list(l.given) || is_recording(self) || !stnp_short_takes_plain(self))
        return NULL;
    l.firsts = PySequence_List(l.given);
    l.changed = l.firsts ? PyList_New(0) : NULL;
    PyObject *given = l.changed ? args_of(&l, args) : NULL, *named = given ? keywords_of(&l, keywords) : NULL;
    PyObject *result = named && l.context ? changed(&l, func, given, named) : NULL;
    Py_XDECREF(named);
    Py_XDECREF(given);
    Py_XDECREF(l.changed);
    Py_XDECREF(l.firsts);
    if (result && is_list(result)) { /* torch gives what it was given */
        Py_DECREF(result);
        Py_INCREF(result = l.given);
    }
    return result;
}

/* Of each */

/** The i-th of a list, anything else as it is, a new reference. NULL, perhaps with an exception: there is none. */
static PyObject *ith(PyObject *value, Py_ssize_t i)
{
    if (is_list(value))
        return i < PySequence_Size(value) ? PySequence_GetItem(value, i) : NULL;
    Py_INCREF(value);
    return value;
}

static PyObject *args_ith(PyObject *args, Py_ssize_t i)
{
    const Py_ssize_t n = PyTuple_Size(args);
    PyObject *made = PyTuple_New(n);
    for (Py_ssize_t k = 0; made && k < n; k++) {
        PyObject *value = ith(PyTuple_GetItem(args, k), i);
        if (!value || PyTuple_SetItem(made, k, value) < 0)
            Py_CLEAR(made);
    }
    return made;
}

PyObject *stnp_short_each(stnp_shortcut *self, PyObject *name, PyObject *args, PyObject *keywords)
{
    PyObject *firsts = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : Py_None;
    const Py_ssize_t n = is_list(firsts) ? PySequence_Size(firsts) : -1;
    PyObject *results = n > 0 ? PyTuple_New(n) : NULL;
    for (Py_ssize_t i = 0; results && i < n; i++) {
        PyObject *given = args_ith(args, i);
        PyObject *result = given ? stnp_short_op(self, name, given, keywords) : NULL;
        Py_XDECREF(given);
        if (!result || PyTuple_SetItem(results, i, result) < 0)
            Py_CLEAR(results);
    }
    return results;
}
