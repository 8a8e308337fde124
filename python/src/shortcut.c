/* The short way of a function of torch above its autograd: from the call to the result without Python in between.
 *
 * It serves functions that Python has found to be ops of one result, called with ShardTensors alone. Whatever it does
 * not know for certain goes the long way, which is Python's and right for everything. Of torch it knows what it is
 * handed over: the library links no torch. */
#include "shortcut.h"

#include <string.h>

PyTypeObject *stnp_shortcut_type;

static const char *const part_names[N_PARTS] = {
    [SHARD_TENSOR] = "shard_tensor",
    [TENSOR] = "tensor",
    [PARAMETER] = "parameter",
    [MAKE] = "make",
    [LONG_WAY] = "long_way",
    [NAMES] = "names",
    [UNLESS] = "unless",
    [AUTOCAST] = "autocast",
    [CAST] = "cast",
    [TAKES_PLAIN] = "takes_plain",
    [DTYPES] = "dtypes",
    [COUNT_CHANGES] = "count_changes",
    [WHOLE] = "whole",
    [HANDLERS] = "handlers",
    [BELOW] = "below",
    [BELOW_NAMES] = "below_names",
    [BELOW_HANDLERS] = "below_handlers",
    [GRAD_ENABLED] = "grad_enabled",
    [SAVING_HOOKS] = "saving_hooks",
    [UNDISTURBED] = "undisturbed",
    [REQUIRES_GRAD] = "requires_grad",
    [RECORD] = "record",
    [LEAF_NODE] = "leaf_node",
    [KEEPS_GRAPH] = "keeps_graph",
    [SAVES] = "saves",
    [LEAST] = "least",
    [GENERAL_BACKWARD] = "general_backward",
    [FIT] = "fit",
    [IGNORED] = "ignored",
    [REFUSALS] = "refusals",
    [LAY_GRADIENTS] = "lay_gradients",
    [SPREAD] = "spread",
    [NOTE_VIEWS] = "note_views",
    [SHAPE] = "shape",
    [WORDS] = "words",
};

static const char *const attribute_names[STNP_N_NAMES] = {
    [STNP_HANDLE] = "_handle",
    [STNP_DATA_PTR] = "data_ptr",
    [STNP_DETACH] = "detach",
    [STNP_CONTIGUOUS] = "contiguous",
    [STNP_IS_CONJ] = "is_conj",
    [STNP_IS_NEG] = "is_neg",
    [STNP_SHAPE] = "shape",
    [STNP_DTYPE] = "dtype",
    [STNP_DEVICE] = "device",
    [STNP_CHUNK] = "_chunk",
    [STNP_CHUNK_OF] = "_chunk_of",
    [STNP_LOCAL_TENSOR] = "_local_tensor",
    [STNP_INPLACE] = "inplace",
    [STNP_NEEDS_INPUT_GRAD] = "needs_input_grad",
    [STNP_KEPT] = "kept",
    [STNP_TO_SAVE] = "to_save",
    [STNP_MATERIALIZE_GRADS] = "materialize_grads",
    [STNP_NEXT_FUNCTIONS] = "next_functions",
    [STNP_SAVED_TENSORS] = "saved_tensors",
    [STNP_LENT] = "_lent",
    [STNP_GATHERED_VIEW] = "_gathered_view",
    [STNP_NODE_VIEW] = "_node_view",
    [STNP_NODE_VIEWS] = "_node_views",
};

static PyObject *wrap_handle(PyObject *object, PyObject *handle)
{
    if (stnp_want(handle, stnp_tensor_type, "handle") < 0)
        return NULL;
    stnp_tensor *tensor = (stnp_tensor *)handle;
    return stnp_short_wrap((stnp_shortcut *)object, tensor->context, stn_tensor_retain(tensor->handle),
                           &tensor->placed);
}

/** Several results as torch has them. Takes them over. */
static PyObject *shaped(stnp_shortcut *self, const stnp_short_call *call, PyObject *result)
{
    if (!result || !(PyList_Check(result) || PyTuple_Check(result)))
        return result;
    PyObject *all = call->op->returns_list ? PySequence_List(result) : PySequence_Tuple(result);
    Py_DECREF(result);
    if (!all || call->op->returns_list)
        return all;
    result = PyObject_CallFunctionObjArgs(self->parts[SHAPE], (PyObject *)call->op, all, NULL);
    Py_DECREF(all);
    return result;
}

PyObject *stnp_short_op(stnp_shortcut *self, PyObject *name, PyObject *args, PyObject *keywords)
{
    stnp_short_call call;
    PyObject *result = NULL;
    stnp_short_begin(&call);
    args = stnp_short_gather(self, name, args);
    if (args && stnp_short_bind(self, name, args, NULL, keywords, &call) == 0 &&
        stnp_short_autocast(self, name, &call) == 0 &&
        stnp_short_take_operands(self, call.bound.inputs, call.bound.n_inputs, &call) == 0 &&
        !stnp_short_is_unfit(self, name, &call)) {
        const int recorded = stnp_short_is_recorded(self, call.bound.inputs, call.bound.n_inputs);
        if (recorded >= 0)
            result = shaped(self, &call, recorded ? stnp_short_record(self, &call) : stnp_short_run_plain(self, &call));
    } else {
        PyErr_Clear(); /* the long way says it in torch's words */
    }
    stnp_short_fini(&call);
    Py_XDECREF(args);
    return result;
}

/** A step, a pair of the name of an op and its attributes, of a tensor. */
static PyObject *one_step(stnp_shortcut *self, PyObject *tensor, PyObject *step)
{
    if (!PyTuple_Check(step) || PyTuple_Size(step) != 2)
        return PyErr_Format(PyExc_TypeError, "a step is %R, wanted (name, attributes)", step);
    PyObject *args = PyTuple_Pack(1, tensor);
    PyObject *result = args ? stnp_short_op(self, PyTuple_GetItem(step, 0), args, PyTuple_GetItem(step, 1)) : NULL;
    Py_XDECREF(args);
    return result;
}

/** What the steps, of which steps_of gives a list, take of the first argument, one of the other: of none itself. It may
 * also give the result, ... of a function that gives None. */
static PyObject *steps_way(stnp_shortcut *self, PyObject *steps_of, PyObject *args, PyObject *keywords)
{
    PyObject *first = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : Py_None, *result = NULL;
    PyObject *handle = (PyObject *)stnp_short_handle(self, first);
    PyObject *steps = handle ? PyObject_CallFunctionObjArgs(steps_of, args, keywords ? keywords : Py_None, NULL) : NULL;
    Py_XDECREF(handle);
    if (steps && PyList_Check(steps) && PyList_Size(steps) == 0)
        Py_INCREF(result = first);
    if (steps && steps != Py_None && !PyList_Check(steps))
        Py_INCREF(result = steps == Py_Ellipsis ? Py_None : steps);
    for (Py_ssize_t i = 0; steps && PyList_Check(steps) && i < PyList_Size(steps) && (i == 0 || result); i++) {
        PyObject *next = one_step(self, result ? result : first, PyList_GetItem(steps, i));
        Py_XDECREF(result);
        result = next;
    }
    Py_XDECREF(steps);
    return result;
}

int stnp_short_users_come_first(stnp_shortcut *self, int part)
{
    for (Py_ssize_t i = 0; i < PyList_Size(self->parts[part]); i++) {
        if (PyDict_Size(PyList_GetItem(self->parts[part], i)) > 0)
            return 1;
    }
    return 0;
}

PyObject *stnp_short_long_way(stnp_shortcut *self, int part, PyObject *const *args, Py_ssize_t n)
{
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(self->parts[REFUSALS]))
            return NULL;
        PyErr_Clear();
    }
    PyObject *none = PyTuple_New(0);
    PyObject *result = none ? PyObject_CallFunctionObjArgs(self->parts[part], args[0], args[1], args[2],
                                                           n > 3 ? args[3] : none, n > 4 ? args[4] : Py_None, NULL)
                            : NULL;
    Py_XDECREF(none);
    return result;
}

/** Whether a function that gives a tensor of its own is told to change its first argument, as F.relu may be. */
static int is_told_in_place(stnp_shortcut *self, PyObject *keywords)
{
    return keywords && PyDict_GetItemWithError(keywords, self->names[STNP_INPLACE]) == Py_True;
}

/** What torch's function of that kind gives; NULL: as stnp_short_op. */
static PyObject *short_way(stnp_shortcut *self, PyObject *kind, PyObject *func, PyObject *args, PyObject *keywords)
{
    if (kind == Py_Ellipsis)
        return stnp_short_torch_s(self, func, args, keywords);
    if (kind == Py_None)
        return stnp_short_change(self, func, args, keywords);
    if (PyBool_Check(kind))
        return stnp_short_change_lists(self, func, args, keywords, kind == Py_True);
    if (PyTuple_Check(kind))
        return stnp_short_each(self, PyTuple_GetItem(kind, 0), args, keywords);
    if (!PyUnicode_Check(kind))
        return steps_way(self, kind, args, keywords);
    return is_told_in_place(self, keywords) ? stnp_short_change(self, func, args, keywords)
                                            : stnp_short_op(self, kind, args, keywords);
}

/** __torch_function__(cls, func, types, args=(), kwargs=None). */
static PyObject *torch_function(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    stnp_shortcut *self = (stnp_shortcut *)object;
    if (n < 3)
        return PyErr_Format(PyExc_TypeError, "__torch_function__: %zd arguments, wanted at least 3", n);
    PyObject *kind = n > 3 && PyTuple_Check(args[3]) ? PyDict_GetItemWithError(self->parts[NAMES], args[1]) : NULL;
    PyObject *result = NULL;
    Py_XINCREF(kind); /* as soon as the call gives up the interpreter, another rank may replace it */
    if (kind && !stnp_short_users_come_first(self, HANDLERS))
        result = short_way(self, kind, args[1], args[3], n > 4 && PyDict_Check(args[4]) ? args[4] : NULL);
    Py_XDECREF(kind);
    return result ? result : stnp_short_long_way(self, LONG_WAY, args, n);
}

/** call(name, words). */
static PyObject *call_op(PyObject *object, PyObject *args)
{
    stnp_shortcut *self = (stnp_shortcut *)object;
    PyObject *name, *words, *none = PyTuple_New(0), *result = NULL;
    if (none && PyArg_ParseTuple(args, "UO!:call", &name, &PyDict_Type, &words) &&
        !stnp_short_users_come_first(self, HANDLERS))
        result = stnp_short_op(self, name, none, words);
    Py_XDECREF(none);
    if (!result && PyErr_Occurred() && PyErr_ExceptionMatches(self->parts[REFUSALS]))
        PyErr_Clear();
    if (result || PyErr_Occurred())
        return result;
    Py_RETURN_NONE;
}

/* As an object */

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    for (int i = 0; i < N_PARTS; i++)
        Py_VISIT(((stnp_shortcut *)object)->parts[i]);
    return 0;
}

static int clear(PyObject *object)
{
    for (int i = 0; i < N_PARTS; i++)
        Py_CLEAR(((stnp_shortcut *)object)->parts[i]);
    return 0;
}

static void destroy(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    clear(object);
    for (int i = 0; i < STNP_N_NAMES; i++)
        Py_XDECREF(((stnp_shortcut *)object)->names[i]);
    PyObject_GC_Del(object);
    Py_DECREF((PyObject *)type);
}

/** Shortcut(**parts), whose names are those above. */
static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    if (PyTuple_Size(args) > 0 || !keywords)
        return PyErr_Format(PyExc_TypeError, "Shortcut: its parts are given by name");
    stnp_shortcut *self = PyObject_GC_New(stnp_shortcut, type);
    if (!self)
        return NULL;
    memset((char *)self + sizeof(PyObject), 0, sizeof *self - sizeof(PyObject));
    PyObject_GC_Track((PyObject *)self);
    for (int i = 0; i < STNP_N_NAMES && !PyErr_Occurred(); i++)
        self->names[i] = PyUnicode_InternFromString(attribute_names[i]);
    for (int i = 0; i < N_PARTS && !PyErr_Occurred(); i++) {
        self->parts[i] = PyDict_GetItemString(keywords, part_names[i]);
        Py_XINCREF(self->parts[i]);
        if (!self->parts[i])
            PyErr_Format(PyExc_TypeError, "Shortcut: no %s", part_names[i]);
    }
    if (PyErr_Occurred()) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

PyTypeObject *stnp_make_shortcut_type(void)
{
    static PyMethodDef methods[] = {
        {"torch_function", (PyCFunction)(void (*)(void))torch_function, METH_FASTCALL,
         "torch_function(cls, func, types, args=(), kwargs=None): what a class has as __torch_function__."},
        {"forward", (PyCFunction)(void (*)(void))stnp_short_forward, METH_FASTCALL,
         "forward(node, (op, handles), attributes, *tensors): of a node of torch's graph."},
        {"torch_dispatch", (PyCFunction)(void (*)(void))stnp_short_dispatch, METH_FASTCALL,
         "torch_dispatch(cls, func, types, args=(), kwargs=None): what a class has as __torch_dispatch__."},
        {"put_backward", stnp_short_put_backward, METH_O,
         "put_backward(type): nodes of that type go back the short way."},
        {"call", call_op, METH_VARARGS,
         "call(name, words): what an op gives, whose inputs and attributes are named; None: the long way."},
        {"wrap", wrap_handle, METH_O, "wrap(handle): a ShardTensor on it."},
        {0},
    };
    PyType_Slot slots[] = {
        {Py_tp_new, create},
        {Py_tp_dealloc, destroy},
        {Py_tp_traverse, traverse},
        {Py_tp_clear, clear},
        {Py_tp_methods, methods},
        {Py_tp_doc, "The short way of functions of torch above its autograd."},
        {0},
    };
    PyType_Spec spec = {"shardtensor._c.Shortcut", sizeof(stnp_shortcut), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                        slots};
    return (PyTypeObject *)PyType_FromSpec(&spec);
}
